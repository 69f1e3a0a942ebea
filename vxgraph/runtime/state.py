"""The state of one walk over a program: host values, events, records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from vxgraph.errors import RunError, VxError
from vxgraph.ir.types import Array
from vxgraph.program.instructions import Download, TransferPeer
from vxgraph.runtime.abi import Backend, Event, KernelError
from vxgraph.runtime.prepare import Preparer, Tail
from vxgraph.runtime.record import Counts, Execution


@dataclass(slots=True)
class Run:
    """The state of one walk.

    `over` says that nothing of it is under way and that no call ended half-way; `cause` is what ended one.
    """

    execution: Execution
    preparer: Preparer
    given: Mapping[str, Array]  # args, or params
    before: Counts
    began: float = field(default_factory=perf_counter)
    made: dict[str, Array] = field(default_factory=dict[str, Array])  # host values that the run itself made
    events: dict[str, Event] = field(default_factory=dict[str, Event])
    step: int = -1  # of the innermost loop that it is in
    over: bool = False
    cause: str = "an interrupt"

    def host(self, name: str) -> Array:
        """A host value, once it has arrived; RunError where nothing brings it."""
        if name not in self.made:
            if name not in self.given:
                raise RunError(f"%{name} is not on the host: nothing downloads it before it is used")
            return self.given[name]
        if name in self.events:
            self._wait(self.preparer.event_backend(name), name)
        return self.made[name]

    def settle(self, tails: Iterable[Tail]) -> None:
        """Returns when these instructions are done."""
        for backend, name in tails:
            self._wait(backend, name)

    def _wait(self, backend: Backend, name: str) -> None:
        try:
            backend.wait(self.events[name])
        except KernelError as fault:
            raise self.preparer.named(fault) from fault

    def give_up(self, cause: BaseException) -> None:
        """Returns when everything that was issued is done: it may still be writing what the next run writes.

        What ends the run is its first cause, so what the others complain of is dropped; every queue is waited for.
        The run is `over` unless a call ended half-way: then there may be work that nobody was given an event of.
        """
        half_way = None if isinstance(cause, VxError | GeneratorExit) else cause
        for name, event in self.events.items():
            try:
                self.preparer.event_backend(name).wait(event)
            except VxError:
                pass
            except Exception as error:
                half_way = half_way or error
        if half_way is not None:
            self.cause = type(half_way).__name__ + (f": {half_way}" if str(half_way) else "")
        self.over = half_way is None

    def empty(self, instr: Download | TransferPeer) -> Array:
        """A fresh array on the host for what an instruction moves."""
        return np.empty(instr.type.shape(self.execution.sizes), instr.type.dtype.numpy)
