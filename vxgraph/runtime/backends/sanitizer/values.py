"""Which call made each value of the program that is being run, in program order.

Program order is one of the legal orders. Where every two accesses to the same bytes are ordered, all legal orders give
what it gives; so what a read finds in program order is what it finds, or a hazard is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from vxgraph.ir.types import TensorType
from vxgraph.program.instructions import Instruction, Loop, Queued, View, flatten, writes
from vxgraph.program.model import Program
from vxgraph.runtime.backends.sanitizer.work import Work


class Values:
    """The makers of a program's values; views and what a loop carries are the values that they stand for."""

    def __init__(self) -> None:
        self._program: Program | None = None
        self._made: dict[str, Work] = {}
        self._views: dict[str, str] = {}

    def begin(self, program: Program, section: Literal["load", "run"]) -> None:
        """A run knows nothing of the run before, only what was loaded."""
        if self._program is not program:
            self._program = program
            self._made = {}
            self._views = {i.dst: i.src for i, _ in flatten(program.body) if isinstance(i, View)}
        loaded = _written(program.load)
        self._made = {v: w for v, w in self._made.items() if section == "run" and v in loaded}

    def maker(self, value: str) -> Work | None:
        """The call that made the value; None where none has."""
        return self._made.get(self._root(value))

    def make(self, value: str, work: Work) -> None:
        """The call makes the value."""
        self._made[value] = work

    def types(self, *values: str) -> list[TensorType]:
        """The types of the slots of these values; none of a value without one."""
        slots = self._program.slot_of if self._program else {}
        return [slots[v].type for v in values if v in slots]

    def step(self, loop: Loop, at: Literal["enter", "again", "leave"]) -> None:
        """Gives what is carried its next name, and forgets what a step made besides."""
        names = {
            "enter": [(c.init, c.arg) for c in loop.carried],
            "again": [(c.next, c.arg) for c in loop.carried],
            "leave": [(c.arg, c.out) for c in loop.carried],
        }[at]
        found = [(new, self.maker(old)) for old, new in names]
        for value in _written(loop.body):
            self._made.pop(value, None)
        for new, maker in found:
            if maker is None:
                self._made.pop(new, None)
            else:
                self._made[new] = maker

    def _root(self, value: str) -> str:
        seen: set[str] = set()
        while value in self._views and value not in seen:
            seen.add(value)
            value = self._views[value]
        return value


def _written(instructions: Iterable[Instruction]) -> set[str]:
    return {value for i, _ in flatten(instructions) if isinstance(i, Queued) for value in writes(i)}
