"""The conformance suite as a function: which of its tests a backend fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from tests.conformance import test_backend, test_programs
from tests.conformance.bed import Bed
from vxgraph.ir.types import Array
from vxgraph.runtime.session import Session


def failures(bed: Callable[[], Bed]) -> Iterator[str]:
    """The suite's tests that fail on such a bed, one after the other; each gets a fresh one."""
    for module in (test_backend, test_programs):
        for name, test in vars(module).items():
            if name.startswith("test_"):
                for words in _cases(test):
                    if not _passes(test, words, bed()):
                        yield name


def _passes(test: Callable[..., None], words: dict[str, Any], bed: Bed) -> bool:
    wanted = inspect.signature(test).parameters
    try:
        if "bed" in wanted:
            bed.open()
        beds = {"bed": bed, "closed_bed": bed}
        given = {name: beds[name] for name in beds if name in wanted}
        test(**given, **words, **({"wanted": _wanted()} if "wanted" in wanted else {}))
    except pytest.skip.Exception:
        return True
    except (Exception, pytest.fail.Exception):
        return False
    finally:
        with suppress(Exception):
            bed.backend.close()
    return True


def _cases(test: Any) -> Iterator[dict[str, Any]]:
    """The arguments of each case of a test."""
    marks = [m.args for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
    axes: list[list[dict[str, Any]]] = []
    for names, values in marks:
        keys = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
        axes.append([dict(zip(keys, v if len(keys) > 1 else (v,), strict=True)) for v in values])
    for chosen in product(*axes):
        yield {name: value for part in chosen for name, value in part.items()}


def _wanted() -> dict[str, Array]:
    with Session(test_programs.decoder(test_programs.G0, test_programs.G0), test_programs.PARAMS, "numpy") as s:
        return s.run(test_programs.INPUTS)
