"""RMS normalisation and softmax, in f32 and rounded once."""

from __future__ import annotations

import math

import numpy as np

from vxgraph.ops import RmsNorm, Softmax
from vxgraph.runtime.backends.cupy.kernels.launch import (
    RESULT,
    Bound,
    Launch,
    Planner,
    Shape,
    Steps,
    Types,
    flat,
    operand,
)
from vxgraph.runtime.backends.cupy.kernels.source import c_type, render, using


def threads_for(work: int) -> int:
    """Threads of a block for this many things to do side by side: a power of 2 from 32 to 1024."""
    return min(1024, max(32, 1 << max(work - 1, 0).bit_length()))


def around(shape: Shape, axis: int) -> tuple[int, int, int]:
    """[outer, n, inner]: the shape with everything before and after an axis as one."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _rmsnorm(op: RmsNorm, ins: Types, outs: Types) -> Planner:
    source = render("rmsnorm", using(T=c_type(ins[0].dtype)))
    pack = 16 // ins[0].dtype.itemsize

    def steps(bound: Bound) -> Steps:
        rows, width, _ = around(bound.outs[0], -1)
        if rows * width == 0:
            return ()
        block = (min(1024, -(-width // (32 * pack)) * 32), 1, 1)
        args = (operand(0), operand(1), RESULT, np.int32(width), np.float32(op.eps))
        return (Launch(source, "vx_rmsnorm", (rows, 1, 1), block, args),)

    return Planner(op, steps)


def _softmax(op: Softmax, ins: Types, outs: Types) -> Planner:
    source = render("softmax", using(T=c_type(ins[0].dtype)))

    def steps(bound: Bound) -> Steps:
        outer, n, inner = around(bound.outs[0], op.axis)
        if outer * n * inner == 0:
            return ()
        pointers = (operand(0), RESULT)
        if inner == 1:
            block = (threads_for(n), 1, 1)
            return (Launch(source, "vx_softmax_rows", (outer, 1, 1), block, (*pointers, np.int64(n))),)
        return (flat(source, "vx_softmax_columns", outer * inner, *pointers, *map(np.int64, (outer, n, inner))),)

    return Planner(op, steps)


PLANNERS = {RmsNorm: _rmsnorm, Softmax: _softmax}
