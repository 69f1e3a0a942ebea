"""When each instruction ran, or is predicted to run: the same data for both.

    gpu:0.compute   dispatch %h       0 us   +3.1 us
    gpu:0.copy      %h.gpu1         3.1 us   +4.0 us
    loop %steps step 0              7.1 us   +9.9 us

All times are seconds from the run's start. A loop of thousands of steps is not kept whole: `left_out` counts the
slices that are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vxgraph.program.instructions import Download, Emit, Loop, Queued, flatten
from vxgraph.program.model import Program

Source = Literal["predicted", "observed"]
Clock = Literal["virtual", "host", "device"]


@dataclass(frozen=True, slots=True)
class Slice:
    """One execution of a queued instruction. `step` counts the innermost loop's from 0; it is -1 outside of loops."""

    instr: Queued
    start: float  # seconds
    seconds: float
    step: int
    device: str  # as it was observed; "" in a prediction

    @property
    def end(self) -> float:
        """When it is done, in seconds."""
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class Section:
    """Steps `first` to `last` of a loop, from the first one's start to the last one's end (seconds)."""

    loop: str
    first: int
    last: int
    start: float
    end: float

    @property
    def title(self) -> str:
        """`loop %steps step 3`, `loop %steps steps 30 to 63`."""
        steps = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        return f"loop %{self.loop} {steps}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run with its symbols at `sizes`: its slices by start.

    `clock` is who timed them: nobody (virtual), the host as it called, or the devices.
    On a backend that works while it is called, like NumPy, the host's times are the work's. On one that queues its
    work they are the calls'.
    """

    source: Source
    clock: Clock
    seconds: float  # the whole run, with what is left out
    slices: tuple[Slice, ...]
    sections: tuple[Section, ...]
    left_out: int
    sizes: Mapping[str, int]

    @property
    def steps(self) -> int | None:
        """The most steps that a loop of it ran; None where none ran."""
        return max((s.last + 1 for s in self.sections), default=None)


def loop_around(program: Program) -> dict[str, str]:
    """The innermost loop of each queued instruction that is in one, both by name."""
    found: dict[str, str] = {}
    around: list[str] = []
    for instr, depth in flatten(program.body):
        del around[depth:]
        if isinstance(instr, Loop):
            around.append(instr.name)
        elif isinstance(instr, Queued) and around:
            found[instr.name] = around[-1]
    return found


@dataclass(frozen=True, slots=True)
class Summary:
    """What people ask of a timeline first, in seconds; `step` is the mean of each loop's steps, by the loop's name,
    and `steps` how many there were, over all of the loop's runs."""

    seconds: float
    first_emit: float | None  # until the first emitted value is on the host
    step: dict[str, float]
    steps: dict[str, int]


def summary(timeline: Timeline, program: Program) -> Summary:
    """The run's time, the time to the first emitted value, and the time of a step of each loop that ran."""
    emitted = {i.value for i, _ in flatten(program.body) if isinstance(i, Emit)}
    arrivals = [s.end for s in timeline.slices if isinstance(s.instr, Download) and s.instr.dst in emitted]
    steps: dict[str, int] = {}
    spent: dict[str, float] = {}
    for section in timeline.sections:
        steps[section.loop] = steps.get(section.loop, 0) + section.last - section.first + 1
        spent[section.loop] = spent.get(section.loop, 0.0) + section.end - section.start
    return Summary(
        timeline.seconds, min(arrivals, default=None), {loop: spent[loop] / n for loop, n in steps.items()}, steps
    )
