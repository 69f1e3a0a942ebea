"""Ops that rearrange elements and compute nothing.

%heads = reshape(%q) {dims = [T, Head, 64]} : f32[T, Head, 64]
%last = slice(%x) {axis = 0, start = -1, stop = none} : f32[1, 576]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import GraphError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import (
    Array,
    Dim,
    DimLike,
    Sizes,
    TensorType,
    bound,
    describe_dim,
    is_symbolic,
    size_in,
)
from vxgraph.ops.numerics import fresh
from vxgraph.ops.rules import axis_of, fixed, met, same_dtype


@dataclass(frozen=True)
class Rearrangement(Op):
    """Bytes in another order: no arithmetic, what is written is read once."""

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Bytes only."""
        return Cost(0.0, 2.0 * outs[0].max_bytes)


@register
@dataclass(frozen=True)
class Copy(Rearrangement):
    """x -> x in a buffer of its own."""

    name: ClassVar[str] = "copy"

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The operand's type."""
        return (x,)

    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """A copy."""
        return (fresh(x),)


@register
@dataclass(frozen=True)
class Reshape(Op):
    """x -> the same elements in row-major order under other dims.

    Symbols appear on both sides in the same order, and no named dim of both sides passes another (that is transpose).
    """

    name: ClassVar[str] = "reshape"
    alias: ClassVar[bool] = True
    dims: tuple[DimLike, ...]

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The new dims."""
        result = x.with_dims(self.dims)
        before, after = (
            [d for d in t.dims if isinstance(d, Dim) and d in u.dims] for t, u in ((x, result), (result, x))
        )
        for a, b in zip(before, after, strict=False):
            if a != b:
                raise GraphError(f"{x} to {result} puts {b} before {a}; transpose does that, reshape keeps their order")
        if _symbols(x) != _symbols(result) or _fixed_elements(x) != _fixed_elements(result):
            raise GraphError(f"{x} has {_elements(x)} elements but {result} has {_elements(result)}")
        return (result,)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Nothing: it never runs."""
        return Cost(0.0, 0.0)

    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """NumPy's reshape, copied."""
        return (fresh(x.reshape(tuple(size_in(d, sizes) for d in self.dims))),)


def _symbols(x: TensorType) -> list[DimLike]:
    return [d for d in x.dims if is_symbolic(d)]


def _fixed_elements(x: TensorType) -> int:
    return math.prod(bound(d) for d in x.dims if not is_symbolic(d))


def _elements(x: TensorType) -> str:
    """`T x 576`, for messages."""
    factors = list(map(str, _symbols(x)))
    rest = _fixed_elements(x)
    return " x ".join(factors if factors and rest == 1 else [*factors, str(rest)])


@register
@dataclass(frozen=True)
class Transpose(Rearrangement):
    """x -> x with its axes in the order `perm`, as numpy.transpose."""

    name: ClassVar[str] = "transpose"
    perm: tuple[int, ...]

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The dims in that order."""
        if sorted(self.perm) != list(range(x.rank)):
            axes = ", ".join(map(str, range(x.rank)))
            raise GraphError(f"perm {list(self.perm)} is no order of the axes {axes} of {x}")
        return (x.with_dims(x.dims[i] for i in self.perm),)

    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """NumPy's transpose, copied."""
        return (fresh(np.transpose(x, self.perm)),)


@register
@dataclass(frozen=True)
class Slice(Rearrangement):
    """x[start:stop:step] along one axis, as Python slices, but bounds outside the axis are errors.

    A symbolic axis takes a full slice (step 1 or -1), its first k (0:k) or its last k (-k:), where its min is at
    least k. The axis keeps its name where the slice is full, and is a plain int otherwise.
    """

    name: ClassVar[str] = "slice"
    axis: int
    start: int
    stop: int | None
    step: int = 1

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The dims with that axis cut."""
        axis = axis_of(x, self.axis)
        if self.step == 0:
            raise GraphError("a slice's step is not 0")
        d = x.dims[axis]
        if (self.start, self.stop, self.step) in ((0, None, 1), (-1, None, -1)):
            return (x,)
        cut = self._of_symbol(d) if isinstance(d, Dim) and d.symbolic else self._of_fixed(x, axis)
        return (x.with_dims((*x.dims[:axis], cut, *x.dims[axis + 1 :])),)

    def _of_symbol(self, d: Dim) -> DimLike:
        match self.start, self.stop, self.step:
            case (0, int(k), 1) if k >= 0:
                return self._at_least(d, k)
            case (int(k), None, 1) if k < 0:
                return self._at_least(d, -k)
            case _:
                raise GraphError(
                    f"{self} of {describe_dim(d)}: a symbol takes [:], [::-1], its first [0:k] or last [-k:]"
                )

    def _at_least(self, d: Dim, k: int) -> int:
        if d.min < k:
            wanted = f'Dim("{d.name}", min={k}, max={d.max})'
            raise GraphError(f"{self} of {describe_dim(d)}: {d} may be as short as {d.min}; declare {wanted}")
        return k

    def _of_fixed(self, x: TensorType, axis: int) -> DimLike:
        d = x.dims[axis]
        n = bound(d)
        last = n if self.step > 0 else n - 1  # the first element of a backward slice must exist
        if not -n <= self.start <= last or not (self.stop is None or -n <= self.stop <= n):
            raise GraphError(f"{self} is outside axis {axis} of {x}, which has {describe_dim(d)} elements")
        length = len(range(*self.span.indices(n)))
        return d if length == n and abs(self.step) == 1 else length

    @property
    def span(self) -> slice:
        """The same as Python writes it."""
        return slice(self.start, self.stop, self.step)

    def __str__(self) -> str:
        stop = "" if self.stop is None else self.stop
        return f"[{self.start}:{stop}{'' if self.step == 1 else f':{self.step}'}]"

    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """NumPy's basic slicing, copied."""
        axis = self.axis % x.ndim
        return (fresh(x[(slice(None),) * axis + (self.span,)]),)


@register
@dataclass(frozen=True)
class Concat(Rearrangement):
    """Operands of one dtype, joined along an axis of fixed sizes; the result's axis is a plain int."""

    name: ClassVar[str] = "concat"
    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType]:
        """The joined type."""
        if not operands:
            raise GraphError("wanted one operand or more")
        same_dtype(*operands)
        axis = axis_of(operands[0], self.axis)
        if len(operands) == 1:
            return (operands[0],)
        dims = list(operands[0].dims)
        for x in operands[1:]:
            if x.rank != operands[0].rank:
                raise GraphError(f"{operands[0]} and {x} differ in rank")
            joined = operands[0].with_dims(dims)
            dims = [d if i == axis else met(joined, x, i, "one operand", "another") for i, d in enumerate(dims)]
        dims[axis] = sum(fixed(x.dims[axis], f"axis {axis} of a concatenation") for x in operands)
        return (operands[0].with_dims(dims),)

    def reference(self, sizes: Sizes, *operands: Array) -> tuple[Array]:
        """NumPy's concatenate."""
        return (fresh(np.concatenate(operands, axis=self.axis)),)
