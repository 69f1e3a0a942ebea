"""Grouped-query attention: one query row by heads, more of them by tiles; scores for a block of keys at a time."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_float, c_int32, c_int64, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import Attention
from vxgraph.ops.attention import score_scale
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.native.types import CODES, few
from vxgraph.runtime.backends.numpy.run import Types

DEEPEST = 256  # elements of a key, and of a value: c/attention.c has its blocks on the stack
_ROWS = 48  # query rows in a unit of a prompt
_MOST_HEADS = 8  # in a unit of one query row
_KEY_HEADS = 8  # that are enough units for the threads by themselves


class Attended(Structure):
    """c/kernels.h: Attention."""

    _fields_ = (
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("out", c_void_p),
        ("valid", c_void_p),
        ("queries", c_int64),
        ("keys", c_int64),
        ("heads", c_int64),
        ("kv", c_int64),
        ("depth", c_int64),
        ("width", c_int64),
        ("scale", c_float),
        ("type", c_int32),
        ("causal", c_int32),
        ("step", c_int32),
    )


def _attention(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, Attention)
    depth, width = ins[1].shape()[2], ins[2].shape()[2]
    if max(depth, width) > DEEPEST or not outs[0].shape()[1] or not few(ins[0].dims[:2]):
        return None
    scale, code, causal = score_scale(op, depth), CODES[ins[0].dtype], op.causal

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        q, k, v = ins[:3]
        queries, heads, _ = q.shape
        keys, kv, _ = k.shape
        group = heads // kv
        step = _heads_together(kv, group)
        valid = address(ins[3]) if len(ins) == 4 else None
        places = (address(q), address(k), address(v), address(outs[0]), valid)
        args = Attended(*places, queries, keys, heads, kv, depth, width, scale, code, causal, step)
        if queries == 1:
            return [Call("attend_row", args, heads // step)]
        # At least one unit: what checks the length where there is no row to compute.
        return [Call("attend_rows", args, max(1, kv * -(-queries * group // _ROWS)))]

    return bind


def _heads_together(kv: int, group: int) -> int:
    """Query heads of a group that one thread takes at once: all, unless that makes too few units."""
    if kv < _KEY_HEADS:
        return 1
    return max(n for n in range(1, _MOST_HEADS + 1) if group % n == 0)


COMPILERS: dict[type[Op], Compiler] = {Attention: _attention}
