"""The dtype table: what comes in goes out, and halves are rounded once."""

import numpy as np
import pytest

from tests.ops.run_op import run
from vxgraph.ir.types import DTYPES, bf16, f16, f32
from vxgraph.ops import (
    Add,
    Attention,
    Cast,
    Div,
    Embed,
    Exp,
    Gelu,
    MatMul,
    Max,
    Maximum,
    Mean,
    Minimum,
    Mul,
    Neg,
    Relu,
    RmsNorm,
    Rope,
    Rsqrt,
    Silu,
    Softmax,
    Sqrt,
    Sub,
    Sum,
)

A = np.random.default_rng(1).uniform(0.5, 2, (6, 4, 8))
POSITIONS = np.arange(6, dtype=np.int32)
FLOAT_OPS = [
    *((op, 1) for op in (Exp(), Sqrt(), Rsqrt(), Silu(), Gelu(), Relu(), Neg(), Softmax(-1))),
    *((cls(1, keepdims), 1) for cls in (Sum, Mean, Max) for keepdims in (False, True)),
    *((op, 2) for op in (Add(), Sub(), Mul(), Div(), Maximum(), Minimum(), MatMul(transpose_b=True))),
    (Attention(), 3),
    (Attention(scale=0.5), 3),
]


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
@pytest.mark.parametrize(("op", "arity"), FLOAT_OPS, ids=lambda x: getattr(x, "name", None))
def test_a_float_op_gives_its_own_dtype_rounded_once_from_f32(op, arity, dtype):
    rounded = [(A + i).astype(dtype.numpy) for i in range(arity)]
    result = run(op, *rounded)
    assert result.dtype == dtype.numpy
    wide = run(op, *(x.astype(np.float32) for x in rounded))
    assert result.tobytes() == wide.astype(dtype.numpy).tobytes()


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
@pytest.mark.parametrize(
    ("op", "other"),
    [(RmsNorm(1e-5), A[0, 0]), (Rope(1e4, True), POSITIONS), (Rope(1e4, False), POSITIONS), (Embed(), POSITIONS)],
    ids=lambda x: getattr(x, "name", None),
)
def test_an_op_of_mixed_operands_keeps_the_first_ones_dtype(op, other, dtype):
    second = other if other.dtype == np.int32 else other.astype(dtype.numpy)
    assert run(op, A.astype(dtype.numpy), second).dtype == dtype.numpy


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
def test_scalars_stay_arrays_of_their_dtype(dtype):
    assert run(Div(), dtype.numpy.type(1), dtype.numpy.type(4)).tobytes() == dtype.numpy.type(0.25).tobytes()


@pytest.mark.parametrize("to", DTYPES.values(), ids=str)
@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_small_whole_numbers_survive_any_cast(source, to):
    x = np.array([0, 1, 1, 0]).astype(source.numpy)
    assert run(Cast(to), x).astype(int).tolist() == [0, 1, 1, 0]


def test_bf16_rounds_to_nearest_even():
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.140625], np.float32)
    assert run(Cast(bf16), x).astype(float).tolist() == [1.0, 1 + 2**-6, 3.140625]


@pytest.mark.case("N11")
def test_sums_of_halves_are_accumulated_in_f32():
    ones = np.ones(4096, np.float16)
    assert float(run(Sum(0), ones)) == 4096  # in f16 steps of 1 end at 2048
    assert float(run(Mean(0), ones * np.float16(1000))) == 1000  # the sum is no f16
    assert float(run(MatMul(), ones, np.ones((4096, 1), np.float16))[0]) == 4096
