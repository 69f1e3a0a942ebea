"""Strided views of tensors, and the fewest axes that say the same.

[4, 8, 64] read as (512, 64, 1) and (0, 0, 1)   ->   [32, 64] read as (64, 1) and (0, 1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vxgraph.runtime.backends.cupy.kernels.launch import Shape


@dataclass(frozen=True, slots=True)
class View:
    """Where the element at an index is: offset + sum(index * strides), in elements."""

    strides: Shape
    offset: int = 0


def dense(shape: Shape) -> View:
    """A whole row-major tensor."""
    return View(tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))


def stretched(shape: Shape, to: Shape) -> View:
    """A row-major tensor under NumPy's broadcasting: stride 0 where a size of 1 stretches."""
    missing = len(to) - len(shape)
    own = zip(shape, dense(shape).strides, to[missing:], strict=True)
    return View((0,) * missing + tuple(0 if size == 1 and wanted != 1 else stride for size, stride, wanted in own))


def collapsed(shape: Shape, views: Sequence[View]) -> tuple[Shape, list[View]]:
    """The same elements in the same order under fewer axes, at least one; no size is 0."""
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in views]
    for axis, size in enumerate(shape):
        steps = [v.strides[axis] for v in views]
        if size == 1:
            continue
        if sizes and all(kept[-1] == step * size for kept, step in zip(strides, steps, strict=True)):
            sizes[-1] *= size
            for kept, step in zip(strides, steps, strict=True):
                kept[-1] = step
        else:
            sizes.append(size)
            for kept, step in zip(strides, steps, strict=True):
                kept.append(step)
    if not sizes:
        sizes, strides = [1], [[1] for _ in views]
    return tuple(sizes), [View(tuple(s), v.offset) for s, v in zip(strides, views, strict=True)]


def span(shape: Shape, view: View) -> int:
    """No index, nor any partial sum of one, is further from 0 than this."""
    return abs(view.offset) + sum(abs(stride) * size for stride, size in zip(view.strides, shape, strict=True))
