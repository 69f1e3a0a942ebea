"""How the references compute: f16 and bf16 in f32, rounded once at the end; results contiguous and of the exact dtype.

narrow(np.exp(widen(x)), x)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vxgraph.ir.types import Array

HALVES = ("float16", "bfloat16")  # by name: loading ml_dtypes takes most of a second


def widen(x: Array) -> Array:
    """Halves in f32; everything else as it is."""
    return x.astype(np.float32) if x.dtype.name in HALVES else x


@np.errstate(all="ignore")  # an overflow is an inf, as on every device
def narrow(value: Any, like: Array) -> Array:
    """A computed value in the dtype of `like`, contiguous; not for views of operands."""
    return np.asarray(value, dtype=like.dtype, order="C")


def fresh(view: Array) -> Array:
    """A contiguous copy with strides of its own, also where the view has negative ones or one element."""
    return np.array(view, order="C", copy=True)
