"""Constants, counting and sizes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.run_op import run
from vxgraph.ir.types import DTYPES, Dim, bf16, f32, i64
from vxgraph.ops import Constant, Iota, Size, constant_of

T = Dim("T", max=9)


@given(hnp.arrays(st.sampled_from([t.numpy for t in DTYPES.values() if t is not bf16]), hnp.array_shapes(min_dims=0)))
def test_a_constant_holds_the_arrays_very_values(array):
    np.testing.assert_array_equal(run(constant_of(array)), array)


def test_bf16_constants_hold_their_values():
    array = np.array([1, -2.5, 3.140625], bf16.numpy)
    assert constant_of(array) == Constant(bf16[3], (1.0, -2.5, 3.140625))
    assert run(constant_of(array)).tobytes() == array.tobytes()


def test_equal_constants_are_equal_even_with_nan():
    a, b = (Constant(f32[2], (float("nan"), 1)) for _ in range(2))
    assert a == b
    assert hash(a) == hash(b)
    assert math.isnan(run(a)[0])


@pytest.mark.parametrize("dtype", [t for t in DTYPES.values() if t.name != "bool"], ids=str)
def test_iota_counts_from_zero(dtype):
    assert run(Iota(T, dtype), sizes={"T": 4}).astype(int).tolist() == [0, 1, 2, 3]


def test_iota_of_i64_keeps_its_dtype():
    assert Iota(3, i64).infer() == (i64[3],)


def test_size_is_the_runs():
    assert int(run(Size(T), sizes={"T": 5})) == 5
    assert int(run(Size(Dim("Head", 9)))) == 9
