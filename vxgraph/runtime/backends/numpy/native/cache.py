"""Caches: only the rows that change are written where the result takes over the cache's own bytes."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int64, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import CacheAppend, CacheInit
from vxgraph.ops.cache import check_append
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.native.movement import copied
from vxgraph.runtime.backends.numpy.run import Types


class Append(Structure):
    """c/kernels.h."""

    _fields_ = (
        ("from", c_void_p),
        ("rows", c_void_p),
        ("cache", c_void_p),
        ("at", c_void_p),
        ("count", c_int64),
        ("capacity", c_int64),
        ("row_bytes", c_int64),
    )


def _append(op: Op, ins: Types, outs: Types) -> Binder | None:
    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        cache, rows, at = ins
        out = outs[0]
        source = None if address(out) == address(cache) else address(cache)
        row_bytes = out.nbytes // max(1, len(out))
        places = (source, address(rows), address(out), address(at))
        return [Call("append", Append(*places, len(rows), len(out), row_bytes), 1)]

    return bind


def _init(op: Op, ins: Types, outs: Types) -> Binder | None:
    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        if not ins:
            return []
        rows, out = ins[0], outs[0]
        check_append(0, rows=len(rows), capacity=len(out))
        return [] if address(out) == address(rows) else copied(rows, out)

    return bind


COMPILERS: dict[type[Op], Compiler] = {CacheAppend: _append, CacheInit: _init}
