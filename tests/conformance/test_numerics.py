"""What goes wrong in low precision, and which head serves which: the same numbers on every backend."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.bed import Bed
from vxgraph.ir.types import DTYPES, Array, TensorType, f32, i32
from vxgraph.ops import Attention, RmsNorm, Rope
from vxgraph.topology.ids import GPU


@pytest.mark.case("N01")
def test_each_key_head_serves_consecutive_query_heads(bed: Bed) -> None:
    q = np.random.default_rng(0).standard_normal((5, 9, 8)).astype(np.float32)
    kv = np.ascontiguousarray(np.broadcast_to(np.arange(3, dtype=np.float32)[None, :, None], (5, 3, 8)))
    operands = [bed.put(x, GPU[1]) for x in (q, kv, kv)]
    result, _ = bed.apply(Attention(), operands, (f32[5, 9, 8], f32[5, 3, 8], f32[5, 3, 8]), GPU[1])
    wanted = np.broadcast_to(np.arange(9)[None, :, None] // 3, (5, 9, 8))
    np.testing.assert_allclose(bed.get(result, q, GPU[1]), wanted, atol=1e-5)


def normed(bed: Bed, x: Array, eps: float) -> Array:
    t = TensorType(DTYPES["f16"], x.shape)
    weight = np.ones(x.shape[-1:], np.float16)
    operands = [bed.put(a, GPU[1]) for a in (x, weight)]
    result, _ = bed.apply(RmsNorm(eps), operands, (t, TensorType(DTYPES["f16"], weight.shape)), GPU[1])
    return bed.get(result, x, GPU[1])


@pytest.mark.case("N02")
def test_thousands_in_f16_are_normalised_to_one_and_small_numbers_by_eps(bed: Bed) -> None:
    """1000 squared is no f16: squaring in it gives all zeros."""
    assert normed(bed, np.full((2, 64), 1000, np.float16), 1e-5).tolist() == np.ones((2, 64)).tolist()
    for eps in (1e-5, 1e-6):
        found = normed(bed, np.full((1, 64), 1e-4, np.float16), eps)
        np.testing.assert_allclose(found.astype(float), 1e-4 / np.sqrt(1e-8 + eps), rtol=1e-3)


@pytest.mark.case("N04")
@pytest.mark.parametrize(("name", "limit"), [("f32", 1e-6), ("f16", 1e-3), ("bf16", 4e-3)])
def test_rotary_angles_are_right_at_2048_positions_in_every_dtype(bed: Bed, name: str, limit: float) -> None:
    """With f16 angles the cosine is off by 0.78, with bf16 angles by 1.99."""
    positions = np.arange(2048, dtype=np.int32)
    x = np.zeros((2048, 1, 32), DTYPES[name].numpy)
    x[..., ::2] = 1
    types = (TensorType(DTYPES[name], x.shape), TensorType(i32, (2048,)))
    result, _ = bed.apply(Rope(1e4, True), [bed.put(x, GPU[1]), bed.put(positions, GPU[1])], types, GPU[1])
    turned = bed.get(result, x, GPU[1])[:, 0].astype(float)
    angles = positions[:, None] * 1e4 ** (-np.arange(0, 32, 2) / 32)
    assert np.abs(turned[:, ::2] - np.cos(angles)).max() <= limit
    assert np.abs(turned[:, 1::2] - np.sin(angles)).max() <= limit
