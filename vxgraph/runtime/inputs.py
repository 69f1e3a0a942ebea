"""What a caller gives, checked before anything runs: names, dtypes, shapes, and the symbols' sizes.

arg "tokens" is i32[3000], wanted i32[T]: T is 3000, but runs from 1 to 2048
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

import numpy as np

from vxgraph.errors import RunError
from vxgraph.ir.types import DTYPES, Array, Dim, DType
from vxgraph.program.model import HostInput, Program


def check_args(program: Program, given: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, int]]:
    """The args as arrays and the sizes of the symbols; nothing is cast or copied. RunError names what is wrong."""
    check_names("arg", program.args, given)
    arrays: dict[str, Array] = {}
    sizes: dict[str, int] = {}
    source: dict[str, str] = {}  # the arg that gave each symbol its size
    for arg in program.args:
        arrays[arg.name] = array = check_array("arg", arg, given[arg.name])
        for dim, size in zip(arg.type.dims, array.shape, strict=True):
            if isinstance(dim, Dim) and dim.symbolic:
                _bind(arg, array, dim, size, sizes, source)
    return arrays, sizes


def check_names(kind: str, wanted: tuple[HostInput, ...], given: Iterable[str]) -> None:
    """Every name is there and no other; `kind` is "arg" or "param"."""
    names = [i.name for i in wanted]
    present = set(given)
    for name in sorted(present.difference(names), key=str):
        near = get_close_matches(str(name), names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise RunError(f"there is no {kind} {name!r}{hint}", details=(_listing(kind, names),))
    if missing := [i for i in wanted if i.name not in present]:
        shown = ", ".join(repr(i.name) for i in missing[:4]) + (" ..." if len(missing) > 4 else "")
        raise RunError(
            f"{kind}{'s' * (len(missing) > 1)} {shown} {'is' if len(missing) == 1 else 'are'} missing",
            loc=missing[0].loc,
            details=(_listing(kind, names),),
        )


def check_array(kind: str, wanted: HostInput, value: Any) -> Array:
    """The value as an array of the wanted dtype, rank and fixed dims; RunError says what was found and how to cast."""
    where = f"{kind} {wanted.name!r}"
    scalar = _constructor(wanted.type.dtype)
    if not isinstance(value, np.ndarray | np.generic):
        how = f"np.asarray(value, {scalar})"
        raise RunError(f"{where} is a {type(value).__name__}, wanted {wanted.type}; make it: {how}", loc=wanted.loc)
    array = np.asarray(cast("Array", value))
    found = f"{where} is {describe(array)}, wanted {wanted.type}"
    if array.dtype != wanted.type.dtype.numpy:
        raise RunError(f"{found}; cast it: value.astype({scalar})", loc=wanted.loc)
    if array.ndim != wanted.type.rank:
        raise RunError(f"{found}: rank {array.ndim} instead of {wanted.type.rank}", loc=wanted.loc)
    for axis, (dim, size) in enumerate(zip(wanted.type.dims, array.shape, strict=True)):
        fixed = dim.size if isinstance(dim, Dim) else dim
        if fixed is not None and fixed != size:
            raise RunError(f"{found}: axis {axis} is {size} instead of {fixed}", loc=wanted.loc)
    return array


def describe(array: Array) -> str:
    """`f32[1, 64]`, or NumPy's name of a dtype that is none of ours."""
    ours = next((t.name for t in DTYPES.values() if t.numpy == array.dtype), array.dtype.name)
    swapped = "" if array.dtype.isnative else " of the other byte order"
    return f"{ours}[{', '.join(map(str, array.shape))}]{swapped}"


def _bind(arg: HostInput, array: Array, dim: Dim, size: int, sizes: dict[str, int], source: dict[str, str]) -> None:
    found = f"arg {arg.name!r} is {describe(array)}, wanted {arg.type}: {dim} is {size}"
    if not dim.min <= size <= dim.bound:
        raise RunError(f"{found}, but runs from {dim.min} to {dim.bound}", loc=arg.loc)
    if sizes.setdefault(dim.name, size) != size:
        raise RunError(f"{found} here but {sizes[dim.name]} in {source[dim.name]!r}", loc=arg.loc)
    source.setdefault(dim.name, arg.name)


def _constructor(dtype: DType) -> str:
    """What a caller writes for the dtype."""
    return "ml_dtypes.bfloat16" if dtype.name == "bf16" else f"np.{dtype.numpy.name}"


def _listing(kind: str, names: list[str]) -> str:
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return f"{kind}s: {shown or 'none'}"
