"""Ops that rearrange elements of any dtype: strided copies of raw bits."""

from __future__ import annotations

from vxgraph.ir.types import DType
from vxgraph.ops import Concat, Copy, Slice, Transpose
from vxgraph.runtime.backends.cupy.kernels.launch import RESULT, Bound, Planner, Shape, Step, Steps, Types, operand
from vxgraph.runtime.backends.cupy.kernels.source import raw_type
from vxgraph.runtime.backends.cupy.kernels.strided import Body, strided
from vxgraph.runtime.backends.cupy.kernels.views import View, dense


def move(name: str, dtype: DType, shape: Shape, source: View, to: View, which: int = 0) -> Steps:
    """Copies `shape` elements of an operand from where one view says to where the other does."""
    raw = raw_type(dtype)
    launch = strided(Body(f"vx_{name}", (raw,), raw, "a"), shape, [source], to, (operand(which), RESULT))
    return (launch,) if launch else ()


def _copy(op: Copy, ins: Types, outs: Types) -> Planner:
    def steps(bound: Bound) -> Steps:
        shape = bound.outs[0]
        return move(op.name, outs[0].dtype, shape, dense(shape), dense(shape))

    return Planner(op, steps)


def _transpose(op: Transpose, ins: Types, outs: Types) -> Planner:
    def steps(bound: Bound) -> Steps:
        strides = dense(bound.ins[0]).strides
        source = View(tuple(strides[axis] for axis in op.perm))
        return move(op.name, outs[0].dtype, bound.outs[0], source, dense(bound.outs[0]))

    return Planner(op, steps)


def _slice(op: Slice, ins: Types, outs: Types) -> Planner:
    axis = op.axis % ins[0].rank

    def steps(bound: Bound) -> Steps:
        start, _, step = op.span.indices(bound.ins[0][axis])
        strides = dense(bound.ins[0]).strides
        cut = (*strides[:axis], strides[axis] * step, *strides[axis + 1 :])
        source = View(cut, start * strides[axis])
        return move(op.name, outs[0].dtype, bound.outs[0], source, dense(bound.outs[0]))

    return Planner(op, steps)


def _concat(op: Concat, ins: Types, outs: Types) -> Planner:
    axis = op.axis % outs[0].rank

    def steps(bound: Bound) -> Steps:
        whole = dense(bound.outs[0])
        launches: list[Step] = []
        start = 0
        for i, shape in enumerate(bound.ins):
            to = View(whole.strides, start * whole.strides[axis])
            launches += move(op.name, outs[0].dtype, shape, dense(shape), to, i)
            start += shape[axis]
        return tuple(launches)

    return Planner(op, steps)


PLANNERS = {Concat: _concat, Copy: _copy, Slice: _slice, Transpose: _transpose}
