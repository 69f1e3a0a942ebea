"""Embedding, RMS normalisation and softmax.

%embed = embed(%table, %tokens) : f32[T, 576]
%rmsnorm = rmsnorm(%embed, %weight) {eps = 1e-05} : f32[T, 576]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import GraphError, RunError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, Sizes, TensorType, unify_dim
from vxgraph.ops.numerics import fresh, narrow, widen
from vxgraph.ops.rules import FLOATS, INTS, axis_of, meeting, same_dtype, want_kind, want_rank


@register
@dataclass(frozen=True)
class Embed(Op):
    """(table [V, ...], ids integer [...]) -> [...ids, ...]: the table's rows, as numpy.take on axis 0.

    An id outside 0..V-1 is a RunError; negative ids do not count from the end.
    """

    name: ClassVar[str] = "embed"

    def infer(self, table: TensorType, ids: TensorType) -> tuple[TensorType]:
        """The ids' dims, then the row's."""
        if table.rank < 1:
            raise GraphError(f"wanted a table [V, ...], found {table}")
        want_kind(ids, INTS, "ids")
        return (table.with_dims((*ids.dims, *table.dims[1:])),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """The rows taken, read and written, and the ids."""
        return Cost(0.0, float(2 * outs[0].max_bytes + ins[1].max_bytes))

    def reference(self, sizes: Sizes, table: Array, ids: Array) -> tuple[Array]:
        """NumPy's take."""
        check_ids(ids, len(table))
        return (fresh(np.take(table, ids, axis=0)),)


def check_ids(ids: Array, rows: int) -> None:
    """RunError for an id that the table does not have."""
    wrong = ids[(ids < 0) | (ids >= rows)]
    if wrong.size:
        raise RunError(f"id {int(wrong.flat[0])} is not in the table, which has {rows} rows: 0 to {rows - 1}")


@register
@dataclass(frozen=True)
class RmsNorm(Op):
    """(x [..., D], weight [D]) -> x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang and Sennrich, 2019).

    Halves are squared, summed and scaled in f32: 1000^2 is no f16.
    """

    name: ClassVar[str] = "rmsnorm"
    eps: float

    def __post_init__(self) -> None:
        if not self.eps >= 0:
            raise GraphError(f"eps is 0 or more, found {self.eps}")

    def infer(self, x: TensorType, weight: TensorType) -> tuple[TensorType]:
        """x's type, with D's name if either has it."""
        same_dtype(x, weight)
        want_kind(x, FLOATS)
        want_rank(weight, 1, "a weight", "[D]")
        if x.rank < 1:
            raise GraphError(f"wanted x [..., D], found {x}")
        d = unify_dim(x.dims[-1], weight.dims[0])
        if d is None:
            raise GraphError(
                f"the last axis of {x} met weight {weight}: {meeting(x.dims[-1], weight.dims[0], x, weight)}"
            )
        return (x.with_dims((*x.dims[:-1], d)),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Square, add, scale, weight: four operations per element."""
        elements = outs[0].max_bytes / outs[0].dtype.itemsize
        return Cost(4 * elements, float(sum(t.max_bytes for t in (*ins, *outs))))

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes, x: Array, weight: Array) -> tuple[Array]:
        """The formula, in f32."""
        wide = widen(x)
        mean_square = np.mean(wide * wide, axis=-1, keepdims=True) if x.shape[-1] else np.zeros_like(wide)
        return (narrow(wide / np.sqrt(mean_square + self.eps) * widen(weight), x),)


@register
@dataclass(frozen=True)
class Softmax(Op):
    """x -> exp(x - max) / sum over one axis; NaN where all are -inf."""

    name: ClassVar[str] = "softmax"
    axis: int

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """x's type."""
        want_kind(x, FLOATS)
        axis_of(x, self.axis)
        return (x,)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Max, subtract, exp, add, divide: five operations per element."""
        return Cost(5 * outs[0].max_bytes / outs[0].dtype.itemsize, float(ins[0].max_bytes + outs[0].max_bytes))

    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """The formula, in f32."""
        return (narrow(softmax(widen(x), self.axis), x),)


@np.errstate(all="ignore")
def softmax(x: Array, axis: int) -> Array:
    """Softmax in x's own precision; an empty axis gives an empty result."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axis, keepdims=True)
