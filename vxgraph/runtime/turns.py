"""One run of a session at a time, and a run that has ended, however it ended, is in nobody's way.

A lock has to be released, and Ctrl-C may come just before that. A turn needs nothing done at its end: it is over when
its run's generator has ended, which is true by itself.
"""

from __future__ import annotations

from collections.abc import Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any
from weakref import ref


class Turn:
    """One run's; `walk` is the run, `holder` what its caller holds of it."""

    __slots__ = ("after", "holder", "walk")

    def __init__(self) -> None:
        self.walk: Generator[Any, None, Any] | None = None
        self.holder: ref[Any] | None = None
        self.after: dict[None, Turn] = {}  # the turn that came next; setdefault lets one of several threads win

    @property
    def over(self) -> bool:
        """Whether the run has ended; one that nobody holds any more is ended here."""
        if self.walk is None or getgeneratorstate(self.walk) == GEN_CLOSED:
            return True
        if self.holder is not None and self.holder() is None:
            try:
                self.walk.close()
            except ValueError:  # another thread is just ending it
                return False
        return getgeneratorstate(self.walk) == GEN_CLOSED


class Turns:
    """The turns of a session, of which the last is kept."""

    def __init__(self) -> None:
        self._last = Turn()

    def take(self, turn: Turn) -> bool:
        """Whether it is this one's turn now: the last one is over, and no other was faster."""
        last = self._last
        while last.after:
            last = last.after[None]
        if not last.over or last.after.setdefault(None, turn) is not turn:
            return False
        self._last = turn
        return True
