"""What the conformance suite stands on: a backend with three topologies open, and short words for what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, DType, TensorType, dtype_of
from vxgraph.program.model import Program
from vxgraph.runtime.abi import Backend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session
from vxgraph.topology.ids import GPU, Topology

PLACES = (GPU[0], GPU[1], GPU[2])


@dataclass
class Bed:
    """A backend under test."""

    backend: Backend
    targets: dict[Topology, str]
    used: Callable[[Topology], int] | None = None  # bytes allocated on a topology's device, as that itself counts them

    def want_two_devices(self) -> tuple[Topology, Topology]:
        """Two topologies with memory apart; skips where all share one device."""
        apart = [(a, b) for a in PLACES for b in PLACES if self.apart(a, b)]
        if not apart:
            pytest.skip(f"the topologies of this bed share one device, {self.targets[PLACES[0]]}")
        return apart[0]

    def apart(self, a: Topology, b: Topology) -> bool:
        """Whether two topologies are on different devices; NumPy's and the sanitizer's always are."""
        isolated = self.targets[a].startswith(("numpy", "sanitizer"))
        return a != b and (self.targets[a] != self.targets[b] or isolated)

    def binding(self, program: Program) -> Binding:
        """A program's topologies on this bed's; the bed itself must not be open."""
        return Binding({t: (self.backend, self.targets[t]) for t in program.topologies})

    def session(self, program: Program, params: Mapping[str, Any] | None = None, **keywords: Any) -> Session:
        """A session on this bed; the bed itself must not be open."""
        return Session(program, params, self.binding(program), **keywords)

    def open(self) -> dict[Topology, str]:
        """Opens every topology; the devices' names."""
        return {t: self.backend.open(t, target) for t, target in self.targets.items()}

    def touch(self, place: Topology) -> None:
        """Makes `place` the one used last, as another thread or an earlier instruction would."""
        self.put(np.zeros(1, np.float32), place)

    def empty(self, dtype: DType, shape: tuple[int, ...], place: Topology, offset: int = 0) -> Any:
        """A tensor in a buffer of its own."""
        nbytes = TensorType(dtype, shape).nbytes()
        buffer = self.backend.alloc(offset + nbytes + 8, place)
        return self.backend.tensor(buffer, offset, dtype, shape, place)

    def put(self, array: Array, place: Topology, offset: int = 0) -> Any:
        """A tensor that holds the array."""
        tensor = self.empty(dtype_of(array), array.shape, place, offset)
        self.backend.wait(self.backend.upload(array, tensor, place))
        return tensor

    def get(self, tensor: Any, like: Array, place: Topology) -> Array:
        """The tensor's contents, of the type of `like`."""
        out = np.zeros(like.shape, like.dtype)
        self.backend.wait(self.backend.download(tensor, place, out=out))
        return out

    def send(self, tensor: Any, like: Array, src: Topology, dst: Topology) -> tuple[Any, Any]:
        """A copy on another topology, and the event of the transfer."""
        into = self.empty(dtype_of(like), like.shape, dst)
        event = self.backend.transfer_peer(tensor, src, dst, like.nbytes, into=into)
        self.backend.wait(event)
        return into, event

    def apply(self, op: Op, operands: list[Any], types: tuple[TensorType, ...], place: Topology) -> tuple[Any, Any]:
        """One dispatch: its result and its event."""
        (out,) = op.infer(*types)
        result = self.empty(out.dtype, out.shape(), place)
        kernel = self.backend.kernel(op, types, (out,), place)
        with self.backend.scope():
            event = self.backend.dispatch(kernel, operands, [result], place, sizes={})
        self.backend.wait(event)
        return result, event
