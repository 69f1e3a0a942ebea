"""Caches: where the result is the cache's own memory, only the rows that change are written."""

from __future__ import annotations

import math

import numpy as np

from vxgraph.ops import CacheAppend, CacheInit
from vxgraph.ops.cache import check_append
from vxgraph.runtime.backends.cupy.kernels.launch import FAULT, RESULT, Bound, Planner, Steps, Types, flat, operand
from vxgraph.runtime.backends.cupy.kernels.movement import move
from vxgraph.runtime.backends.cupy.kernels.source import constants, raw_type, render, using
from vxgraph.runtime.backends.cupy.kernels.views import dense

_MOST_BLOCKS = 1024


def _append(op: CacheAppend, ins: Types, outs: Types) -> Planner:
    raw = using(T=raw_type(ins[0].dtype))
    pack = 16 // ins[0].dtype.itemsize

    def steps(bound: Bound) -> Steps:
        cache, rows, _ = bound.ins
        width = math.prod(cache[1:])
        source = render("cache", raw, constants(IN_PLACE=bound.same))
        numbers = map(np.int64, (rows[0], cache[0], width))
        args = (operand(0), operand(1), operand(2), RESULT, *numbers, *FAULT)
        written = rows[0] * width if bound.same else cache[0] * width
        # One block at least: an append of no rows past the end is a fault too.
        threads = min(max(1, -(-written // pack)), 128 * _MOST_BLOCKS)
        return (flat(source, "vx_cache_append", threads, *args),)

    return Planner(op, steps)


def _init(op: CacheInit, ins: Types, outs: Types) -> Planner:
    def steps(bound: Bound) -> Steps:
        if not bound.ins:
            return ()
        rows = bound.ins[0]
        check_append(0, rows=rows[0], capacity=bound.outs[0][0])
        # The first rows of a row-major cache are where they would be without the others.
        return () if bound.same else move(op.name, op.type.dtype, rows, dense(rows), dense(rows))

    return Planner(op, steps)


PLANNERS = {CacheAppend: _append, CacheInit: _init}
