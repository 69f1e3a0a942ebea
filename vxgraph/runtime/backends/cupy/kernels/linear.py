"""The matrix product and the embedding.

One row by a weight [N, K] is a matrix-vector product: bound by reading the weight, and done
by a kernel that does little else. Everything else of floats is cuBLAS, of integers a plain kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from vxgraph.ir.types import DType
from vxgraph.ops import Embed, MatMul
from vxgraph.runtime.backends.cupy.kernels.create import fill
from vxgraph.runtime.backends.cupy.kernels.launch import (
    FAULT,
    RESULT,
    Bound,
    Gemm,
    Launch,
    Planner,
    Shape,
    Step,
    Steps,
    Types,
    flat,
    no_kernel,
    operand,
)
from vxgraph.runtime.backends.cupy.kernels.source import c_type, constants, raw_type, render, using
from vxgraph.runtime.backends.cupy.kernels.views import collapsed, stretched

_MANY_ROWS = 8192  # from here on there are enough warps for each to take two rows, which share what they read of x
_WARPS = 4  # of a block


def _matmul(op: MatMul, ins: Types, outs: Types) -> Planner:
    dtype = outs[0].dtype
    if ins[1].dtype is not dtype:
        raise no_kernel(op, ins, outs)
    run: Callable[[Gemm], Step] = _integer_product if dtype.kind == "int" else lambda gemm: gemm

    def steps(bound: Bound) -> Steps:
        a, b = bound.ins
        inner = a[-1]
        if math.prod(bound.outs[0]) == 0 or inner == 0:
            return fill(dtype, math.prod(bound.outs[0]), 0)
        if dtype.kind == "float" and op.transpose_b and math.prod(a[:-1]) == math.prod(b[:-2]) == 1:
            return (_gemv(dtype, rows=b[-2], inner=inner),)
        return tuple(map(run, _products(op, dtype, a, b)))

    return Planner(op, steps)


def _gemv(dtype: DType, *, rows: int, inner: int) -> Launch:
    """A warp per row, or per two."""
    per_warp = 2 if rows >= _MANY_ROWS else 1
    source = render("gemv", using(T=c_type(dtype)), constants(ROWS=per_warp, UNROLL=8 // per_warp))
    args = (operand(0), operand(1), RESULT, np.int32(rows), np.int32(inner))
    return flat(source, "vx_gemv", -(-rows // per_warp) * 32, *args, block=32 * _WARPS)


def _products(op: MatMul, dtype: DType, a: Shape, b: Shape) -> list[Gemm]:
    """As few strided batches as there are: one, unless leading dims stretch on both sides."""
    k, n = a[-1], b[-2] if op.transpose_b else b[-1]
    m = a[-2] if len(a) > 1 else 1
    if math.prod(b[:-2]) == 1:
        return [_gemm(op, dtype, math.prod(a[:-1]), n, k)]
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    outer, views = collapsed(lead, [stretched(a[:-2], lead), stretched(b[:-2], lead), stretched(lead, lead)])
    sizes = (m * k, k * n, m * n)  # of one matrix
    steps = [[stride * size for stride in view.strides] for view, size in zip(views, sizes, strict=True)]
    gemms: list[Gemm] = []
    for index in product(*map(range, outer[:-1])):
        offsets = [sum(i * stride for i, stride in zip(index, s, strict=False)) for s in steps]
        gemms.append(_gemm(op, dtype, m, n, k, outer[-1], [s[-1] for s in steps], offsets))
    return gemms


def _gemm(
    op: MatMul,
    dtype: DType,
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    strides: list[int] | None = None,
    offsets: list[int] | None = None,
) -> Gemm:
    return Gemm(
        operand(0),
        operand(1),
        RESULT,
        m,
        n,
        k,
        dtype,
        op.transpose_b,
        batch,
        *(strides or (0, 0, 0)),
        *(offsets or (0, 0, 0)),
    )


def _integer_product(g: Gemm) -> Launch:
    """What a Gemm says, by a kernel of our own."""
    source = render("product", using(T=c_type(g.dtype)), constants(TRANSPOSE_B=g.transpose_b))
    numbers = (g.batch, g.m, g.n, g.k, g.stride_a, g.stride_b, g.stride_c, g.offset_a, g.offset_b, g.offset_c)
    return flat(source, "vx_product", g.batch * g.m * g.n, g.a, g.b, g.c, *map(np.int64, numbers))


def _embed(op: Embed, ins: Types, outs: Types) -> Planner:
    source = render("embed", using(T=raw_type(ins[0].dtype), Id=c_type(ins[1].dtype)))

    def steps(bound: Bound) -> Steps:
        table, ids = bound.ins
        if math.prod(ids) == 0:
            return ()
        numbers = (np.int64(table[0]), np.int64(math.prod(table[1:])))
        args = (operand(0), operand(1), RESULT, *numbers, *FAULT)
        return (Launch(source, "vx_embed", (math.prod(ids), 1, 1), (128, 1, 1), args),)

    return Planner(op, steps)


PLANNERS = {Embed: _embed, MatMul: _matmul}
