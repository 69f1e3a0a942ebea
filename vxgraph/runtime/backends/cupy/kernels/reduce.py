"""Sum, mean, max and argmax along one axis: halves add up in f32, integers in 64 bits that wrap."""

from __future__ import annotations

import numpy as np

from vxgraph.ops import ArgMax, Max, Mean, Sum
from vxgraph.ops.reduce import check_not_empty
from vxgraph.runtime.backends.cupy.kernels.launch import RESULT, Bound, Launch, Planner, Steps, Types, flat, operand
from vxgraph.runtime.backends.cupy.kernels.norm import around, threads_for
from vxgraph.runtime.backends.cupy.kernels.source import c_type, render, using, wide_type


def _reduce(op: Sum | Mean | Max | ArgMax, ins: Types, outs: Types) -> Planner:
    dtype = ins[0].dtype
    types = using(T=c_type(dtype), Out=c_type(outs[0].dtype), Wide=wide_type(dtype))
    total = using(Total="float" if dtype.kind == "float" else "u64")
    source = render("reduce", types, total, f"struct {type(op).__name__};\nusing Reducer = {type(op).__name__};\n")

    def steps(bound: Bound) -> Steps:
        outer, n, inner = around(bound.ins[0], op.axis)
        if isinstance(op, Max | ArgMax):
            check_not_empty(n, op.axis)
        if outer * inner == 0:
            return ()
        pointers = (operand(0), RESULT)
        if inner == 1:
            block = (threads_for(n), 1, 1)
            return (Launch(source, "vx_reduce_rows", (outer, 1, 1), block, (*pointers, np.int64(n))),)
        return (flat(source, "vx_reduce_columns", outer * inner, *pointers, *map(np.int64, (outer, n, inner))),)

    return Planner(op, steps)


PLANNERS = dict.fromkeys((Sum, Mean, Max, ArgMax), _reduce)
