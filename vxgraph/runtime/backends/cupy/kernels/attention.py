"""Grouped-query attention: by rows where there are few queries (decode), by tiles where there are many (prefill).

Neither holds scores in device memory, and neither has a length in its launch: the grid is that of the capacity, and a
thread that finds nothing to do at this length is done. By rows, keys are split over a cluster of blocks.
"""

from __future__ import annotations

import math

import numpy as np

from vxgraph.ops import Attention
from vxgraph.ops.attention import check_length, score_scale
from vxgraph.runtime.backends.cupy.kernels.launch import (
    FAULT,
    NULL,
    RESULT,
    Arg,
    Bound,
    Launch,
    Planner,
    Steps,
    Types,
    operand,
)
from vxgraph.runtime.backends.cupy.kernels.source import c_type, constants, render, using

_RANKS = 8  # blocks that share one query row's keys, as attend_rows.cu has it
_FEW_ROWS = 8  # of queries: up to here splitting the keys beats sharing them between rows
_ENOUGH = 16  # rows of the grid (of _RANKS blocks each) that keep a large device busy
_SHARED = 40 << 10  # bytes that the rows' sums of a block may take


def _attention(op: Attention, ins: Types, outs: Types) -> Planner:
    dtype = ins[0].dtype

    def steps(bound: Bound) -> Steps:
        (queries, heads, depth), (capacity, kv_heads, _), (_, _, width) = bound.ins[:3]
        lengths = len(bound.ins) == 4
        if not lengths:
            check_length(op, capacity, queries=queries, capacity=capacity)
        empty = math.prod(bound.outs[0]) == 0
        if empty and not lengths:
            return ()
        scale = np.float32(score_scale(op, depth) * math.log2(math.e)) if depth else np.float32(0)
        length: Arg = operand(3) if lengths else NULL
        numbers = (np.int32(queries), np.int32(capacity))
        if empty:
            source = render("attend_none", constants(CAUSAL=op.causal), before=("attention",))
            return (Launch(source, "vx_attend_none", (1, 1, 1), (1, 1, 1), (length, *numbers, *FAULT)),)
        args = (operand(0), operand(1), operand(2), length, RESULT, *numbers, np.int32(kv_heads), scale, *FAULT)
        types = using(T=c_type(dtype))
        shape = constants(D=depth, DV=width, GROUP=heads // kv_heads, CAUSAL=op.causal)
        tile = _tile(max(depth, width))
        if queries <= _FEW_ROWS or not tile:
            return (_by_rows(types + shape, args, queries, heads, kv_heads, depth, width),)
        return (_by_tiles(types + shape, args, queries, heads, depth, width, tile),)

    return Planner(op, steps)


def _by_rows(
    definitions: str, args: tuple[Arg, ...], queries: int, heads: int, kv_heads: int, depth: int, width: int
) -> Launch:
    together = _heads_together(heads, kv_heads, max(depth, width))
    warps = max(1, min(8, _SHARED // (4 * together * (width + 2))))
    more = constants(HEADS=together, WARPS=warps, UNROLL=4 if max(depth, width) <= 256 else 1)
    source = render("attend_rows", definitions, more, before=("attention",))
    grid = (_RANKS, heads // together, min(queries, 65535))
    return Launch(source, "vx_attend_rows", grid, (32 * warps, 1, 1), args)


def _heads_together(heads: int, kv_heads: int, depth: int) -> int:
    """Query heads that read a key once for all, as long as there are blocks enough and registers for them."""
    group = heads // kv_heads
    fitting = [n for n in (4, 3, 2) if group % n == 0 and n * depth <= 1024 and heads // n >= _ENOUGH]
    return fitting[0] if fitting else 1


def _tile(depth: int) -> int:
    """Rows and keys of a tile such that three of them fit in shared memory; 0 where none does."""
    return 64 if depth <= 128 else 32 if depth <= 256 else 0


def _by_tiles(
    definitions: str, args: tuple[Arg, ...], queries: int, heads: int, depth: int, width: int, tile: int
) -> Launch:
    source = render("attend_tiles", definitions, constants(TILE=tile), before=("attention",))
    pitch, columns = -(-depth // 4) * 4 + 4, -(-width // 64) * 64
    floats = tile * (pitch + max(pitch, columns) + tile + 4)
    grid = (-(-queries // tile), heads, 1)
    return Launch(source, "vx_attend_tiles", grid, (256, 1, 1), args, shared=4 * floats)


PLANNERS = {Attention: _attention}
