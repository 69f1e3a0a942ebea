"""Runs a program in any order that its queues and waits allow, on bytes.

Between two barriers the next instruction is picked at random among those whose queue has come to them and whose waits
are done. A plan that proves gives the same results in every such order; this executor knows nothing of the runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from vxgraph.ir.types import Array, Sizes, TensorType
from vxgraph.program.instructions import Dispatch, Download, Emit, Instruction, Loop, Queued, TransferPeer, Upload, View
from vxgraph.program.model import Program
from vxgraph.topology.ids import Topology

POISON = 0xA5
Item = TypeVar("Item")


class Chooser(Protocol):
    """What decides which queue goes on: a `random.Random`, or choices that were written down."""

    def choice(self, seq: Sequence[Item], /) -> Item: ...


def simulate(program: Program, inputs: Mapping[str, Any], params: Mapping[str, Any], rng: Chooser) -> dict[str, Array]:
    """Results and stacked emits of a second run; LookupError where the program reads what is not there."""
    return simulate_calls(program, [inputs, inputs], params, rng)[-1]


def simulate_calls(
    program: Program, calls: Iterable[Mapping[str, Any]], params: Mapping[str, Any], rng: Chooser
) -> list[dict[str, Array]]:
    """Results and stacked emits of runs one after the other on the same bytes."""
    simulator = _Simulator(program, params, rng)
    simulator.block(program.load)
    return [simulator.run(inputs) for inputs in calls]


class _Simulator:
    def __init__(self, program: Program, params: Mapping[str, Any], rng: Chooser) -> None:
        self.program = program
        self.rng = rng
        self.host = {name: np.asarray(value) for name, value in params.items()}
        self.arenas = {a.topology: np.full(a.nbytes, POISON, np.uint8) for a in program.arenas}
        self.slots = program.slot_of
        self.sizes: Sizes = {}
        self.emitted: dict[str, list[Array]] = {}

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        self.host, self.emitted = {name: np.asarray(value) for name, value in inputs.items()}, {}
        self.sizes = {
            d.name: self.host[a.name].shape[k]
            for a in self.program.args
            for k, d in enumerate(a.type.dims)
            if d in a.type.symbols
        }
        self.block(self.program.body)
        results = {r.name: self.host[r.value] for r in self.program.results}
        return results | {name: np.stack(found) for name, found in self.emitted.items()}

    def block(self, instructions: Iterable[Instruction]) -> None:
        batch: list[Queued] = []
        emits: list[Emit] = []
        for instr in instructions:
            match instr:
                case Emit():
                    emits.append(instr)
                case View():
                    pass
                case Loop():
                    self.batch(batch, emits)
                    batch, emits = [], []
                    self.loop(instr)
                case _:
                    batch.append(instr)
        self.batch(batch, emits)

    def batch(self, batch: list[Queued], emits: list[Emit]) -> None:
        """All of these, in an order that they allow."""
        names = {i.name for i in batch}
        queues: dict[Any, list[Queued]] = {}
        for instr in batch:
            queues.setdefault(instr.queue, []).append(instr)
        done: set[str] = set()
        while queues:
            ready = [q for q, todo in queues.items() if all(a in done or a not in names for a in todo[0].after)]
            if not ready:
                raise LookupError("deadlock")
            queue = self.rng.choice(ready)
            instr = queues[queue].pop(0)
            if not queues[queue]:
                del queues[queue]
            self.execute(instr)
            done.add(instr.name)
        for emit in emits:
            self.emitted.setdefault(emit.name_out, []).append(self.host[emit.value].copy())

    def loop(self, loop: Loop) -> None:
        limit = loop.max_steps if loop.limit is None else min(loop.max_steps, int(self.host[loop.limit]))
        steps, stopped = 0, False
        while steps < limit and not stopped:
            self.block(loop.body)
            steps += 1
            stopped = loop.stop is not None and bool(self.host[loop.stop])
        self.host[loop.steps] = np.array(steps, np.int32)

    def bytes_of(self, value: str, type: TensorType, at: Topology) -> Array:
        """So many bytes from the value's offset on; LookupError elsewhere, for no device reads another's memory."""
        slot, nbytes = self.slots[value], type.nbytes(self.sizes)
        if slot.topology != at:
            raise LookupError(f"%{value} is on {slot.topology}, not on {at}")
        if not 0 <= slot.offset <= slot.offset + nbytes <= len(self.arenas[at]):
            raise LookupError(f"%{value} is not inside {at}'s arena")
        return self.arenas[at][slot.offset : slot.offset + nbytes]

    def read(self, value: str, type: TensorType, at: Topology) -> Array:
        return self.bytes_of(value, type, at).copy().view(type.dtype.numpy).reshape(type.shape(self.sizes))

    def write(self, value: str, array: Array, type: TensorType, at: Topology) -> None:
        if (array.shape, array.dtype) != (type.shape(self.sizes), type.dtype.numpy):
            raise LookupError(f"{array.dtype}{list(array.shape)} is no {type}")
        self.bytes_of(value, type, at)[:] = np.frombuffer(array.tobytes(), np.uint8)

    def spoil(self, instr: Dispatch) -> None:
        """A kernel may write before it reads: what it makes is poison first, but for what it is given to change."""
        donates = instr.op.donates
        given = () if donates is None else instr.inputs[donates : donates + 1]  # a cache_init may have no rows
        for out, type in zip(instr.outputs, instr.types, strict=True):
            if self.slots[out].offset not in [self.slots[v].offset for v in given]:
                self.bytes_of(out, type, instr.topology).fill(POISON)

    def execute(self, instr: Queued) -> None:
        at = instr.topology
        match instr:
            case Upload(src=src, dst=dst, type=type):
                self.write(dst, self.host[src], type, at)
            case Download(src=src, dst=dst, type=type):
                self.host[dst] = self.read(src, type, at)
            case TransferPeer(src=src, dst=dst, type=type):
                self.write(dst, self.read(src, type, at), type, instr.dst_topology)
            case Dispatch(op=op, inputs=inputs, outputs=outputs, types=types):
                self.spoil(instr)
                operands = [self.read(v, self.slots[v].type, at) for v in inputs]
                with np.errstate(all="ignore"):
                    made = op.reference(self.sizes, *operands)
                for out, array, type in zip(outputs, made, types, strict=True):
                    self.write(out, array, type, at)
