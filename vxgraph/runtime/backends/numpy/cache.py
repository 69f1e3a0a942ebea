"""Caches: only the rows that change are written where the result takes over the cache's own bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import CacheAppend, CacheInit
from vxgraph.ops.cache import check_append
from vxgraph.runtime.backends.numpy.run import Run, Types


def _append(op: CacheAppend, ins: Types, outs: Types) -> Run:
    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        cache, rows, at = ins
        out = outs[0]
        start, count = int(at), len(rows)
        check_append(start, rows=count, capacity=len(out))
        if not np.may_share_memory(out, cache):
            np.copyto(out, cache)
        out[start : start + count] = rows

    return run


def _init(op: CacheInit, ins: Types, outs: Types) -> Run:
    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        if not ins:
            return
        rows, out = ins[0], outs[0]
        check_append(0, rows=len(rows), capacity=len(out))
        if not np.may_share_memory(out, rows):
            out[: len(rows)] = rows

    return run


COMPILERS = {CacheAppend: _append, CacheInit: _init}
