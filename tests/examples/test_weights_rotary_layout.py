"""The two row orders of query and key projections, and that either gives the same attention with its own rotation."""

from __future__ import annotations

import numpy as np
import pytest

from examples.llama2.weights.rotary_layout import half_split_rows, interleave_rows
from tests.examples.tiny_llama import rotate
from vxgraph.errors import VxError


@pytest.mark.case("N05")
def test_the_row_map_of_one_head_swaps_the_middle_rows():
    assert interleave_rows(np.arange(4), 1).tolist() == [0, 2, 1, 3]


@pytest.mark.case("N05")
def test_the_row_map_of_two_query_heads_stays_within_each_head():
    assert interleave_rows(np.arange(8), 2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.case("N05")
def test_a_key_weight_is_permuted_by_its_own_head_count():
    rows = np.arange(4)[:, None] * np.ones((1, 3))
    assert interleave_rows(rows, 1)[:, 0].tolist() == [0, 2, 1, 3]
    assert interleave_rows(rows, 2)[:, 0].tolist() == [0, 1, 2, 3]


def test_half_split_rows_of_six_dimensions_gather_the_even_rows_first():
    assert half_split_rows(np.arange(6), 1).tolist() == [0, 2, 4, 1, 3, 5]


@pytest.mark.parametrize(("rows", "heads"), [(8, 1), (8, 2), (192, 3), (576, 9)])
def test_the_two_permutations_undo_each_other(rows, heads):
    weight = np.random.default_rng(0).normal(size=(rows, 5))
    np.testing.assert_array_equal(half_split_rows(interleave_rows(weight, heads), heads), weight)
    np.testing.assert_array_equal(interleave_rows(half_split_rows(weight, heads), heads), weight)


def test_both_layouts_give_the_same_attention_at_positions_0_1_and_7():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 6))
    wq, wk, wv = rng.normal(size=(8, 6)), rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    interleaved = attention(x, wq, wk, wv, interleaved=True)
    permuted = attention(x, half_split_rows(wq, 2), half_split_rows(wk, 1), wv, interleaved=False)
    np.testing.assert_allclose(permuted, interleaved, atol=1e-12)
    wrong = attention(x, half_split_rows(wq, 2), half_split_rows(wk, 2), wv, interleaved=False)
    assert np.abs(wrong - interleaved).max() > 1e-2


def attention(x, wq, wk, wv, *, interleaved):
    """Two query heads over one key/value head of four dimensions."""
    positions = np.array([0, 1, 7])
    q = rotate((x @ wq.T).reshape(3, 2, 4), positions, interleaved)
    k = rotate((x @ wk.T).reshape(3, 1, 4), positions, interleaved)[:, 0]
    scores = np.einsum("qhd,kd->hqk", q, k) / 2 + np.triu(np.full((3, 3), -np.inf), 1)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    return np.einsum("hqk,kd->qhd", weights, x @ wv.T)


def test_rows_that_are_not_whole_heads_are_refused():
    with pytest.raises(VxError) as caught:
        interleave_rows(np.zeros((12, 2)), 4)
    assert str(caught.value) == "12 rows are not 4 heads of an even number of rows; heads is that of this weight"
