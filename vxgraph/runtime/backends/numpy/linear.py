"""The matrix product and the embedding, against weights as they lie: [K, N], or [N, K] with transpose_b."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes, TensorType
from vxgraph.ops import Embed, MatMul
from vxgraph.ops.nn import check_ids
from vxgraph.runtime.backends.numpy.run import SCRATCH, Run, Types, widened


def _matmul(op: MatMul, ins: Types, outs: Types) -> Run:
    dtype = outs[0].dtype
    multiply = _in_blocks if dtype.kind == "float" and dtype.itemsize < 4 else _matrices
    if not op.transpose_b:
        return lambda ins, outs, sizes: multiply(ins[0], ins[1], outs[0])
    if multiply is _matrices and _one_row(ins[0]) and ins[1].rank == 2:
        return _row_by_weight
    return lambda ins, outs, sizes: multiply(ins[0], ins[1].swapaxes(-1, -2), outs[0])


def _one_row(a: TensorType) -> bool:
    return not a.symbols and all(size == 1 for size in a.shape()[:-1])


def _row_by_weight(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
    """One row and a weight [N, K]: a matrix-vector product, quicker weight first than NumPy's way from the row."""
    np.dot(ins[1], ins[0].ravel(), out=outs[0].reshape(-1))  # half a microsecond less than matmul to begin


def _matrices(a: Array, b: Array, out: Array) -> None:
    np.matmul(a, b, out=out)


def _in_blocks(a: Array, b: Array, out: Array) -> None:
    """Halves: the right side is widened to f32 a block of columns at a time, never as a whole."""
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


COMPILERS = {Embed: _embed, MatMul: _matmul}
