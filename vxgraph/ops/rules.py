"""Typing rules that several ops share; each raises GraphError with a message and no place.

f32[4, 64] and bf16[4, 64] differ in dtype; cast one of them: x.cast(vx.f32)
f32[T, Head, 64] does not broadcast with f32[Head, T, 64]: T<=2048 met Head=9; transpose one of them
"""

from __future__ import annotations

from itertools import zip_longest

from vxgraph.errors import GraphError
from vxgraph.ir.types import Dim, DimLike, DType, TensorType, describe_dim, f32, unify_dim

FLOATS = frozenset({"float"})
INTS = frozenset({"int"})
NUMBERS = FLOATS | INTS
ANY = NUMBERS | {"bool"}
_WANTED = {FLOATS: "floats", INTS: "integers", NUMBERS: "floats or integers", ANY: "any dtype"}


def want_kind(x: TensorType, kinds: frozenset[str], what: str = "") -> None:
    """The dtype's kind must be one of these."""
    if x.dtype.kind not in kinds:
        wanted = f"{what} of {_WANTED[kinds]}" if what else _WANTED[kinds]
        cast = "vx.i32" if kinds == INTS else "vx.f32"
        raise GraphError(f"wanted {wanted}, found {x}; cast it: x.cast({cast})")


def want_rank(x: TensorType, rank: int, what: str, shape: str) -> None:
    """The operand must have this rank; `shape` shows what is wanted."""
    if x.rank != rank:
        raise GraphError(f"wanted {what} {shape}, found {x}")


def want_scalar(x: TensorType, dtype: DType, what: str) -> None:
    """The operand must be a scalar of this dtype."""
    if x != TensorType(dtype, ()):
        raise GraphError(f"wanted {what} {dtype}[], found {x}")


def same_dtype(*operands: TensorType) -> DType:
    """The dtype of all operands; nothing is promoted."""
    first = operands[0]
    for x in operands[1:]:
        if x.dtype != first.dtype:
            wide = _holds_both(first.dtype, x.dtype)
            raise GraphError(f"{first} and {x} differ in dtype; cast one of them: x.cast(vx.{wide})")
    return first.dtype


def _holds_both(a: DType, b: DType) -> DType:
    """The dtype that a message proposes to meet in."""
    if a.kind == b.kind == "float" and a.itemsize == b.itemsize:
        return f32  # f16 and bf16: neither holds the other
    order = ("bool", "int", "float")
    return max(a, b, key=lambda t: (order.index(t.kind), t.itemsize))


def meeting(x: DimLike, y: DimLike, a: TensorType, b: TensorType) -> str:
    """`Head=9 met T<=2048; transpose one of them`: dims x of a and y of b that do not unify, and what may help."""
    met = f"{describe_dim(x)} met {describe_dim(y)}"
    if not (isinstance(x, Dim) and isinstance(y, Dim)):
        return met
    if x in b.dims or y in a.dims:
        return f"{met}; transpose one of them"
    return f"{met}; a named dim meets only itself" if x.bound == y.bound else met


def met(a: TensorType, b: TensorType, axis: int, left: str, right: str) -> DimLike:
    """The dim that both have at an axis; `left` and `right` say what they are."""
    both = unify_dim(a.dims[axis], b.dims[axis])
    if both is None:
        found = meeting(a.dims[axis], b.dims[axis], a, b)
        raise GraphError(f"{left} {a} and {right} {b} differ at axis {axis}: {found}")
    return both


def broadcast(a: TensorType, b: TensorType, *, trailing: int = 0) -> tuple[DimLike, ...]:
    """The dims of both under NumPy's broadcasting: aligned at the right, a plain 1 stretches; `trailing` stay out."""
    lead, other = (reversed(t.dims[: max(t.rank - trailing, 0)]) for t in (a, b))
    dims = [_broadcast_dim(x, y, a, b) for x, y in zip_longest(lead, other, fillvalue=1)]
    return tuple(reversed(dims))


def _broadcast_dim(x: DimLike, y: DimLike, a: TensorType, b: TensorType) -> DimLike:
    if x == 1:
        return y
    both = x if y == 1 else unify_dim(x, y)
    if both is None:
        raise GraphError(f"{a} does not broadcast with {b}: {meeting(x, y, a, b)}")
    return both


def same_layout(a: TensorType, b: TensorType) -> None:
    """A named dim of both stands at the same axis in both: plain sizes that happen to be equal hide no swap."""
    for i, d in enumerate(a.dims):
        for j, e in enumerate(b.dims):
            if isinstance(d, Dim) and d == e and i != j and b.dims[i : i + 1] != (d,) and a.dims[j : j + 1] != (d,):
                raise GraphError(f"{d} is axis {i} of {a} but axis {j} of {b}; transpose one of them")


def axis_of(x: TensorType, axis: int) -> int:
    """The axis counted from the left."""
    if not -x.rank <= axis < x.rank:
        has = f"axes {-x.rank} to {x.rank - 1}" if x.rank else "no axes"
        raise GraphError(f"there is no axis {axis}: {x} has {has}")
    return axis % x.rank


def fixed(d: DimLike, what: str) -> int:
    """The size of a dim that must be known when the graph is built."""
    if isinstance(d, Dim):
        if d.size is None:
            raise GraphError(f"{what} must be known when the graph is built, found {describe_dim(d)}")
        return d.size
    return d
