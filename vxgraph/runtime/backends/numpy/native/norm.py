"""RMS normalisation, a row at a time, summed and scaled in f32."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_float, c_int32, c_int64, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes, f32
from vxgraph.ops import RmsNorm
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.native.types import CODES, few
from vxgraph.runtime.backends.numpy.run import Types

WIDEST = 16384  # elements of a row of halves: c/rows.c widens it on its stack
_TAKEN = 4096  # elements that a thread takes at once


class Norm(Structure):
    """c/kernels.h."""

    _fields_ = (
        ("x", c_void_p),
        ("gain", c_void_p),
        ("y", c_void_p),
        ("k", c_int64),
        ("eps", c_float),
        ("type", c_int32),
    )


def _rmsnorm(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, RmsNorm)
    dtype = ins[0].dtype
    if not few(ins[0].dims[:-1]) or (dtype is not f32 and ins[0].shape()[-1] > WIDEST):
        return None
    eps, code = op.eps, CODES[dtype]

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        x, gain = ins
        if not x.size:
            return []
        width = x.shape[-1]
        args = Norm(address(x), address(gain), address(outs[0]), width, eps, code)
        return [Call("norm_rows", args, x.size // width, grain=max(0, (_TAKEN // width).bit_length() - 1))]

    return bind


COMPILERS: dict[type[Op], Compiler] = {RmsNorm: _rmsnorm}
