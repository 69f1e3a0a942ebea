"""The matrix products and the embedding, against weights as they lie: [K, N], or [N, K] with transpose_b."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes, TensorType, f32
from vxgraph.ops import Embed, MatMul, QuantizedMatMul
from vxgraph.ops.nn import check_ids
from vxgraph.runtime.backends.numpy.run import SCRATCH, Run, Types, widened

_CACHED = 1 << 18  # elements of f32 (1 MB) that a core's cache holds


def _matmul(op: MatMul, ins: Types, outs: Types) -> Run:
    weight = ins[1].dtype
    halves = weight.kind == "float" and weight.itemsize < 4
    if op.transpose_b and ins[1].rank == 2 and _one_row(ins[0]) and not (halves and ins[0].dtype is not f32):
        return _row_by_narrow if halves else _row_by_weight
    multiply = _in_blocks if halves else _matrices
    if op.transpose_b:
        return lambda ins, outs, sizes: multiply(ins[0], ins[1].swapaxes(-1, -2), outs[0])
    return lambda ins, outs, sizes: multiply(ins[0], ins[1], outs[0])


def _quantized(op: QuantizedMatMul, ins: Types, outs: Types) -> Run:
    multiply = _row_by_narrow if _one_row(ins[0]) else _rows_by_narrow

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        multiply(ins, outs, sizes)
        np.multiply(outs[0], ins[2], out=outs[0])  # K times fewer than the weight's elements

    return run


def _one_row(a: TensorType) -> bool:
    return not a.symbols and all(size == 1 for size in a.shape()[:-1])


def _row_by_weight(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
    """One row and a weight [N, K]: a matrix-vector product, quicker weight first than NumPy's way from the row."""
    np.dot(ins[1], ins[0].ravel(), out=outs[0].reshape(-1))  # half a microsecond less than matmul to begin


def _row_by_narrow(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
    """The same, of a weight in fewer bytes than f32: widened a few rows at a time, which stay in the cache."""
    row, weight, out = ins[0].ravel(), ins[1], outs[0].reshape(-1)
    step = max(1, _CACHED // max(1, weight.shape[1]))
    for start in range(0, len(weight), step):
        np.dot(widened(weight[start : start + step]), row, out=out[start : start + step])


def _rows_by_narrow(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
    _in_blocks(ins[0], ins[1].T, outs[0])


def _matrices(a: Array, b: Array, out: Array) -> None:
    np.matmul(a, b, out=out)


def _in_blocks(a: Array, b: Array, out: Array) -> None:
    """The right side is widened to f32 a block of columns at a time, never as a whole."""
    wide = widened(a)
    columns = b.shape[-1]
    step = max(1, SCRATCH // 4 // max(1, b.size // max(1, columns)))
    for start in range(0, columns, step):
        out[..., start : start + step] = np.matmul(wide, widened(b[..., start : start + step]))


def _embed(op: Embed, ins: Types, outs: Types) -> Run:
    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        table, ids = ins
        check_ids(ids, len(table))
        np.take(table, ids, axis=0, out=outs[0], mode="clip")  # "raise" would fill a copy of the result first

    return run


COMPILERS = {Embed: _embed, MatMul: _matmul, QuantizedMatMul: _quantized}
