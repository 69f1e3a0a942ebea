"""The matrix product."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.run_op import run
from vxgraph.ir.types import Dim, f32
from vxgraph.ops import MatMul

T = Dim("T", max=9)
V = Dim("Vocab", 7)
H = Dim("Head", 3)


@pytest.mark.case("R09")
def test_an_inner_dim_of_nothing_gives_zeros():
    assert run(MatMul(), np.zeros((10, 1, 0), np.float32), np.zeros((10, 0, 7), np.float32)).tolist() == (
        np.zeros((10, 1, 7)).tolist()
    )


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.sampled_from([(), (1,), (3,)]), st.booleans())
def test_it_sums_products_over_the_inner_dim(m, k, n, lead, transposed):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-5, 5, (3, m, k)).astype(np.float32), rng.integers(-5, 5, (*lead, k, n)).astype(np.float32)
    wanted = (a[..., :, :, None] * b[..., None, :, :]).sum(axis=-2)
    right = np.swapaxes(b, -1, -2).copy() if transposed else b
    np.testing.assert_array_equal(run(MatMul(transposed), a, right), wanted)


def test_a_vector_on_the_left_is_one_row():
    x, w = np.array([1, 2], np.float32), np.array([[1, 0, 3], [0, 1, 4]], np.float32)
    assert run(MatMul(), x, w).tolist() == [1, 2, 11]


def test_names_pass_through():
    assert MatMul(transpose_b=True).infer(f32[T, 4], f32[V, 4]) == (f32[T, V],)
    assert MatMul().infer(f32[H, T, 4], f32[3, 4, V]) == (f32[H, T, V],)


@pytest.mark.parametrize(
    ("a", "b", "flops"), [(f32[4, 64], f32[64, 8], 2 * 4 * 64 * 8), (f32[64], f32[3, 64, 8], 2 * 3 * 64 * 8)]
)
def test_its_cost_is_two_operations_per_product(a, b, flops):
    cost = MatMul().cost((a, b), MatMul().infer(a, b))
    assert (cost.flops, cost.nbytes) == (flops, sum(t.max_bytes for t in (a, b, *MatMul().infer(a, b))))


def test_a_transposed_right_side_gives_the_bits_of_the_product_with_its_transpose():
    """`canonicalise` writes one for the other, and a pass keeps every bit."""
    rng = np.random.default_rng(0)
    for m, k, n in ((1, 4, 1), (1, 4, 5), (8, 4, 4), (3, 17, 9), (5, 64, 33)):
        x, w = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (n, k)))
        (turned,) = MatMul(transpose_b=True).reference({}, x, w)
        (plain,) = MatMul().reference({}, x, np.ascontiguousarray(w.T))
        assert turned.tobytes() == plain.tobytes()
