"""One kernel for everything that makes each result element from one element of each operand.

Elementwise ops, fused or not, compare, where, cast, and all movement (transpose, slice, concat) differ in the body and
in how operands are read. A thread takes as many neighbours as fill 16 bytes, where last axis and addresses allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase

import numpy as np

from vxgraph.runtime.backends.cupy.kernels.launch import Arg, Launch, Shape, flat
from vxgraph.runtime.backends.cupy.kernels.source import cuda
from vxgraph.runtime.backends.cupy.kernels.views import View, collapsed, span

_SIZES = {
    "bool": 1,
    "i8": 1,
    "u8": 1,
    "f16": 2,
    "bf16": 2,
    "u16": 2,
    "u32": 4,
    "int": 4,
    "float": 4,
    "i64": 8,
    "u64": 8,
}
_MANY = 2**31 - 2**10  # what an int can index, with a whole pack to spare


@dataclass(frozen=True, slots=True)
class Body:
    """`value` is a C++ expression of type `out` over elements a, b, c, ... of these C++ types."""

    entry: str
    types: tuple[str, ...]
    out: str
    value: str


def strided(body: Body, shape: Shape, operands: Sequence[View], out: View, pointers: Sequence[Arg]) -> Launch | None:
    """Computes every element of `shape`; `pointers` are the operands' addresses, then the result's."""
    count = math.prod(shape)
    if count == 0:
        return None
    sizes, views = collapsed(shape, [*operands, out])
    index = np.int32 if max(count, *(span(sizes, v) for v in views)) < _MANY else np.int64
    ways = "".join(_way(v) for v in views)
    pack = _pack(body, sizes, ways)
    numbers: list[int] = [count, *sizes[1:]]
    for view in views:
        numbers += [view.offset, *view.strides]
    source = _source(body, len(sizes), ways, pack, index is np.int64)
    return flat(source, body.entry, -(-count // pack), *pointers, *map(index, numbers))


def _way(view: View) -> str:
    """How neighbours lie: d(ense), s(ame element), or g(athered)."""
    return {1: "d", 0: "s"}.get(view.strides[-1], "g")


def _pack(body: Body, sizes: Shape, ways: str) -> int:
    """Neighbours per thread: as fill 16 bytes of the widest type, and no more than divide a row of several."""
    widths = [_SIZES[t] for t, way in zip((*body.types, body.out), ways, strict=True) if way == "d"]
    pack = 16 // max(widths) if widths and ways[-1] == "d" else 1
    return pack if len(sizes) == 1 else math.gcd(pack, sizes[-1])


@lru_cache(maxsize=1024)
def _source(body: Body, rank: int, ways: str, pack: int, far: bool) -> str:
    names = [*ascii_lowercase[: len(body.types)], "out"]
    types = [*body.types, body.out]
    inputs = list(zip(names[:-1], types[:-1], ways, strict=False))
    params = [f"const {t}* {n}_" for n, t, _ in inputs] + [f"{body.out}* __restrict__ out_", "Index count"]
    params += [f"Index size{axis}" for axis in range(1, rank)]
    params += [p for n in names for p in (f"Index {n}_offset", *(f"Index {n}_step{axis}" for axis in range(rank)))]
    ids = ["Index rest = first;"]
    ids += [f"const Index x{axis} = rest % size{axis}; rest /= size{axis};" for axis in range(rank - 1, 0, -1)]
    ids += ["const Index x0 = rest;"]
    ids += [
        f"auto* {n} = {n}_ + ({n}_offset + {' + '.join(f'x{axis} * {n}_step{axis}' for axis in range(rank))});"
        for n in names
    ]
    whole = ["first + COUNT <= count"] + [
        f"aligned<COUNT>({n})" for n, way in zip(names, ways, strict=True) if way == "d"
    ]
    last = rank - 1
    loads = [f"const auto {n}s = load_{way}<COUNT>({n}, {n}_step{last}, here, whole);" for n, _, way in inputs]
    value = ", ".join(f"{n}s.at[i]" for n, _, _ in inputs)
    return "\n".join(
        (
            cuda("device"),
            cuda("prelude"),
            f"using Index = {'i64' if far else 'int'};",
            f"constexpr int COUNT = {pack};",
            cuda("strided"),
            f"__device__ __forceinline__ {body.out} value_of({', '.join(f'{t} {n}' for n, t, _ in inputs)}) {{",
            f"  return {body.value};",
            "}",
            "",
            f'extern "C" __global__ void __launch_bounds__(128) {body.entry}(',
            f"    {', '.join(params)}) {{",
            "  const i64 at = thread_of_grid() * COUNT;",
            "  if (at >= count) return;",
            "  const Index first = (Index)at;",
            *(f"  {line}" for line in ids),
            f"  const bool whole = {' && '.join(whole)};",
            "  const int here = first + COUNT <= count ? COUNT : (int)(count - first);",
            *(f"  {line}" for line in loads),
            f"  Pack<{body.out}, COUNT> results;",
            "#pragma unroll",
            f"  for (int i = 0; i < COUNT; ++i) results.at[i] = value_of({value});",
            f"  store_{ways[-1]}<COUNT>(out, results, out_step{last}, here, whole);",
            "}",
            "",
        )
    )
