"""Values from nothing: constants, counting, and a symbol's size.

%constant = constant() {type = f32[2], values = [1.0, 2.0]} : f32[2]
%iota = iota() {dim = T} : i32[T]
%size = size() {dim = T} : i32[]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vxgraph.errors import GraphError
from vxgraph.ir.op import Op, register
from vxgraph.ir.types import Array, Dim, DimLike, DType, Sizes, TensorType, bound, dtype_of, i32, size_in
from vxgraph.ops.rules import NUMBERS, want_kind

Scalar = bool | int | float
# The largest n such that 0..n-1 are all exact.
_COUNTS = {
    "i8": 2**7,
    "u8": 2**8,
    "i32": 2**31,
    "i64": 2**63,
    "f32": 2**24 + 1,
    "f16": 2**11 + 1,
    "bf16": 2**8 + 1,
}
_SCALARS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float)}


@register
@dataclass(frozen=True)
class Constant(Op):
    """() -> values that the graph itself holds, row-major."""

    name: ClassVar[str] = "constant"
    type: TensorType
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if self.type.symbols:
            raise GraphError(f"a constant's dims are fixed, found {self.type}")
        wanted = math.prod(self.type.shape())
        if len(self.values) != wanted:
            raise GraphError(f"{self.type} has {wanted} values, found {len(self.values)}")
        object.__setattr__(self, "values", tuple(_scalar(v, self.type.dtype) for v in self.values))

    def infer(self) -> tuple[TensorType]:
        """The stated type."""
        return (self.type,)

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes) -> tuple[Array]:
        """The values, rounded to the dtype."""
        wide = np.array(self.values, dtype=np.float64 if self.type.dtype.kind == "float" else self.type.dtype.numpy)
        return (wide.astype(self.type.dtype.numpy).reshape(self.type.shape()),)


def _scalar(value: Any, dtype: DType) -> Scalar:
    """The value as the dtype's kind of Python scalar."""
    kinds = _SCALARS[dtype.kind]
    if not isinstance(value, kinds) or (dtype.kind != "bool" and isinstance(value, bool)):
        raise GraphError(f"{value!r} is no value of {dtype}")
    if dtype.kind == "float":
        return math.nan if value != value else float(value)  # one NaN object, so that equal constants compare equal
    if dtype.kind == "int":
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= value <= limits.max:
            raise GraphError(f"{value} is outside {dtype}: {limits.min} to {limits.max}")
    return value


def constant_of(array: Array) -> Constant:
    """The constant that holds a NumPy array of one of the graph's dtypes."""
    dtype = dtype_of(array)
    flat = array.astype(np.float64) if dtype.kind == "float" else array
    return Constant(TensorType(dtype, array.shape), tuple(flat.ravel().tolist()))


@register
@dataclass(frozen=True)
class Iota(Op):
    """() -> [dim]: 0, 1, 2, ... as numpy.arange."""

    name: ClassVar[str] = "iota"
    dim: DimLike
    dtype: DType = i32

    def infer(self) -> tuple[TensorType]:
        """One axis of that dim."""
        result = TensorType(self.dtype, (self.dim,))
        want_kind(result, NUMBERS)
        if bound(self.dim) > _COUNTS[self.dtype.name]:
            raise GraphError(f"{self.dtype} cannot count to {bound(self.dim) - 1} exactly; count in i32 and cast")
        return (result,)

    def reference(self, sizes: Sizes) -> tuple[Array]:
        """NumPy's arange."""
        return (np.arange(size_in(self.dim, sizes)).astype(self.dtype.numpy),)


@register
@dataclass(frozen=True)
class Size(Op):
    """() -> i32[]: how large the dim is in this run."""

    name: ClassVar[str] = "size"
    dim: Dim

    def infer(self) -> tuple[TensorType]:
        """A scalar."""
        return (TensorType(i32, ()),)

    def reference(self, sizes: Sizes) -> tuple[Array]:
        """The run's size."""
        return (np.array(size_in(self.dim, sizes), dtype=np.int32),)
