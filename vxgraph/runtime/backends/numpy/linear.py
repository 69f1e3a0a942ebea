"""The matrix product and the embedding, against weights as they lie: [K, N], or [N, K] with transpose_b."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import Embed, MatMul
from vxgraph.ops.nn import check_ids
from vxgraph.runtime.backends.numpy.run import SCRATCH, Run, Types, widened


def _matmul(op: MatMul, ins: Types, outs: Types) -> Run:
    dtype = outs[0].dtype
    halves = dtype.kind == "float" and dtype.itemsize < 4
    multiply = _in_blocks if halves else _matrices
    if op.transpose_b and ins[1].rank == 2 and not halves:
        multiply = _rows_or_matrices

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        a, b = ins
        with np.errstate(all="ignore"):
            multiply(a, b.swapaxes(-1, -2) if op.transpose_b else b, outs[0])

    return run


def _matrices(a: Array, b: Array, out: Array) -> None:
    np.matmul(a, b, out=out)


def _rows_or_matrices(a: Array, b: Array, out: Array) -> None:
    # A single row takes the matrix-vector product, weight first: NumPy's way from the row's side is slower.
    if out.size == out.shape[-1] and a.size == a.shape[-1]:
        np.matmul(b.T, a.ravel(), out=out.reshape(-1))
    else:
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
