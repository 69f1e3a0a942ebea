"""Products with weights as they lie, [N, K] or [K, N], in f32, halves or 8 bits; and the rows of a table.

One row of x is a matrix-vector product that reads the weights once, as fast as memory gives them; more go by tiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes, f32, i32, i64
from vxgraph.ops import Embed, MatMul, QuantizedMatMul
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.native.types import CODES, few, is_float
from vxgraph.runtime.backends.numpy.run import Types

WIDEST = 16384  # elements of a row of halves: c/gemv.c widens it on its stack
_TAKEN = 1 << 16  # bytes of weights that a thread takes at once
_COLUMNS = 64  # in a unit of gemv_kn
_PANEL = 16  # columns of a tile


class Product(Structure):
    """c/kernels.h."""

    _fields_ = (
        ("x", c_void_p),
        ("w", c_void_p),
        ("scale", c_void_p),
        ("y", c_void_p),
        ("rows", c_int64),
        ("k", c_int64),
        ("n", c_int64),
        ("x_type", c_int32),
        ("w_type", c_int32),
        ("y_type", c_int32),
        ("panels", c_int32),
    )


class Taken(Structure):
    """c/kernels.h: Embed."""

    _fields_ = (
        ("table", c_void_p),
        ("ids", c_void_p),
        ("y", c_void_p),
        ("count", c_int64),
        ("rows", c_int64),
        ("row_bytes", c_int64),
        ("wide", c_int32),
    )


def _matmul(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, MatMul)
    return _product(ins, outs, transposed=op.transpose_b) if all(map(is_float, ins)) else None


def _quantized(op: Op, ins: Types, outs: Types) -> Binder | None:
    return _product(ins, outs, transposed=True)


def _product(ins: Types, outs: Types, *, transposed: bool) -> Binder | None:
    x, w = ins[:2]
    if w.rank != 2 or not few(outs[0].dims[-1:]) or (x.dtype is not f32 and x.shape()[-1] > WIDEST):
        return None
    codes = {"x_type": CODES[x.dtype], "w_type": CODES[w.dtype], "y_type": CODES[outs[0].dtype]}

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        x, w, y = ins[0], ins[1], outs[0]
        if not y.size:
            return []
        n, k = w.shape if transposed else w.shape[::-1]
        scale = address(ins[2]) if len(ins) == 3 else None
        args = Product(address(x), address(w), scale, address(y), y.size // n, k, n, panels=_panels(n), **codes)
        if y.size != n:
            return [Call("gemm_nk" if transposed else "gemm_kn", args, -(-n // (_PANEL * args.panels)))]
        if not transposed:
            return [Call("gemv_kn", args, -(-n // _COLUMNS))]
        grain = (_TAKEN // max(1, 4 * k * w.itemsize)).bit_length() - 1
        return [Call(f"gemv_{w_name}", args, n, streams=4, grain=max(0, grain))]

    w_name = w.dtype.name
    return bind


def _panels(columns: int) -> int:
    """Panels in a unit of a gemm: many, which read x less often, but units that two threads can share evenly."""
    panels = -(-columns // _PANEL)
    return next((p for p in (4, 3, 2) if (units := -(-panels // p)) >= 6 and units % 2 == 0), 1)


def _embed(op: Op, ins: Types, outs: Types) -> Binder | None:
    if ins[1].dtype not in (i32, i64) or not few(ins[1].dims):
        return None
    wide = ins[1].dtype is i64

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        table, ids = ins
        row_bytes = math.prod(table.shape[1:]) * table.itemsize
        args = Taken(address(table), address(ids), address(outs[0]), ids.size, len(table), row_bytes, wide)
        return [Call("embed", args, ids.size, grain=4)]

    return bind


COMPILERS: dict[type[Op], Compiler] = {Embed: _embed, MatMul: _matmul, QuantizedMatMul: _quantized}
