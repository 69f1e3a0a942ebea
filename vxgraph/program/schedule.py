"""Waits between queues: what each instruction must see done before it starts.

An instruction waits for the makers of its operands on other queues, and for what `lower` asks. A wait that another one
implies is left out. `Clocks` is the arithmetic of that: per queue, how many of its instructions are known to be done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vxgraph.program.instructions import Download, Emit, Instruction, Loop, Queue, Queued, Upload, View, reads, writes
from vxgraph.program.lower import Lowered

Clock = dict[Queue, int]  # how many instructions of each queue are done


class Clocks:
    """Walks a program in order and knows, for each instruction, what is done when it starts."""

    def __init__(self) -> None:
        self.issued: Clock = {}
        self.seen: dict[Queue, Clock] = {}
        self.stamp: dict[str, tuple[Queue, int, Clock]] = {}  # name -> queue, its number there, what it saw
        self.position: dict[str, int] = {}  # name -> how many were issued before it, on any queue
        self.floor: Clock = {}  # known to all, since the last barrier

    def knows(self, queue: Queue, name: str) -> bool:
        """Whether the queue's next instruction starts after `name` is done."""
        at, number, _ = self.stamp[name]
        return at == queue or self.seen.get(queue, self.floor).get(at, 0) >= number

    def start(self, instr: Queued, after: Iterable[str]) -> Clock:
        """Issues an instruction; what is done when it starts."""
        queue = instr.queue
        clock = dict(self.seen.get(queue, self.floor))
        for name in after:
            at, number, saw = self.stamp[name]
            for q, n in (*saw.items(), (at, number)):
                if clock.get(q, 0) < n:
                    clock[q] = n
        clock[queue] = max(clock.get(queue, 0), self.issued.get(queue, 0))
        self.issued[queue] = self.issued.get(queue, 0) + 1
        self.seen[queue] = clock
        self.position[instr.name] = len(self.position)
        self.stamp[instr.name] = (queue, self.issued[queue], clock)
        return clock

    def barrier(self) -> None:
        """Everything issued so far is done."""
        self.floor = dict(self.issued)
        self.seen = {}


def schedule(lowered: Lowered) -> None:
    """Fills in `after` of every instruction of the load section and the body."""
    scheduler = _Scheduler(lowered)
    lowered.load = scheduler.block(lowered.load)
    scheduler.clocks.barrier()
    lowered.body = scheduler.block(lowered.body)


class _Scheduler:
    def __init__(self, lowered: Lowered) -> None:
        self.clocks = Clocks()
        self.waits = lowered.waits
        self.alias = {b: a for a, b in reversed(lowered.same)}  # the value whose bytes these are, one step back
        self.maker: dict[str, str] = {}  # value or host value -> instruction

    def block(self, instructions: list[Instruction]) -> list[Instruction]:
        return [self._schedule(instr) for instr in instructions]

    def _schedule(self, instr: Instruction) -> Instruction:
        match instr:
            case Emit() | View():
                return instr
            case Loop():
                return self._loop(instr)
            case _:
                return self._queued(instr)

    def _loop(self, loop: Loop) -> Loop:
        self.clocks.barrier()
        self.maker.clear()  # all of it is done
        body = self.block(list(loop.body))
        self.clocks.barrier()
        self.maker.clear()
        return replace(loop, body=tuple(body))

    def _queued(self, instr: Queued) -> Queued:
        wanted = [self._maker(v) for v in reads(instr)]
        if isinstance(instr, Upload):
            wanted.append(self.maker.get(instr.src))
        wanted += self.waits.get(instr.name, ())
        after: list[str] = []
        # Later makers first: what they saw may make the earlier waits unnecessary.
        names = dict.fromkeys(w for w in wanted if w is not None)
        for name in sorted(names, key=lambda n: -self.clocks.position[n]):
            if not self.clocks.knows(instr.queue, name) and not self._implied(name, after):
                after.append(name)
        self.clocks.start(instr, after)
        for value in writes(instr):
            self.maker[value] = instr.name
        if isinstance(instr, Download):
            self.maker[instr.dst] = instr.name
        return replace(instr, after=tuple(after)) if after else instr

    def _implied(self, name: str, after: list[str]) -> bool:
        at, number, _ = self.clocks.stamp[name]
        for queue, count, saw in (self.clocks.stamp[a] for a in after):
            if saw.get(at, 0) >= number or (queue == at and count >= number):
                return True
        return False

    def _maker(self, value: str) -> str | None:
        """The instruction that made the value in this block, through values that are the same bytes."""
        while value not in self.maker and value in self.alias:
            value = self.alias[value]
        return self.maker.get(value)
