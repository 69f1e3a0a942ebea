"""The state of one walk over a program: host values, events, records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from vxgraph.errors import VxError
from vxgraph.ir.types import Array
from vxgraph.program.instructions import Download, TransferPeer
from vxgraph.runtime.abi import Event
from vxgraph.runtime.prepare import Preparer, Tail
from vxgraph.runtime.record import Counts, Execution


@dataclass(slots=True)
class Run:
    """The state of one walk."""

    execution: Execution
    preparer: Preparer
    given: Mapping[str, Array]  # args, or params
    before: Counts
    began: float = field(default_factory=perf_counter)
    made: dict[str, Array] = field(default_factory=dict[str, Array])  # host values that the run itself made
    events: dict[str, Event] = field(default_factory=dict[str, Event])

    def host(self, name: str) -> Array:
        """A host value, once it has arrived."""
        if name not in self.made:
            return self.given[name]
        if name in self.events:
            self.preparer.event_backend(name).wait(self.events[name])
        return self.made[name]

    def settle(self, tails: Iterable[Tail]) -> None:
        """Returns when these instructions are done."""
        for backend, name in tails:
            backend.wait(self.events[name])

    def give_up(self) -> None:
        """Returns when everything that was issued is done: it may still be writing what the next run writes.

        What ends the run is its first cause, so what the others complain of is dropped; every queue is waited for.
        """
        for name, event in self.events.items():
            with suppress(VxError):
                self.preparer.event_backend(name).wait(event)

    def empty(self, instr: Download | TransferPeer) -> Array:
        """A fresh array on the host for what an instruction moves."""
        return np.empty(instr.type.shape(self.execution.sizes), instr.type.dtype.numpy)
