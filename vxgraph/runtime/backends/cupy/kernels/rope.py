"""Rotary embedding from a table of frequencies in the source: no table of angles, no length that it ends at."""

from __future__ import annotations

import math

import numpy as np

from vxgraph.ops import Rope
from vxgraph.ops.rope import inverse_frequencies
from vxgraph.runtime.backends.cupy.kernels.launch import RESULT, Bound, Planner, Steps, Types, flat, operand
from vxgraph.runtime.backends.cupy.kernels.source import c_type, constants, render, using


def _rope(op: Rope, ins: Types, outs: Types) -> Planner:
    depth = ins[0].shape()[2]
    types = using(T=c_type(ins[0].dtype), Position=c_type(ins[1].dtype))
    half_turns: list[float] = (inverse_frequencies(op, depth) / math.pi).tolist()
    table = f"__device__ const double HALF_TURNS[] = {{{', '.join(map(float.hex, half_turns))}}};\n"
    shape = constants(PAIRS=depth // 2, INTERLEAVED=op.interleaved)

    def steps(bound: Bound) -> Steps:
        rows, heads, _ = bound.outs[0]
        count = rows * heads * (depth // 2)
        if count == 0:
            return ()
        source = render("rope", types, shape, table)
        args = (operand(0), operand(1), RESULT, np.int64(rows), np.int32(heads))
        return (flat(source, "vx_rope", count, *args),)

    return Planner(op, steps)


PLANNERS = {Rope: _rope}
