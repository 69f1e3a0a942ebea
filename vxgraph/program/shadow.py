"""What `verify` knows while it walks a program: which values the bytes of an arena are, and what is done.

[0, 65536) of gpu:0    %w.gpu0         written by gpu:0.copy 1, used by gpu:0.compute 3
[65536, 66560)         %h, %h.heads    written by gpu:0.compute 3
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from vxgraph.program.instructions import Queue, Queued

Point = tuple[Queue, int]  # an instruction: its queue and its number there


@dataclass(slots=True)
class Segment:
    """Bytes [start, end) of an arena: the values they are, their writer, and everyone who used them."""

    start: int
    end: int
    values: set[str]
    writer: Point
    users: dict[Queue, int] = field(default_factory=dict[Queue, int])


class Shadow:
    """The segments of one arena, by start."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.segments: list[Segment] = []

    def overlapping(self, start: int, end: int) -> list[Segment]:
        """Segments that share a byte with [start, end)."""
        return self.segments[self._run(start, end)]

    def replace(self, new: Segment) -> None:
        """Puts a segment in; what it overlaps is cut, and a cut value is gone."""
        run = self._run(new.start, new.end)
        pieces = [
            Segment(start, end, set(), s.writer, s.users)
            for s in self.segments[run]
            for start, end in ((s.start, new.start), (new.end, s.end))
            if start < end
        ]
        together = sorted([*pieces, new], key=lambda s: s.start)
        self.segments[run] = together
        self.starts[run] = [s.start for s in together]

    def _run(self, start: int, end: int) -> slice:
        """Where the segments stand that share a byte with [start, end)."""
        first = bisect_right(self.starts, start)
        if first and self.segments[first - 1].end > start:
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
