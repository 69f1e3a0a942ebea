"""Products with weights that are stored in fewer bytes than they are computed with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.run_op import run
from vxgraph.errors import GraphError
from vxgraph.ir.types import Dim, bf16, f16, f32, i8
from vxgraph.ops import MatMul, QuantizedMatMul, quantize

T = Dim("T", max=9)
V = Dim("Vocab", 7)
D = Dim("D", 64)


def uniform(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def dequantized(weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Element by element, in Python's floats."""
    rows = [[int(q) * float(s) for q in row] for row, s in zip(weight, scale, strict=True)]
    return np.array(rows, np.float64).reshape(weight.shape)


@given(st.integers(0, 4), st.integers(0, 70), st.integers(0, 5), st.integers(0, 99))
def test_a_quantised_product_is_that_of_the_dequantised_weight(m: int, k: int, n: int, seed: int):
    rng = np.random.default_rng(seed)
    x, weight, scale = uniform(seed, m, k), rng.integers(-128, 128, (n, k)).astype(np.int8), uniform(seed, n)
    found = run(QuantizedMatMul(), x, weight, scale)
    wanted = x.astype(np.float64) @ dequantized(weight, scale).T
    assert (found.dtype, found.shape) == (np.float32, (m, n))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-2)


def test_a_quantised_product_keeps_the_names_and_leading_dims_of_x():
    assert QuantizedMatMul().infer(f32[T, D], i8[V, D], f32[V]) == (f32[T, V],)
    assert QuantizedMatMul().infer(f32[2, 3, 64], i8[7, D], f32[V]) == (f32[2, 3, V],)
    assert QuantizedMatMul().infer(f32[64], i8[7, 64], f32[7]) == (f32[7],)


def test_a_quantised_weight_costs_its_bytes():
    cost = QuantizedMatMul().cost((f32[4, 64], i8[8, 64], f32[8]), (f32[4, 8],))
    assert (cost.flops, cost.nbytes) == (4 * 8 * (2 * 64 + 1), 4 * 4 * 64 + 8 * 64 + 4 * 8 + 4 * 4 * 8)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_a_weight_of_halves_is_widened_and_nothing_else_is_rounded(dtype, turned: bool):
    x, weight = uniform(1, 3, 50), uniform(2, 50, 8).astype(dtype.numpy)
    stored = np.ascontiguousarray(weight.T) if turned else weight
    found = run(MatMul(turned), x, stored)
    assert found.tobytes() == run(MatMul(turned), x, stored.astype(np.float32)).tobytes()
    np.testing.assert_allclose(found, x.astype(np.float64) @ weight.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_f32_by_halves_is_f32_and_costs_the_bytes_of_halves(dtype):
    assert MatMul(True).infer(f32[T, D], dtype[V, D]) == (f32[T, V],)
    assert MatMul().cost((f32[4, 64], dtype[64, 8]), (f32[4, 8],)).nbytes == 4 * 4 * 64 + 2 * 64 * 8 + 4 * 4 * 8


@given(st.integers(0, 5), st.integers(0, 40), st.integers(0, 99), st.sampled_from([1e-40, 1e-3, 1.0, 1e30]))
def test_quantising_is_off_by_at_most_half_a_step_of_each_row(n: int, k: int, seed: int, size: float):
    weight = uniform(seed, n, k) * np.float32(size)
    stored, scale = quantize(weight)
    assert (stored.dtype, scale.dtype, stored.shape, scale.shape) == (np.int8, np.float32, (n, k), (n,))
    assert not stored.size or np.abs(stored.astype(int)).max(initial=0) <= 127
    step = scale.astype(np.float64)[:, None]
    assert (np.abs(dequantized(stored, scale) - weight) <= step * 0.5001 + 1e-43).all()


def test_the_largest_of_a_row_becomes_127_and_halves_round_to_even():
    stored, scale = quantize(np.array([[127, 0.5, 1.5, -2.5, -127], [0, 0, 0, 0, 0], [0, 0, 0, 0, -254]], np.float32))
    assert stored.tolist() == [[127, 0, 2, -2, -127], [0, 0, 0, 0, 0], [0, 0, 0, 0, -127]]
    assert scale.tolist() == [1, 0, 2]


def test_weights_are_quantised_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch):
    weight = uniform(3, 7, 10)
    whole = quantize(weight)
    monkeypatch.setattr("vxgraph.ops.quantized._BLOCK", 20)
    for a, b in zip(quantize(weight), whole, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_quantised(value: float):
    weight = uniform(4, 5, 6)
    weight[3, 2] = value
    with pytest.raises(GraphError) as error:
        quantize(weight)
    assert str(error.value) == "row 3 has values that are not finite"
