"""RMS normalisation and softmax in f32, in place in the result; halves go through the reference."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import RmsNorm, Softmax
from vxgraph.runtime.backends.numpy.run import Run, Types, all_f32


def _rmsnorm(op: RmsNorm, ins: Types, outs: Types) -> Run | None:
    if not all_f32(ins):
        return None
    eps = op.eps

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        x, weight = ins
        if not x.size:
            return
        np.divide(x, _root_mean_square(x, eps), out=outs[0])
        np.multiply(outs[0], weight, out=outs[0])

    return run


def _root_mean_square(x: Array, eps: float) -> Array | np.float32:
    """sqrt(mean(x^2) + eps) of each row, f32 [..., 1]; a lone row gives a scalar, which is quicker."""
    width = x.shape[-1]
    if x.size == width:
        row = x.reshape(-1)
        return np.float32(sqrt(float(np.dot(row, row)) / width + eps))
    squares = np.vecdot(x, x)
    squares /= np.float32(width)
    squares += np.float32(eps)
    return np.sqrt(squares, out=squares)[..., None]


def _softmax(op: Softmax, ins: Types, outs: Types) -> Run | None:
    if not all_f32(ins):
        return None
    axis = op.axis

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        x, out = ins[0], outs[0]
        np.subtract(x, np.max(x, axis=axis, keepdims=True, initial=-np.inf), out=out)
        np.exp(out, out=out)
        np.divide(out, np.sum(out, axis=axis, keepdims=True), out=out)

    return run


COMPILERS = {RmsNorm: _rmsnorm, Softmax: _softmax}
