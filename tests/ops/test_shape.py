"""Rearrangements: Python's and NumPy's own results, dense whatever the strides were."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.run_op import run
from vxgraph.errors import GraphError
from vxgraph.ir.types import Dim, f32
from vxgraph.ops import Concat, Copy, Reshape, Slice, Transpose

T = Dim("T", min=2, max=9)
H = Dim("Head", 3)
arrays = hnp.arrays(np.int32, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
bounds = st.integers(-6, 6)


@given(st.integers(0, 6), bounds, st.none() | bounds, st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_a_slice_is_pythons_or_an_error_never_clamped(n, start, stop, step):
    x = np.arange(n, dtype=np.int32)
    inside = -n <= start <= (n if step > 0 else n - 1) and (stop is None or -n <= stop <= n)
    op = Slice(0, start, stop, step)
    if inside or (start, stop, step) == (-1, None, -1):
        assert run(op, x).tolist() == list(range(n))[start:stop:step]
    else:
        with pytest.raises(GraphError, match="is outside axis 0 of"):
            run(op, x)


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (Slice(0, 0, None), T),
        (Slice(0, -1, None, -1), T),
        (Slice(0, 0, 2), 2),
        (Slice(0, -2, None), 2),
        (Slice(0, 0, 0), 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [2, 5])
def test_a_symbolic_axis_takes_its_first_and_last_rows(op, wanted, size):
    x = np.arange(size * 3, dtype=np.float32).reshape(size, 3)
    assert op.infer(f32[T, H]) == (f32[wanted, H],)
    np.testing.assert_array_equal(run(op, x, types=[f32[T, H]], sizes={"T": size}), x[op.span])


def test_a_cut_axis_loses_its_name_and_a_full_one_keeps_it():
    assert Slice(1, 0, 2).infer(f32[T, H]) == (f32[T, 2],)
    assert Slice(1, 0, 3).infer(f32[T, H]) == (f32[T, H],)
    assert Slice(-1, -1, None, -1).infer(f32[T, H]) == (f32[T, H],)


@pytest.mark.case("R09")
@pytest.mark.parametrize("x", [np.arange(6)[::-1], np.arange(6).reshape(2, 3)[:, ::-1], np.zeros((1, 10, 20))[::-1]])
def test_views_with_negative_strides_become_dense(x):
    x = x.astype(np.float32, copy=False)
    flat = run(Reshape((x.size,)), x)
    assert flat.tolist() == x.ravel().tolist()
    np.testing.assert_array_equal(run(Copy(), x), x)


@given(arrays, st.data())
def test_transpose_is_numpys_and_undone_by_its_inverse(x, data):
    perm = tuple(data.draw(st.permutations(range(x.ndim))))
    moved = run(Transpose(perm), x)
    np.testing.assert_array_equal(moved, x.transpose(perm))
    np.testing.assert_array_equal(run(Transpose(tuple(np.argsort(perm).tolist())), moved), x)


@given(arrays, st.data())
def test_concat_undoes_a_split(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assume(x.shape[axis])
    at = data.draw(st.integers(0, x.shape[axis]))
    parts = [run(Slice(axis, 0, at), x), run(Slice(axis, at, None), x)]
    np.testing.assert_array_equal(run(Concat(axis), *parts), x)


def test_concat_keeps_names_beside_its_axis_and_makes_a_plain_one_of_it():
    assert Concat(1).infer(f32[T, 2, 3], f32[T, 3, H]) == (f32[T, 5, H],)
    assert Concat(0).infer(f32[H, 2], f32[H, 2]) == (f32[6, 2],)
    assert Concat(0).infer(f32[T, 2]) == (f32[T, 2],)


def test_reshape_splits_heads_of_a_prompt_and_joins_them_again():
    x = np.arange(5 * 6, dtype=np.float32).reshape(5, 6)
    heads = run(Reshape((T, H, 2)), x, types=[f32[T, 6]], sizes={"T": 5})
    assert heads.shape == (5, 3, 2)
    np.testing.assert_array_equal(run(Reshape((T, 6)), heads, types=[f32[T, H, 2]], sizes={"T": 5}), x)


@pytest.mark.case("R09")
def test_a_reshape_of_nothing_stays_nothing():
    assert run(Reshape((0, 7)), np.zeros((3, 0), np.float32)).shape == (0, 7)
    with pytest.raises(GraphError) as caught:
        Reshape((1,)).infer(f32[0])
    assert str(caught.value) == "f32[0] has 0 elements but f32[1] has 1"
