"""Comparisons, choice by a condition, and the one way to change a dtype.

%compare = compare(%x, %y) {kind = "lt"} : bool[T]
%where = where(%compare, %x, %y) : f32[T]
%cast = cast(%where) {dtype = bf16} : bf16[T]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from vxgraph.errors import GraphError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, DType, Sizes, TensorType, bool_
from vxgraph.ops.numerics import fresh, widen
from vxgraph.ops.rules import broadcast, same_dtype

_COMPARE: dict[str, Callable[[Array, Array], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@register
@dataclass(frozen=True)
class Compare(Op):
    """(a, b) of one dtype -> bool, broadcast; NaN compares as IEEE 754 says."""

    name: ClassVar[str] = "compare"
    kind: Literal["eq", "ne", "lt", "le", "gt", "ge"]

    def __post_init__(self) -> None:
        if self.kind not in _COMPARE:
            raise GraphError(f"there is no comparison {self.kind!r}; there are {', '.join(_COMPARE)}")

    def infer(self, a: TensorType, b: TensorType) -> tuple[TensorType]:
        """bool of the broadcast dims."""
        same_dtype(a, b)
        return (TensorType(bool_, broadcast(a, b)),)

    def reference(self, sizes: Sizes, a: Array, b: Array) -> tuple[Array]:
        """NumPy's comparison."""
        return (np.asarray(_COMPARE[self.kind](widen(a), widen(b)), dtype=np.bool_, order="C"),)


@register
@dataclass(frozen=True)
class Where(Op):
    """(cond bool, a, b) -> a where cond, else b; all three broadcast."""

    name: ClassVar[str] = "where"

    def infer(self, cond: TensorType, a: TensorType, b: TensorType) -> tuple[TensorType]:
        """The broadcast dims in the dtype of a and b."""
        if cond.dtype != bool_:
            raise GraphError(f"the condition is bool, found {cond}; compare it: x != 0")
        same_dtype(a, b)
        both = a.with_dims(broadcast(a, b))
        return (both.with_dims(broadcast(cond, both)),)

    def reference(self, sizes: Sizes, cond: Array, a: Array, b: Array) -> tuple[Array]:
        """NumPy's where."""
        return (fresh(np.where(cond, a, b)),)


@register
@dataclass(frozen=True)
class Cast(Op):
    """x in another dtype: to floats rounded to nearest even, to integers truncated, to bool `x != 0`.

    A float outside the integer's range has no specified result.
    """

    name: ClassVar[str] = "cast"
    dtype: DType

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The same dims."""
        return (x.with_dtype(self.dtype),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Bytes only."""
        return Cost(0.0, float(ins[0].max_bytes + outs[0].max_bytes))

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """NumPy's astype."""
        return (widen(x).astype(self.dtype.numpy, order="C"),)
