"""Arithmetic, comparisons and casts: one strided kernel for an expression of any depth.

Halves are rounded after every op of a fused expression, so that it gives the bits of the same ops run one by one.
"""

from __future__ import annotations

from string import ascii_lowercase

from vxgraph.errors import BindError
from vxgraph.ir.op import Op
from vxgraph.ops import (
    Add,
    Cast,
    Compare,
    Div,
    Exp,
    Fused,
    Gelu,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Relu,
    Rsqrt,
    Silu,
    Sqrt,
    Sub,
    Where,
)
from vxgraph.ops.fused import Expr
from vxgraph.runtime.backends.cupy.kernels.launch import RESULT, Bound, Planner, Steps, Types, operand
from vxgraph.runtime.backends.cupy.kernels.source import c_type, raw_type
from vxgraph.runtime.backends.cupy.kernels.strided import Body, strided
from vxgraph.runtime.backends.cupy.kernels.views import dense, stretched

_FUNCTIONS = (
    Add,
    Div,
    Exp,
    Gelu,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Relu,
    Rsqrt,
    Silu,
    Sqrt,
    Sub,
)  # op_add, ... in prelude.cu
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def broadcast(op: Op, body: Body) -> Planner:
    """`body` over operands that broadcast to the result."""

    def steps(bound: Bound) -> Steps:
        shape = bound.outs[0]
        views = [stretched(s, shape) for s in bound.ins]
        pointers = (*(operand(i) for i in range(len(views))), RESULT)
        launch = strided(body, shape, views, dense(shape), pointers)
        return (launch,) if launch else ()

    return Planner(op, steps)


def _alone(op: Op, ins: Types, outs: Types) -> Planner:
    operands = tuple(Expr(None, (), i) for i in range(len(ins)))
    return broadcast(op, _body(op, Expr(op, operands), ins, outs))


def _fused(op: Fused, ins: Types, outs: Types) -> Planner:
    return broadcast(op, _body(op, op.tree, ins, outs))


def _body(op: Op, expr: Expr, ins: Types, outs: Types) -> Body:
    out = c_type(outs[0].dtype)
    value = f"narrow<{out}>({_written(op, expr, out)})"
    return Body(f"vx_{op.name}", tuple(c_type(t.dtype) for t in ins), out, value)


def _written(whole: Op, expr: Expr, out: str) -> str:
    """The expression in C++; what feeds another op is rounded as if it had been stored."""
    if expr.op is None:
        return f"wide({ascii_lowercase[expr.operand]})"
    if not isinstance(expr.op, _FUNCTIONS):
        raise BindError(f"cupy has no kernel for {expr.op.name} in {whole.name}; write it out of ops that have one")
    parts = [
        _written(whole, e, out) if e.op is None else f"rounded<{out}>({_written(whole, e, out)})" for e in expr.operands
    ]
    return f"op_{expr.op.name}({', '.join(parts)})"


def _compare(op: Compare, ins: Types, outs: Types) -> Planner:
    types = tuple(c_type(t.dtype) for t in ins)
    return broadcast(op, Body("vx_compare", types, "bool", f"wide(a) {_COMPARE[op.kind]} wide(b)"))


def _where(op: Where, ins: Types, outs: Types) -> Planner:
    raw = raw_type(outs[0].dtype)
    return broadcast(op, Body("vx_where", ("bool", raw, raw), raw, "a ? b : c"))


def _cast(op: Cast, ins: Types, outs: Types) -> Planner:
    out = c_type(op.dtype)
    return broadcast(op, Body("vx_cast", (c_type(ins[0].dtype),), out, f"narrow<{out}>(wide(a))"))


PLANNERS = {**dict.fromkeys(_FUNCTIONS, _alone), Cast: _cast, Compare: _compare, Fused: _fused, Where: _where}
