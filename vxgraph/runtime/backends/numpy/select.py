"""Choosing an index: argmax, and the next token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import ArgMax, Sample
from vxgraph.ops.nn import softmax
from vxgraph.ops.reduce import check_not_empty
from vxgraph.ops.sample import uniform
from vxgraph.runtime.backends.numpy.run import Run, Types, all_f32

_LIKELIEST = 256  # ids that are sorted first; a nucleus is rarely larger


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
        logits, temperature = ins[0], float(ins[1])
        check_not_empty(len(logits), 0)
        if temperature <= 0:
            outs[0][...] = np.argmax(logits)
            return
        probabilities = softmax(logits.astype(np.float64) / temperature, 0)
        outs[0][...] = _draw(probabilities, float(ins[2]), uniform(int(ins[3]), int(ins[4])))

    return run


def _draw(probabilities: Array, top_p: float, u: float) -> int:
    """The id that `Sample` defines, sorting only the likeliest ids where those hold the nucleus."""
    ids, sums = _sorted_sums(probabilities, _at_least(probabilities, _LIKELIEST))
    if not (len(ids) and sums[-1] >= top_p):
        ids, sums = _sorted_sums(probabilities, np.arange(len(probabilities)))
    size = min(int(np.searchsorted(sums, top_p)) + 1, len(sums))
    drawn = int(np.searchsorted(sums[:size], u * float(sums[size - 1]), side="right"))
    return int(ids[min(drawn, size - 1)])


def _at_least(probabilities: Array, count: int) -> Array:
    """The ids, in order, of the `count` largest probabilities and of all that equal the last of them."""
    if len(probabilities) <= count:
        return np.arange(len(probabilities))
    least = np.partition(probabilities, len(probabilities) - count)[len(probabilities) - count]
    return np.flatnonzero(probabilities >= least)


def _sorted_sums(probabilities: Array, ids: Array) -> tuple[Array, Array]:
    """Ids by falling probability, lower ids first among equals, and the running sums."""
    found = probabilities[ids]
    order = np.argsort(-found, kind="stable")
    return ids[order], np.cumsum(found[order])


COMPILERS = {ArgMax: _argmax, Sample: _sample}
