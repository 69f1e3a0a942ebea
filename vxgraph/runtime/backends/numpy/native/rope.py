"""Rotary embedding from a table of cos and sin that all kernels of one frequency share.

The table has room for many positions, of which the host gives memory to those that are asked for: C fills a row when it
is first wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_void_p
from functools import cache

import numpy as np

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes, i32, i64
from vxgraph.ops import Rope
from vxgraph.ops.rope import inverse_frequencies
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.native.types import CODES, few
from vxgraph.runtime.backends.numpy.run import Types

DEEPEST = 1024  # elements of a head: c/rope.c has a row of the table on its stack
_LONGEST = 1 << 17  # positions; beyond, the angles are computed on the spot
_TAKEN = 4096  # elements that a thread takes at once


class Turned(Structure):
    """c/kernels.h: Rope."""

    _fields_ = (
        ("x", c_void_p),
        ("y", c_void_p),
        ("positions", c_void_p),
        ("frequencies", c_void_p),
        ("table", c_void_p),
        ("state", c_void_p),
        ("heads", c_int64),
        ("depth", c_int64),
        ("longest", c_int64),
        ("type", c_int32),
        ("interleaved", c_int32),
        ("wide", c_int32),
    )


@cache
def _table(theta: float, scaling: tuple[float, float, float, int] | None, depth: int) -> tuple[Array, Array, Array]:
    """Frequencies, the table and its rows' states; kept as long as the process lives, for C has their addresses."""
    frequencies = inverse_frequencies(Rope(theta, True, scaling), depth)
    # `zeros` and `empty` of this size take address space, not memory: that comes page by page as rows are written.
    return frequencies, np.empty((_LONGEST, depth), np.float32), np.zeros(_LONGEST, np.uint8)


def _rope(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, Rope)
    depth = ins[0].shape()[2]
    if ins[1].dtype not in (i32, i64) or not 0 < depth <= DEEPEST or not few(ins[0].dims[:1]):
        return None
    table = tuple(map(address, _table(op.theta, op.scaling, depth)))
    code, interleaved, wide = CODES[ins[0].dtype], op.interleaved, ins[1].dtype is i64

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        x, positions = ins
        if not x.size:
            return []
        rows, heads, _ = x.shape
        places = (address(x), address(outs[0]), address(positions))
        args = Turned(*places, *table, heads, depth, _LONGEST, code, interleaved, wide)
        return [Call("rope", args, rows, grain=max(0, (_TAKEN // (heads * depth)).bit_length() - 1))]

    return bind


COMPILERS: dict[type[Op], Compiler] = {Rope: _rope}
