"""What a program says, taken at its word: names are values, with no bytes, no queues and no waits.

A mutant that computes what it says in every order is a right program for another graph: only the graph can tell. One
that computes something else than it says, or says nothing that makes sense, is broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vxgraph.ir.types import Array, Sizes, TensorType
from vxgraph.program.instructions import (
    Dispatch,
    Download,
    Emit,
    Instruction,
    Loop,
    Queued,
    TransferPeer,
    Upload,
    View,
    flatten,
    writes,
)
from vxgraph.program.model import Program
from vxgraph.topology.ids import Topology


class NonsenseError(ValueError):
    """The text means nothing: a value that is not there, defined twice, elsewhere or of another shape."""


def said(program: Program, calls: Iterable[Mapping[str, Any]], params: Mapping[str, Any]) -> list[dict[str, Array]]:
    """Results and stacked emits of each call; NonsenseError where there are none."""
    defined = Counter(name for instr, _ in flatten((*program.load, *program.body)) for name in _defines(instr))
    if any(n > 1 for n in defined.values()) or len(program.slot_of) != len(program.slots):
        raise NonsenseError("a name is defined twice")
    reader = _Reader(program, params)
    reader.block(program.load)
    loaded = dict(reader.device)
    return [reader.call(inputs, dict(loaded)) for inputs in calls]


def _defines(instr: Instruction) -> tuple[str, ...]:
    match instr:
        case Emit():
            return ()
        case View(dst=dst) | Download(dst=dst):
            return (dst,)
        case Loop():
            return (instr.steps, *(n for c in instr.carried for n in (c.arg, c.out)))
        case _:
            return writes(instr)


class _Reader:
    def __init__(self, program: Program, params: Mapping[str, Any]) -> None:
        self.program = program
        self.host = {name: np.asarray(value) for name, value in params.items()}
        self.device: dict[str, Array] = {}
        self.issued: set[str] = set()
        self.sizes: Sizes = {}
        self.emitted: dict[str, list[Array]] = {}

    def call(self, inputs: Mapping[str, Any], loaded: dict[str, Array]) -> dict[str, Array]:
        self.host = {name: np.asarray(value) for name, value in inputs.items()}
        self.device, self.emitted = loaded, {}
        self.sizes = {
            d.name: self.host[a.name].shape[k]
            for a in self.program.args
            for k, d in enumerate(a.type.dims)
            if d in a.type.symbols
        }
        self.block(self.program.body)
        results = {r.name: self.on_host(r.value) for r in self.program.results}
        return results | {name: np.stack(found) for name, found in self.emitted.items()}

    def block(self, instructions: Iterable[Instruction]) -> None:
        for instr in instructions:
            match instr:
                case Emit():
                    self.emitted.setdefault(instr.name_out, []).append(self.on_host(instr.value))
                case View():
                    whole = self.value(instr.src, instr.topology)
                    shape = instr.type.shape(self.sizes)
                    if whole.size != np.prod(shape, dtype=int):
                        raise NonsenseError(f"%{instr.dst} has other elements")
                    self.define(instr.dst, whole.reshape(shape), instr.type, instr.topology)
                case Loop():
                    self.loop(instr)
                case _:
                    self.queued(instr)

    def queued(self, instr: Queued) -> None:
        if not self.issued.issuperset(instr.after):
            raise NonsenseError(f"%{instr.name} waits for what does not come before it")
        self.issued.add(instr.name)
        match instr:
            case Upload():
                self.define(instr.dst, self.on_host(instr.src), instr.type, instr.topology)
            case Download():
                self.host[instr.dst] = self.typed(self.value(instr.src, instr.topology), instr.type)
            case TransferPeer():
                moved = self.typed(self.value(instr.src, instr.topology), instr.type)
                self.define(instr.dst, moved, instr.type, instr.dst_topology)
            case Dispatch():
                operands = [self.value(v, instr.topology) for v in instr.inputs]
                with np.errstate(all="ignore"):
                    made = instr.op.reference(self.sizes, *operands)
                for value, array, type in zip(instr.outputs, made, instr.types, strict=True):
                    self.define(value, array, type, instr.topology)

    def loop(self, loop: Loop) -> None:
        outside_host, outside_issued = dict(self.host), set(self.issued)
        outside = dict(self.device)
        limit = loop.max_steps if loop.limit is None else min(loop.max_steps, int(self.on_host(loop.limit)))
        carried = [self.value(c.init) for c in loop.carried]
        steps, stopped = 0, False
        while steps < limit and not stopped:
            self.device, self.host, self.issued = dict(outside), dict(outside_host), set(outside_issued)
            for c, array in zip(loop.carried, carried, strict=True):
                self.define(c.arg, array, *self._slot(c.arg))
            self.block(loop.body)
            carried = [self.value(c.next) for c in loop.carried]
            steps += 1
            stopped = loop.stop is not None and bool(self.on_host(loop.stop))
        self.device, self.host, self.issued = outside, outside_host, outside_issued
        for c, array in zip(loop.carried, carried, strict=True):
            self.define(c.out, array, *self._slot(c.out))
        self.host[loop.steps] = np.array(steps, np.int32)

    def on_host(self, name: str) -> Array:
        if name not in self.host:
            raise NonsenseError(f"%{name} is not on the host")
        return self.host[name]

    def value(self, name: str, topology: Topology | None = None) -> Array:
        if name not in self.device or topology not in (None, self._slot(name)[1]):
            raise NonsenseError(f"%{name} is not on {topology}")
        return self.device[name]

    def define(self, name: str, array: Array, type: TensorType, topology: Topology) -> None:
        if (type, topology) != self._slot(name):
            raise NonsenseError(f"%{name} has another slot")
        self.device[name] = self.typed(array, type)

    def typed(self, array: Array, type: TensorType) -> Array:
        if (array.shape, array.dtype) != (type.shape(self.sizes), type.dtype.numpy):
            raise NonsenseError(f"{array.dtype}{array.shape} is no {type}")
        return array

    def _slot(self, name: str) -> tuple[TensorType, Topology]:
        if name not in self.program.slot_of:
            raise NonsenseError(f"%{name} has no slot")
        slot = self.program.slot_of[name]
        return slot.type, slot.topology
