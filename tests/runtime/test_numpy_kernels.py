"""Every op on the NumPy backend gives what its reference gives."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from vxgraph.errors import RunError
from vxgraph.ir.op import OPS, Effect, Op
from vxgraph.ir.types import Array, Dim, TensorType, bf16, bool_, dtype_of, f16, f32, i8, i32, i64, u8
from vxgraph.ops import (
    Add,
    ArgMax,
    Attention,
    CacheAppend,
    CacheInit,
    Cast,
    Compare,
    Concat,
    Constant,
    Copy,
    Div,
    Embed,
    Exp,
    Fused,
    Gelu,
    Iota,
    MatMul,
    Max,
    Maximum,
    Mean,
    Minimum,
    Mul,
    Neg,
    QuantizedMatMul,
    Relu,
    Reshape,
    RmsNorm,
    Rope,
    Rsqrt,
    Sample,
    Silu,
    Size,
    Slice,
    Softmax,
    Sqrt,
    Sub,
    Sum,
    Transpose,
    Where,
)
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.topology.ids import GPU

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float16), BF16]
T = Dim("T", max=512)
RNG = np.random.default_rng(7)
TARGETS = ["numpy", "numpy:plain"]


@pytest.fixture(autouse=True, params=TARGETS)
def _each_target(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test is of the kernels in C, where there are some, and of NumPy's."""
    TARGETS.insert(0, request.param)
    yield
    TARGETS.pop(0)


def target() -> str:
    return TARGETS[0]


def some(*shape: int, dtype: np.dtype = FLOATS[0]) -> Array:
    if dtype.kind in "iu":
        return RNG.integers(0, 100, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def scalar(value: float, dtype: type = np.int32) -> Array:
    return np.array(value, dtype)


def dispatch(op: Op, operands: list[Array], sizes: dict[str, int] | None = None) -> list[Array]:
    """The op on a fresh backend, from poisoned memory."""
    ins = tuple(TensorType(dtype_of(a), a.shape) for a in operands)
    return dispatch_typed(op, operands, ins, sizes or {})


def dispatch_typed(
    op: Op, operands: list[Array], ins: tuple[TensorType, ...], sizes: dict[str, int], place: int = 0
) -> list[Array]:
    outs = op.infer(*ins)
    backend = NumpyBackend()
    backend.open(GPU[place], target())

    def tensor(t: TensorType) -> object:
        buffer = backend.alloc(t.nbytes(sizes), GPU[place])
        return backend.tensor(buffer, 0, t.dtype, t.shape(sizes), GPU[place])

    sources, results = [tensor(t) for t in ins], [tensor(t) for t in outs]
    for array, into in zip(operands, sources, strict=True):
        backend.upload(array, into, GPU[place])
    kernel = backend.kernel(op, ins, outs, GPU[place])
    with backend.scope():
        backend.dispatch(kernel, sources, results, GPU[place], sizes=sizes)
    found = [np.empty(t.shape(sizes), t.dtype.numpy) for t in outs]
    for out, t in zip(found, results, strict=True):
        backend.download(t, GPU[place], out=out)
    for array, source in zip(operands, sources, strict=True):
        after = np.empty_like(array, order="C", subok=False)
        backend.download(source, GPU[place], out=after)
        np.testing.assert_array_equal(after, array, err_msg="the kernel wrote into an operand")
    return found


def agree(op: Op, *operands: Array, rtol: float = 2e-5) -> None:
    found, wanted = dispatch(op, list(operands)), op.reference({}, *operands)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        wide = [x.astype(np.float64) if x.dtype.kind not in "iub" else x for x in (a, b)]
        loose = {2: 2e-2 if a.dtype == BF16 else 2e-3}.get(a.dtype.itemsize, rtol)
        np.testing.assert_allclose(*wide, rtol=loose, atol=loose / 4)


UNARY = [Neg(), Exp(), Sqrt(), Rsqrt(), Silu(), Gelu(), Relu()]
BINARY = [Add(), Sub(), Mul(), Div(), Maximum(), Minimum()]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_a_unary_op_gives_its_reference(op: Op, dtype: np.dtype) -> None:
    for shape in ((5,), (3, 4), (), (0, 4), (1, 1)):
        agree(op, some(*shape, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_a_binary_op_broadcasts_as_its_reference(op: Op, dtype: np.dtype) -> None:
    for left, right in (((3, 4), (3, 4)), ((3, 4), (4,)), ((1, 4), (3, 1)), ((), (2,)), ((0, 4), (4,)), ((), ())):
        agree(op, some(*left, dtype=dtype), some(*right, dtype=dtype))


@pytest.mark.parametrize("op", [Add(), Sub(), Mul(), Maximum(), Minimum()], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integers_wrap_as_the_reference(op: Op, dtype: type) -> None:
    limits = np.iinfo(dtype)
    agree(op, np.array([limits.min, limits.max, 3], dtype), np.array([1, 1, 5], dtype))


def test_extreme_values_raise_no_warning_and_stay_as_the_reference() -> None:
    wild = np.array([0.0, -0.0, 1e38, -1e38, 200.0, -200.0, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(all="raise"):
        for op in UNARY:
            agree(op, wild)
        for op in BINARY:
            agree(op, wild, wild[::-1])
        agree(Fused("mul(silu(a), b)"), wild, wild)
        agree(Softmax(0), wild[:6])
        agree(MatMul(), wild[None, 2:4], wild[2:4, None])


@pytest.mark.parametrize(
    "expr",
    [
        "mul(silu(a), b)",
        "silu(silu(a))",
        "add(mul(a, b), mul(b, a))",
        "sub(a, exp(b))",
        "add(add(a, b), neg(mul(a, a)))",
    ],
)
def test_a_fused_expression_gives_its_reference(expr: str) -> None:
    for dtype in FLOATS:
        agree(Fused(expr), some(3, 7, dtype=dtype), some(3, 7, dtype=dtype))


def test_a_fused_expression_may_broadcast_inside() -> None:
    agree(Fused("mul(silu(a), b)"), some(1, 7), some(3, 7))
    agree(Fused("add(mul(a, a), b)"), some(3, 7), some(7))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_gives_its_reference(dtype: np.dtype, transpose_b: bool) -> None:
    for m, k, n in ((1, 64, 48), (5, 64, 48), (1, 1, 1), (3, 1, 2), (4, 0, 3), (0, 4, 3), (3, 4, 0), (1, 0, 3)):
        right = (n, k) if transpose_b else (k, n)
        agree(MatMul(transpose_b), some(m, k, dtype=dtype), some(*right, dtype=dtype))


@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_takes_vectors_batches_and_integers(transpose_b: bool) -> None:
    turn = (lambda b: np.ascontiguousarray(np.swapaxes(b, -1, -2))) if transpose_b else (lambda b: b)
    op = MatMul(transpose_b)
    agree(op, some(6), turn(some(6, 4)))
    agree(op, some(2, 3, 6), turn(some(6, 4)))
    agree(op, some(2, 1, 6), turn(some(2, 6, 4)))
    agree(op, some(1, 1, 6), turn(some(6, 4)))
    agree(op, some(3, 6, dtype=np.dtype(np.int32)), turn(some(6, 4, dtype=np.dtype(np.int32))))
    agree(op, some(10, 1, 0), turn(some(10, 0, 7)))


def test_halves_multiply_in_more_than_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vxgraph.runtime.backends.numpy.linear.SCRATCH", 4 * 64 * 10)
    agree(MatMul(True), some(3, 64, dtype=BF16), some(33, 64, dtype=BF16))
    agree(MatMul(False), some(3, 64, dtype=FLOATS[1]), some(64, 33, dtype=FLOATS[1]))


@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_f32_by_halves_gives_its_reference(dtype: np.dtype, transpose_b: bool) -> None:
    for m, k, n in ((1, 64, 48), (5, 64, 48), (1, 1, 1), (4, 0, 3), (0, 4, 3), (3, 4, 0), (1, 0, 3), (1, 33, 7)):
        right = (n, k) if transpose_b else (k, n)
        agree(MatMul(transpose_b), some(m, k), some(*right, dtype=dtype))
    agree(MatMul(transpose_b), some(6), some(6, 6, dtype=dtype))
    agree(MatMul(transpose_b), some(2, 1, 6), some(2, 6, 6, dtype=dtype))


def test_a_quantised_product_gives_its_reference() -> None:
    for m, k, n in ((1, 64, 48), (5, 64, 48), (1, 1, 1), (4, 0, 3), (0, 4, 3), (3, 4, 0), (1, 0, 3), (1, 33, 7)):
        weight = RNG.integers(-127, 128, (n, k)).astype(np.int8)
        agree(QuantizedMatMul(), some(m, k), weight, some(n) / 100, rtol=1e-4)
    agree(QuantizedMatMul(), some(8), RNG.integers(-127, 128, (5, 8)).astype(np.int8), some(5))
    agree(QuantizedMatMul(), some(2, 3, 8), RNG.integers(-127, 128, (5, 8)).astype(np.int8), some(5), rtol=1e-4)


def test_narrow_weights_multiply_in_more_than_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vxgraph.runtime.backends.numpy.linear.SCRATCH", 4 * 64 * 10)
    monkeypatch.setattr("vxgraph.runtime.backends.numpy.linear._CACHED", 64 * 10)
    for rows in (1, 3):
        agree(QuantizedMatMul(), some(rows, 64), RNG.integers(-127, 128, (33, 64)).astype(np.int8), some(33) / 100)
        agree(MatMul(True), some(rows, 64), some(33, 64, dtype=BF16))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rmsnorm_and_softmax_give_their_reference(dtype: np.dtype) -> None:
    for shape in ((1, 64), (5, 64), (2, 3, 8), (64,), (0, 8), (3, 0)):
        agree(RmsNorm(1e-5), some(*shape, dtype=dtype), some(shape[-1], dtype=dtype))
    for axis in (0, 1, -1):
        agree(Softmax(axis), some(3, 5, dtype=dtype))
        agree(Softmax(axis), some(0, 4, dtype=dtype))


def test_rmsnorm_of_thousands_in_f16_is_one() -> None:
    x, w = np.full((1, 64), 1000, np.float16), np.ones(64, np.float16)
    (found,) = dispatch(RmsNorm(1e-5), [x, w])
    np.testing.assert_array_equal(found, np.ones((1, 64), np.float16))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("scaling", [None, (8.0, 1.0, 4.0, 8192)])
def test_rope_gives_its_reference_at_any_position(dtype: np.dtype, interleaved: bool, scaling: tuple | None) -> None:
    op = Rope(10000.0, interleaved, scaling)
    for positions in ([0], [7], [300], [0, 1, 2, 3], [5, 900, 3], [-3], [1 << 20], []):
        at = np.array(positions, np.int32)
        agree(op, some(len(at), 3, 8, dtype=dtype), at)
    agree(op, some(2, 3, 0, dtype=dtype), np.array([1, 2], np.int64))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_over_a_whole_prompt_gives_its_reference(dtype: np.dtype, causal: bool) -> None:
    for tq, tk, heads, kv in (
        (1, 1, 1, 1),
        (5, 5, 4, 2),
        (3, 7, 9, 3),
        (150, 150, 2, 1),
        (70, 200, 2, 2),
        (0, 3, 2, 1),
    ):
        q, k, v = some(tq, heads, 8, dtype=dtype), some(tk, kv, 8, dtype=dtype), some(tk, kv, 6, dtype=dtype)
        agree(Attention(causal), q, k, v)
    agree(Attention(causal, scale=0.5), some(4, 2, 8), some(4, 2, 8), some(4, 2, 8))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention_reads_no_row_beyond_the_valid_ones(dtype: np.dtype) -> None:
    k, v = some(64, 3, 8, dtype=dtype), some(64, 3, 8, dtype=dtype)
    for valid in (1, 20, 64):
        k[valid:], v[valid:] = np.nan, np.nan
        for queries in (1, valid):
            q = some(queries, 9, 8, dtype=dtype)
            agree(Attention(), q, k, v, scalar(valid))
            assert np.isfinite(dispatch(Attention(), [q, k, v, scalar(valid)])[0].astype(np.float32)).all()
        k, v = some(64, 3, 8, dtype=dtype), some(64, 3, 8, dtype=dtype)


def test_attention_blocks_shrink_where_the_scores_are_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vxgraph.runtime.backends.numpy.attention.SCRATCH", 4 * 40 * 3)
    agree(Attention(), some(40, 4, 8), some(40, 2, 8), some(40, 2, 8))


def test_query_head_i_reads_key_head_i_over_group() -> None:
    v = np.repeat(np.arange(3, dtype=np.float32), 4).reshape(1, 3, 4)
    (found,) = dispatch(Attention(), [some(1, 9, 4), some(1, 3, 4), v])
    np.testing.assert_array_equal(found[0, :, 0], np.arange(9) // 3)


@pytest.mark.parametrize("length", [0, -1, 9])
def test_attention_refuses_a_length_that_is_not_there(length: int) -> None:
    with pytest.raises(RunError) as e:
        dispatch(Attention(), [some(1, 2, 4), some(8, 2, 4), some(8, 2, 4), scalar(length)])
    wanted = {
        0: "q has 1 rows but only 0 of k's are valid: some rows see no key",
        -1: "length is -1, but k and v have 8 rows",
        9: "length is 9, but k and v have 8 rows",
    }
    assert str(e.value) == wanted[length]


@pytest.mark.parametrize("at", [0, 3, 6])
def test_cache_append_replaces_the_rows(at: int) -> None:
    agree(CacheAppend(), some(8, 3, 4), some(2, 3, 4), scalar(at))
    agree(CacheAppend(), some(8, 2, dtype=np.dtype(np.int64)), some(2, 2, dtype=np.dtype(np.int64)), scalar(at))


@pytest.mark.parametrize(("at", "rows"), [(8, 1), (7, 2), (-1, 1)])
def test_cache_append_refuses_rows_that_do_not_fit(at: int, rows: int) -> None:
    with pytest.raises(RunError) as e:
        dispatch(CacheAppend(), [some(8, 2), some(rows, 2), scalar(at)])
    assert str(e.value) == f"{rows} rows at {at} do not fit the cache, which has 8 rows"


def test_cache_append_in_place_writes_its_rows_and_nothing_else() -> None:
    backend = NumpyBackend()
    backend.open(GPU[0], target())
    types = (f32[8, 2], f32[2, 2], i32[()])
    buffer = backend.alloc(4096, GPU[0])
    cache, again = (backend.tensor(buffer, 0, f32, (8, 2), GPU[0]) for _ in range(2))
    rows = backend.tensor(buffer, 1024, f32, (2, 2), GPU[0])
    at = backend.tensor(buffer, 2048, i32, (), GPU[0])
    backend.upload(np.array([[1, 2], [3, 4]], np.float32), rows, GPU[0])
    backend.upload(scalar(5), at, GPU[0])
    kernel = backend.kernel(CacheAppend(), types, types[:1], GPU[0])
    backend.dispatch(kernel, [cache, rows, at], [again], GPU[0], sizes={})
    found = np.empty((8, 2), np.float32)
    backend.download(cache, GPU[0], out=found)
    np.testing.assert_array_equal(found[5:7], [[1, 2], [3, 4]])
    assert np.isnan(found[:5]).all()
    assert np.isnan(found[7:]).all()


@pytest.mark.parametrize("in_place", [True, False])
def test_cache_init_holds_the_rows_and_leaves_the_rest_poisoned(in_place: bool) -> None:
    op = CacheInit(f32[8, 2])
    backend = NumpyBackend()
    backend.open(GPU[0], target())
    buffer = backend.alloc(4096, GPU[0])
    rows = backend.tensor(buffer, 0, f32, (3, 2), GPU[0])
    cache = backend.tensor(buffer, 0 if in_place else 1024, f32, (8, 2), GPU[0])
    backend.upload(some(3, 2), rows, GPU[0])
    backend.dispatch(backend.kernel(op, (f32[T, 2],), (op.type,), GPU[0]), [rows], [cache], GPU[0], sizes={"T": 3})
    found, given = np.empty((8, 2), np.float32), np.empty((3, 2), np.float32)
    backend.download(cache, GPU[0], out=found)
    backend.download(rows, GPU[0], out=given)
    np.testing.assert_array_equal(found[:3], given)
    assert np.isnan(found[3:]).all()
    assert np.isnan(dispatch(CacheInit(f32[4, 2]), [])[0]).all()


def test_embed_takes_rows_and_refuses_ids_that_are_not_there() -> None:
    for dtype in FLOATS:
        agree(Embed(), some(10, 4, dtype=dtype), np.array([[0, 9], [3, 3]], np.int32))
    agree(Embed(), some(10, 4), np.array([], np.int64))
    for wrong in (10, -1):
        with pytest.raises(RunError) as e:
            dispatch(Embed(), [some(10, 4), np.array([1, wrong], np.int32)])
        assert str(e.value) == f"id {wrong} is not in the table, which has 10 rows: 0 to 9"


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int32), np.dtype(np.uint8)], ids=str)
def test_elements_move_as_the_reference_says(dtype: np.dtype) -> None:
    x = some(3, 4, 5, dtype=dtype)
    agree(Copy(), x)
    agree(Transpose((2, 0, 1)), x)
    agree(Concat(1), x, some(3, 2, 5, dtype=dtype))
    agree(Concat(0), x)
    agree(Slice(1, 1, 3), x)
    agree(Slice(-1, 4, None, -2), x)
    agree(Slice(0, -1, None), x)


def test_argmax_and_sample_choose_as_the_reference_says() -> None:
    for dtype in FLOATS:
        agree(ArgMax(-1), some(3, 50, dtype=dtype))
        agree(ArgMax(0), some(3, 50, dtype=dtype))
    ties = np.array([1.0, 5.0, 5.0, -1.0], np.float32)
    agree(ArgMax(0), ties)
    agree(ArgMax(0), np.array([1.0, np.nan, 9.0], np.float32))
    for temperature in (0.0, -1.0, 0.7, 1.5):
        for seed in range(5):
            rest = (scalar(temperature, np.float32), scalar(0.9, np.float32), scalar(seed, np.int64), scalar(3))
            agree(Sample(), some(60), *rest)
            agree(Sample(), ties, *rest)


@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0])
def test_sample_draws_from_a_large_vocabulary_as_the_reference_says(spread: float) -> None:
    logits = some(2000) * np.float32(spread)  # spread 0: all equal, so that only ties decide
    logits[::7] = logits[0]
    for top_p in (0.0, 0.1, 0.5, 0.95, 1.0):
        for seed in range(12):
            rest = (scalar(0.8, np.float32), scalar(top_p, np.float32), scalar(seed, np.int64), scalar(seed))
            agree(Sample(), logits, *rest)
    agree(Sample(), np.full(300, np.nan, np.float32), *rest)
    agree(Sample(), np.where(np.arange(300) < 5, np.inf, some(300)).astype(np.float32), *rest)


def test_what_has_no_fast_kernel_runs_its_reference() -> None:
    x = some(3, 4)
    agree(Compare("lt"), x, some(3, 4))
    agree(Where(), x > 0, x, some(4))
    for dtype in (f16, bf16, i8, i32, u8, bool_):
        agree(Cast(dtype), np.abs(x))
    for op in (Sum(0), Mean(-1, True), Max(1)):
        agree(op, x)
    agree(Constant(f32[2, 2], (1.0, 2.0, 3.0, 4.0)))
    agree(Constant(i64[()], (3,)))
    agree(Iota(7))


def test_symbols_take_their_sizes_from_the_run() -> None:
    (count,) = dispatch_typed(Size(T), [], (), {"T": 9})
    (iota,) = dispatch_typed(Iota(T), [], (), {"T": 9})
    assert int(count) == 9
    np.testing.assert_array_equal(iota, np.arange(9))


def test_every_registered_op_that_runs_is_tested_here() -> None:
    runs = {cls.__name__ for cls in OPS.values() if cls.effect is Effect.PURE and not cls.alias}
    tested = {name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Op)}
    assert runs <= tested
    assert Reshape.alias  # a reshape never runs: its result is its operand's bytes
