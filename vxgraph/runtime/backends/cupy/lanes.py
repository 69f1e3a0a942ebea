"""Which dispatches of a batch may run side by side: the edges of the graph that is captured.

    q = x @ wq      lane 0            all three read x, none reads another: three branches
    k = x @ wk      lane 1
    v = x @ wv      lane 2
    out = f(q, k, v)                  waits for the lanes that made q, k and v

A dispatch waits for the last writer of each byte that it reads or writes, and for the readers since then of each byte
that it writes. What a wait implies is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LANES = 4

Span = tuple[int, int]  # addresses [start, end)


@dataclass(frozen=True, slots=True)
class Placed:
    """A dispatch's lane, and the dispatches of other lanes that it waits for."""

    lane: int
    waits: tuple[int, ...]


def place(dispatches: Sequence[tuple[Sequence[Span], Sequence[Span]]]) -> list[Placed]:
    """A lane for each of the dispatches, given as what they read and what they write, in order."""
    seen: list[frozenset[int]] = []  # per dispatch, all that is done when it is done
    tails: list[int] = []  # per lane, its last dispatch
    placed: list[Placed] = []
    history = _History()
    for k, (reads, writes) in enumerate(dispatches):
        needs = history.needs(reads, writes, k)
        direct = [n for n in needs if not any(n in seen[m] for m in needs if m != n)]
        lane = next((lane for lane, tail in enumerate(tails) if tail in direct), None)
        if lane is None and len(tails) < LANES:
            lane = len(tails)
            tails.append(k)
        elif lane is None:
            lane = tails.index(min(tails))  # the lane that has rested longest
            direct.append(tails[lane])
        tails[lane] = k
        placed.append(Placed(lane, tuple(sorted(n for n in direct if placed[n].lane != lane))))
        seen.append(frozenset({k}).union(*(seen[n] for n in direct)))
    return placed


class _History:
    """Who wrote and read which bytes."""

    def __init__(self) -> None:
        self.written: list[tuple[Span, int]] = []
        self.read: list[tuple[Span, int]] = []

    def needs(self, ins: Sequence[Span], outs: Sequence[Span], k: int) -> set[int]:
        """The dispatches that number `k` must come after; and remembers what it touches."""
        found = {n for span, n in self.written if any(_meet(span, s) for s in (*ins, *outs))}
        found |= {n for span, n in self.read if any(_meet(span, s) for s in outs)}
        for s in outs:  # what lies wholly under a write has nothing more to say: the write stands for it
            self.written = [(span, n) for span, n in self.written if not _inside(span, s)]
            self.read = [(span, n) for span, n in self.read if not _inside(span, s)]
        self.written += [(s, k) for s in outs]
        self.read += [(s, k) for s in ins]
        return found - {k}


def _meet(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _inside(a: Span, b: Span) -> bool:
    return b[0] <= a[0] and a[1] <= b[1]
