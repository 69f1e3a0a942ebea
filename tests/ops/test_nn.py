"""Embedding, RMS normalisation and softmax."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.run_op import run
from vxgraph.errors import RunError
from vxgraph.ir.types import bf16, f16
from vxgraph.ops import Embed, RmsNorm, Softmax

finite = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=5), elements=st.floats(-1e4, 1e4, width=32))


@pytest.mark.case("N02")
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_thousands_in_half_precision_are_normalised_to_one(dtype):
    """1000 squared is no f16: squaring in it gives all zeros."""
    x = np.full((2, 64), 1000, dtype.numpy)
    assert run(RmsNorm(1e-5), x, np.ones(64, dtype.numpy)).astype(float).tolist() == np.ones((2, 64)).tolist()


@pytest.mark.case("N02")
@pytest.mark.parametrize(("eps", "wanted"), [(1e-5, 1e-4 / np.sqrt(1e-8 + 1e-5)), (1e-6, 1e-4 / np.sqrt(1e-8 + 1e-6))])
def test_eps_dominates_where_x_is_small(eps, wanted):
    x = np.full(64, 1e-4, np.float16)
    np.testing.assert_allclose(run(RmsNorm(eps), x, np.ones(64, np.float16)).astype(float), wanted, rtol=1e-3)


@given(finite)
def test_rmsnorm_gives_unit_mean_square(x):
    out = run(RmsNorm(0.0), x + np.float32(2e4), np.ones(x.shape[-1], np.float32))
    np.testing.assert_allclose(np.mean(out.astype(float) ** 2, axis=-1), 1, rtol=1e-5)


def test_rmsnorm_scales_each_column_by_its_weight():
    x, weight = np.full((1, 4), 3, np.float32), np.arange(4, dtype=np.float32)
    assert run(RmsNorm(0.0), x, weight).tolist() == [[0, 1, 2, 3]]


@given(finite, st.integers(-3, 2))
def test_softmax_sums_to_one_whatever_is_added(x, axis):
    axis = axis % x.ndim
    p = run(Softmax(axis), x)
    np.testing.assert_allclose(p.sum(axis=axis), 1, rtol=1e-5)
    assert (p >= 0).all()
    np.testing.assert_allclose(run(Softmax(axis - x.ndim), x + np.float32(16)), p, rtol=1e-2, atol=1e-6)


def test_softmax_of_minus_infinity_is_zero():
    assert run(Softmax(0), np.array([0, -np.inf, 0], np.float32)).tolist() == [0.5, 0, 0.5]


def test_softmax_over_nothing_is_nothing():
    assert run(Softmax(1), np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_embed_takes_rows_in_the_ids_own_shape():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert run(Embed(), table, np.array([[3, 0]], np.int64)).tolist() == [[[9, 10, 11], [0, 1, 2]]]


@pytest.mark.parametrize("wrong", [4, -1])
def test_an_id_outside_the_table_is_refused_and_never_wraps(wrong):
    with pytest.raises(RunError) as caught:
        run(Embed(), np.zeros((4, 3), np.float32), np.array([0, wrong], np.int32))
    assert str(caught.value) == f"id {wrong} is not in the table, which has 4 rows: 0 to 3"
