"""Element types as the C kernels number them (c/simd.h)."""

from __future__ import annotations

from vxgraph.ir.types import DType, TensorType, bf16, f16, f32, i8

CODES: dict[DType, int] = {f32: 0, bf16: 1, f16: 2, i8: 3}


def is_float(t: TensorType) -> bool:
    """Whether the kernels compute with such elements."""
    return t.dtype.kind == "float"
