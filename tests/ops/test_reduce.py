"""Reductions over one axis."""

import numpy as np
import pytest

from tests.ops.run_op import run
from vxgraph.errors import RunError
from vxgraph.ir.types import Dim, f32, i32
from vxgraph.ops import ArgMax, Max, Mean, Sum

T = Dim("T", max=9)


def test_argmax_takes_the_first_of_equals_and_the_first_nan():
    assert int(run(ArgMax(0), np.array([1, 3, 3], np.float32))) == 1
    assert int(run(ArgMax(0), np.array([1, np.nan, 3, np.nan], np.float16))) == 1
    assert run(ArgMax(-1), np.array([[False, True], [False, False]])).tolist() == [1, 0]


def test_max_spreads_nan_and_is_any_of_bools():
    assert np.isnan(run(Max(0), np.array([1, np.nan], np.float32)))
    assert bool(run(Max(0), np.array([False, True]))) is True


def test_nothing_sums_to_zero_and_has_no_mean(recwarn):
    assert run(Sum(0), np.zeros((0, 2), np.int32)).tolist() == [0, 0]
    assert np.isnan(run(Mean(0), np.zeros(0, np.float32)))
    assert not recwarn.list


def test_integers_are_summed_in_their_own_dtype():
    assert run(Sum(0), np.array([200, 100], np.uint8)).tolist() == 44


@pytest.mark.parametrize("op", [Max(0), ArgMax(0)], ids=lambda op: op.name)
def test_an_axis_that_turns_out_empty_has_no_largest(op):
    with pytest.raises(RunError) as caught:
        run(op, np.zeros(0, np.float32), types=[f32[T]], sizes={"T": 0})
    assert str(caught.value) == "axis 0 is empty in this run: it has no largest element"


def test_the_reduced_axis_goes_or_becomes_a_plain_one():
    assert Sum(-1, keepdims=True).infer(f32[T, 4]) == (f32[T, 1],)
    assert Mean(0).infer(f32[T, 4]) == (f32[4],)
    assert ArgMax(-1).infer(f32[T, 4]) == (i32[T],)
