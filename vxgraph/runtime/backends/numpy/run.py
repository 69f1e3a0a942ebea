"""The shape of a kernel, and how halves are widened."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vxgraph.ir.types import Array, Sizes, TensorType, f32

Types = tuple[TensorType, ...]
Run = Callable[[Sequence[Array], Sequence[Array], Sizes], None]

SCRATCH = 4 << 20  # elements of f32 (16 MB): what a kernel may hold beside its operands and results


def all_f32(types: Types) -> bool:
    """Whether every type is f32."""
    return all(t.dtype is f32 for t in types)


def widened(x: Array) -> Array:
    """x in f32: itself where it is, else a copy."""
    if x.dtype == np.float32:
        return x
    if x.dtype.name != "bfloat16":
        return x.astype(np.float32)
    # bf16 is the upper half of an f32. A shift of whole arrays is several times faster than the element-wise cast.
    bits = x.view(np.uint16).astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)
