"""Attention: which key a query sees, which head it reads, and which rows are never read."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.run_op import error, run
from vxgraph.errors import RunError
from vxgraph.ir.types import f32, i32
from vxgraph.ops import Attention


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def one_by_one(q, k, v, *, causal: bool, valid: int) -> np.ndarray:
    """The definition in float64, one query row and head at a time."""
    out = np.zeros((*q.shape[:2], v.shape[2]))
    for i in range(q.shape[0]):
        for h in range(q.shape[1]):
            j = h // (q.shape[1] // k.shape[1])
            seen = range(i + valid - len(q) + 1) if causal else range(valid)
            scores = [math.exp(float(q[i, h].astype(float) @ k[t, j]) / math.sqrt(q.shape[2])) for t in seen]
            out[i, h] = sum(w * v[t, j].astype(float) for w, t in zip(scores, seen, strict=True)) / sum(scores)
    return out


@pytest.mark.case("N01")
def test_each_key_head_serves_consecutive_query_heads():
    q = random(5, 9, 8)
    v = np.broadcast_to(np.arange(3, dtype=np.float32)[None, :, None], (5, 3, 8))
    out = run(Attention(), q, np.ascontiguousarray(v), np.ascontiguousarray(v))
    expected = np.broadcast_to(np.arange(9)[None, :, None] // 3, (5, 9, 8))
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.case("N01")
def test_query_heads_that_key_heads_cannot_share_evenly_are_refused():
    assert error(Attention(), f32[5, 9, 8], f32[5, 4, 8], f32[5, 4, 8]) == (
        "model.py:7: attention: query heads must be a multiple of key heads, found 9 query heads, 4 key heads\n"
        "  operands: %a: f32[5, 9, 8], %b: f32[5, 4, 8], %c: f32[5, 4, 8]"
    )


@given(
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(0, 3),
    st.sampled_from([(1, 1), (4, 2), (6, 2), (3, 3)]),
    st.booleans(),
)
def test_it_is_the_definition(queries, past, spare, heads, causal):
    valid = queries + past
    q = random(queries, heads[0], 8)
    k, v = random(valid + spare, heads[1], 8, seed=1), random(valid + spare, heads[1], 5, seed=2)
    out = run(Attention(causal=causal), q, k, v, np.int32(valid))
    np.testing.assert_allclose(out, one_by_one(q, k, v, causal=causal, valid=valid), rtol=1e-4, atol=1e-6)


def test_rows_at_and_beyond_the_length_are_never_read():
    q, k, v = random(2, 4, 8), random(9, 2, 8, seed=1), random(9, 2, 8, seed=2)
    plain = run(Attention(), q, k[:5], v[:5])
    k[5:], v[5:] = np.nan, np.nan
    np.testing.assert_array_equal(run(Attention(), q, k, v, np.int32(5)), plain)


def test_the_last_query_row_sees_every_valid_key_and_the_first_does_not():
    q, k, v = random(2, 1, 4), random(6, 1, 4, seed=1), random(6, 1, 4, seed=2)
    before = run(Attention(), q, k, v)
    v[5] += 100
    after = run(Attention(), q, k, v)
    np.testing.assert_array_equal(before[0], after[0])
    assert np.all(after[1] - before[1] > 1)


def test_prefill_then_decode_gives_the_rows_of_one_prefill():
    q, k, v = random(7, 6, 8), random(7, 2, 8, seed=1), random(7, 2, 8, seed=2)
    whole = run(Attention(), q, k, v)
    steps = [run(Attention(), q[i : i + 1], k, v, np.int32(i + 1)) for i in range(7)]
    np.testing.assert_allclose(np.concatenate(steps), whole, rtol=1e-5, atol=1e-6)


def test_large_scores_do_not_overflow():
    q = np.full((1, 1, 4), 1000, np.float16)
    assert run(Attention(), q, q, q).tolist() == q.tolist()


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (10, "length is 10, but k and v have 9 rows"),
        (-1, "length is -1, but k and v have 9 rows"),
        (1, "q has 2 rows but only 1 of k's are valid: some rows see no key"),
    ],
)
def test_a_length_that_cannot_be_is_refused(length, message):
    with pytest.raises(RunError) as caught:
        run(Attention(), random(2, 4, 8), random(9, 2, 8), random(9, 2, 8), np.int32(length))
    assert str(caught.value) == message


def test_a_prompt_of_no_tokens_gives_no_rows():
    assert run(Attention(), random(0, 4, 8), random(0, 2, 8), random(0, 2, 8)).shape == (0, 4, 8)


def test_its_cost_is_two_products_per_query_head():
    types = (f32[4, 9, 64], f32[10, 3, 64], f32[10, 3, 32], i32[()])
    cost = Attention().cost(types, Attention().infer(*types))
    assert cost.flops == 2 * 4 * 10 * 9 * (64 + 32)
    assert cost.nbytes == 4 * (4 * 9 * 64 + 10 * 3 * 96 + 1 + 4 * 9 * 32)


def test_without_any_depth_every_key_counts_the_same():
    v = random(5, 1, 3)
    out = run(Attention(causal=False), random(2, 2, 0), random(5, 1, 0), v)
    np.testing.assert_allclose(out, np.broadcast_to(v.mean(axis=0), (2, 2, 3)), rtol=1e-6)
