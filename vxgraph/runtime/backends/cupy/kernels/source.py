"""CUDA C++ as one text per kernel and types: the shared head, then what varies, then a file of cuda/.

render("gemv", using(T="bf16"), constants(ROWS=1, UNROLL=8))

The text has no includes, so a compiler needs no header and takes a tenth of a second.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from vxgraph.ir.types import DType

_NAMES = {"f32": "float", "i32": "int"}  # the others are C++ types of the same name
_RAW = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
# Halves compute in float, everything else in itself.
_WIDE = {"f16": "float", "bf16": "float", "f32": "float", "i32": "int"}


def c_type(dtype: DType) -> str:
    """The C++ type of one element."""
    return _NAMES.get(dtype.name, dtype.name)


def wide_type(dtype: DType) -> str:
    """The C++ type that arithmetic is done in."""
    return _WIDE.get(dtype.name, dtype.name)


def raw_type(dtype: DType) -> str:
    """An unsigned C++ type of the same size, for what only moves elements."""
    return _RAW[dtype.itemsize]


def using(**types: str) -> str:
    """`using T = bf16;` for each."""
    return "".join(f"using {name} = {type};\n" for name, type in types.items())


def constants(**values: bool | int) -> str:
    """`constexpr int ROWS = 2;` for each."""
    return "".join(f"constexpr {_constant(name, value)};\n" for name, value in values.items())


def _constant(name: str, value: bool | int) -> str:
    return f"bool {name} = {str(value).lower()}" if isinstance(value, bool) else f"int {name} = {value}"


@lru_cache(maxsize=1024)
def render(kernel: str, *definitions: str, before: tuple[str, ...] = ()) -> str:
    """The whole source of a kernel of cuda/; `before` names files that it builds on."""
    parts = [cuda("device"), cuda("prelude"), *definitions, *map(cuda, before), cuda(kernel)]
    return "\n".join(parts)


@lru_cache
def cuda(name: str) -> str:
    """A file of cuda/."""
    return files("vxgraph.runtime.backends.cupy.kernels").joinpath("cuda", f"{name}.cu").read_text(encoding="utf-8")
