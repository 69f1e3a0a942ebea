"""How much work something is, without a clock: the calls that it makes. The same on every machine, however busy."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable


def calls(run: Callable[[], object]) -> int:
    """Calls of Python and C functions while `run` runs."""
    profile = cProfile.Profile()
    profile.runcall(run)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]  # typeshed leaves it out
