"""Element types as the C kernels number them (c/simd.h), and what the pool has room for."""

from __future__ import annotations

import math
from collections.abc import Iterable

from vxgraph.ir.types import DimLike, DType, TensorType, bf16, bound, f16, f32, i8
from vxgraph.runtime.backends.numpy.native.pool import UNITS

CODES: dict[DType, int] = {f32: 0, bf16: 1, f16: 2, i8: 3}


def is_float(t: TensorType) -> bool:
    """Whether the kernels compute with such elements."""
    return t.dtype.kind == "float"


def few(dims: Iterable[DimLike]) -> bool:
    """Whether a unit for each of these fits the pool, at the symbols' bounds."""
    return math.prod(map(bound, dims)) < UNITS
