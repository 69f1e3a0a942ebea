"""Choosing the next token, reproducibly on any backend.

%sample = sample(%logits, %temperature, %top_p, %seed, %position) : i32[]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, Sizes, TensorType, f32, i32, i64
from vxgraph.ops.nn import softmax
from vxgraph.ops.reduce import check_not_empty, want_elements
from vxgraph.ops.rules import FLOATS, want_kind, want_rank, want_scalar

_MASK = 2**64 - 1
_SEED_STEP = (
    0xD1342543DE82EF95  # odd, so that seeds stay apart; of spectrally good multipliers (Steele and Vigna, 2021)
)


@register
@dataclass(frozen=True)
class Sample(Op):
    """(logits float [V], temperature f32[], top_p f32[], seed i64[], position i32[]) -> i32[]: a token id.

    temperature <= 0 takes the first of the largest logits. Otherwise, in float64: softmax(logits / temperature); ids
    sorted by falling probability, lower ids first among equals; the nucleus is the shortest prefix whose probabilities
    add up to top_p (Holtzman et al., 2019; at least one id; all of them where rounding leaves the sum below top_p);
    the id is the first whose running sum exceeds `uniform(seed, position)` times the nucleus' sum.
    """

    name: ClassVar[str] = "sample"

    def infer(
        self, logits: TensorType, temperature: TensorType, top_p: TensorType, seed: TensorType, position: TensorType
    ) -> tuple[TensorType]:
        """A scalar id."""
        want_kind(logits, FLOATS, "logits")
        want_rank(logits, 1, "logits", "[V]")
        want_elements(logits, 0)
        want_scalar(temperature, f32, "temperature")
        want_scalar(top_p, f32, "top_p")
        want_scalar(seed, i64, "seed")
        want_scalar(position, i32, "position")
        return (TensorType(i32, ()),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Softmax, sort and running sum: some ten operations per logit."""
        return Cost(10.0 * ins[0].max_bytes / ins[0].dtype.itemsize, float(sum(t.max_bytes for t in (*ins, *outs))))

    def reference(
        self, sizes: Sizes, logits: Array, temperature: Array, top_p: Array, seed: Array, position: Array
    ) -> tuple[Array]:
        """The rule above."""
        check_not_empty(len(logits), 0)
        wide = logits.astype(np.float64)
        if float(temperature) <= 0:
            return (np.array(np.argmax(wide), dtype=np.int32),)
        chosen = _from_nucleus(softmax(wide / float(temperature), 0), float(top_p), uniform(int(seed), int(position)))
        return (np.array(chosen, dtype=np.int32),)


def _from_nucleus(probabilities: Array, top_p: float, u: float) -> int:
    order = np.argsort(-probabilities, kind="stable")
    sums = np.cumsum(probabilities[order])
    size = min(int(np.searchsorted(sums, top_p)) + 1, len(sums))
    drawn = int(np.searchsorted(sums[:size], u * float(sums[size - 1]), side="right"))
    return int(order[min(drawn, size - 1)])


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on seed and position only: the top 53 bits of splitmix64, over 2^53."""
    return (splitmix64(seed * _SEED_STEP + position) >> 11) / 2**53


def splitmix64(x: int) -> int:
    """The output of splitmix64 at state x, modulo 2^64 throughout (Steele, Lea and Flood, 2014)."""
    z = (x + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
