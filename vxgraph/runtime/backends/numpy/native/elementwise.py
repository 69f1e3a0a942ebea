"""Elementwise ops, alone or fused, as code for a little machine in C: `mul(silu(a), b)` is 0 silu 1 mul.

Operands may repeat along leading axes ([64] beside [T, 64], a scalar beside anything); other broadcasting is NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_uint8, c_void_p

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes, TensorType, i32
from vxgraph.ops import (
    Add,
    Cast,
    Div,
    Exp,
    Fused,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Relu,
    Rsqrt,
    Silu,
    Sqrt,
    Sub,
)
from vxgraph.ops.fused import Expr
from vxgraph.runtime.backends.numpy.native.call import Binder, Call, Compiler, address
from vxgraph.runtime.backends.numpy.native.types import CODES, is_float
from vxgraph.runtime.backends.numpy.run import Types

_BLOCK = 512  # elements in a unit
_OPERANDS, _CODE = 8, 64  # at most
_DEEPEST = 8  # values that wait for their op
_OPS: tuple[type[Op], ...] = (Add, Sub, Mul, Div, Maximum, Minimum, Neg, Relu, Exp, Sqrt, Rsqrt, Silu)
_NUMBERS: dict[type[Op], int] = {op: _OPERANDS + i for i, op in enumerate(_OPS)}  # as c/elementwise.c has them


class Elements(Structure):
    """c/kernels.h."""

    _fields_ = (
        ("operands", c_void_p * _OPERANDS),
        ("sizes", c_int64 * _OPERANDS),
        ("y", c_void_p),
        ("n", c_int64),
        ("type", c_int32),
        ("y_type", c_int32),
        ("code_length", c_int32),
        ("code", c_uint8 * _CODE),
    )


def _alone(op: Op, ins: Types, outs: Types) -> Binder | None:
    return _compiled(Expr(op, tuple(Expr(None, (), i) for i in range(len(ins)))), ins, outs)


def _fused(op: Op, ins: Types, outs: Types) -> Binder | None:
    assert isinstance(op, Fused)
    return _compiled(op.tree, ins, outs)


def _cast(op: Op, ins: Types, outs: Types) -> Binder | None:
    return _compiled(Expr(None), ins, outs) if is_float(ins[0]) and is_float(outs[0]) else None


def _compiled(tree: Expr, ins: Types, outs: Types) -> Binder | None:
    code = _code(tree)
    whole = ins[0].dtype is i32
    if code is None or len(ins) > _OPERANDS or not (whole or is_float(ins[0])):
        return None
    if not all(_repeats(t, outs[0]) for t in ins):
        return None
    kinds = (0, 0) if whole else (CODES[ins[0].dtype], CODES[outs[0].dtype])
    function = "elements_i32" if whole else "elements"
    bytecode = (c_uint8 * _CODE)(*code)

    def bind(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> Sequence[Call]:
        y = outs[0]
        if not y.size:
            return []
        operands, counts = (c_void_p * _OPERANDS)(*map(address, ins)), (c_int64 * _OPERANDS)(*[a.size for a in ins])
        args = Elements(operands, counts, address(y), y.size, *kinds, len(code), bytecode)
        return [Call(function, args, -(-y.size // _BLOCK), grain=1)]

    return bind


def _repeats(t: TensorType, out: TensorType) -> bool:
    """Whether its elements, over and over, are the operand broadcast to `out`."""
    dims = list(t.dims)
    while dims and dims[0] == 1:
        dims.pop(0)
    return not dims or tuple(dims) == out.dims[-len(dims) :]


def _code(tree: Expr) -> list[int] | None:
    """The expression, operands before their op; None where an op is unknown to C or there is no room."""
    code: list[int] = []
    known = _append(tree, code) and len(code) <= _CODE
    return code if known and _depth(tree) <= _DEEPEST else None


def _append(tree: Expr, code: list[int]) -> bool:
    if tree.op is None:
        code.append(tree.operand)
        return tree.operand < _OPERANDS
    number = _NUMBERS.get(type(tree.op))
    if number is None or not all(_append(e, code) for e in tree.operands):
        return False
    code.append(number)
    return True


def _depth(tree: Expr) -> int:
    """Values that are held at once."""
    return max((i + _depth(e) for i, e in enumerate(tree.operands)), default=1)


COMPILERS: dict[type[Op], Compiler] = {**dict.fromkeys(_OPS, _alone), Cast: _cast, Fused: _fused}
