"""A program's run on a machine that is not here: its schedule on a virtual clock.

    predict(program, load_machine("h200-x2"), sizes={"T": 512}).seconds

Queues run their instructions in order, each after those that it names; a loop is a barrier before each step and after
the last. A dispatch takes its arithmetic or its traffic, whichever is longer (the roofline of Williams, Waterman and
Patterson, 2009), and the cost of a launch; a transfer takes the links of its route, one after the other, and waits for
who is on a link already. What the model leaves out: the host's own time, and kernels that are short of their peak.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vxgraph.errors import RunError
from vxgraph.ir.types import Sizes, TensorType, size_in
from vxgraph.program.instructions import Dispatch, Download, Instruction, Loop, Queue, Queued, TransferPeer, Upload
from vxgraph.program.model import Program
from vxgraph.program.timeline import Section, Slice, Timeline
from vxgraph.topology.model import Device, Machine
from vxgraph.topology.routes import Route, Router

KEPT = 20_000  # slices of a prediction: some hundred instructions of a step for some dozens of steps
LAUNCH_SECONDS = 3e-6
"""From one kernel's end to the next one's start on a stream that has work: 2 to 4 us on the GPUs of the shipped
machines, about what a call of NumPy takes too. Machine files do not state it yet."""


def predict(
    program: Program, machine: Machine, *, sizes: Sizes | None = None, steps: int | None = None, kept: int = KEPT
) -> Timeline:
    """The run section's timeline: `steps` of every loop at most, symbols at `sizes`, else at their bounds.

    Slices are kept for the first steps of a loop, about `kept` in all and one step of each loop at least; `seconds`
    and `left_out` count the others too. RunError for sizes that the symbols cannot have, MachineError where the
    machine lacks a place or a path between two.
    """
    known = _checked(program, sizes or {})
    clock = _Clock(program, _Prices(program, machine, known), _steps(steps))
    block = clock.block(program.body)
    keeper = _Keeper(kept)
    keeper.keep(block, 0.0, -1)
    slices = tuple(sorted(keeper.slices, key=lambda s: s.start))
    left_out = block.count - len(slices)
    return Timeline("predicted", "virtual", block.seconds, slices, tuple(keeper.sections), left_out, known)


def _steps(steps: int | None) -> int | None:
    if steps is not None and steps < 0:
        raise RunError(f"steps is {steps}; wanted 0 or more")
    return steps


def _checked(program: Program, sizes: Sizes) -> dict[str, int]:
    symbols = {d.name: d for d in program.dims if d.symbolic}
    for name, size in sizes.items():
        if name not in symbols:
            known = ", ".join(f"{d.name} <= {d.bound}" for d in symbols.values()) or "none"
            raise RunError(f"size {name}: the program has no such symbol; its symbols: {known}")
        if not symbols[name].min <= size <= symbols[name].bound:
            raise RunError(f"size {name}={size}: {name} runs from {symbols[name].min} to {symbols[name].bound}")
    return {d.name: sizes.get(d.name, d.bound) for d in symbols.values()}


# What one instruction takes.


class _Prices:
    """Seconds of dispatches, and routes of transfers; both are asked for many times with the same answer."""

    def __init__(self, program: Program, machine: Machine, sizes: Sizes) -> None:
        self.slots = program.slot_of
        self.machine = machine
        self.sizes = sizes
        self.router = Router(machine)

    def dispatch(self, instr: Dispatch) -> float:
        ins = tuple(self._sized(self.slots[v].type) for v in instr.inputs)
        outs = tuple(self._sized(t) for t in instr.types)
        cost = instr.op.cost(ins, outs)
        device = self.machine.device(instr.topology)
        arithmetic = cost.flops / _rate(device, (*ins, *outs)) if cost.flops else 0.0
        return max(arithmetic, cost.nbytes / self.machine.memory(device.memory).bandwidth) + LAUNCH_SECONDS

    def route(self, instr: Upload | Download | TransferPeer) -> Route:
        match instr:
            case Upload(topology=dst):
                return self.router.route(None, dst)
            case Download(topology=src):
                return self.router.route(src, None)
            case TransferPeer(topology=src, dst_topology=dst):
                return self.router.route(src, dst)

    def _sized(self, type: TensorType) -> TensorType:
        """The type with its symbols at their sizes: ops price what they are given at its bounds."""
        return type.with_dims(size_in(d, self.sizes) for d in type.dims) if type.symbols else type


def _rate(device: Device, types: Iterable[TensorType]) -> float:
    """FLOP per second for the first floating type among these; for integers, and for a float that the device has no
    rate of, the slowest that it has: those units are the general ones."""
    dtypes = (t.dtype.name for t in types if t.dtype.kind == "float")
    return device.flops.get(next(dtypes, ""), min(device.flops.values()))


# The clock.


@dataclass(frozen=True, slots=True)
class _Timed:
    instr: Queued
    start: float  # from the block's start
    seconds: float


@dataclass(frozen=True, slots=True)
class _Repeat:
    loop: Loop
    start: float
    steps: int
    body: _Block


@dataclass(frozen=True, slots=True)
class _Block:
    """A section, or one step of a loop. A step begins when all before it is done, so that each is like the others."""

    parts: tuple[_Timed | _Repeat, ...]
    seconds: float
    count: int  # queued instructions that it runs, with those of the loops in it


class _Clock:
    def __init__(self, program: Program, prices: _Prices, steps: int | None) -> None:
        self.program = program
        self.prices = prices
        self.steps = steps

    def block(self, instructions: Iterable[Instruction]) -> _Block:
        """A loop in a loop in a loop calls this as deep as they are nested, which the program's text limits."""
        now = _Now()
        parts: list[_Timed | _Repeat] = []
        count = 0
        for instr in instructions:
            match instr:
                case Loop():
                    repeat = self._repeat(instr, now.latest)
                    now = _Now(repeat.start + repeat.steps * repeat.body.seconds)
                    parts.append(repeat)
                    count += repeat.steps * repeat.body.count
                case Upload() | Download() | TransferPeer() | Dispatch():
                    parts.append(self._queued(instr, now))
                    count += 1
                case _:
                    pass
        return _Block(tuple(parts), now.latest, count)

    def _repeat(self, loop: Loop, start: float) -> _Repeat:
        steps = loop.max_steps if self.steps is None else min(loop.max_steps, self.steps)
        return _Repeat(loop, start, steps, self.block(loop.body))

    def _queued(self, instr: Queued, now: _Now) -> _Timed:
        ready = now.ready(instr)
        if isinstance(instr, Dispatch):
            start, end = ready, ready + self.prices.dispatch(instr)
        else:
            start, end = now.travel(ready, self.prices.route(instr), instr.type.nbytes(self.prices.sizes))
        now.done(instr, end)
        return _Timed(instr, start, end - start)


class _Now:
    """When queues, links and instructions are done; a barrier makes a new one."""

    def __init__(self, floor: float = 0.0) -> None:
        self.floor = floor
        self.latest = floor
        self.queues: dict[Queue, float] = {}
        self.links: dict[tuple[str, str], float] = {}
        self.ends: dict[str, float] = {}

    def ready(self, instr: Queued) -> float:
        """When its queue and what it waits for are done. What an older barrier ended is done."""
        ends = [self.ends.get(name, self.floor) for name in instr.after]
        return max([self.queues.get(instr.queue, self.floor), *ends])

    def travel(self, ready: float, route: Route, nbytes: int) -> tuple[float, float]:
        """Start and end of a transfer: each link is taken when its bytes are there and the one before has left it."""
        if not route.hops:
            return ready, ready + route.seconds(nbytes)
        start, at = None, ready
        for hop in route.hops:
            at = max(at, self.links.get((hop.src, hop.dst), self.floor))
            start = at if start is None else start
            at += hop.seconds(nbytes)
            self.links[hop.src, hop.dst] = at
        return (ready if start is None else start), at

    def done(self, instr: Queued, end: float) -> None:
        self.queues[instr.queue] = self.ends[instr.name] = end
        self.latest = max(self.latest, end)


# What is kept.


class _Keeper:
    """Copies a block's slices to where they happen, steps of loops as long as there is room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.slices: list[Slice] = []
        self.sections: list[Section] = []

    def keep(self, block: _Block, at: float, step: int) -> None:
        for part in block.parts:
            if isinstance(part, _Timed):
                self.slices.append(Slice(part.instr, at + part.start, part.seconds, step, ""))
            else:
                self._repeat(part, at + part.start)

    def _repeat(self, repeat: _Repeat, at: float) -> None:
        each, name = repeat.body.seconds, repeat.loop.name
        kept = 0
        while kept < repeat.steps and (kept == 0 or len(self.slices) + repeat.body.count <= self.room):
            start = at + kept * each
            self.sections.append(Section(name, kept, kept, start, start + each))
            self.keep(repeat.body, start, kept)
            kept += 1
        if kept < repeat.steps:
            self.sections.append(Section(name, kept, repeat.steps - 1, at + kept * each, at + repeat.steps * each))
