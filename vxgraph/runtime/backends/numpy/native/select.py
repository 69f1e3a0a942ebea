"""The largest along the last axis, and the next token where temperature is 0 or less: that is the largest too."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import ArgMax, Sample
from vxgraph.ops.reduce import check_not_empty
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.native.types import CODES, few, is_float
from vxgraph.runtime.backends.numpy.run import Types


class Largest(Structure):
    """c/kernels.h: ArgMax."""

    _fields_ = (("x", c_void_p), ("y", c_void_p), ("temperature", c_void_p), ("n", c_int64), ("type", c_int32))


def _argmax(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, ArgMax)
    if not is_float(ins[0]) or not few(outs[0].dims) or op.axis % ins[0].rank != ins[0].rank - 1:
        return None
    axis, code = op.axis, CODES[ins[0].dtype]

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        x = ins[0]
        check_not_empty(x.shape[axis], axis)
        return [Call("argmax", Largest(address(x), address(outs[0]), None, x.shape[axis], code), outs[0].size)]

    return bind


def _sample(op: Op, ins: Types, outs: Types) -> Binder | None:
    code = CODES[ins[0].dtype]

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        logits, temperature = ins[:2]
        check_not_empty(len(logits), 0)
        return [Call("argmax", Largest(address(logits), address(outs[0]), address(temperature), len(logits), code), 1)]

    return bind


COMPILERS: dict[type[Op], Compiler] = {ArgMax: _argmax, Sample: _sample}
