"""Arithmetic element by element, with NumPy's broadcasting; one dtype in and out.

%add = add(%x, %bias) : f32[T, 64]
%silu = silu(%gate) : f32[T, 64]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import InternalError
from vxgraph.ir.op import Op, register
from vxgraph.ir.types import Array, Sizes, TensorType
from vxgraph.ops.numerics import narrow, widen
from vxgraph.ops.rules import ANY, FLOATS, NUMBERS, broadcast, same_dtype, want_kind


@dataclass(frozen=True)
class Unary(Op):
    """x -> the same type; `apply` gets f32 for halves."""

    elementwise: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = FLOATS

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The operand's type."""
        want_kind(x, self.takes)
        return (x,)

    def apply(self, x: Array) -> Array:
        """The function itself."""
        raise InternalError(f"{self.name}: no function")

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes, x: Array) -> tuple[Array]:
        """`apply` in f32 or wider, rounded once."""
        return (narrow(self.apply(widen(x)), x),)


@dataclass(frozen=True)
class Binary(Op):
    """(a, b) -> their dims broadcast, of the same dtype; `apply` gets f32 for halves."""

    elementwise: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = NUMBERS

    def infer(self, a: TensorType, b: TensorType) -> tuple[TensorType]:
        """The broadcast type."""
        same_dtype(a, b)
        want_kind(a, self.takes)
        return (a.with_dims(broadcast(a, b)),)

    def apply(self, a: Array, b: Array) -> Array:
        """The function itself."""
        raise InternalError(f"{self.name}: no function")

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes, a: Array, b: Array) -> tuple[Array]:
        """`apply` in f32 or wider, rounded once."""
        return (narrow(self.apply(widen(a), widen(b)), a),)


@register
@dataclass(frozen=True)
class Add(Binary):
    """a + b; integers wrap."""

    name: ClassVar[str] = "add"

    def apply(self, a: Array, b: Array) -> Array:
        """a + b."""
        return np.add(a, b)


@register
@dataclass(frozen=True)
class Sub(Binary):
    """a - b; integers wrap."""

    name: ClassVar[str] = "sub"

    def apply(self, a: Array, b: Array) -> Array:
        """a - b."""
        return np.subtract(a, b)


@register
@dataclass(frozen=True)
class Mul(Binary):
    """a * b; integers wrap."""

    name: ClassVar[str] = "mul"

    def apply(self, a: Array, b: Array) -> Array:
        """a * b."""
        return np.multiply(a, b)


@register
@dataclass(frozen=True)
class Div(Binary):
    """a / b of floats."""

    name: ClassVar[str] = "div"
    takes: ClassVar[frozenset[str]] = FLOATS

    def apply(self, a: Array, b: Array) -> Array:
        """a / b."""
        return np.divide(a, b)


@register
@dataclass(frozen=True)
class Maximum(Binary):
    """The larger; NaN where either is NaN; `or` of bools."""

    name: ClassVar[str] = "maximum"
    takes: ClassVar[frozenset[str]] = ANY

    def apply(self, a: Array, b: Array) -> Array:
        """max(a, b)."""
        return np.maximum(a, b)


@register
@dataclass(frozen=True)
class Minimum(Binary):
    """The smaller; NaN where either is NaN; `and` of bools."""

    name: ClassVar[str] = "minimum"
    takes: ClassVar[frozenset[str]] = ANY

    def apply(self, a: Array, b: Array) -> Array:
        """min(a, b)."""
        return np.minimum(a, b)


@register
@dataclass(frozen=True)
class Neg(Unary):
    """-x; integers wrap."""

    name: ClassVar[str] = "neg"
    takes: ClassVar[frozenset[str]] = NUMBERS

    def apply(self, x: Array) -> Array:
        """-x."""
        return np.negative(x)


@register
@dataclass(frozen=True)
class Relu(Unary):
    """max(x, 0); NaN stays NaN."""

    name: ClassVar[str] = "relu"
    takes: ClassVar[frozenset[str]] = NUMBERS

    def apply(self, x: Array) -> Array:
        """max(x, 0)."""
        return np.maximum(x, np.zeros((), x.dtype))


@register
@dataclass(frozen=True)
class Exp(Unary):
    """e to the x."""

    name: ClassVar[str] = "exp"

    def apply(self, x: Array) -> Array:
        """exp(x)."""
        return np.exp(x)


@register
@dataclass(frozen=True)
class Sqrt(Unary):
    """The square root; NaN below 0."""

    name: ClassVar[str] = "sqrt"

    def apply(self, x: Array) -> Array:
        """sqrt(x)."""
        return np.sqrt(x)


@register
@dataclass(frozen=True)
class Rsqrt(Unary):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "rsqrt"

    def apply(self, x: Array) -> Array:
        """1 / sqrt(x)."""
        return np.reciprocal(np.sqrt(x))


@register
@dataclass(frozen=True)
class Silu(Unary):
    """x * sigmoid(x) (Elfwing et al., 2017; Swish with beta 1)."""

    name: ClassVar[str] = "silu"

    def apply(self, x: Array) -> Array:
        """x / (1 + exp(-x))."""
        return x / (1 + np.exp(-x))


@register
@dataclass(frozen=True)
class Gelu(Unary):
    """x * Phi(x), exact by erf, not the tanh approximation (Hendrycks and Gimpel, 2016)."""

    name: ClassVar[str] = "gelu"

    def apply(self, x: Array) -> Array:
        """x * (1 + erf(x / sqrt(2))) / 2."""
        erf = np.vectorize(math.erf, otypes=[np.float64])
        return x * (1 + erf(x / math.sqrt(2))) / 2
