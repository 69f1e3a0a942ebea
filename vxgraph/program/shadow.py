"""What a checker knows while it walks a program: whose bytes the bytes of an arena are, and what is done.

[0, 65536) of gpu:0    %w.gpu0         written by gpu:0.copy 1, used by gpu:0.compute 3
[65536, 66560)         %h, %h.heads    written by gpu:0.compute 3
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from vxgraph.program.instructions import Queue, Queued

Point = tuple[Queue, int]  # an instruction: its queue and its number there


class Piece(Protocol):
    """Bytes [start, end) and what is known of them."""

    @property
    def start(self) -> int:
        """The first byte."""
        ...

    @property
    def end(self) -> int:
        """The first byte after them."""
        ...

    def cut(self, start: int, end: int) -> Self:
        """What is known of a part of them."""
        ...


P = TypeVar("P", bound=Piece)


@dataclass(slots=True)
class Segment:
    """Bytes [start, end) of an arena: the values they are, their writer, and everyone who used them."""

    start: int
    end: int
    values: set[str]
    writer: Point
    users: dict[Queue, int] = field(default_factory=dict[Queue, int])

    def cut(self, start: int, end: int) -> Segment:
        """A part, which is no value any more."""
        return Segment(start, end, set(), self.writer, self.users)


class Shadow(Generic[P]):
    """The pieces of one arena, by start; none overlap."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.pieces: list[P] = []

    def overlapping(self, start: int, end: int) -> list[P]:
        """Pieces that share a byte with [start, end)."""
        return self.pieces[self._run(start, end)]

    def replace(self, new: P) -> None:
        """Puts a piece in; what it overlaps is cut."""
        self._splice(new.start, new.end, [new])

    def clear(self, start: int, end: int) -> None:
        """Nothing is known of [start, end) any more."""
        self._splice(start, end, [])

    def _splice(self, start: int, end: int, new: list[P]) -> None:
        run = self._run(start, end)
        left = [p.cut(p.start, start) for p in self.pieces[run] if p.start < start]
        right = [p.cut(end, p.end) for p in self.pieces[run] if p.end > end]
        together = [*left, *new, *right]
        self.pieces[run] = together
        self.starts[run] = [p.start for p in together]

    def _run(self, start: int, end: int) -> slice:
        """Where the pieces stand that share a byte with [start, end)."""
        first = bisect_right(self.starts, start)
        if first and self.pieces[first - 1].end > start:
            first -= 1
        return slice(first, bisect_left(self.starts, end, lo=first))


class Order:
    """Which instructions are done when another one starts."""

    def __init__(self) -> None:
        self.count: dict[Queue, int] = {}
        self.view: dict[Queue, dict[Queue, int]] = {}
        self.points: dict[str, tuple[Point, dict[Queue, int]]] = {}
        self.base: dict[Queue, int] = {}

    def issue(self, instr: Queued) -> tuple[Point, dict[Queue, int]]:
        """The instruction's point, and what is done when it starts."""
        queue = instr.queue
        done = {**self.base, **self.view.get(queue, {}), queue: self.count.get(queue, 0)}
        for name in instr.after:
            (at, number), earlier = self.points[name]
            for q, n in [*earlier.items(), (at, number)]:
                done[q] = max(done.get(q, 0), n)
        self.count[queue] = self.count.get(queue, 0) + 1
        point = (queue, self.count[queue])
        self.view[queue] = done
        self.points[instr.name] = (point, done)
        return point, done

    def barrier(self) -> None:
        """All that was issued is done."""
        self.base = dict(self.count)
        self.view.clear()
