"""Steps of language models: products, norms, attention, caches, and choosing a token."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import vxgraph as vx
from tests.generative.pool import LARGEST, Hollow, Picker, elements, least, same, symbolic
from tests.generative.recipe import Step
from vxgraph.ir.types import Dim, DimLike, TensorType, bound


class Models(Picker):
    """One step per method: the value, or None where nothing fits."""

    def matmul(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.pick(a, lambda v: v.type.rank >= 1 and v.type.dtype.kind != "bool")
        if x is None:
            return None
        if which % 8 == 0 and x.type.dtype == vx.f32 and bound(x.dims[-1]) < 9 and not symbolic(x.dims[-1]):
            return self.narrow(x, b)

        def fits(w: vx.Value, inner: int) -> bool:
            if w.type.dtype != x.type.dtype or w.type.rank < 2 or not same(x.dims[-1], w.dims[inner]):
                return False
            return (w.type.rank == 2 or w.dims[:-2] == x.dims[:-2]) and elements(
                (*x.dims[:-1], w.dims[-3 - inner])
            ) <= LARGEST

        right = self.pick(b, lambda w: fits(w, -2))
        turned = self.pick(b, lambda w: fits(w, -1))
        if turned is not None and (right is None or b % 2):
            *batch, m, n = range(turned.type.rank)
            return x @ turned.transpose(*batch, n, m)
        return None if right is None else x @ right

    def narrow(self, x: vx.Value, k: int) -> vx.Value:
        """x by a weight of three rows in fewer bytes than f32."""
        numbers = [[(k + 5 * column + 11 * row) % 41 - 20 for column in range(bound(x.dims[-1]))] for row in range(3)]
        if k % 2 or not bound(x.dims[-1]):
            weight = vx.constant(np.array(numbers, np.float32).reshape(3, -1), (vx.f16, vx.bf16)[k // 2 % 2])
            return x @ weight.T
        return vx.quantized_matmul(x, vx.constant(numbers, vx.i8), vx.constant([0.5, -0.25, 1.0]))

    def rmsnorm(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.floats(a, rank=1)
        if x is None:
            return None
        w = self.pick(b, lambda v: v.type.rank == 1 and v.type.dtype == x.type.dtype and same(x.dims[-1], v.dims[0]))
        if w is None and symbolic(x.dims[-1]):
            return None
        weight = vx.constant([0.5 + k for k in range(bound(x.dims[-1]))], x.type.dtype) if w is None else w
        return vx.rmsnorm(x, weight, eps=(1e-5, 1e-6, 0.5)[which % 3])

    def clamped(self, k: int, top: int, fits: Callable[[vx.Value], bool] = lambda _: True) -> vx.Value | None:
        """An integer between 0 and `top`."""
        x = self.pick(k, lambda v: v.type.dtype == vx.i32 and fits(v))
        return None if x is None else vx.minimum(vx.maximum(x, 0), top)

    def embed(self, step: Step) -> vx.Value | None:
        a, b, _, _ = step.picks
        table = self.pick(a, lambda v: v.type.rank >= 1 and least(v.dims[0]) > 0)
        if table is None:
            return None
        row = elements(table.dims[1:])
        ids = self.clamped(b, least(table.dims[0]) - 1, lambda v: elements(v.dims) * row <= LARGEST)
        return None if ids is None else vx.embed(table, ids)

    def argmax(self, step: Step) -> vx.Value | None:
        a, b, _, _ = step.picks
        x = self.any(a, rank=1)
        if x is None or not least(x.dims[b % x.type.rank]):
            return None
        return vx.argmax(x, axis=b % x.type.rank)

    def sample(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        logits = self.pick(a, lambda v: v.type.dtype.kind == "float" and v.type.rank == 1 and least(v.dims[0]) > 0)
        if logits is None:
            return None
        position = self.pick(b, lambda v: v.type == vx.i32[()])
        return vx.sample(
            logits,
            temperature=vx.constant((0.0, 0.7, 1.5)[which % 3]),
            top_p=vx.constant((0.4, 0.9, 1.0)[c % 3]),
            seed=vx.constant(which, vx.i64),
            position=vx.constant(3) if position is None else position,
        )

    def rope(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.pick(a, lambda v: _is_heads(v) and bound(v.dims[2]) % 2 == 0 and not symbolic(v.dims[2]))
        if x is None:
            return None
        positions = self.pick(b, lambda v: v.type == vx.i32[x.dims[0]])
        return vx.rope(
            x,
            vx.iota(x.dims[0]) if positions is None else positions,
            theta=1e4,
            interleaved=which % 2 == 0,
            scaling=(8.0, 1.0, 4.0, 8192) if which % 3 == 0 else None,
        )

    def attention(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        q = self.pick(a, _is_heads)
        if q is None:
            return None
        hollow = [h for h in self.pool.hollow if _attends(q, h.value) and _sees(q.dims[0], h.rows)]
        keys = [v for v in self.pool.full if _attends(q, v) and _sees(q.dims[0], v.dims[0])]
        how = {"causal": which % 2 == 0, "scale": 0.5 if which % 3 == 0 else None}
        if hollow and (which % 4 or not keys):
            cache = self.among(hollow, b)
            length = (
                vx.size(cache.rows)
                if isinstance(cache.rows, Dim) and cache.rows.symbolic
                else vx.constant(bound(cache.rows))
            )
            return vx.attention(q, cache.value, cache.value, length=length, **how)
        if not keys:
            return None
        k = self.among(keys, b)
        values = [v for v in keys if v.type == k.type]
        return vx.attention(q, k, self.among(values, c), length=self.length(q, k, step), **how)

    def length(self, q: vx.Value, k: vx.Value, step: Step) -> vx.Value | None:
        """How many keys there are, where that can be said: all of them, or as many as an i32[] says."""
        least_keys = max(bound(q.dims[0]), 1)
        if step.picks[3] % 2 or symbolic(k.dims[0]) or least_keys > bound(k.dims[0]):
            return None
        n = self.pick(step.picks[2], lambda v: v.type == vx.i32[()])
        return None if n is None else vx.maximum(vx.minimum(n, bound(k.dims[0])), least_keys)

    # Caches.

    def cache_init(self, step: Step) -> Hollow | vx.Value | None:
        a, _, _, which = step.picks
        rows = self.pick(a, lambda v: _is_rows(v.type))
        if rows is None:
            return None
        type = rows.type.with_dims((8, *rows.dims[1:]))
        if which % 4 == 0:
            return Hollow(vx.cache_init(type), 0)
        cache = vx.cache_init(type, rows)
        return cache if rows.dims[0] == 8 else Hollow(cache, rows.dims[0])

    def cache_append(self, step: Step) -> Hollow | vx.Value | None:
        a, b, c, which = step.picks
        hollow = self.pool.hollow
        target = self.among(hollow, a) if hollow and which % 4 else None
        cache = target.value if target else self.pick(a, lambda v: v.type.rank >= 1 and not symbolic(v.dims[0]))
        if cache is None:
            return None
        rows = self.pick(b, lambda v: _fits_rows(cache.type, v.type))
        if rows is None:
            return None
        last = bound(cache.dims[0]) - bound(rows.dims[0])
        at = None if which % 3 == 0 else self.clamped(c, last, lambda v: v.type == vx.i32[()])
        found = vx.cache_append(cache, rows, vx.constant(c % (last + 1) if which % 2 else 0) if at is None else at)
        if target is None:
            return found
        first = at is None and (not which % 2 or c % (last + 1) == 0)
        return Hollow(found, rows.dims[0] if first and least(rows.dims[0]) >= bound(target.rows) else target.rows)

    def cache_rows(self, step: Step) -> vx.Value | None:
        """The first rows of a hollow cache, all of them written."""
        found = [h for h in self.pool.hollow if least(h.rows)]
        if not found:
            return None
        hollow = self.among(found, step.picks[0])
        return vx.slice(hollow.value, axis=0, stop=1 + step.picks[1] % least(hollow.rows))


def _is_heads(v: vx.Value) -> bool:
    return v.type.dtype.kind == "float" and v.type.rank == 3 and not any(map(symbolic, v.dims[1:]))


def _attends(q: vx.Value, k: vx.Value) -> bool:
    if not _is_heads(k) or k.type.dtype != q.type.dtype or not same(q.dims[2], k.dims[2]):
        return False
    if not bound(k.dims[1]) or bound(q.dims[1]) % bound(k.dims[1]):
        return False
    named = [d for d in q.dims if isinstance(d, Dim)]
    return all(d not in k.dims or k.dims.index(d) == q.dims.index(d) for d in named)


def _sees(queries: DimLike, keys: DimLike) -> bool:
    """Whether every query row sees a key in every run, causal or not."""
    return queries == keys or (least(keys) >= max(bound(queries), 1) and not (symbolic(keys) and symbolic(queries)))


def _is_rows(t: TensorType) -> bool:
    if t.rank < 1 or bound(t.dims[0]) > 8 or any(map(symbolic, t.dims[1:])):
        return False
    return 8 * elements(t.dims[1:]) <= LARGEST


def _fits_rows(cache: TensorType, rows: TensorType) -> bool:
    if cache.dtype != rows.dtype or cache.rank != rows.rank or bound(rows.dims[0]) > bound(cache.dims[0]):
        return False
    if not all(same(a, b) for a, b in zip(cache.dims[1:], rows.dims[1:], strict=True)):
        return False
    return not any(isinstance(d, Dim) and d in rows.dims and rows.dims.index(d) != k for k, d in enumerate(cache.dims))
