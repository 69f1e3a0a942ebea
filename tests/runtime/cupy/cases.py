"""Every op in every dtype that it takes, at shapes where kernels go wrong: odd, empty, unaligned, grouped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Dim, DType, TensorType, bf16, bool_, dtype_of, f16, f32, i8, i32, i64, u8
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
    Relu,
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

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (f32, f16, bf16)
INTS = (i8, i32, i64, u8)
DTYPES = (*FLOATS, *INTS, bool_)
T = Dim("T", max=512)


@dataclass(frozen=True)
class Case:
    """One run of one op; `exact` where every bit must agree with the reference."""

    name: str
    op: Op
    operands: tuple[Array, ...]
    sizes: dict[str, int] = field(default_factory=dict)
    same: bool = False
    exact: bool = False
    shift: int = 0
    large: bool = False  # needs a device
    loose: float = 1.0  # what the tolerance is multiplied by
    ins: tuple[TensorType, ...] | None = None  # where dims are named

    @property
    def brief(self) -> bool:
        """Whether a short run on a CPU takes it: no large one, and all dtypes only where they are the point."""
        dtypes = {t.dtype for t in (*self.types[:1], *self.outs)}
        match self.op.name:
            case "add" | "sum" | "matmul" | "cache_append":
                return not self.large
            case "cast" | "compare" | "where":
                return f32 in dtypes
            case "attention":
                return (not self.large and bf16 in dtypes) or self.name.startswith("attention-f32")
            case _:
                return not self.large and dtypes <= {f32, bf16, i32, bool_}

    @property
    def types(self) -> tuple[TensorType, ...]:
        return self.ins or tuple(TensorType(dtype_of(a), a.shape) for a in self.operands)

    @property
    def outs(self) -> tuple[TensorType, ...]:
        return self.op.infer(*self.types)

    def check(self, found: Array) -> None:
        (wanted,) = self.op.reference(self.sizes, *self.operands)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if self.exact or wanted.dtype.kind in "iub":
            np.testing.assert_array_equal(found, wanted)
            return
        if isinstance(self.op, MatMul) and wanted.dtype == np.float32:  # a long sum in f32 is no yardstick for another
            (wanted,) = self.op.reference(self.sizes, *(a.astype(np.float64) for a in self.operands))
        loose = self.loose * {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}[found.dtype.name]
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=loose, atol=loose / 2)


class Maker:
    """Arrays by dtype and shape, the same in every session; of more elements than `most`, zeros, which cost nothing."""

    def __init__(self, most: int | None = None) -> None:
        self._rng = np.random.default_rng(5)
        self._most = most

    def __call__(self, dtype: DType, *shape: int, scale: float = 1.0) -> Array:
        if self._most is not None and math.prod(shape) > self._most:
            return np.zeros(shape, dtype.numpy)
        if dtype.kind == "bool":
            return self._rng.integers(0, 2, shape).astype(bool)
        if dtype.kind == "int":
            info = np.iinfo(dtype.numpy)
            return self._rng.integers(max(info.min, -1000), min(info.max, 1000), shape).astype(dtype.numpy)
        return (scale * self._rng.standard_normal(shape)).astype(np.float32).astype(dtype.numpy)


def scalar(value: float, dtype: type = np.int32) -> Array:
    return np.array(value, dtype)


def named(name: str, *parts: object) -> str:
    return "-".join((name, *("x".join(map(str, p)) if isinstance(p, tuple) else str(p) for p in parts)))


def all_cases(*, large: bool = True) -> list[Case]:
    """The table; without the large ones none of their arrays is made."""
    some = Maker() if large else Maker(most=1 << 16)
    makers = (
        elementwise_cases,
        special_value_cases,
        compare_cases,
        cast_cases,
        matmul_cases,
        embed_cases,
        norm_cases,
        reduce_cases,
        rope_cases,
        attention_cases,
        cache_cases,
        movement_cases,
        create_cases,
        sample_cases,
    )
    return [case for make in makers for case in make(some) if large or not case.large]


UNARY = (Neg(), Relu(), Exp(), Sqrt(), Rsqrt(), Silu(), Gelu())
BINARY = (Add(), Sub(), Mul(), Div(), Maximum(), Minimum())


def elementwise_cases(some: Maker) -> Iterator[Case]:
    for dtype in DTYPES:
        for op in UNARY:
            if dtype.kind in op.takes:
                for shape in ((1000,), (3, 5), (), (0, 4)):
                    yield Case(named(op.name, dtype, shape), op, (some(dtype, *shape),), shift=len(shape))
        for op in BINARY:
            if dtype.kind in op.takes:
                # How operands are read is the same for all ops: one of them stands for the others.
                for i, (a, b) in enumerate(STRETCHED if op == Add() else STRETCHED[:2]):
                    yield Case(
                        named(op.name, dtype, a, b), op, (some(dtype, *a), some(dtype, *b)), shift=i % 2, exact=True
                    )
    for dtype in FLOATS:
        for expr, shapes in (
            ("mul(silu(a), b)", ((4, 1536), (4, 1536))),
            ("mul(silu(a), b)", ((3, 7), (3, 7))),
            ("add(mul(a, b), c)", ((2, 3, 8), (8,), (2, 1, 1))),
            ("neg(sub(a, mul(b, a)))", ((33,), ())),
        ):
            operands = tuple(some(dtype, *s) for s in shapes)
            yield Case(named("fused", dtype, expr, shapes[0]), Fused(expr), operands, exact="silu" not in expr)
    yield Case("fused-i32", Fused("maximum(add(a, b), neg(a))"), (some(i32, 9), some(i32, 9)))


STRETCHED = (
    ((1000,), (1000,)),
    ((3, 5), (3, 5)),
    ((3, 64), (64,)),
    ((1, 8), (5, 1)),
    ((), (7,)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((0, 4), (4,)),
    ((), ()),
)


def special_value_cases(some: Maker) -> Iterator[Case]:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 88.8, -104.0], np.float32)
    for dtype in FLOATS:
        x = special.astype(dtype.numpy)
        a, b = np.repeat(x, len(x)), np.tile(x, len(x))
        for op in (Relu(), Exp(), Sqrt(), Rsqrt(), Silu(), Neg(), Cast(f16), Cast(bf16)):
            yield Case(named("special", op.name, getattr(op, "dtype", ""), dtype), op, (x,))
        for op in (Add(), Mul(), Div(), Maximum(), Minimum(), Compare("lt"), Compare("ne"), Compare("ge")):
            yield Case(named("special", op.name, getattr(op, "kind", ""), dtype), op, (a, b))
    for dtype in INTS:
        info = np.iinfo(dtype.numpy)
        edge = np.array([info.min, info.max, 0, 1, info.max // 2 + 1], dtype.numpy)
        a, b = np.repeat(edge, len(edge)), np.tile(edge, len(edge))
        for op in (Add(), Sub(), Mul(), Maximum()):
            yield Case(named("wraps", op.name, dtype), op, (a, b))
        yield Case(named("wraps", "neg", dtype), Neg(), (edge,))
    yield Case("gelu-far", Gelu(), (np.linspace(-7, 7, 301, dtype=np.float32),), loose=0.5)


def compare_cases(some: Maker) -> Iterator[Case]:
    for dtype in DTYPES:
        for kind in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield Case(named("compare", kind, dtype), Compare(kind), (some(dtype, 3, 9), some(dtype, 9)))
        operands = (some(bool_, 4, 1), some(dtype, 4, 17), some(dtype, 17))
        yield Case(named("where", dtype), Where(), operands, exact=True, shift=1)


def cast_cases(some: Maker) -> Iterator[Case]:
    for source in DTYPES:
        for to in DTYPES:
            x = np.abs(some(source, 101)) if to is u8 and source is not bool_ else some(source, 101)
            yield Case(named("cast", source, to), Cast(to), (x,), exact=True, shift=1)


def matmul_cases(some: Maker) -> Iterator[Case]:
    def turned(b: Array, transpose: bool) -> Array:
        return np.ascontiguousarray(np.swapaxes(b, -1, -2)) if transpose else b

    for dtype in (*FLOATS, *INTS):
        for transpose in (True, False):
            op = MatMul(transpose)
            for m, k, n in ((1, 64, 33), (1, 63, 5), (5, 24, 7), (1, 2304, 3), (3, 0, 4), (0, 4, 4)):
                b = turned(some(dtype, k, n), transpose)
                yield Case(named("matmul", dtype, transpose, (m, k, n)), op, (some(dtype, m, k), b), loose=4)
            for a, b in (((6,), (6, 4)), ((2, 3, 6), (6, 4)), ((2, 1, 6), (2, 6, 4)), ((2, 1, 3, 6), (1, 3, 6, 4))):
                operands = (some(dtype, *a), turned(some(dtype, *b), transpose))
                yield Case(named("matmul", dtype, transpose, a, b), op, operands, loose=4)
    for dtype in FLOATS:
        for shift in (0, 1):
            operands = (some(dtype, 1, 576), some(dtype, 40, 576))
            yield Case(named("gemv", dtype, "shift", shift), MatMul(True), operands, shift=shift, loose=4)
        operands = (some(dtype, 1, 40), some(dtype, 8195, 40))
        yield Case(named("gemv", dtype, "tall"), MatMul(True), operands, loose=4)
        operands = (some(dtype, 1, 4096), some(dtype, 4096, 4096))
        yield Case(named("gemv", dtype, "7b"), MatMul(True), operands, loose=8, large=True)
        operands = (some(dtype, 1, 11008), some(dtype, 8193, 11008))
        yield Case(named("gemv", dtype, "7b-down"), MatMul(True), operands, loose=8, large=True)


def embed_cases(some: Maker) -> Iterator[Case]:
    for dtype in DTYPES:
        ids = np.array([[0, 9], [3, 3]], np.int32)
        yield Case(named("embed", dtype), Embed(), (some(dtype, 10, 36), ids), exact=True)
        yield Case(
            named("embed", dtype, "odd"), Embed(), (some(dtype, 10, 5), ids.astype(np.int64)), exact=True, shift=1
        )
    yield Case("embed-u8-ids", Embed(), (some(f32, 10, 4), np.array([9, 0], np.uint8)), exact=True)
    yield Case("embed-none", Embed(), (some(f32, 10, 4), np.array([], np.int64)), exact=True)


def norm_cases(some: Maker) -> Iterator[Case]:
    for dtype in FLOATS:
        for i, shape in enumerate(((1, 576), (5, 64), (2, 3, 7), (64,), (1, 4096), (2, 5000), (0, 8), (3, 0))):
            operands = (some(dtype, *shape), some(dtype, shape[-1]))
            yield Case(named("rmsnorm", dtype, shape), RmsNorm(1e-5), operands, shift=i % 2)
        thousands = (np.full((1, 64), 1000, dtype.numpy), np.ones(64, dtype.numpy))
        yield Case(named("rmsnorm", dtype, "thousands"), RmsNorm(1e-5), thousands)
        small = (some(dtype, 3, 64, scale=1e-3), some(dtype, 64))
        yield Case(named("rmsnorm", dtype, "small"), RmsNorm(1e-5), small)
        for axis in (0, 1, -1):
            yield Case(named("softmax", dtype, axis), Softmax(axis), (some(dtype, 3, 5, 40),))
        yield Case(named("softmax", dtype, "empty"), Softmax(-1), (some(dtype, 3, 0),))
        yield Case(named("softmax", dtype, "long"), Softmax(0), (some(dtype, 3000, scale=5),))
        masked = some(dtype, 4, 6)
        masked[0, 2:], masked[1] = -np.inf, -np.inf
        yield Case(named("softmax", dtype, "masked"), Softmax(1), (masked,))


def reduce_cases(some: Maker) -> Iterator[Case]:
    for dtype in DTYPES:
        for op in (Sum, Mean, Max, ArgMax):
            if op in (Sum, Mean, Max) and dtype.kind not in op.takes:
                continue
            for axis, shape in ((-1, (3, 1500)), (0, (37, 5)), (1, (2, 3, 4)), (0, (7,)), (0, (1,)), (1, (0, 3))):
                made = op(axis, True) if op is not ArgMax and axis == 1 else op(axis)
                yield Case(named(op.name, dtype, axis, shape), made, (some(dtype, *shape),), loose=2)
    for dtype in FLOATS:
        for op in (Max(0), ArgMax(0)):
            for name, values in (("nan", [1, np.nan, 9, np.nan]), ("ties", [1, 5, 5, -1]), ("-inf", [-np.inf] * 3)):
                yield Case(named(op.name, dtype, name), op, (np.array(values, dtype.numpy),))
        yield Case(named("sum", dtype, "empty"), Sum(1), (some(dtype, 3, 0),))
        yield Case(named("mean", dtype, "empty"), Mean(1), (some(dtype, 3, 0),))
    yield Case("sum-wraps", Sum(0), (np.full(5, 2**31 - 1, np.int32),))
    yield Case("argmax-vocabulary", ArgMax(-1), (some(f32, 1, 32000),), large=True)


def rope_cases(some: Maker) -> Iterator[Case]:
    positions = np.array([0, 1, 7, 300, 8191, 131071], np.int32)
    for dtype in FLOATS:
        for interleaved in (True, False):
            for scaling in (None, (8.0, 1.0, 4.0, 8192)):
                op = Rope(500000.0, interleaved, scaling)
                name = named("rope", dtype, interleaved, scaling is not None)
                yield Case(name, op, (some(dtype, 6, 3, 16), positions), loose=0.1 if dtype is f32 else 1)
    ones = np.ones((6, 2, 128), np.float32)
    yield Case("rope-angles", Rope(10000.0, True), (ones, positions), loose=0.05)
    yield Case("rope-i64", Rope(10000.0, False), (some(f32, 3, 2, 6), np.array([-3, 1 << 20, 5])), loose=0.5)
    yield Case("rope-none", Rope(10000.0, False), (some(f32, 0, 2, 6), np.array([], np.int64)))
    yield Case("rope-flat", Rope(10000.0, False), (some(f32, 2, 2, 0), np.array([1, 2], np.int64)))


def attention_cases(some: Maker) -> Iterator[Case]:
    """Rows of k and v beyond the length are NaN: a kernel that reads one cannot hide it."""
    for dtype in FLOATS:
        for heads, kv, depth, lengths in (
            (9, 3, 64, (1, 2, 63, 64)),
            (32, 8, 16, (1, 40)),
            (4, 4, 128, (3, 64)),
            (8, 1, 24, (5, 33)),
            (2, 2, 7, (1, 50)),
            (1, 1, 320, (9,)),
        ):
            for length in lengths:
                q, k, v = some(dtype, 1, heads, depth), some(dtype, 64, kv, depth), some(dtype, 64, kv, depth)
                k[length:], v[length:] = np.nan, np.nan
                name = named("decode", dtype, (heads, kv, depth), length)
                yield Case(name, Attention(), (q, k, v, scalar(length)), shift=length % 2)
        for queries, keys, heads, kv, depth, width in (
            (5, 5, 4, 2, 8, 8),
            (3, 7, 9, 3, 16, 6),
            (9, 9, 2, 1, 64, 64),
            (70, 70, 2, 1, 16, 16),
            (65, 130, 3, 3, 6, 10),
            (33, 40, 2, 2, 200, 130),
            (0, 3, 2, 1, 8, 8),
        ):
            operands = (some(dtype, queries, heads, depth), some(dtype, keys, kv, depth), some(dtype, keys, kv, width))
            for causal in (True, False):
                name = named("attention", dtype, (queries, keys), (heads, kv), (depth, width), causal)
                yield Case(name, Attention(causal), operands, shift=queries % 2)
        q, k, v = some(dtype, 20, 4, 8), some(dtype, 50, 2, 8), some(dtype, 50, 2, 8)
        k[37:], v[37:] = np.nan, np.nan
        yield Case(named("attention", dtype, "length"), Attention(), (q, k, v, scalar(37)))
        yield Case(named("attention", dtype, "scale"), Attention(scale=0.5), (q, k[:30], v[:30]))
        for heads, kv in ((32, 32), (32, 8), (9, 3)):
            depth = 64 if heads == 9 else 128
            for length in (1, 77, 600, 2048):
                q, k, v = some(dtype, 1, heads, depth), some(dtype, 2048, kv, depth), some(dtype, 2048, kv, depth)
                k[length:], v[length:] = np.nan, np.nan
                name = named("decode", dtype, (heads, kv, depth), length)
                yield Case(name, Attention(), (q, k, v, scalar(length)), large=True)
            operands = (some(dtype, 300, heads, depth), some(dtype, 300, kv, depth), some(dtype, 300, kv, depth))
            yield Case(named("prefill", dtype, (heads, kv, depth)), Attention(), operands, large=True)


def cache_cases(some: Maker) -> Iterator[Case]:
    for dtype in DTYPES:
        for same in (True, False):
            for at, count, width in ((0, 2, 12), (3, 2, 12), (6, 2, 12), (8, 0, 12), (7, 1, 64), (2, 3, 3)):
                operands = (some(dtype, 8, width), some(dtype, count, width), scalar(at))
                name = named("cache_append", dtype, same, at, (count, width))
                yield Case(name, CacheAppend(), operands, same=same, exact=True, shift=at % 2)
    yield Case("cache_append-scalars", CacheAppend(), (some(f32, 8), some(f32, 2), scalar(1)), exact=True, same=True)


def movement_cases(some: Maker) -> Iterator[Case]:
    for dtype in DTYPES:
        x = some(dtype, 3, 4, 24)
        ops = (
            Copy(),
            Transpose((2, 0, 1)),
            Transpose((1, 0, 2)),
            Transpose((2, 1, 0)),
            Slice(1, 1, 3),
            Slice(-1, 23, None, -2),
            Slice(0, -1, None),
            Slice(2, 3, 20, 4),
            Slice(0, 1, 1),
        )
        for op in ops:
            yield Case(named(op.name, dtype, str(op)), op, (x,), exact=True)
        yield Case(named("copy", dtype, "odd"), Copy(), (some(dtype, 1001),), exact=True, shift=1)
        for axis in (0, 1, 2):
            others = [some(dtype, *(5 if i == axis else n for i, n in enumerate(x.shape))), some(dtype, *x.shape)]
            yield Case(named("concat", dtype, axis), Concat(axis), (x, *others), exact=True)
        yield Case(named("concat", dtype, "one"), Concat(0), (x,), exact=True)
    yield Case("transpose-many", Transpose((4, 2, 0, 3, 1)), (some(f32, 2, 3, 4, 3, 5),), exact=True)


def create_cases(some: Maker) -> Iterator[Case]:
    for dtype in DTYPES:
        kind = {"float": float, "int": int, "bool": bool}[dtype.kind]
        for values in ((1, 0, 3, 1), (1, 1, 1, 1)):
            yield Case(
                named("constant", dtype, values), Constant(dtype[2, 2], tuple(map(kind, values))), (), exact=True
            )
        yield Case(named("constant", dtype, "scalar"), Constant(dtype[()], (kind(1),)), (), exact=True)
        yield Case(named("constant", dtype, "empty"), Constant(dtype[0], ()), (), exact=True)
        if dtype is not bool_:
            yield Case(
                named("iota", dtype), Iota(T, dtype) if dtype in (f32, i32, i64) else Iota(128, dtype), (), {"T": 300}
            )
    yield Case("constant-negative", Constant(i64[3], (-1, 2**62, -(2**63))), (), exact=True)
    yield Case("size", Size(T), (), {"T": 9})


def sample_cases(some: Maker) -> Iterator[Case]:
    def case(name: str, logits: Array, temperature: float, top_p: float, seed: int, position: int, large: bool = False):
        scalars = (
            scalar(temperature, np.float32),
            scalar(top_p, np.float32),
            scalar(seed, np.int64),
            scalar(position),
        )
        name = named("sample", name, dtype_of(logits), temperature, top_p, seed, position)
        return Case(name, Sample(), (logits, *scalars), large=large)

    for dtype in FLOATS:
        logits = some(dtype, 1500, scale=3)
        yield case("greedy", logits, 0.0, 0.9, 1, 1)
        yield case("nucleus", logits, 0.8, 0.9, -5, 3)
        yield case("long", some(dtype, 32000, scale=3), 0.8, 0.9, 2**62, 17, large=True)
    ties = np.array([1, 5, 5, -1, 5, 0, -0.0, 0], np.float32)
    yield case("ties", ties, 0.0, 1.0, 0, 0)
    for i in range(6):
        yield case("ties", ties, 5.0, (0.0, 0.5, 0.7, 0.95, 1.0, 2.0)[i], 7, i)
    for name, values in (
        ("nan", [1, np.nan, 3]),
        ("inf", [1, np.inf, 3]),
        ("-inf", [-np.inf, -1, -np.inf, -2]),
        ("one", [4]),
    ):
        for temperature in (0.0, 1.0):
            yield case(name, np.array(values, np.float32), temperature, 0.9, 3, 4)
    for position in range(200):
        yield case("many", some(f32, 32000, scale=2), 0.9, 0.95, 42, position, large=True)


def init_cases(some: Maker) -> Iterator[Case]:
    """cache_init's own: only the first rows of its result are specified."""
    for same in (True, False):
        for dtype in DTYPES:
            op = CacheInit(dtype[8, 3])
            yield Case(named("cache_init", dtype, same), op, (some(dtype, 5, 3),), same=same)


@dataclass(frozen=True)
class Fault:
    """Operands that a kernel must refuse; `kept` says that it then writes nothing at all."""

    case: Case
    message: str
    kept: bool = True


def fault_cases(some: Maker) -> Iterator[Fault]:
    for same in (True, False):
        for at, count in ((8, 1), (7, 2), (-1, 1), (9, 0)):
            operands = (some(f32, 8, 3), some(f32, count, 3), scalar(at))
            case = Case(named("append", same, at, count), CacheAppend(), operands, same=same)
            yield Fault(case, f"{count} rows at {at} do not fit the cache, which has 8 rows")
    for queries, length in ((1, 0), (1, -1), (1, 9), (5, 4), (40, 41), (40, 39), (0, 41)):
        capacity = 40 if queries in (0, 40) else 8
        wanted = f"length is {length}, but k and v have {capacity} rows"
        if 0 <= length <= capacity:
            wanted = f"q has {queries} rows but only {length} of k's are valid: some rows see no key"
        operands = (some(f32, queries, 4, 8), some(f32, capacity, 2, 8), some(f32, capacity, 2, 8), scalar(length))
        yield Fault(Case(named("length", queries, length), Attention(), operands), wanted)
    none = (some(f32, 2, 1, 4), some(f32, 3, 1, 4), some(f32, 3, 1, 4), scalar(0))
    wanted = "q has 2 rows but only 0 of k's are valid: some rows see no key"
    yield Fault(Case("length-not-causal", Attention(causal=False), none), wanted)
    for dtype, ids, wrong in ((i32, [1, 10, 2, -1], 10), (i64, [-(2**40)], -(2**40)), (u8, [255], 255)):
        operands = (some(f32, 10, 4), np.array(ids, dtype.numpy))
        wanted = f"id {wrong} is not in the table, which has 10 rows: 0 to 9"
        yield Fault(Case(named("id", dtype), Embed(), operands), wanted, kept=len(ids) == 1)
    late = np.array([0] * 300 + [-7] + [10] * 300, np.int32)
    wanted = "id -7 is not in the table, which has 10 rows: 0 to 9"
    yield Fault(Case("id-late", Embed(), (some(f32, 10, 4), late)), wanted, kept=False)
