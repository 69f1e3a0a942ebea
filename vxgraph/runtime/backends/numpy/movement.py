"""Kernels that move elements and compute nothing: any dtype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import Concat, Constant, Copy, Slice, Transpose
from vxgraph.runtime.backends.numpy.run import Run, Types


def _copy(op: Copy, ins: Types, outs: Types) -> Run:
    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        np.copyto(outs[0], ins[0])

    return run


def _transpose(op: Transpose, ins: Types, outs: Types) -> Run:
    perm = op.perm

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        np.copyto(outs[0], ins[0].transpose(perm))

    return run


def _slice(op: Slice, ins: Types, outs: Types) -> Run:
    index = (*(slice(None),) * (op.axis % ins[0].rank), op.span)

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        np.copyto(outs[0], ins[0][index])

    return run


def _concat(op: Concat, ins: Types, outs: Types) -> Run:
    axis = op.axis

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        np.concatenate(ins, axis=axis, out=outs[0])

    return run


def _constant(op: Constant, ins: Types, outs: Types) -> Run:
    (value,) = op.reference({})  # once: the values are a Python tuple

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        np.copyto(outs[0], value)

    return run


COMPILERS = {Concat: _concat, Constant: _constant, Copy: _copy, Slice: _slice, Transpose: _transpose}
