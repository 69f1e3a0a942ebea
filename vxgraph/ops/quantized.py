"""The matrix product with a weight quantised to 8 bits, a scale per row (Dettmers et al., 2022, section 2).

%wq = %wq.i8 * %wq.scale, row by row: never made as a whole

%q = quantized_matmul(%h, %wq.i8, %wq.scale) : f32[T, 576]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import GraphError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, Sizes, TensorType, bound, describe_dim, f32, i8, unify_dim
from vxgraph.ops.rules import meeting, want_rank

LARGEST = 127  # -128 is not used, so that a weight and its negative round alike
_BLOCK = 1 << 20  # elements that are widened at a time


@register
@dataclass(frozen=True)
class QuantizedMatMul(Op):
    """(x f32 [..., K], weight i8 [N, K], scale f32 [N]) -> f32 [..., N]: x @ (weight * scale[:, None]).T.

    Sums are in f32. A kernel may multiply by the scale after it has summed. K = 0 gives zeros.
    """

    name: ClassVar[str] = "quantized_matmul"

    def infer(self, x: TensorType, weight: TensorType, scale: TensorType) -> tuple[TensorType]:
        """x's dims, with the weight's rows for the last."""
        _want_operands(x, weight, scale)
        rows, inner = weight.dims
        if unify_dim(x.dims[-1], inner) is None:
            has = f"{describe_dim(x.dims[-1])} {'columns' if x.rank > 1 else 'elements'}"
            raise GraphError(f"{x} has {has} but weight {weight} has {describe_dim(inner)}")
        named = unify_dim(rows, scale.dims[0])
        if named is None:
            raise GraphError(
                f"weight {weight} has a scale for each row, but scale is {scale}: "
                f"{meeting(rows, scale.dims[0], weight, scale)}"
            )
        return (x.with_dims((*x.dims[:-1], named)),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """2 M N K multiply-adds and a scaling; every operand read once, the weight as bytes."""
        elements = outs[0].max_bytes // outs[0].dtype.itemsize
        nbytes = sum(t.max_bytes for t in (*ins, *outs))
        return Cost(elements * (2.0 * bound(ins[0].dims[-1]) + 1), float(nbytes))

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes, x: Array, weight: Array, scale: Array) -> tuple[Array]:
        """NumPy's matmul with the weight dequantised."""
        wide = weight * scale[:, None]
        return (np.asarray(np.matmul(x, wide.T), dtype=np.float32, order="C"),)


def _want_operands(x: TensorType, weight: TensorType, scale: TensorType) -> None:
    if x.dtype is not f32 or x.rank < 1:
        raise GraphError(f"wanted x f32[..., K], found {x}{'; cast it: x.cast(vx.f32)' if x.rank else ''}")
    want_rank(weight, 2, "a weight", "i8[N, K]")
    if weight.dtype is not i8:
        raise GraphError(f"wanted a weight i8[N, K], found {weight}; matmul takes a weight of floats")
    want_rank(scale, 1, "a scale", "f32[N]")
    if scale.dtype is not f32:
        raise GraphError(f"wanted a scale f32[N], found {scale}")


def quantize(weight: Array) -> tuple[Array, Array]:
    """A matrix of floats [N, K] as i8 [N, K] and a scale f32 [N]: the largest of a row becomes 127 or -127.

    Scaled values round half to even. A row of zeros has scale 0. Raises GraphError for values that are not finite.
    """
    stored, scale = np.empty(weight.shape, np.int8), np.empty(len(weight), np.float32)
    step = max(1, _BLOCK // max(1, weight.shape[1]))
    for start in range(0, len(weight), step):
        rows = weight[start : start + step].astype(np.float32)
        largest = np.max(np.abs(rows), axis=1, initial=0)
        if not np.isfinite(largest).all():
            raise GraphError(f"row {start + int(np.argmin(np.isfinite(largest)))} has values that are not finite")
        scale[start : start + step] = largest / LARGEST
        divisor = scale[start : start + step, None]
        np.divide(rows, divisor, out=rows, where=divisor > 0)  # a row of less than f32's least scale is zeros
        stored[start : start + step] = np.clip(np.rint(rows, out=rows), -LARGEST, LARGEST)
    return stored, scale
