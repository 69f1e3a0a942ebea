"""Preallocated caches without mutation: an append gives a new cache; the memory plan reuses the buffer.

%kcache = cache_init(%k) {type = f32[2048, KVHead, 64]} : f32[2048, KVHead, 64]
%kcache.1 = cache_append(%kcache, %row, %at) : f32[2048, KVHead, 64]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import GraphError, RunError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, DimLike, Sizes, TensorType, bound, describe_dim, i32
from vxgraph.ops.numerics import fresh
from vxgraph.ops.rules import met, same_dtype, same_layout, want_scalar

POISON = 0x5A  # every byte of an integer that was never written


@register
@dataclass(frozen=True)
class CacheInit(Op):
    """(rows [T, ...]?) -> a cache [S, ...] whose first T rows are `rows`; the others hold anything until written."""

    name: ClassVar[str] = "cache_init"
    donates: ClassVar[int | None] = 0
    type: TensorType

    def infer(self, rows: TensorType | None = None) -> tuple[TensorType]:
        """The stated type."""
        if self.type.symbols or self.type.rank < 1:
            raise GraphError(f"wanted a cache [S, ...] of fixed dims, found {self.type}")
        if rows is not None:
            _want_rows(self.type, rows)
        return (self.type,)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """The rows, read and written."""
        return Cost(0.0, 2.0 * sum(t.max_bytes for t in ins))

    def reference(self, sizes: Sizes, rows: Array | None = None) -> tuple[Array]:
        """Poison, then the rows."""
        cache = poisoned(self.type)
        if rows is not None:
            check_append(0, rows=len(rows), capacity=len(cache))
            cache[: len(rows)] = rows
        return (cache,)


@register
@dataclass(frozen=True)
class CacheAppend(Op):
    """(cache [S, ...], rows [T, ...], at i32[]) -> the cache with rows at..at+T-1 replaced.

    Rows that do not fit are a RunError: NumPy would drop `cache[512:513] = row` on 512 rows without a word.
    """

    name: ClassVar[str] = "cache_append"
    donates: ClassVar[int | None] = 0

    def infer(self, cache: TensorType, rows: TensorType, at: TensorType) -> tuple[TensorType]:
        """The cache's type."""
        if cache.rank < 1:
            raise GraphError(f"wanted a cache [S, ...], found {cache}")
        _want_rows(cache, rows)
        want_scalar(at, i32, "at")
        return (cache,)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """The rows, read and written: the cache's buffer is taken over."""
        return Cost(0.0, 2.0 * ins[1].max_bytes + ins[2].max_bytes)

    def reference(self, sizes: Sizes, cache: Array, rows: Array, at: Array) -> tuple[Array]:
        """A copy of the cache with the rows written."""
        start = int(at)
        check_append(start, rows=len(rows), capacity=len(cache))
        result = fresh(cache)
        result[start : start + len(rows)] = rows
        return (result,)


def check_append(at: int, *, rows: int, capacity: int) -> None:
    """RunError where rows at..at+rows-1 are not all in the cache."""
    if at < 0 or at + rows > capacity:
        raise RunError(f"{rows} rows at {at} do not fit the cache, which has {capacity} rows")


def poisoned(type: TensorType) -> Array:
    """Contents that nothing may rely on: NaN, 0x5A bytes, or True."""
    if type.dtype.kind == "int":
        return np.full(type.nbytes(), POISON, np.uint8).view(type.dtype.numpy).reshape(type.shape())
    return np.full(type.shape(), True if type.dtype.kind == "bool" else np.nan, type.dtype.numpy)


def _want_rows(cache: TensorType, rows: TensorType) -> None:
    """Rows of the cache's own layout and dtype, not more than it holds."""
    same_dtype(cache, rows)
    if cache.rank != rows.rank:
        raise GraphError(f"cache {cache} and rows {rows} differ in rank")
    for axis in range(1, cache.rank):
        met(cache, rows, axis, "cache", "rows")
    same_layout(cache, rows)
    if bound(rows.dims[0]) > bound(cache.dims[0]):
        raise GraphError(_too_many(cache.dims[0], rows.dims[0]))


def _too_many(capacity: DimLike, rows: DimLike) -> str:
    return f"{describe_dim(rows)} rows do not fit a cache of {describe_dim(capacity)} rows"
