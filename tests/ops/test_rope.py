"""Rotary positions: exact tables in any dtype, both layouts, Llama 3's scaling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.run_op import run
from vxgraph.ir.types import bf16, f16, f32
from vxgraph.ops import Rope, inverse_frequencies
from vxgraph.ops.attention import Attention
from vxgraph.ops.rope import rotary_tables

# From one head in Meta's layout (pairs adjacent) to Hugging Face's (halves).
TO_HALVES = [0, 2, 1, 3]


@pytest.mark.case("N04")
@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
def test_a_unit_vector_shows_cos_and_sin_to_the_dtypes_own_rounding(dtype):
    """Positions 0..2047, heads of 32, base 1e4: with f16 angles the cosine is off by 0.78, with bf16 angles by 1.99."""
    positions = np.arange(2048, dtype=np.int32)
    x = np.zeros((2048, 1, 32), dtype.numpy)
    x[..., ::2] = 1
    turned = run(Rope(1e4, True), x, positions)[:, 0]
    angles = positions[:, None] * 1e4 ** (-np.arange(0, 32, 2) / 32)
    limit = {"f32": 1e-6, "f16": 1e-3, "bf16": 4e-3}[dtype.name]
    assert np.abs(turned[:, ::2].astype(float) - np.cos(angles)).max() <= limit
    assert np.abs(turned[:, 1::2].astype(float) - np.sin(angles)).max() <= limit


@pytest.mark.case("N04")
def test_tables_are_right_at_far_positions():
    op = Rope(5e5, False)
    positions = np.array([0, 257, 131071, 2**31 - 1])
    angles = np.outer(positions, inverse_frequencies(op, 128))
    cos, sin = rotary_tables(op, positions, 128)
    assert np.abs(cos - np.cos(angles)).max() <= 1e-6
    assert np.abs(sin - np.sin(angles)).max() <= 1e-6


@pytest.mark.case("N05")
def test_both_layouts_give_the_same_attention_from_their_own_weights():
    """n_heads=2, n_kv=1, head_dim=4 at positions 0, 1, 7."""
    rng = np.random.default_rng(0)
    x, wq, wk, wv = (rng.standard_normal(s).astype(np.float32) for s in ((3, 8), (8, 8), (4, 8), (4, 8)))
    q_rows, k_rows = [*TO_HALVES, *(4 + i for i in TO_HALVES)], TO_HALVES
    assert q_rows == [0, 2, 1, 3, 4, 6, 5, 7]
    adjacent = attend(x, wq, wk, wv, interleaved=True)
    halves = attend(x, wq[q_rows], wk[k_rows], wv, interleaved=False)
    np.testing.assert_allclose(adjacent, halves, rtol=1e-6, atol=1e-6)
    assert np.abs(attend(x, wq, wk, wv, interleaved=False) - adjacent).max() > 1e-2


def attend(x, wq, wk, wv, *, interleaved: bool):
    positions = np.array([0, 1, 7], np.int32)
    rope = Rope(1e4, interleaved)
    q, k, v = ((x @ w.T).reshape(3, -1, 4) for w in (wq, wk, wv))
    return run(Attention(), run(rope, q, positions), run(rope, k, positions), v)


@pytest.mark.case("N06")
@pytest.mark.parametrize(
    ("theta", "head_dim", "last"),
    [(1e4, 128, 1e4 ** (-126 / 128)), (1e6, 128, 1e6 ** (-126 / 128)), (1e5, 64, 1e5 ** (-62 / 64))],
)
def test_the_base_is_the_configurations(theta, head_dim, last):
    frequencies = inverse_frequencies(Rope(theta, True), head_dim)
    assert (frequencies.dtype, frequencies.shape) == (np.float64, (head_dim // 2,))
    np.testing.assert_allclose(frequencies[[0, -1]], [1, last], rtol=1e-12)


@pytest.mark.case("N06")
def test_llama_3_2_1b_slows_its_low_frequencies():
    scaled = inverse_frequencies(Rope(5e5, False, (32.0, 1.0, 4.0, 8192)), 64)
    plain = inverse_frequencies(Rope(5e5, False), 64)
    wanted = [3.211445995e-3, 1.290547928e-3, 4.295567966e-4, 9.708287803e-5, 1.946163818e-5, 9.418306725e-8]
    np.testing.assert_allclose(scaled[[14, 15, 16, 17, 18, 31]], wanted, rtol=1e-6)
    np.testing.assert_array_equal(scaled[:15], plain[:15])
    np.testing.assert_array_equal(scaled[18:], plain[18:] / 32)


@pytest.mark.case("N06")
def test_llama_3_1_8b_keeps_29_pairs_blends_6_and_divides_29():
    scaled = inverse_frequencies(Rope(5e5, False, (8.0, 1.0, 4.0, 8192)), 128)
    ratio = scaled / inverse_frequencies(Rope(5e5, False), 128)
    assert np.all(ratio[:29] == 1)
    assert np.all((ratio[29:35] < 1) & (ratio[29:35] > 1 / 8))
    assert np.all(ratio[35:] == 1 / 8)


@given(st.integers(0, 8192), st.booleans())
def test_a_rotation_keeps_the_length_of_every_pair(position, interleaved):
    x = np.random.default_rng(position).standard_normal((1, 3, 8)).astype(np.float32)
    turned = run(Rope(1e4, interleaved), x, np.array([position], np.int32))
    np.testing.assert_allclose(np.linalg.norm(turned, axis=2), np.linalg.norm(x, axis=2), rtol=1e-5)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_scores_depend_on_the_distance_only(a, b):
    q, k = np.random.default_rng(0).standard_normal((2, 1, 1, 16)).astype(np.float32)
    op = Rope(1e4, True)

    def score(at_q: int, at_k: int) -> float:
        turned = (run(op, x, np.array([p], np.int64)).ravel() for x, p in ((q, at_q), (k, at_k)))
        return float(np.dot(*turned))

    assert score(a + b, a) == pytest.approx(score(b, 0), abs=1e-4)
