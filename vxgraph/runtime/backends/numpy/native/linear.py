"""Products with weights as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_float, c_int64, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import MatMul
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.run import Types, all_f32

_TAKEN = 1 << 16  # bytes of weights that a thread takes at once


class _Matrix(Structure):
    _fields_ = (("w", c_void_p), ("scale", c_void_p), ("y", c_void_p), ("n", c_int64))


class _Gemv(Structure):
    _fields_ = (
        ("x", c_void_p),
        ("gain", c_void_p),
        ("add", c_void_p),
        ("m", _Matrix * 3),
        ("k", c_int64),
        ("eps", c_float),
    )


def _matmul(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, MatMul)
    a, b = ins
    if not op.transpose_b or not all_f32(ins) or b.rank != 2 or a.symbols or any(n != 1 for n in a.shape()[:-1]):
        return None
    return _row


def _row(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
    x, w = ins
    n, k = w.shape
    grain = max(0, (_TAKEN // max(1, 4 * w.itemsize * k)).bit_length() - 1)
    args = _Gemv(x=address(x), k=k)
    args.m[0] = _Matrix(address(w), None, address(outs[0]), n)
    return [Call("gemv_f32", args, n, streams=4, grain=grain)]


COMPILERS: dict[type[Op], Compiler] = {MatMul: _matmul}
