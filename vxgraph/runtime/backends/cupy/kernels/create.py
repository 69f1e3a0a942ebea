"""Values from nothing. A constant of one value is an argument of its launch, others stand in the source."""

from __future__ import annotations

import math

import numpy as np

from vxgraph.ir.types import DType, size_in
from vxgraph.ops import Constant, Iota, Size
from vxgraph.runtime.backends.cupy.kernels.launch import RESULT, Bound, Planner, Steps, Types, flat
from vxgraph.runtime.backends.cupy.kernels.source import c_type, raw_type, render, using


def fill(dtype: DType, count: int, bits: int) -> Steps:
    """`count` elements of one value of result 0."""
    if count == 0:
        return ()
    source = render("fill", using(T=raw_type(dtype)))
    return (flat(source, "vx_fill", count, RESULT, np.int64(count), np.uint64(bits)),)


def _constant(op: Constant, ins: Types, outs: Types) -> Planner:
    (value,) = op.reference({})
    bits: list[int] = np.atleast_1d(value).reshape(-1).view(f"u{op.type.dtype.itemsize}").tolist()

    def steps(bound: Bound) -> Steps:
        if len(set(bits)) <= 1:
            return fill(op.type.dtype, len(bits), bits[0] if bits else 0)
        values = f"__device__ const T VALUES[] = {{{', '.join(f'{b}u' if b < 2**32 else f'{b}ull' for b in bits)}}};\n"
        source = render("constant", using(T=raw_type(op.type.dtype)), values)
        return (flat(source, "vx_constant", len(bits), RESULT, np.int64(len(bits))),)

    return Planner(op, steps)


def _iota(op: Iota, ins: Types, outs: Types) -> Planner:
    def steps(bound: Bound) -> Steps:
        count = math.prod(bound.outs[0])
        if count == 0:
            return ()
        return (flat(render("iota", using(T=c_type(op.dtype))), "vx_iota", count, RESULT, np.int64(count)),)

    return Planner(op, steps)


def _size(op: Size, ins: Types, outs: Types) -> Planner:
    return Planner(op, lambda bound: fill(outs[0].dtype, 1, size_in(op.dim, bound.sizes)))


PLANNERS = {Constant: _constant, Iota: _iota, Size: _size}
