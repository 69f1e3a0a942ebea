"""Caches: an append replaces exactly its rows, or says that they do not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.run_op import run
from vxgraph.errors import RunError
from vxgraph.ir.types import Dim, bf16, f32, i32
from vxgraph.ops import CacheAppend, CacheInit

KV = Dim("KV", 2)
T = Dim("T", max=8)


def test_a_new_cache_is_poison():
    assert np.isnan(run(CacheInit(bf16[4, KV, 3])).astype(float)).all()
    assert run(CacheInit(i32[2])).tobytes() == b"\x5a" * 8


def test_a_cache_starts_with_the_rows_it_is_given():
    rows = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    cache = run(CacheInit(f32[8, KV, 3]), rows, types=[f32[T, KV, 3]], sizes={"T": 2})
    np.testing.assert_array_equal(cache[:2], rows)
    assert np.isnan(cache[2:]).all()


@given(st.integers(1, 8), st.data())
def test_an_append_replaces_its_rows_and_no_other(capacity, data):
    count = data.draw(st.integers(0, capacity))
    at = data.draw(st.integers(0, capacity - count))
    cache = np.zeros((capacity, 2), np.float32)
    out = run(CacheAppend(), cache, np.ones((count, 2), np.float32), np.int32(at))
    assert out[:, 0].tolist() == [float(at <= i < at + count) for i in range(capacity)]


@pytest.mark.case("D05")
@pytest.mark.parametrize(
    ("at", "rows", "message"),
    [
        (512, 1, "1 rows at 512 do not fit the cache, which has 512 rows"),
        (511, 2, "2 rows at 511 do not fit the cache, which has 512 rows"),
        (-1, 1, "1 rows at -1 do not fit the cache, which has 512 rows"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_never_dropped(at, rows, message):
    with pytest.raises(RunError) as caught:
        run(CacheAppend(), np.zeros((512, 2), np.float32), np.zeros((rows, 2), np.float32), np.int32(at))
    assert str(caught.value) == message


def test_an_append_may_take_over_the_caches_buffer_and_costs_its_rows():
    types = (f32[512, KV, 64], f32[1, KV, 64], i32[()])
    assert CacheAppend.donates == 0
    assert CacheAppend().cost(types, (types[0],)).nbytes == 2 * types[1].max_bytes + 4
