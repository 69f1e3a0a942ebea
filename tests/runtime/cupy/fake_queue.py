"""Queues of devices that are not there: nothing runs before somebody waits for it.

A stream runs what it is given in order; work of other streams comes first only where an event says so. Two pieces of
work that touch the same bytes, one of them writing, and that no event orders are a race: found when the second is
queued, whatever order they would have run in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.runtime.cupy.fake_memory import CudaError, Span, meet


class RaceError(AssertionError):
    """Two pieces of work that should have been ordered."""


@dataclass(eq=False)
class Work:
    """Something queued. `before` is what must be done first."""

    label: str
    run: Callable[[], Any] | None
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    before: tuple[Work, ...] = ()
    after: set[Work] = field(default_factory=set["Work"])  # all unfinished work that comes before it
    done: bool = False

    def conflicts(self, other: Work) -> Span | None:
        """Bytes that one of the two writes and the other touches."""
        for mine, theirs in ((self.writes, (*other.reads, *other.writes)), (self.reads, other.writes)):
            for a in mine:
                for b in theirs:
                    if meet(a, b):
                        return max(a[0], b[0]), min(a[1], b[1])
        return None


@dataclass(eq=False)
class Capture:
    """What a stream and those that forked from it record instead of running. Nodes are work with `before` inside."""

    origin: Stream
    nodes: list[Work] = field(default_factory=list[Work])
    streams: list[Stream] = field(default_factory=list["Stream"])
    broken: str = ""


@dataclass(eq=False)
class Stream:
    device: int
    number: int
    last: Work | None = None
    capture: Capture | None = None
    tails: tuple[Work, ...] = ()  # in a capture: the nodes that the next one follows
    destroyed: bool = False


@dataclass(eq=False)
class Event:
    device: int
    work: Work | None = None
    capture: Capture | None = None
    tails: tuple[Work, ...] = ()
    timing: bool = False
    time: float = 0.0  # when it happened, of one that is a timer
    destroyed: bool = False


@dataclass(eq=False)
class Graph:
    device: int
    nodes: tuple[Work, ...]
    destroyed: bool = False


class Queues:
    """All pending work of a process."""

    def __init__(self) -> None:
        self.pending: dict[Work, None] = {}

    def put(
        self,
        stream: Stream,
        label: str,
        run: Callable[[], Any] | None,
        *,
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
        also: Iterable[Work] = (),
    ) -> None:
        """Queues work behind what its stream has, and behind `also`."""
        reads, writes = tuple(s for s in reads if s[1] > s[0]), tuple(s for s in writes if s[1] > s[0])
        if stream.capture is not None:
            node = Work(label, run, reads, writes, (*stream.tails, *also))
            stream.capture.nodes.append(node)
            stream.tails = (node,)
            return
        stream.last = self.work(label, run, reads, writes, ([stream.last] if stream.last else []) + list(also))

    def work(
        self, label: str, run: Callable[[], Any] | None, reads: tuple[Span, ...], writes: tuple[Span, ...], before: Any
    ) -> Work:
        found = Work(label, run, reads, writes, tuple(w for w in before if not w.done))
        found.after = set(found.before).union(*(w.after for w in found.before))
        for other in self.pending:
            if other not in found.after and (span := found.conflicts(other)):
                raise RaceError(
                    f"{label} and {other.label} both touch {span[1] - span[0]} bytes at {span[0]:#x}, unordered"
                )
        self.pending[found] = None
        return found

    def finish(self, work: Work | None) -> None:
        """Runs what comes before, and the work."""
        todo = [work] if work is not None else []
        while todo:
            now = todo[-1]
            waiting = [w for w in now.before if not w.done]
            if waiting and not now.done:
                todo += waiting
                continue
            todo.pop()
            if not now.done:
                now.done = True
                del self.pending[now]
                now.before, now.after = (), set()
                if now.run is not None:
                    now.run()

    def touching(self, span: Span) -> Work | None:
        """Pending work that reads or writes these bytes."""
        return next((w for w in self.pending if any(meet(span, s) for s in (*w.reads, *w.writes))), None)

    def replay(self, graph: Graph, stream: Stream) -> None:
        """The graph's nodes as work, in their own order only."""
        first = [stream.last] if stream.last else []
        made: dict[Work, Work] = {}
        for node in graph.nodes:
            before = [made[b] for b in node.before] or first
            made[node] = self.work(f"graph: {node.label}", node.run, node.reads, node.writes, before)
        stream.last = self.work("graph", None, (), (), [*first, *made.values()])


def end_capture(capture: Capture) -> tuple[Work, ...]:
    """The nodes; CudaError where a stream that forked has not joined again."""
    joined: set[Work] = set()
    todo = list(capture.origin.tails)
    while todo:
        node = todo.pop()
        if node not in joined:
            joined.add(node)
            todo += node.before
    unjoined = [s for s in capture.streams if not set(s.tails) <= joined]
    for stream in (capture.origin, *capture.streams):
        stream.capture, stream.tails = None, ()
    if capture.broken:
        raise CudaError(f"cudaErrorStreamCaptureInvalidated: {capture.broken}")
    if unjoined:
        raise CudaError("cudaErrorStreamCaptureUnjoined")
    return tuple(capture.nodes)
