"""The next token, chosen by one block."""

from __future__ import annotations

import numpy as np

from vxgraph.ops import Sample
from vxgraph.ops.reduce import check_not_empty
from vxgraph.runtime.backends.cupy.kernels.launch import RESULT, Bound, Launch, Planner, Steps, Types, operand
from vxgraph.runtime.backends.cupy.kernels.source import c_type, render, using


def _sample(op: Sample, ins: Types, outs: Types) -> Planner:
    source = render("sample", using(T=c_type(ins[0].dtype)))

    def steps(bound: Bound) -> Steps:
        (count,) = bound.ins[0]
        check_not_empty(count, 0)
        args = (*(operand(i) for i in range(5)), RESULT, np.int32(count))
        return (Launch(source, "vx_sample", (1, 1, 1), (1024, 1, 1), args),)

    return Planner(op, steps)


PLANNERS = {Sample: _sample}
