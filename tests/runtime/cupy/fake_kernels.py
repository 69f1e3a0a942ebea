"""Launch plans for devices that are not there: a kernel's source is its op, and running it is the op's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from vxgraph.errors import RunError
from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import CacheAppend, Embed, MatMul
from vxgraph.runtime.backends.cupy.kernels import FAULT, Code, Gemm, Launch, Planner, plan
from vxgraph.runtime.backends.cupy.kernels.launch import Bound, Steps, Types

Reader = Callable[[int, int], Array]  # address, bytes -> the bytes


@dataclass(frozen=True)
class Spec:
    """A kernel: what its op is given and gives."""

    op: Op
    ins: Types
    outs: Types
    in_shapes: tuple[tuple[int, ...], ...]
    out_shapes: tuple[tuple[int, ...], ...]
    sizes: Sizes

    def nbytes(self, k: int) -> int:
        """Of operand or result k, operands first."""
        types, shapes = (*self.ins, *self.outs), (*self.in_shapes, *self.out_shapes)
        return int(np.prod(shapes[k], dtype=np.int64)) * types[k].dtype.itemsize

    def run(self, addresses: Sequence[int], error: int, site: int, read: Reader) -> None:
        """The reference on the bytes at the addresses; a refusal goes to the fault record."""
        types, shapes = (*self.ins, *self.outs), (*self.in_shapes, *self.out_shapes)
        arrays = [
            read(a, self.nbytes(k)).view(types[k].dtype.numpy).reshape(shapes[k]) for k, a in enumerate(addresses)
        ]
        operands, results = arrays[: len(self.ins)], arrays[len(self.ins) :]
        try:
            with np.errstate(all="ignore"):  # a device has no such thing
                found = self.op.reference(self.sizes, *operands)
        except RunError:
            record = read(error, 40).view(np.int64)
            if not record[0]:
                record[:] = _fault_words(self.op, operands, site)
            return
        for result, value in zip(results, found, strict=True):
            result[...] = value


def _fault_words(op: Op, operands: Sequence[Array], site: int) -> tuple[int, ...]:
    match op:
        case CacheAppend():
            cache, rows, at = operands
            return Code.CACHE_APPEND, site, int(at), len(rows), len(cache)
        case Embed():
            table, ids = operands
            wrong = ids[(ids < 0) | (ids >= len(table))]
            return Code.EMBED_ID, site, int(wrong.flat[0]), len(table), 0
        case _:
            raise AssertionError(f"no fault of {op.name} is known")


SPECS: dict[str, Spec] = {}  # by source


def fake_plan(op: Op, ins: Types, outs: Types) -> Planner:
    """One launch of the reference; plain matrix products go to the library. Refuses what the real plan refuses."""
    plan(op, ins, outs)
    return Planner(op, partial(_steps, op, ins, outs))


def _steps(op: Op, ins: Types, outs: Types, b: Bound) -> Steps:
    shapes = tuple(map(tuple, b.ins)), tuple(map(tuple, b.outs))
    if isinstance(op, MatMul) and ins[0].dtype.kind == "float" and all(len(s) == 2 and all(s) for s in b.ins):
        (m, k), n = shapes[0][0], shapes[1][0][1]
        return (Gemm(("in", 0), ("in", 1), ("out", 0), m, n, k, ins[0].dtype, op.transpose_b),)
    if not any(int(np.prod(s)) for s in shapes[1]):
        return ()
    spec = Spec(op, ins, outs, *shapes, dict(b.sizes))
    source = f"{op!r} {ins} {outs} {shapes} {spec.sizes}"
    SPECS[source] = spec
    args = (*(("in", k) for k in range(len(ins))), *(("out", k) for k in range(len(outs))), *FAULT)
    return (Launch(source, "reference", (1, 1, 1), (1, 1, 1), args),)  # type: ignore[arg-type]
