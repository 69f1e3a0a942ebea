"""Arithmetic, comparisons, matrix products and reductions: NumPy's values under our typing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.run_op import run
from vxgraph.ir.types import Dim, bool_, f32, i32
from vxgraph.ops import Add, Compare, Div, Exp, Maximum, Minimum, Mul, Neg, Relu, Sub, Where

T = Dim("T", max=9)
H = Dim("Head", 3)
shapes = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=4)


@given(shapes)
def test_dims_broadcast_as_numpys(found):
    a, b, c = (np.random.default_rng(i).integers(0, 9, s).astype(np.int32) for i, s in enumerate(found.input_shapes))
    np.testing.assert_array_equal(run(Sub(), a, b), a - b)
    np.testing.assert_array_equal(run(Where(), a > 4, b, c), np.where(a > 4, b, c))
    np.testing.assert_array_equal(run(Compare("le"), a, b), a <= b)


def test_a_named_dim_gives_its_name_to_a_plain_one():
    assert Mul().infer(f32[T, H, 4], f32[3, 1]) == (f32[T, H, 4],)
    assert Add().infer(f32[1, 1], f32[T, H]) == (f32[T, H],)
    assert Where().infer(bool_[T, 1], f32[H], f32[()]) == (f32[T, H],)


@pytest.mark.parametrize(("op", "wanted"), [(Maximum(), [1, 1, 1, 0]), (Minimum(), [1, 0, 0, 0])])
def test_maximum_and_minimum_of_bools_are_or_and_and(op, wanted):
    a, b = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
    assert run(op, a, b).tolist() == [bool(w) for w in wanted]


def test_nan_spreads_through_maximum_and_relu():
    nan = np.array([np.nan], np.float32)
    assert np.isnan(run(Maximum(), nan, np.zeros(1, np.float32))).all()
    assert np.isnan(run(Relu(), nan)).all()


def test_integers_wrap_and_overflow_of_a_half_is_infinite(recwarn):
    assert run(Add(), np.array([2**31 - 1], np.int32), np.array([1], np.int32)).tolist() == [-(2**31)]
    assert run(Neg(), np.array([1], np.uint8)).tolist() == [255]
    assert run(Mul(), np.array([300], np.float16), np.array([300], np.float16)).tolist() == [np.inf]
    assert run(Exp(), np.array([1000], np.float32)).tolist() == [np.inf]
    assert run(Div(), np.array([1], np.float32), np.array([0], np.float32)).tolist() == [np.inf]
    assert not recwarn.list


@given(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
def test_nan_equals_nothing(kind):
    nan = np.array([np.nan], np.float32)
    assert run(Compare(kind), nan, nan).tolist() == [kind == "ne"]


def test_a_default_cost_is_one_operation_per_element_and_every_byte_once():
    cost = Add().cost((i32[T, 4], i32[4]), (i32[T, 4],))
    assert (cost.flops, cost.nbytes) == (36, 4 * (36 + 4 + 36))
