"""A value with Python's operators: `x @ w + b`, `x[-1:]`, `w.T`, `x.to(vx.GPU[1])`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from vxgraph import ops
from vxgraph.dsl.trace import Handle, add, topology
from vxgraph.errors import GraphError, user_loc
from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, DimLike, DType
from vxgraph.topology.ids import Topology

Scalar = bool | int | float
Operand = Handle | Scalar


class Value(Handle):
    """A tensor in a graph: its name, its type, and the operators."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars leave `np.float32(2) * x` to the operators here

    @property
    def dims(self) -> tuple[DimLike, ...]:
        """The type's dims."""
        return self.type.dims

    def to(self, place: Topology, *, name: str | None = None) -> Value:
        """Moves it to a topology, explicitly: the transfer is kept even where nothing needs it."""
        return apply(ops.To, self, name=name, dst=topology(place, "to"))

    def cast(self, dtype: DType, *, name: str | None = None) -> Value:
        """Converts to another dtype, rounding to nearest even."""
        return apply(ops.Cast, self, name=name, dtype=dtype)

    def reshape(self, *dims: DimLike, name: str | None = None) -> Value:
        """The same elements, row-major, under other dims."""
        return apply(ops.Reshape, self, name=name, dims=dims)

    def transpose(self, *perm: int, name: str | None = None) -> Value:
        """Dims in another order (reversed, if none is given)."""
        return apply(ops.Transpose, self, name=name, perm=perm or tuple(reversed(range(self.type.rank))))

    @property
    def T(self) -> Value:  # noqa: N802  # NumPy's name
        """Dims reversed."""
        return self.transpose()

    def __add__(self, other: Operand) -> Value:
        return binary(ops.Add, self, other)

    def __radd__(self, other: Operand) -> Value:
        return binary(ops.Add, other, self)

    def __sub__(self, other: Operand) -> Value:
        return binary(ops.Sub, self, other)

    def __rsub__(self, other: Operand) -> Value:
        return binary(ops.Sub, other, self)

    def __mul__(self, other: Operand) -> Value:
        return binary(ops.Mul, self, other)

    def __rmul__(self, other: Operand) -> Value:
        return binary(ops.Mul, other, self)

    def __truediv__(self, other: Operand) -> Value:
        return binary(ops.Div, self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return binary(ops.Div, other, self)

    def __matmul__(self, other: Handle) -> Value:
        return apply(ops.MatMul, self, other)

    def __neg__(self) -> Value:
        return apply(ops.Neg, self)

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]  # elementwise, as NumPy's
        return binary(ops.Compare, self, other, kind="eq")

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]  # elementwise, as NumPy's
        return binary(ops.Compare, self, other, kind="ne")

    __hash__ = Handle.__hash__

    def __lt__(self, other: Operand) -> Value:
        return binary(ops.Compare, self, other, kind="lt")

    def __le__(self, other: Operand) -> Value:
        return binary(ops.Compare, self, other, kind="le")

    def __gt__(self, other: Operand) -> Value:
        return binary(ops.Compare, self, other, kind="gt")

    def __ge__(self, other: Operand) -> Value:
        return binary(ops.Compare, self, other, kind="ge")

    def __getitem__(self, key: int | slice | EllipsisType | tuple[int | slice, ...]) -> Value:
        """Slices with Python's meaning; an int takes one element of its axis and drops the axis."""
        return _index(self, key if isinstance(key, tuple) else () if key is Ellipsis else (key,))  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        raise GraphError(
            f"{self!r} has no truth value while the graph is built; use vx.where, or vx.stop inside vx.loop",
            loc=user_loc(),
        )

    def __iter__(self) -> Iterator[Value]:
        raise GraphError(f"{self!r} cannot be iterated; index it: x[0], x[1:]", loc=user_loc())


def apply(cls: type[Op], *operands: object, name: str | None = None, **attributes: Any) -> Value:
    """The op with these attributes on these operands."""
    handle = add(cls, attributes, operands, name)
    return Value(handle.builder, handle.name, handle.type)


def binary(cls: type[Op], a: Operand, b: Operand, *, name: str | None = None, **attributes: Any) -> Value:
    """An op on two operands, where one of them may be a Python number: it takes the other's dtype."""
    like = a if isinstance(a, Handle) else b
    if not isinstance(like, Handle):
        raise GraphError(f"{cls.name}: neither {a!r} nor {b!r} is a value of a graph", loc=user_loc())
    return apply(cls, scalar(a, like.type.dtype), scalar(b, like.type.dtype), name=name, **attributes)


def scalar(x: object, dtype: DType) -> object:
    """A Python or NumPy number as a constant of this dtype; anything else as it is."""
    number: object = x.item() if isinstance(x, np.generic) else x  # type: ignore[reportUnknownVariableType]
    if not isinstance(number, (bool, int, float)):
        return x  # type: ignore[reportUnknownVariableType]
    if dtype.kind != "float" and isinstance(number, float):
        raise GraphError(f"{x!r} is no {dtype.name}; cast the other operand first", loc=user_loc())
    return literal(number, dtype)


def literal(value: Any, dtype: DType, *, name: str | None = None) -> Value:
    """A number, nested lists or an array as a constant; GraphError where the dtype cannot hold a value."""
    try:
        array = np.asarray(value)
        if dtype.kind == "float":
            array = _rounded(array, dtype)
    except (ValueError, TypeError, OverflowError):
        raise GraphError(f"{value!r} is no constant of {dtype}", loc=user_loc()) from None
    return apply(ops.Constant, name=name, type=dtype[array.shape], values=tuple(array.ravel().tolist()))


def _rounded(array: Array, dtype: DType) -> Array:
    """The values that the dtype holds, as float64; OverflowError for a finite one that it would make infinite."""
    with np.errstate(all="ignore"):
        rounded = array.astype(dtype.numpy).astype(np.float64)
        if (np.isinf(rounded) & np.isfinite(array.astype(np.float64))).any():
            raise OverflowError
    return rounded


def _index(value: Value, keys: Sequence[int | slice]) -> Value:
    if len(keys) > value.type.rank:
        raise GraphError(f"{value!r} has {value.type.rank} dims, but {len(keys)} indices", loc=user_loc())
    dropped: list[int] = []
    for axis, key in enumerate(keys):
        if isinstance(key, slice):
            start, stop, step = _bounds(key)
        else:
            if type(key) is not int:
                raise GraphError(f"{key!r} is no index; wanted a Python int or a slice", loc=user_loc())
            start, stop, step = key, key + 1 or None, 1
            dropped.append(axis)
        if (start, stop, step) != (0, None, 1):
            value = apply(ops.Slice, value, axis=axis, start=start, stop=stop, step=step)
    if dropped:
        value = value.reshape(*(d for axis, d in enumerate(value.dims) if axis not in dropped))
    return value


def _bounds(key: slice) -> tuple[int, int | None, int]:
    step = 1 if key.step is None else key.step
    start = (0 if step > 0 else -1) if key.start is None else key.start
    return start, key.stop, step
