"""Elementwise ops straight into the result, alone or fused.

`mul(silu(a), b)` runs as silu(a) -> out, mul(out, b) -> out: one pass per op, scratch only where an expression has two
sides that are both computed. Halves go through the reference, which rounds after every op as it should.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vxgraph.errors import InternalError
from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes, TensorType, f32
from vxgraph.ops import (
    Add,
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
from vxgraph.runtime.backends.numpy.run import Run, Types, all_f32

Into = Callable[..., Any]  # (operand, ..., out=array)
Step = Callable[[Sequence[Array], Array], Array]  # (operands, result) -> where the value is


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, 0, out=out)


def _rsqrt(x: Array, out: Array) -> None:
    np.sqrt(x, out=out)
    np.reciprocal(out, out=out)


def _silu(x: Array, out: Array) -> None:
    """x / (1 + exp(-x)); exp overflows to inf, and x / inf is the 0 that is meant."""
    e = np.empty_like(out) if x is out else out
    np.negative(x, out=e)
    np.exp(e, out=e)
    np.add(e, 1, out=e)
    np.divide(x, e, out=out)


_INTO: dict[type[Op], Into] = {
    Add: np.add,
    Div: np.divide,
    Exp: np.exp,
    Maximum: np.maximum,
    Minimum: np.minimum,
    Mul: np.multiply,
    Neg: np.negative,
    Relu: _relu,
    Rsqrt: _rsqrt,
    Silu: _silu,
    Sqrt: np.sqrt,
    Sub: np.subtract,
}


def _alone(op: Op, ins: Types, outs: Types) -> Run | None:
    into = _INTO[type(op)]
    if outs[0].dtype.kind == "float" and outs[0].dtype is not f32:
        return None

    def unary(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        into(ins[0], out=outs[0])

    def binary(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        into(ins[0], ins[1], out=outs[0])

    return unary if len(ins) == 1 else binary


def _fused(op: Fused, ins: Types, outs: Types) -> Run | None:
    if not all_f32(ins) or not _one_type(op.tree, ins, outs[0]):
        return None
    step = _step_of(op.tree)

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        step(ins, outs[0])

    return run


def _one_type(tree: Expr, ins: Types, out: TensorType) -> bool:
    """Whether every op of the expression has a kernel here and gives the whole result's shape."""

    def apply(op: Op, types: list[TensorType | None]) -> TensorType | None:
        if type(op) not in _INTO or any(t is None for t in types):
            return None
        (found,) = op.infer(*types)
        return found if found.shape() == out.shape() and found.symbols == out.symbols else None

    return tree.fold(lambda i: ins[i], apply) is not None


def _step_of(expr: Expr) -> Step:
    """Evaluates an expression into the array it is given; a leaf gives its operand as it is."""
    if expr.op is None:
        index = expr.operand
        return lambda ins, out: ins[index]
    into = _INTO[type(expr.op)]
    steps = [_step_of(e) for e in expr.operands]
    match steps:
        case [only]:

            def unary(ins: Sequence[Array], out: Array) -> Array:
                into(only(ins, out), out=out)
                return out

            return unary
        case [left, right]:
            both = all(e.op is not None for e in expr.operands)

            def binary(ins: Sequence[Array], out: Array) -> Array:
                a = left(ins, out)
                into(a, right(ins, np.empty_like(out) if both else out), out=out)
                return out

            return binary
        case _:
            raise InternalError(f"{expr.op.name}: an elementwise op with {len(steps)} operands")


COMPILERS = {**dict.fromkeys(_INTO, _alone), Fused: _fused}
