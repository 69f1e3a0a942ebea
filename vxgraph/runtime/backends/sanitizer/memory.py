"""What is known of every byte of a topology: who wrote it, and who may still be reading.

    [0, 1024)       written by upload %x.gpu0 (gpu:0.copy 1), read by dispatch %h (gpu:0.compute 1)
    [1024, 2048)    nothing is known: poison

Two accesses to the same bytes, one of them a write, must be ordered by queues and events; that is checked when the
second one is asked for, by vector clocks, so that no order has to go wrong to be found out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from vxgraph.program.instructions import Queue
from vxgraph.program.shadow import Shadow
from vxgraph.runtime.backends.sanitizer import hazards
from vxgraph.runtime.backends.sanitizer.access import Access
from vxgraph.runtime.backends.sanitizer.work import Work


@dataclass(slots=True)
class Stretch:
    """Bytes [start, end) that one call wrote, and the last call of each queue that reads them."""

    start: int
    end: int
    writer: Work
    readers: dict[Queue, Work] = field(default_factory=dict[Queue, Work])

    def cut(self, start: int, end: int) -> Stretch:
        """A part of them."""
        return Stretch(start, end, self.writer, dict(self.readers))


class Memory:
    """The shadow of one topology's memory."""

    def __init__(self) -> None:
        self._shadow: Shadow[Stretch] = Shadow()
        self.checked = 0  # pairs of accesses

    def forget(self, start: int, end: int) -> None:
        """The bytes are another block's now, or nobody's."""
        self._shadow.clear(start, end)

    def read(self, work: Work, access: Access) -> None:
        """Refuses to read what is not written for sure, or is not the value that the program means."""
        if access.start == access.end:
            return
        found = self._shadow.overlapping(access.start, access.end)
        for stretch in found:
            self.checked += 1
            if access.followed and stretch.writer is not access.maker:
                raise hazards.stale(work, access, stretch.writer)
            if not work.knows(stretch.writer):
                raise hazards.early_read(work, access, stretch.writer)
        if missing := _gaps(found, access):
            raise hazards.poisoned(work, access, missing)
        for stretch in found:
            part = stretch.cut(max(stretch.start, access.start), min(stretch.end, access.end))
            part.readers[work.queue] = work
            self._shadow.replace(part)

    def write(self, work: Work, access: Access) -> None:
        """Refuses to write over what may still be used."""
        if access.start == access.end:
            return
        for stretch in self._shadow.overlapping(access.start, access.end):
            for reader in stretch.readers.values():
                self.checked += 1
                if reader is not work and not work.knows(reader):
                    raise hazards.overwritten(work, access, stretch.writer, reader)
            if not work.knows(stretch.writer):
                raise hazards.two_writes(work, access, stretch.writer)
        self._shadow.replace(Stretch(access.start, access.end, work))

    def writers(self, start: int, end: int) -> Iterator[Work]:
        """Who wrote these bytes, in the order of their addresses."""
        return (s.writer for s in self._shadow.overlapping(start, end))

    def users(self, start: int, end: int) -> Iterator[Work]:
        """Who wrote or reads these bytes."""
        for stretch in self._shadow.overlapping(start, end):
            yield stretch.writer
            yield from stretch.readers.values()


def _gaps(found: list[Stretch], access: Access) -> int:
    """How many of the bytes nothing has written."""
    return access.end - access.start - sum(min(s.end, access.end) - max(s.start, access.start) for s in found)
