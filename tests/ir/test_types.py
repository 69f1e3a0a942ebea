"""Dims and types: what unifies, what is refused, and at which line."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import vxgraph as vx
from vxgraph.errors import GraphError, Loc, user_loc
from vxgraph.ir.types import DTYPES, Dim, describe_dim, dtype_of, unify, unify_dim

T, HEAD, D = Dim("T", max=8), Dim("Head", 4), Dim("D", 64)
HERE = user_loc().file
NAME = "a dim's name is an identifier, no dtype and none of false, inf, nan, none, true"
LARGE = "is too large: a tensor has at most 32 dims and 9223372036854775807 bytes"


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dim("my T", 4), "Dim('my T'): " + NAME),
        (lambda: Dim("bf16", 4), "Dim('bf16'): " + NAME),
        (lambda: Dim("inf", 4), "Dim('inf'): " + NAME),
        (lambda: Dim("T"), "Dim('T'): give a size, or max= for a size known at run time"),
        (lambda: Dim("T", 4, max=4), "Dim('T'): give a size, or max= for a size known at run time"),
        (lambda: Dim("T", -1), "Dim('T'): 0 to -1 is no range of sizes"),
        (lambda: Dim("T", 4, min=1), "Dim('T'): 1 to 4 is no range of sizes"),
        (lambda: Dim("T", max=2, min=3), "Dim('T'): 3 to 2 is no range of sizes"),
        (lambda: Dim("T", 2.5), "Dim('T'): sizes are Python ints, found 2.5 and min 0"),
        (lambda: Dim("T", max=True), "Dim('T'): sizes are Python ints, found True and min 0"),
        (lambda: Dim("T", 2**63), "Dim('T'): 0 to 9223372036854775808 is no range of sizes"),
        (lambda: vx.f32[4, -1], "-1 is no dim; wanted an int of 0 or more, or a vxgraph.Dim"),
        (lambda: vx.f32[np.int64(4)], "np.int64(4) is no dim; wanted an int of 0 or more, or a vxgraph.Dim"),
        (lambda: vx.f32["T"], "'T' is no dim; wanted an int of 0 or more, or a vxgraph.Dim"),
        (lambda: vx.f32[2**62, 2], "f32[4611686018427387904, 2] " + LARGE),
    ],
)  # fmt: skip
def test_a_dim_or_type_that_cannot_be_is_refused_at_its_line(make, message: str):
    with pytest.raises(GraphError) as error:
        make()
    assert str(error.value) == f"{HERE}:{make.__code__.co_firstlineno}: {message}"


def test_a_plain_size_takes_a_fixed_dims_name_and_no_symbols():
    assert (unify_dim(4, HEAD), unify_dim(HEAD, 4), unify_dim(5, HEAD)) == (HEAD, HEAD, None)
    assert (unify_dim(8, T), unify_dim(T, T), unify_dim(T, Dim("T", max=9))) == (None, T, None)


def test_one_layout_never_unifies_with_another_of_equal_sizes():
    tokens = Dim("Tok", 4)
    assert unify(vx.f32[tokens, HEAD, 64], vx.f32[HEAD, tokens, 64]) is None
    assert unify(vx.f32[4, HEAD, 64], vx.f32[tokens, 4, D]) == vx.f32[tokens, HEAD, D]
    assert unify(vx.f32[4], vx.f16[4]) is None
    assert unify(vx.f32[4], vx.f32[4, 1]) is None


def test_a_type_knows_its_bytes_at_the_bounds_and_in_a_run():
    t = vx.bf16[T, HEAD, 64]
    assert (t.max_bytes, t.nbytes(), t.nbytes({"T": 3})) == (8 * 4 * 64 * 2, 8 * 4 * 64 * 2, 3 * 4 * 64 * 2)
    assert t.shape({"T": 3}) == (3, 4, 64)
    assert vx.f32[()].max_bytes == 4
    assert vx.f32[0, T].max_bytes == 0
    assert (t.symbols, vx.f32[T, T].symbols) == ((T,), (T,))


def test_dims_show_their_sizes_in_messages():
    assert [describe_dim(d) for d in (T, HEAD, 64)] == ["T<=8", "Head=4", "64"]


def test_every_dtype_has_the_bytes_of_its_numpy_dtype():
    for t in DTYPES.values():
        assert t.numpy.itemsize == t.itemsize
        assert dtype_of(np.zeros(1, t.numpy)) is t
    with pytest.raises(GraphError) as error:
        dtype_of(np.zeros(1))
    assert str(error.value) == "float64 is no dtype of a graph; cast to one of f32, f16, bf16, i8, i32, i64, u8, bool"


def test_the_users_line_is_that_of_the_statement_that_runs():
    assert user_loc() == Loc(HERE, line())
