"""Rotary position embedding.

%rope = rope(%q, %positions) {theta = 10000.0, interleaved = true} : bf16[T, Head, 64]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import GraphError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, Sizes, TensorType
from vxgraph.ops.numerics import narrow, widen
from vxgraph.ops.rules import FLOATS, INTS, fixed, met, want_kind, want_rank


@register
@dataclass(frozen=True)
class Rope(Op):
    """(x [T, Head, D], positions integer [T]) -> x with each pair turned by position * frequency (Su et al., 2021).

    Pairs are (2i, 2i+1) when interleaved (Meta's layout), else (i, i + D/2) (Hugging Face's). `scaling` is Llama 3's
    (factor, low_freq_factor, high_freq_factor, original_max_len). Angles are float64, cos and sin f32, the rotation
    f32, whatever x's dtype: bf16 does not even hold 257.
    """

    name: ClassVar[str] = "rope"
    theta: float
    interleaved: bool
    scaling: tuple[float, float, float, int] | None = None

    def __post_init__(self) -> None:
        if not self.theta > 0:
            raise GraphError(f"theta is above 0, found {self.theta}")
        if self.scaling is not None and (len(self.scaling) != 4 or not 0 < self.scaling[1] < self.scaling[2]):
            wanted = "(factor, low_freq_factor, high_freq_factor, original_max_len) with low below high"
            raise GraphError(f"scaling is {wanted}, found {self.scaling}")

    def infer(self, x: TensorType, positions: TensorType) -> tuple[TensorType]:
        """x's type, with T's name if either has it."""
        want_kind(x, FLOATS, "x")
        want_kind(positions, INTS, "positions")
        want_rank(x, 3, "x", "[T, Head, D]")
        want_rank(positions, 1, "positions", "[T]")
        t = met(x, positions, 0, "x", "positions")
        if fixed(x.dims[2], "D") % 2:
            raise GraphError(f"{x} has an odd head size {fixed(x.dims[2], 'D')}; pairs need an even one")
        return (x.with_dims((t, *x.dims[1:])),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Three operations per element: each pair takes four products and two sums."""
        elements = outs[0].max_bytes / outs[0].dtype.itemsize
        return Cost(3 * elements, float(sum(t.max_bytes for t in (*ins, *outs))))

    def reference(self, sizes: Sizes, x: Array, positions: Array) -> tuple[Array]:
        """Float64 angles, then `rotate`."""
        return (rotate(self, x, *rotary_tables(self, positions, x.shape[2])),)


def rotate(op: Rope, x: Array, cos: Array, sin: Array) -> Array:
    """x [T, Head, D] with pair i of row t turned by the angle whose cos and sin stand at f32[T, D/2], in x's dtype."""
    first, second = pairs(op, x.shape[2])
    a, b = widen(x[..., first]), widen(x[..., second])
    cos, sin = cos[:, None, :], sin[:, None, :]
    out = np.empty(x.shape, a.dtype)
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return narrow(out, x)


def pairs(op: Rope, head_dim: int) -> tuple[slice, slice]:
    """Where the first and the second element of each pair stand in a head."""
    if op.interleaved:
        return slice(0, None, 2), slice(1, None, 2)
    return slice(0, head_dim // 2), slice(head_dim // 2, None)


def rotary_tables(op: Rope, positions: Array, head_dim: int) -> tuple[Array, Array]:
    """cos and sin of every angle, f32[T, D/2], from float64 angles."""
    angles = np.outer(positions.astype(np.float64), inverse_frequencies(op, head_dim))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def inverse_frequencies(op: Rope, head_dim: int) -> Array:
    """Radians per position of each pair, float64 [D/2]: theta^(-2i/D), slowed as Llama 3.1 does by `scaling`.

    Pairs that turn more than high_freq_factor times within original_max_len keep their frequency, those that turn less
    than low_freq_factor times are divided by factor, those between are blended.
    """
    plain = op.theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if op.scaling is None:
        return plain
    factor, low, high, length = op.scaling
    turns = length * plain / (2 * math.pi)
    keep = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return keep * plain + (1 - keep) * plain / factor
