"""Grouped-query attention without repeating keys or values, and without scores for the whole prompt at once.

Query heads that share a key head are rows of one matrix product: [KV, g * rows, D] @ [KV, D, keys]. Query rows go in
blocks whose scores fit the scratch; a block of a causal prompt reads only the keys that it sees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import Attention
from vxgraph.ops.attention import check_length, score_scale
from vxgraph.runtime.backends.numpy.run import SCRATCH, Run, Types, widened

_ROWS = 64  # query rows in a block: enough for the products, and few keys beyond the diagonal are scored in vain


def _attention(op: Attention, ins: Types, outs: Types) -> Run:
    scale = np.float32(score_scale(op, ins[0].shape()[2]))
    causal = op.causal

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        q, k, v = ins[:3]
        out = outs[0]
        valid = int(ins[3]) if len(ins) == 4 else len(k)
        check_length(op, valid, queries=len(q), capacity=len(k))
        if not out.size:
            return
        keys, values = widened(k[:valid]), widened(v[:valid])
        if len(q) == 1:
            _attend_row(q, keys, values, out, scale)
            return
        rows = max(1, min(_ROWS, SCRATCH // max(1, q.shape[1] * valid)))
        for start in range(0, len(q), rows):
            block = q[start : start + rows]
            seen = valid - len(q) + start + len(block) if causal else valid
            _attend(block, keys[:seen], values[:seen], out[start : start + rows], scale, causal)

    return run


def _attend_row(q: Array, k: Array, v: Array, out: Array, scale: np.float32) -> None:
    """One query row, which sees every key: the heads are in place for the products as they lie."""
    kv, group = k.shape[1], q.shape[1] // k.shape[1]
    scores = np.matmul(np.multiply(q.reshape(kv, group, -1), scale, dtype=np.float32), k.transpose(1, 2, 0))
    sums = _exponentiate(scores)
    if out.dtype == np.float32:
        mixed = out.reshape(kv, group, -1)
        np.matmul(scores, v.transpose(1, 0, 2), out=mixed)
        np.divide(mixed, sums, out=mixed)
    else:
        mixed = np.matmul(scores, v.transpose(1, 0, 2))
        np.divide(mixed, sums, out=out.reshape(kv, group, -1), casting="same_kind")


def _exponentiate(scores: Array) -> Array:
    """exp(scores - max) in place; the sums of the rows."""
    np.subtract(scores, np.maximum.reduce(scores, axis=-1, keepdims=True), out=scores)
    np.exp(scores, out=scores)
    return np.add.reduce(scores, axis=-1, keepdims=True)


def _attend(q: Array, k: Array, v: Array, out: Array, scale: np.float32, causal: bool) -> None:
    """One block of query rows [R, Head, D] over keys [S, KV, D]; causal: the last row sees all keys, others fewer."""
    rows, heads, depth = q.shape
    kv = k.shape[1]
    group = heads // kv
    scaled = np.empty((kv, group, rows, depth), np.float32)
    np.multiply(q.reshape(rows, kv, group, depth).transpose(1, 2, 0, 3), scale, out=scaled)
    scores = np.matmul(scaled.reshape(kv, group * rows, depth), k.transpose(1, 2, 0))
    if causal and rows > 1:
        corner = scores.reshape(kv, group, rows, -1)[..., -rows:]
        np.copyto(corner, -np.inf, where=_above_diagonal(rows))
    sums = _exponentiate(scores)
    mixed = np.matmul(scores, v.transpose(1, 0, 2))
    # Dividing the mixed values takes one pass over Dv columns instead of one over all keys.
    np.divide(mixed, sums, out=mixed)
    by_row = mixed.reshape(kv, group, rows, -1).transpose(2, 0, 1, 3)
    np.copyto(out.reshape(rows, kv, group, -1), by_row, casting="same_kind")


def _above_diagonal(rows: int) -> Array:
    return np.triu(np.ones((rows, rows), np.bool_), 1)


COMPILERS = {Attention: _attention}
