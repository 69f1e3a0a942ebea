"""Reductions over one axis.

%sum = sum(%x) {axis = -1, keepdims = true} : f32[T, 1]
%argmax = argmax(%logits) {axis = -1} : i32[]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vxgraph.errors import GraphError, InternalError, RunError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, Sizes, TensorType, bound, i32
from vxgraph.ops.numerics import narrow, widen
from vxgraph.ops.rules import ANY, FLOATS, NUMBERS, axis_of, want_kind


@dataclass(frozen=True)
class Reduction(Op):
    """x -> x without one axis, or with a plain 1 in its place; the dtype stays."""

    takes: ClassVar[frozenset[str]] = NUMBERS
    axis: int
    keepdims: bool = False

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The remaining dims."""
        want_kind(x, self.takes)
        axis = axis_of(x, self.axis)
        return (x.with_dims((*x.dims[:axis], *((1,) if self.keepdims else ()), *x.dims[axis + 1 :])),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """One operation per operand element."""
        return Cost(ins[0].max_bytes / ins[0].dtype.itemsize, float(ins[0].max_bytes + outs[0].max_bytes))

    def apply(self, x: Array) -> Any:
        """The reduction itself; halves come in f32."""
        raise InternalError(f"{self.name}: no function")

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """`apply` in f32 or wider, rounded once."""
        return (narrow(self.apply(widen(x)), x),)


@register
@dataclass(frozen=True)
class Sum(Reduction):
    """The sum; 0 over nothing; integers wrap."""

    name: ClassVar[str] = "sum"

    def apply(self, x: Array) -> Any:
        """The sum, in f32 or in an integer of 64 bits that wraps when narrowed."""
        return np.sum(x, axis=self.axis, keepdims=self.keepdims)


@register
@dataclass(frozen=True)
class Mean(Reduction):
    """The mean of floats; NaN over nothing."""

    name: ClassVar[str] = "mean"
    takes: ClassVar[frozenset[str]] = FLOATS

    def apply(self, x: Array) -> Any:
        """The sum over the count."""
        return np.sum(x, axis=self.axis, keepdims=self.keepdims) / np.float32(x.shape[self.axis])


@register
@dataclass(frozen=True)
class Max(Reduction):
    """The largest; NaN where any is NaN; `any` of bools. An empty axis has none."""

    name: ClassVar[str] = "max"
    takes: ClassVar[frozenset[str]] = ANY

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The remaining dims."""
        result = Reduction.infer(self, x)
        want_elements(x, axis_of(x, self.axis))
        return result

    def apply(self, x: Array) -> Any:
        """The maximum."""
        check_not_empty(x.shape[self.axis], self.axis)
        return np.max(x, axis=self.axis, keepdims=self.keepdims)


@register
@dataclass(frozen=True)
class ArgMax(Op):
    """x -> i32, the index of the largest along one axis: the first of equals, the first NaN if there is one."""

    name: ClassVar[str] = "argmax"
    axis: int

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The remaining dims, as i32."""
        axis = axis_of(x, self.axis)
        want_elements(x, axis)
        return (TensorType(i32, (*x.dims[:axis], *x.dims[axis + 1 :])),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """One comparison per operand element."""
        return Cost(ins[0].max_bytes / ins[0].dtype.itemsize, float(ins[0].max_bytes + outs[0].max_bytes))

    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """NumPy's argmax."""
        check_not_empty(x.shape[self.axis], self.axis)
        return (np.asarray(np.argmax(widen(x), axis=self.axis), dtype=np.int32),)


def want_elements(x: TensorType, axis: int) -> None:
    """The axis must be able to hold an element."""
    if bound(x.dims[axis]) == 0:
        raise GraphError(f"axis {axis} of {x} is empty: it has no largest element")


def check_not_empty(size: int, axis: int) -> None:
    """RunError where a run's axis has no element."""
    if size == 0:
        raise RunError(f"axis {axis} is empty in this run: it has no largest element")
