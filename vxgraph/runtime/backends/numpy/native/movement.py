"""Copies of bytes that lie together: whole tensors, and leading rows."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int64, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array
from vxgraph.ops import Copy, Slice
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.run import Types

_PIECE = 1 << 16  # bytes in a unit


class Copied(Structure):
    """c/kernels.h: Copy."""

    _fields_ = (("from", c_void_p), ("to", c_void_p), ("nbytes", c_int64))


def copied(source: Array, into: Array) -> Sequence[Call]:
    """The bytes of `source`, dense, to where `into` begins."""
    args = Copied(address(source), address(into), source.nbytes)
    return [Call("copy", args, -(-source.nbytes // _PIECE))]


def _copy(op: Op, ins: Types, outs: Types) -> Binder | None:
    return lambda ins, outs, sizes: copied(ins[0], outs[0])


def _slice(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, Slice)
    if op.axis % ins[0].rank or op.span.step not in (None, 1):
        return None
    span = op.span
    return lambda ins, outs, sizes: copied(ins[0][span], outs[0])


COMPILERS: dict[type[Op], Compiler] = {Copy: _copy, Slice: _slice}
