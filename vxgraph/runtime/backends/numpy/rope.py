"""Rotary embedding from tables of cos and sin that all kernels of one frequency share.

Interleaved pairs are complex numbers where they lie: the rotation is one complex product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import Rope
from vxgraph.ops.rope import rotary_tables
from vxgraph.runtime.backends.numpy.run import Run, Types, all_f32

_LONGEST = 1 << 17  # positions; beyond, the angles are computed on the spot


class RotaryTable:
    """cos + i sin of position * frequency, complex64 [positions, 1, D/2], doubled as later positions are asked for."""

    def __init__(self, op: Rope, head_dim: int) -> None:
        self._op = op
        self._head_dim = head_dim
        self._turns = np.empty((0, 1, head_dim // 2), np.complex64)

    def turns(self, positions: Array) -> Array:
        """One row per position, complex64 [T, 1, D/2]; positions are not empty."""
        lone = len(positions) == 1
        first, last = (positions.item(),) * 2 if lone else (int(positions.min()), int(positions.max()))
        if first < 0 or last >= _LONGEST:
            return self._at(positions)
        table = self._turns
        if last >= len(table):
            table = self._turns = self._at(np.arange(max(2 * len(table), last + 1, 256)))
        return table[first : first + 1] if lone else table[positions]

    def _at(self, positions: Array) -> Array:
        cos, sin = rotary_tables(self._op, positions, self._head_dim)
        turns = np.empty(cos.shape, np.complex64)
        turns.real, turns.imag = cos, sin
        return turns[:, None, :]


@lru_cache(maxsize=16)
def _table(theta: float, scaling: tuple[float, float, float, int] | None, head_dim: int) -> RotaryTable:
    return RotaryTable(Rope(theta, True, scaling), head_dim)


def _rope(op: Rope, ins: Types, outs: Types) -> Run | None:
    head_dim = ins[0].shape()[2]
    if not all_f32(ins[:1]) or not head_dim:
        return None
    table = _table(op.theta, op.scaling, head_dim)
    rotate: Callable[[Array, Array, Array], None] = _interleaved if op.interleaved else _half_split

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        x, positions = ins
        if not x.size:
            return
        rotate(x, table.turns(positions), outs[0])

    return run


def _interleaved(x: Array, turns: Array, out: Array) -> None:
    np.multiply(x.view(np.complex64), turns, out=out.view(np.complex64))


def _half_split(x: Array, turns: Array, out: Array) -> None:
    half = x.shape[2] // 2
    a, b = x[..., :half], x[..., half:]
    first, second = out[..., :half], out[..., half:]
    cos, sin = np.real(turns), np.imag(turns)
    np.multiply(a, cos, out=first)
    np.subtract(first, b * sin, out=first)
    np.multiply(a, sin, out=second)
    np.add(second, b * cos, out=second)


COMPILERS = {Rope: _rope}
