"""The matrix product.

%matmul = matmul(%x, %w) : f32[T, 256]
%logits = matmul(%x, %table) {transpose_b = true} : f32[T, Vocab]

A right side stored in half the bytes keeps its left side in f32: f32[T, 64] @ bf16[64, 256] is f32[T, 256].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vxgraph.errors import GraphError
from vxgraph.ir.op import Cost, Op, register
from vxgraph.ir.types import Array, DimLike, Sizes, TensorType, bf16, bound, describe_dim, f16, f32, unify_dim
from vxgraph.ops.numerics import fresh, narrow, widen
from vxgraph.ops.rules import NUMBERS, broadcast, same_dtype, want_kind


@register
@dataclass(frozen=True)
class MatMul(Op):
    """[..., M, K] @ [..., K, N] -> [..., M, N]; with transpose_b the right side is [..., N, K].

    Leading dims broadcast; the left side may be a vector [K]. Halves accumulate in f32. K = 0 gives zeros. One dtype
    on both sides, or f32 on the left and halves on the right, which are widened (no value changes): the result is f32.
    """

    name: ClassVar[str] = "matmul"
    transpose_b: bool = False

    def infer(self, a: TensorType, b: TensorType) -> tuple[TensorType]:
        """The product's type."""
        dtype = f32 if _stored_in_halves(a, b) else same_dtype(a, b)
        want_kind(a, NUMBERS)
        if a.rank < 1 or b.rank < 2:
            raise GraphError(f"wanted [..., M, K] @ [..., K, N], found {a} @ {b}")
        inner, columns = (b.dims[-1], b.dims[-2]) if self.transpose_b else (b.dims[-2], b.dims[-1])
        if unify_dim(a.dims[-1], inner) is None:
            raise GraphError(self._mismatch(a, b, inner))
        lead = broadcast(a, b, trailing=2)
        return (TensorType(dtype, (*lead, *a.dims[-2:-1], columns)),)

    def _mismatch(self, a: TensorType, b: TensorType, inner: DimLike) -> str:
        has = "columns" if a.rank > 1 else "elements"
        wants = "columns (transpose_b)" if self.transpose_b else "rows"
        return f"{a} has {describe_dim(a.dims[-1])} {has} but {b} has {describe_dim(inner)} {wants}"

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """2 M N K multiply-adds; every operand read once."""
        elements = outs[0].max_bytes // outs[0].dtype.itemsize
        nbytes = sum(t.max_bytes for t in (*ins, *outs))
        return Cost(2.0 * elements * bound(ins[0].dims[-1]), float(nbytes))

    @np.errstate(all="ignore")
    def reference(self, sizes: Sizes, a: Array, b: Array) -> tuple[Array]:
        """NumPy's matmul, of a right side laid out anew: the sums' order, and so the bits, depend on its strides."""
        right = fresh(np.swapaxes(b, -1, -2)) if self.transpose_b else b
        return (narrow(np.matmul(widen(a), widen(right)), a),)


def _stored_in_halves(a: TensorType, b: TensorType) -> bool:
    return a.dtype is f32 and b.dtype in (f16, bf16)
