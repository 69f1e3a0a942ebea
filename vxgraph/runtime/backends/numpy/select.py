"""Choosing an index: argmax, and the next token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import ArgMax, Sample
from vxgraph.ops.reduce import check_not_empty
from vxgraph.runtime.backends.numpy.run import Run, Types, all_f32


def _argmax(op: ArgMax, ins: Types, outs: Types) -> Run | None:
    if not all_f32(ins):
        return None
    axis = op.axis

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        check_not_empty(ins[0].shape[axis], axis)
        outs[0][...] = np.argmax(ins[0], axis=axis)

    return run


def _sample(op: Sample, ins: Types, outs: Types) -> Run | None:
    if not all_f32(ins[:1]):
        return None

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        logits, temperature = ins[0], ins[1]
        if len(logits) and float(temperature) <= 0:
            outs[0][...] = np.argmax(logits)
        else:
            (outs[0][...],) = op.reference(sizes, *ins)

    return run


COMPILERS = {ArgMax: _argmax, Sample: _sample}
