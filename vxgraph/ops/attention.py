"""Grouped-query attention over a plain or a preallocated cache.

%attention = attention(%q, %k, %v) : f32[T, Head, 64]
%attention.1 = attention(%q.1, %kcache, %vcache, %length) : f32[1, Head, 64]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import GraphError, RunError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, Dim, Sizes, TensorType, bound, describe_dim, i32, is_symbolic
from vxgraph.ops.nn import softmax
from vxgraph.ops.numerics import narrow, widen
from vxgraph.ops.rules import FLOATS, fixed, met, same_dtype, same_layout, want_kind, want_rank, want_scalar


@register
@dataclass(frozen=True)
class Attention(Op):
    """(q [Tq, Head, D], k [Tk, KV, D], v [Tk, KV, Dv], length i32[]?) -> [Tq, Head, Dv]: softmax(q k^T scale) v.

    Only the first `length` rows of k and v (all, without it) are valid; the others are never read and may hold
    anything. Causal: the last query row sees every valid key, row i sees key j where j <= i + (valid - Tq). Query head
    i reads key and value head i // (Head / KV) (Ainslie et al., 2023). The scale is 1/sqrt(D) unless given.
    """

    name: ClassVar[str] = "attention"
    causal: bool = True
    scale: float | None = None

    def infer(self, q: TensorType, k: TensorType, v: TensorType, length: TensorType | None = None) -> tuple[TensorType]:
        """[Tq, Head, Dv]."""
        want_kind(q, FLOATS)
        same_dtype(q, k, v)
        for x, what, shape in ((q, "q", "[Tq, Head, D]"), (k, "k", "[Tk, KV, D]"), (v, "v", "[Tk, KV, Dv]")):
            want_rank(x, 3, what, shape)
        met(k, v, 0, "k", "v")
        met(k, v, 1, "k", "v")
        same_layout(q, k)
        same_layout(k, v)
        met(q, k, 2, "q", "k")
        _group(q, k)
        if length is not None:
            want_scalar(length, i32, "length")
        self._want_keys(q, k)
        return (q.with_dims((*q.dims[:2], v.dims[2])),)

    def _want_keys(self, q: TensorType, k: TensorType) -> None:
        tq, tk = q.dims[0], k.dims[0]
        least = tq.min if isinstance(tq, Dim) and is_symbolic(tq) else bound(tq)
        if bound(tk) < _keys_needed(self, least):
            raise GraphError(f"q has {describe_dim(tq)} rows but k has {describe_dim(tk)}: some rows see no key")

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Two products of [Tq, Tk] by head size for each query head; the mask saves nothing."""
        (tq, heads, d), (tk, _, _), (_, _, dv) = (tuple(map(bound, t.dims)) for t in ins[:3])
        nbytes = sum(t.max_bytes for t in (*ins, *outs))
        return Cost(2.0 * tq * tk * heads * (d + dv), float(nbytes))

    def reference(self, sizes: Sizes, q: Array, k: Array, v: Array, length: Array | None = None) -> tuple[Array]:
        """The formula over the valid rows, head by head, in f32."""
        valid = len(k) if length is None else int(length)
        check_length(self, valid, queries=len(q), capacity=len(k))
        group = q.shape[1] // k.shape[1]
        heads = np.swapaxes(widen(q), 0, 1)  # [Head, Tq, D]
        keys = np.repeat(np.swapaxes(widen(k[:valid]), 0, 1), group, axis=0)
        values = np.repeat(np.swapaxes(widen(v[:valid]), 0, 1), group, axis=0)
        scores = heads @ np.swapaxes(keys, 1, 2) * score_scale(self, q.shape[2])
        if self.causal:
            unseen = np.arange(valid)[None, :] > np.arange(len(q))[:, None] + (valid - len(q))
            scores = np.where(unseen, np.float32(-np.inf), scores)
        return (narrow(np.swapaxes(softmax(scores, -1) @ values, 0, 1), q),)


def score_scale(op: Attention, head_dim: int) -> float:
    """What scores are multiplied by; without any depth (D = 0) all of them are 0, whatever it is."""
    return op.scale if op.scale is not None else 1 / math.sqrt(max(head_dim, 1))


def check_length(op: Attention, valid: int, *, queries: int, capacity: int) -> None:
    """RunError where the valid rows are not there, or leave a query row without a key."""
    if not 0 <= valid <= capacity:
        raise RunError(f"length is {valid}, but k and v have {capacity} rows")
    if valid < _keys_needed(op, queries):
        raise RunError(f"q has {queries} rows but only {valid} of k's are valid: some rows see no key")


def _keys_needed(op: Attention, queries: int) -> int:
    """Valid rows such that every query row sees a key."""
    return queries if op.causal else min(queries, 1)


def _group(q: TensorType, k: TensorType) -> None:
    """Heads must divide evenly over key and value heads."""
    heads, kv_heads = fixed(q.dims[1], "q's heads"), fixed(k.dims[1], "k's heads")
    if kv_heads == 0 or heads % kv_heads:
        found = f"{describe_dim(q.dims[1])} query heads, {describe_dim(k.dims[1])} key heads"
        raise GraphError(f"query heads must be a multiple of key heads, found {found}")
