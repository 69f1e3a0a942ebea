"""A value with Python's operators: `x @ w + b`, `x[-1:]`, `w.T`, `x.to(vx.GPU[1])`."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

import numpy as np

from vxgraph import ops
from vxgraph.dsl.trace import Handle, add, user_loc
from vxgraph.errors import GraphError
from vxgraph.ir.op import Op
from vxgraph.ir.types import DimLike, DType
from vxgraph.topology.ids import Topology

Scalar = bool | int | float
Operand = Handle | Scalar


class Value(Handle):
    """A tensor in a graph: its name, its type, and the operators."""

    __slots__ = ()

    @property
    def dims(self) -> tuple[DimLike, ...]:
        """The type's dims."""
        return self.type.dims

    def to(self, place: Topology, *, name: str | None = None) -> Value:
        """Moves it to a topology, explicitly: the transfer is kept even where nothing needs it."""
        return apply(ops.To(dst=place), self, name=name)

    def cast(self, dtype: DType, *, name: str | None = None) -> Value:
        """Converts to another dtype, rounding to nearest even."""
        return apply(ops.Cast(dtype=dtype), self, name=name)

    def reshape(self, *dims: DimLike, name: str | None = None) -> Value:
        """The same elements, row-major, under other dims."""
        return apply(ops.Reshape(dims=dims), self, name=name)

    def transpose(self, *perm: int, name: str | None = None) -> Value:
        """Dims in another order (reversed, if none is given)."""
        return apply(ops.Transpose(perm=perm or tuple(reversed(range(self.type.rank)))), self, name=name)

    @property
    def T(self) -> Value:  # noqa: N802  # NumPy's name
        """Dims reversed."""
        return self.transpose()

    def __add__(self, other: Operand) -> Value:
        return binary(ops.Add(), self, other)

    def __radd__(self, other: Operand) -> Value:
        return binary(ops.Add(), other, self)

    def __sub__(self, other: Operand) -> Value:
        return binary(ops.Sub(), self, other)

    def __rsub__(self, other: Operand) -> Value:
        return binary(ops.Sub(), other, self)

    def __mul__(self, other: Operand) -> Value:
        return binary(ops.Mul(), self, other)

    def __rmul__(self, other: Operand) -> Value:
        return binary(ops.Mul(), other, self)

    def __truediv__(self, other: Operand) -> Value:
        return binary(ops.Div(), self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return binary(ops.Div(), other, self)

    def __matmul__(self, other: Handle) -> Value:
        return apply(ops.MatMul(), self, other)

    def __neg__(self) -> Value:
        return apply(ops.Neg(), self)

    def __lt__(self, other: Operand) -> Value:
        return binary(ops.Compare(kind="lt"), self, other)

    def __le__(self, other: Operand) -> Value:
        return binary(ops.Compare(kind="le"), self, other)

    def __gt__(self, other: Operand) -> Value:
        return binary(ops.Compare(kind="gt"), self, other)

    def __ge__(self, other: Operand) -> Value:
        return binary(ops.Compare(kind="ge"), self, other)

    def __getitem__(self, key: int | slice | EllipsisType | tuple[int | slice, ...]) -> Value:
        """Slices with Python's meaning; an int takes one element of its axis and drops the axis."""
        return _index(self, key if isinstance(key, tuple) else () if key is Ellipsis else (key,))  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        raise GraphError(
            f"{self!r} has no truth value while the graph is built; use vx.where, or vx.stop inside vx.loop",
            loc=user_loc(),
        )


def apply(op: Op, *operands: object, name: str | None = None) -> Value:
    """`op(operands)` with one result."""
    handle = add(op, operands, name)[0]
    return Value(handle.builder, handle.name, handle.type)


def binary(op: Op, a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`op(a, b)`, where one of the two may be a Python number: it takes the other's dtype."""
    like = a if isinstance(a, Handle) else b
    if not isinstance(like, Handle):
        raise GraphError(f"{op.name}: neither {a!r} nor {b!r} is a value of a graph", loc=user_loc())
    return apply(op, scalar(a, like.type.dtype), scalar(b, like.type.dtype), name=name)


def scalar(x: object, dtype: DType) -> object:
    """A Python or NumPy number as a constant of this dtype; anything else as it is."""
    if not isinstance(x, (bool, int, float)):  # NumPy's float64 is a float
        return x
    if dtype.kind != "float" and isinstance(x, float):
        raise GraphError(f"{x!r} is no {dtype.name}; cast the other operand first", loc=user_loc())
    value: Scalar = np.asarray(x).astype(dtype.numpy).item() if dtype.kind == "float" else x
    return apply(ops.Constant(type=dtype[()], values=(value,)))


def _index(value: Value, keys: Sequence[int | slice]) -> Value:
    if len(keys) > value.type.rank:
        raise GraphError(f"{value!r} has {value.type.rank} dims, but {len(keys)} indices", loc=user_loc())
    dropped: list[int] = []
    for axis, key in enumerate(keys):
        if isinstance(key, slice):
            start, stop, step = _bounds(key)
        else:
            start, stop, step = key, key + 1 or None, 1
            dropped.append(axis)
        if (start, stop, step) != (0, None, 1):
            value = apply(ops.Slice(axis=axis, start=start, stop=stop, step=step), value)
    if dropped:
        value = value.reshape(*(d for axis, d in enumerate(value.dims) if axis not in dropped))
    return value


def _bounds(key: slice) -> tuple[int, int | None, int]:
    step = 1 if key.step is None else key.step
    start = (0 if step > 0 else -1) if key.start is None else key.start
    return start, key.stop, step
