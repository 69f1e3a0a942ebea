"""What is kept of an execution: one accumulator per instruction, however often it ran.

dispatch %h    count 25    0.8 ms    observed on gpu:1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

from vxgraph.errors import ConformanceError
from vxgraph.ir.types import Sizes
from vxgraph.program.instructions import Instruction, Loop, Queued, View, flatten
from vxgraph.program.timeline import Clock, Section
from vxgraph.runtime.abi import Backend, Observation
from vxgraph.topology.ids import Topology

Pair = tuple[Topology | None, Topology | None]  # from, to; None is the host
TRACED = 200_000  # events that a trace keeps: the last ones


@dataclass(slots=True)
class Record:
    """One instruction's executions in one run."""

    instr: Instruction
    count: int = 0
    seconds: float = 0.0  # on the host, in the backend's call
    nbytes: int = 0  # moved, as the backend counted while this instruction ran
    steps: int = 0  # a loop's, all executions together
    observed: Observation | None = None  # where it ran, or wrote (a download: read)
    source: Observation | None = None  # where a transfer or a download read
    difference: ConformanceError | None = None  # the first observation that is not the plan's; it keeps those two


@dataclass(frozen=True, slots=True)
class Counts:
    """Backends' own counters: bytes per ordered pair, kernels per topology."""

    moved: dict[Pair, int]
    dispatched: dict[Topology, int]

    def since(self, before: Counts) -> Counts:
        """What was counted after `before`."""
        return Counts(
            {pair: n - before.moved[pair] for pair, n in self.moved.items()},
            {t: n - before.dispatched[t] for t, n in self.dispatched.items()},
        )


def count_all(backends: Mapping[Topology, Backend]) -> Counts:
    """Reads every counter that a program on these backends can move."""
    moved: dict[Pair, int] = {}
    for t, backend in backends.items():
        moved[None, t], moved[t, None] = backend.moved(None, t), backend.moved(t, None)
    for src, dst in permutations(backends, 2):
        if backends[src] is backends[dst]:
            moved[src, dst] = backends[src].moved(src, dst)
    return Counts(moved, {t: backend.dispatched(t) for t, backend in backends.items()})


@dataclass(frozen=True, slots=True)
class Traced:
    """One execution of a queued instruction."""

    instr: Queued
    start: float  # seconds from the run's start
    seconds: float
    step: int  # of the innermost loop; -1 outside
    observed: Observation


@dataclass
class Execution:
    """One run, or the load: its records in program order (a loop before its body), and what the backends counted."""

    sizes: Sizes
    records: list[Record]
    counts: Counts | None = None
    finished: bool = False
    seconds: float = 0.0  # until the last of it was done
    trace: deque[Traced] = field(default_factory=lambda: deque[Traced](maxlen=TRACED))
    traced: int = 0  # including those that the trace no longer holds
    sections: deque[Section] = field(default_factory=lambda: deque[Section](maxlen=TRACED))
    clock: Clock = "host"  # who timed the trace


def records_of(instructions: Iterable[Instruction]) -> list[Record]:
    """A fresh record for every instruction, in program order."""
    return [Record(instr) for instr, _ in flatten(instructions)]


def expected_counts(instructions: Iterable[Instruction], records: list[Record]) -> list[int]:
    """How often each record's instruction should have run: once, or as often as its loop did steps; a view never."""
    expected: list[int] = []

    def block(body: Iterable[Instruction], times: int) -> None:
        for instr in body:
            record = records[len(expected)]
            expected.append(0 if isinstance(instr, View) else times)
            if isinstance(instr, Loop):
                block(instr.body, record.steps)

    block(instructions, 1)
    return expected
