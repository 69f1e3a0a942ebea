"""Tensor types: a dtype and dims, where a named dim is also a layout tag.

    f32[1, 64]              plain ints
    f32[T, Head, D]         T = Dim("T", max=2048) is a bounded symbol, Head = Dim("Head", 9) is fixed

`[T, Head, D]` and `[Head, T, D]` never unify, even where the numbers are equal. A plain int unifies with a fixed named
dim of the same size and takes its name: unnamed means "layout not stated".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vxgraph.errors import GraphError, user_loc

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any  # NumPy is loaded by who needs it, which keeps `import vxgraph` quick

_IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = frozenset({"true", "false", "none", "inf", "nan"})  # the text format's own
MAX_SIZE = 2**63 - 1  # what an index of 64 bits can count
MAX_RANK = 32


@dataclass(frozen=True, slots=True)
class Dim:
    """A named dim: fixed, `Dim("Head", 9)`, or a symbol bound at run time, `Dim("T", min=1, max=2048)`."""

    name: str
    size: int | None = None
    max: int | None = None
    min: int = 0

    def __post_init__(self) -> None:
        if wrong := self._misfit():
            raise GraphError(f"Dim({self.name!r}): {wrong}", loc=user_loc())

    def _misfit(self) -> str:
        if not _IDENT.fullmatch(self.name) or self.name in (*DTYPES, *_WORDS):
            return f"a dim's name is an identifier, no dtype and none of {', '.join(sorted(_WORDS))}"
        if (self.size is None) == (self.max is None):
            return "give a size, or max= for a size known at run time"
        if any(type(n) is not int for n in (self.bound, self.min)):
            return f"sizes are Python ints, found {self.size if self.max is None else self.max!r} and min {self.min!r}"
        if not 0 <= self.min <= self.bound <= MAX_SIZE or (self.size is not None and self.min):
            return f"{self.min} to {self.bound} is no range of sizes"
        return ""

    @property
    def bound(self) -> int:
        """The largest size it can have."""
        return self.size if self.size is not None else self.max  # type: ignore[return-value]  # one of them is given

    @property
    def symbolic(self) -> bool:
        """True where the size is known at run time only."""
        return self.size is None

    def __str__(self) -> str:
        return self.name


DimLike = int | Dim
Sizes = Mapping[str, int]  # sizes of the symbolic dims in one run


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `f32[1, 64]` makes a TensorType."""

    name: str
    itemsize: int  # bytes
    kind: str  # "float", "int" or "bool"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same bytes (bf16 through ml_dtypes)."""
        return _numpy(self.name)

    def __getitem__(self, dims: DimLike | tuple[DimLike, ...]) -> TensorType:
        return TensorType(self, dims if isinstance(dims, tuple) else (dims,))

    def __str__(self) -> str:
        return self.name


f32 = DType("f32", 4, "float")
f16 = DType("f16", 2, "float")
bf16 = DType("bf16", 2, "float")
i32 = DType("i32", 4, "int")
i64 = DType("i64", 8, "int")
i8 = DType("i8", 1, "int")
u8 = DType("u8", 1, "int")
bool_ = DType("bool", 1, "bool")
DTYPES = {t.name: t for t in (f32, f16, bf16, i8, i32, i64, u8, bool_)}
_NUMPY = {
    "f32": "float32",
    "f16": "float16",
    "i8": "int8",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "bool": "bool",
}


@lru_cache
def _numpy(name: str) -> np.dtype[Any]:
    # Both are loaded by who needs them: a dtype alone needs neither, and ml_dtypes takes most of a second.
    import numpy as np

    if name == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_NUMPY[name])


def dtype_of(array: Array) -> DType:
    """The DType of a NumPy array; GraphError for one that no DType stands for (float64, say)."""
    if array.dtype.name == "bfloat16":
        return bf16
    for name in _NUMPY:
        if _numpy(name) == array.dtype:
            return DTYPES[name]
    raise GraphError(f"{array.dtype} is no dtype of a graph; cast to one of {', '.join(DTYPES)}")


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dtype and dims; always row-major and dense."""

    dtype: DType
    dims: tuple[DimLike, ...]
    max_bytes: int = field(init=False, compare=False, repr=False)  # with every symbol at its bound

    def __post_init__(self) -> None:
        for d in self.dims:
            if not isinstance(d, Dim) and (type(d) is not int or d < 0):
                raise GraphError(f"{d!r} is no dim; wanted an int of 0 or more, or a vxgraph.Dim", loc=user_loc())
        # The product last: that of a hundred thousand large dims takes minutes.
        nbytes = 0 if len(self.dims) > MAX_RANK else math.prod(map(bound, self.dims)) * self.dtype.itemsize
        if nbytes > MAX_SIZE or len(self.dims) > MAX_RANK:
            raise GraphError(
                f"{self} is too large: a tensor has at most {MAX_RANK} dims and {MAX_SIZE} bytes", loc=user_loc()
            )
        object.__setattr__(self, "max_bytes", nbytes)

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.dims)

    @property
    def symbols(self) -> tuple[Dim, ...]:
        """The dims whose size is known at run time only, in order, once each."""
        return tuple(dict.fromkeys(d for d in self.dims if isinstance(d, Dim) and d.symbolic))

    def shape(self, sizes: Sizes | None = None) -> tuple[int, ...]:
        """The shape in one run; `sizes` holds the symbols' sizes, None takes their bounds."""
        return tuple(size_in(d, sizes) for d in self.dims)

    def nbytes(self, sizes: Sizes | None = None) -> int:
        """Bytes in one run."""
        return math.prod(self.shape(sizes)) * self.dtype.itemsize

    def with_dims(self, dims: Iterable[DimLike]) -> TensorType:
        """The same dtype with other dims."""
        return TensorType(self.dtype, tuple(dims))

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same dims with another dtype."""
        return TensorType(dtype, self.dims)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.dims))}]"


def bound(d: DimLike) -> int:
    """The largest size of a dim."""
    return d.bound if isinstance(d, Dim) else d


def is_symbolic(d: DimLike) -> bool:
    """True for a dim whose size is known at run time only."""
    return isinstance(d, Dim) and d.symbolic


def size_in(d: DimLike, sizes: Sizes | None) -> int:
    """The size of a dim in one run."""
    if not isinstance(d, Dim):
        return d
    if d.size is not None:
        return d.size
    return d.bound if sizes is None else sizes[d.name]


def unify_dim(a: DimLike, b: DimLike) -> DimLike | None:
    """The dim that both can be, or None: equal dims, or an int and a fixed named dim of that size."""
    if a == b:
        return a
    if isinstance(a, Dim) and isinstance(b, Dim):
        return None
    named, plain = (a, b) if isinstance(a, Dim) else (b, a)
    return named if isinstance(named, Dim) and named.size == plain else None


def unify(a: TensorType, b: TensorType) -> TensorType | None:
    """The type that both can be, or None."""
    if a == b:
        return a
    if a.dtype != b.dtype or a.rank != b.rank:
        return None
    dims = [unify_dim(x, y) for x, y in zip(a.dims, b.dims, strict=True)]
    return None if any(d is None for d in dims) else TensorType(a.dtype, tuple(d for d in dims if d is not None))


def dims_in(value: object) -> list[Dim]:
    """The named dims of a type, or of an op's attribute."""
    if isinstance(value, TensorType):
        return [d for d in value.dims if isinstance(d, Dim)]
    if isinstance(value, Dim):
        return [value]
    if isinstance(value, tuple):
        return [v for v in value if isinstance(v, Dim)]  # type: ignore[reportUnknownVariableType]  # any literal
    return []


def describe_dim(d: DimLike) -> str:
    """A dim with its size, for messages: `Head=9`, `T<=2048`, `64`."""
    if not isinstance(d, Dim):
        return str(d)
    return f"{d.name}={d.size}" if d.size is not None else f"{d.name}<={d.max}"
