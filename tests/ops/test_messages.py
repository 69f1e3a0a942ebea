"""What each op says to operands that do not fit: the whole message, with the user's line and the operands."""

import pytest

from tests.ops.run_op import error
from vxgraph.errors import GraphError
from vxgraph.ir.types import Dim, bf16, bool_, f16, f32, i8, i32, i64, u8
from vxgraph.ops import (
    Add,
    ArgMax,
    Attention,
    CacheAppend,
    CacheInit,
    Compare,
    Concat,
    Constant,
    Div,
    Embed,
    Exp,
    Iota,
    MatMul,
    Max,
    Mean,
    Mul,
    QuantizedMatMul,
    Reshape,
    RmsNorm,
    Rope,
    Sample,
    Slice,
    Softmax,
    Sum,
    Transpose,
    Where,
)

T = Dim("T", max=2048)
P = Dim("P", min=2, max=8)
H = Dim("Head", 9)
KV = Dim("KV", 3)
D = Dim("D", 64)
Tok = Dim("Tok", 4)
K4 = Dim("KV4", 4)
ROPE = Rope(1e4, True)

MISFITS = [
    (
        Add(),
        (
            f32[T, H, 64],
            f32[H, T, 64],
        ),
        "f32[T, Head, 64] does not broadcast with f32[Head, T, 64]: Head=9 met T<=2048; transpose one of them",
    ),
    (
        Add(),
        (
            f32[4],
            f32[5],
        ),
        "f32[4] does not broadcast with f32[5]: 4 met 5",
    ),
    (
        Add(),
        (
            f32[4],
            bf16[4],
        ),
        "f32[4] and bf16[4] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        Add(),
        (
            i32[4],
            i64[4],
        ),
        "i32[4] and i64[4] differ in dtype; cast one of them: x.cast(vx.i64)",
    ),
    (
        Add(),
        (
            f16[4],
            bf16[4],
        ),
        "f16[4] and bf16[4] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        Mul(),
        (
            bool_[2],
            bool_[2],
        ),
        "wanted floats or integers, found bool[2]; cast it: x.cast(vx.f32)",
    ),
    (
        Div(),
        (
            i32[2],
            i32[2],
        ),
        "wanted floats, found i32[2]; cast it: x.cast(vx.f32)",
    ),
    (Exp(), (i32[2],), "wanted floats, found i32[2]; cast it: x.cast(vx.f32)"),
    (
        Add(),
        (
            f32[Tok, K4],
            f32[K4, Tok],
        ),
        "f32[Tok, KV4] does not broadcast with f32[KV4, Tok]: KV4=4 met Tok=4; transpose one of them",
    ),
    (
        Add(),
        (
            f32[H],
            f32[8],
        ),
        "f32[Head] does not broadcast with f32[8]: Head=9 met 8",
    ),
    (
        Compare("lt"),
        (
            f32[3],
            i32[3],
        ),
        "f32[3] and i32[3] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        Where(),
        (
            i32[3],
            f32[3],
            f32[3],
        ),
        "the condition is bool, found i32[3]; compare it: x != 0",
    ),
    (
        Where(),
        (
            bool_[4],
            f32[3],
            f32[3],
        ),
        "bool[4] does not broadcast with f32[3]: 4 met 3",
    ),
    (
        MatMul(),
        (
            f32[4, 64],
            f32[32, 64],
        ),
        "f32[4, 64] has 64 columns but f32[32, 64] has 32 rows",
    ),
    (
        MatMul(True),
        (
            f32[4, 64],
            f32[32, 63],
        ),
        "f32[4, 64] has 64 columns but f32[32, 63] has 63 columns (transpose_b)",
    ),
    (
        MatMul(),
        (
            f32[64],
            f32[32, 64],
        ),
        "f32[64] has 64 elements but f32[32, 64] has 32 rows",
    ),
    (
        MatMul(),
        (
            f32[T, D],
            f32[H, T],
        ),
        "f32[T, D] has D=64 columns but f32[Head, T] has Head=9 rows",
    ),
    (
        MatMul(),
        (
            f32[T, D],
            f32[D],
        ),
        "wanted [..., M, K] @ [..., K, N], found f32[T, D] @ f32[D]",
    ),
    (
        MatMul(),
        (
            f32[2, 4, 64],
            f32[3, 64, 8],
        ),
        "f32[2, 4, 64] does not broadcast with f32[3, 64, 8]: 2 met 3",
    ),
    (
        MatMul(),
        (
            bf16[4, 64],
            f32[64, 4],
        ),
        "bf16[4, 64] and f32[64, 4] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        MatMul(),
        (
            f16[4, 64],
            bf16[64, 4],
        ),
        "f16[4, 64] and bf16[64, 4] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        MatMul(True),
        (
            f32[4, 64],
            i8[8, 64],
        ),
        "f32[4, 64] and i8[8, 64] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        QuantizedMatMul(),
        (
            bf16[4, 64],
            i8[8, 64],
            f32[8],
        ),
        "wanted x f32[..., K], found bf16[4, 64]; cast it: x.cast(vx.f32)",
    ),
    (
        QuantizedMatMul(),
        (
            f32[()],
            i8[8, 64],
            f32[8],
        ),
        "wanted x f32[..., K], found f32[]",
    ),
    (
        QuantizedMatMul(),
        (
            f32[4, 64],
            bf16[8, 64],
            f32[8],
        ),
        "wanted a weight i8[N, K], found bf16[8, 64]; matmul takes a weight of floats",
    ),
    (
        QuantizedMatMul(),
        (
            f32[4, 64],
            i8[2, 8, 64],
            f32[8],
        ),
        "wanted a weight i8[N, K], found i8[2, 8, 64]",
    ),
    (
        QuantizedMatMul(),
        (
            f32[4, 64],
            i8[8, 64],
            bf16[8],
        ),
        "wanted a scale f32[N], found bf16[8]",
    ),
    (
        QuantizedMatMul(),
        (
            f32[4, 64],
            i8[8, 64],
            f32[8, 2],
        ),
        "wanted a scale f32[N], found f32[8, 2]",
    ),
    (
        QuantizedMatMul(),
        (
            f32[4, 64],
            i8[8, 64],
            f32[64],
        ),
        "weight i8[8, 64] has a scale for each row, but scale is f32[64]: 8 met 64",
    ),
    (
        QuantizedMatMul(),
        (
            f32[4, 64],
            i8[64, 8],
            f32[64],
        ),
        "f32[4, 64] has 64 columns but weight i8[64, 8] has 8",
    ),
    (Exp(), (i8[4],), "wanted floats, found i8[4]; cast it: x.cast(vx.f32)"),
    (
        MatMul(),
        (
            f32[T, D],
            f32[Dim("E", 64), 4],
        ),
        "f32[T, D] has D=64 columns but f32[E, 4] has E=64 rows",
    ),
    (Sum(2), (f32[3, 4],), "there is no axis 2: f32[3, 4] has axes -2 to 1"),
    (Sum(0), (f32[()],), "there is no axis 0: f32[] has no axes"),
    (Mean(0), (i32[3],), "wanted floats, found i32[3]; cast it: x.cast(vx.f32)"),
    (Max(0), (f32[0, 3],), "axis 0 of f32[0, 3] is empty: it has no largest element"),
    (ArgMax(1), (f32[0, 0],), "axis 1 of f32[0, 0] is empty: it has no largest element"),
    (Sum(0), (bool_[3],), "wanted floats or integers, found bool[3]; cast it: x.cast(vx.f32)"),
    (Reshape((T, H, 63)), (f32[T, 576],), "f32[T, 576] has T x 576 elements but f32[T, Head, 63] has T x 567"),
    (
        Reshape((H, T, 64)),
        (f32[T, H, 64],),
        "f32[T, Head, 64] to f32[Head, T, 64] puts Head before T; transpose does that, reshape keeps their order",
    ),
    (
        Reshape((K4, Tok)),
        (f32[Tok, K4],),
        "f32[Tok, KV4] to f32[KV4, Tok] puts KV4 before Tok; transpose does that, reshape keeps their order",
    ),
    (
        Reshape((T, P)),
        (f32[P, T],),
        "f32[P, T] to f32[T, P] puts T before P; transpose does that, reshape keeps their order",
    ),
    (Reshape((3,)), (f32[T],), "f32[T] has T elements but f32[3] has 3"),
    (Transpose((0, 0)), (f32[2, 3],), "perm [0, 0] is no order of the axes 0, 1 of f32[2, 3]"),
    (Slice(0, 0, 5), (f32[4],), "[0:5] is outside axis 0 of f32[4], which has 4 elements"),
    (Slice(0, 5, None), (f32[4],), "[5:] is outside axis 0 of f32[4], which has 4 elements"),
    (Slice(0, 0, 4), (f32[T],), '[0:4] of T<=2048: T may be as short as 0; declare Dim("T", min=4, max=2048)'),
    (Slice(0, -1, None), (f32[T],), '[-1:] of T<=2048: T may be as short as 0; declare Dim("T", min=1, max=2048)'),
    (Slice(0, 1, 3), (f32[T],), "[1:3] of T<=2048: a symbol takes [:], [::-1], its first [0:k] or last [-k:]"),
    (Slice(0, 0, 2, 0), (f32[3],), "a slice's step is not 0"),
    (Slice(0, 4, None, -1), (f32[4],), "[4::-1] is outside axis 0 of f32[4], which has 4 elements"),
    (Slice(1, 0, 2), (f32[4],), "there is no axis 1: f32[4] has axes -1 to 0"),
    (Concat(0), (), "wanted one operand or more"),
    (
        Concat(0),
        (
            f32[T, 3],
            f32[2, 3],
        ),
        "axis 0 of a concatenation must be known when the graph is built, found T<=2048",
    ),
    (
        Concat(0),
        (
            f32[1, 3],
            f32[2, 4],
        ),
        "one operand f32[1, 3] and another f32[2, 4] differ at axis 1: 3 met 4",
    ),
    (
        Concat(0),
        (
            f32[1, 3],
            f32[3],
        ),
        "f32[1, 3] and f32[3] differ in rank",
    ),
    (
        Concat(1),
        (
            f32[T, 1],
            f32[P, 2],
        ),
        "one operand f32[T, 1] and another f32[P, 2] differ at axis 0: T<=2048 met P<=8",
    ),
    (
        Embed(),
        (
            f32[()],
            i32[2],
        ),
        "wanted a table [V, ...], found f32[]",
    ),
    (
        Embed(),
        (
            f32[4, 3],
            f32[2],
        ),
        "wanted ids of integers, found f32[2]; cast it: x.cast(vx.i32)",
    ),
    (
        RmsNorm(1e-5),
        (
            f32[4, 64],
            f32[32],
        ),
        "the last axis of f32[4, 64] met weight f32[32]: 64 met 32",
    ),
    (
        RmsNorm(1e-5),
        (
            f32[4, D],
            f32[Dim("E", 64)],
        ),
        "the last axis of f32[4, D] met weight f32[E]: D=64 met E=64; a named dim meets only itself",
    ),
    (
        RmsNorm(1e-5),
        (
            bf16[4, 64],
            f32[64],
        ),
        "bf16[4, 64] and f32[64] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        RmsNorm(1e-5),
        (
            f32[4, 64],
            f32[1, 64],
        ),
        "wanted a weight [D], found f32[1, 64]",
    ),
    (
        RmsNorm(1e-5),
        (
            f32[()],
            f32[4],
        ),
        "wanted x [..., D], found f32[]",
    ),
    (Softmax(3), (f32[2, 3],), "there is no axis 3: f32[2, 3] has axes -2 to 1"),
    (Softmax(0), (i32[3],), "wanted floats, found i32[3]; cast it: x.cast(vx.f32)"),
    (
        ROPE,
        (
            f32[T, H, 63],
            i32[T],
        ),
        "f32[T, Head, 63] has an odd head size 63; pairs need an even one",
    ),
    (
        ROPE,
        (
            f32[T, H, 64],
            i32[P],
        ),
        "x f32[T, Head, 64] and positions i32[P] differ at axis 0: T<=2048 met P<=8",
    ),
    (
        ROPE,
        (
            f32[T, H, 64],
            f32[T],
        ),
        "wanted positions of integers, found f32[T]; cast it: x.cast(vx.i32)",
    ),
    (
        ROPE,
        (
            f32[H, 64],
            i32[T],
        ),
        "wanted x [T, Head, D], found f32[Head, 64]",
    ),
    (
        ROPE,
        (
            f32[H, T, 64],
            i32[T],
        ),
        "x f32[Head, T, 64] and positions i32[T] differ at axis 0: Head=9 met T<=2048; transpose one of them",
    ),
    (
        ROPE,
        (
            f32[T, H, P],
            i32[T],
        ),
        "D must be known when the graph is built, found P<=8",
    ),
    (
        Attention(),
        (
            f32[T, H, 64],
            f32[T, 4, 64],
            f32[T, 4, 64],
        ),
        "query heads must be a multiple of key heads, found Head=9 query heads, 4 key heads",
    ),
    (
        Attention(),
        (
            f32[T, H, 64],
            f32[T, KV, 64],
            f32[KV, T, 64],
        ),
        "k f32[T, KV, 64] and v f32[KV, T, 64] differ at axis 0: T<=2048 met KV=3; transpose one of them",
    ),
    (
        Attention(),
        (
            f32[Tok, 8, 16],
            f32[K4, Tok, 16],
            f32[K4, Tok, 16],
        ),
        "Tok is axis 0 of f32[Tok, 8, 16] but axis 1 of f32[KV4, Tok, 16]; transpose one of them",
    ),
    (
        Attention(),
        (
            f32[T, H, 64],
            f32[T, KV, 32],
            f32[T, KV, 32],
        ),
        "q f32[T, Head, 64] and k f32[T, KV, 32] differ at axis 2: 64 met 32",
    ),
    (
        Attention(),
        (
            f32[T, H, 64],
            f16[T, KV, 64],
            f16[T, KV, 64],
        ),
        "f32[T, Head, 64] and f16[T, KV, 64] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        Attention(),
        (
            f32[4, 9, 64],
            f32[3, 3, 64],
            f32[3, 3, 64],
        ),
        "q has 4 rows but k has 3: some rows see no key",
    ),
    (
        Attention(),
        (
            f32[4, 9, 64],
            f32[8, 3, 64],
            f32[8, 3, 64],
            i64[()],
        ),
        "wanted length i32[], found i64[]",
    ),
    (
        Attention(),
        (
            f32[4, 9, 64],
            f32[8, T, 64],
            f32[8, T, 64],
        ),
        "k's heads must be known when the graph is built, found T<=2048",
    ),
    (
        Attention(),
        (
            f32[4, 9],
            f32[8, 3, 64],
            f32[8, 3, 64],
        ),
        "wanted q [Tq, Head, D], found f32[4, 9]",
    ),
    (
        Attention(),
        (
            i32[4, 9, 4],
            i32[8, 3, 4],
            i32[8, 3, 4],
        ),
        "wanted floats, found i32[4, 9, 4]; cast it: x.cast(vx.f32)",
    ),
    (CacheInit(f32[T, 3]), (), "wanted a cache [S, ...] of fixed dims, found f32[T, 3]"),
    (CacheInit(f32[512, KV, 64]), (f32[T, KV, 64],), "T<=2048 rows do not fit a cache of 512 rows"),
    (CacheInit(f32[()]), (), "wanted a cache [S, ...] of fixed dims, found f32[]"),
    (
        CacheAppend(),
        (
            f32[Tok, K4, 64],
            f32[K4, Tok, 64],
            i32[()],
        ),
        "cache f32[Tok, KV4, 64] and rows f32[KV4, Tok, 64] differ at axis 1: KV4=4 met Tok=4; transpose one of them",
    ),
    (
        CacheAppend(),
        (
            f32[512, K4, 64],
            f32[K4, Tok, 64],
            i32[()],
        ),
        "cache f32[512, KV4, 64] and rows f32[KV4, Tok, 64] differ at axis 1: KV4=4 met Tok=4; transpose one of them",
    ),
    (
        CacheAppend(),
        (
            f32[512, Tok, 64],
            f32[Tok, 4, 64],
            i32[()],
        ),
        "Tok is axis 1 of f32[512, Tok, 64] but axis 0 of f32[Tok, 4, 64]; transpose one of them",
    ),
    (
        CacheAppend(),
        (
            f32[512, K4, 64],
            f16[1, K4, 64],
            i32[()],
        ),
        "f32[512, KV4, 64] and f16[1, KV4, 64] differ in dtype; cast one of them: x.cast(vx.f32)",
    ),
    (
        CacheAppend(),
        (
            f32[512, K4, 64],
            f32[513, K4, 64],
            i32[()],
        ),
        "513 rows do not fit a cache of 512 rows",
    ),
    (
        CacheAppend(),
        (
            f32[512, K4, 64],
            f32[K4, 64],
            i32[()],
        ),
        "cache f32[512, KV4, 64] and rows f32[KV4, 64] differ in rank",
    ),
    (
        CacheAppend(),
        (
            f32[512, K4, 64],
            f32[1, K4, 64],
            i32[1],
        ),
        "wanted at i32[], found i32[1]",
    ),
    (
        CacheAppend(),
        (
            f32[()],
            f32[()],
            i32[()],
        ),
        "wanted a cache [S, ...], found f32[]",
    ),
    (
        Sample(),
        (
            f32[2, 3],
            f32[()],
            f32[()],
            i64[()],
            i32[()],
        ),
        "wanted logits [V], found f32[2, 3]",
    ),
    (
        Sample(),
        (
            f32[3],
            f32[()],
            f32[()],
            i32[()],
            i32[()],
        ),
        "wanted seed i64[], found i32[]",
    ),
    (
        Sample(),
        (
            i32[3],
            f32[()],
            f32[()],
            i64[()],
            i32[()],
        ),
        "wanted logits of floats, found i32[3]; cast it: x.cast(vx.f32)",
    ),
    (Iota(129, i8), (), "i8 cannot count to 128 exactly; count in i32 and cast"),
    (Iota(300, u8), (), "u8 cannot count to 299 exactly; count in i32 and cast"),
    (Iota(4, bool_), (), "wanted floats or integers, found bool[4]; cast it: x.cast(vx.f32)"),
    (Iota(300, bf16), (), "bf16 cannot count to 299 exactly; count in i32 and cast"),
]


@pytest.mark.parametrize(("op", "types", "message"), MISFITS, ids=lambda x: getattr(x, "name", None))
def test_operands_that_do_not_fit_are_named_with_their_line(op, types, message):
    shown = ", ".join(f"%{name}: {t}" for name, t in zip("abcdef", types, strict=False))
    operands = f"\n  operands: {shown}" if types else ""
    assert error(op, *types) == f"model.py:7: {op.name}: {message}{operands}"


def test_a_message_reads_as_the_user_sees_it():
    assert error(MatMul(), f32[4, 64], f32[32, 64]) == (
        "model.py:7: matmul: f32[4, 64] has 64 columns but f32[32, 64] has 32 rows\n"
        "  operands: %a: f32[4, 64], %b: f32[32, 64]"
    )


def test_layouts_of_equal_sizes_do_not_meet():
    """A prefill cache [token, kv_head, d] against a decode cache [kv_head, token, d], four of each."""
    assert error(CacheAppend(), f32[Tok, K4, 64], f32[K4, Tok, 64], i32[()]) == (
        "model.py:7: cache_append: cache f32[Tok, KV4, 64] and rows f32[KV4, Tok, 64] differ at axis 1: "
        "KV4=4 met Tok=4; transpose one of them\n"
        "  operands: %a: f32[Tok, KV4, 64], %b: f32[KV4, Tok, 64], %c: i32[]"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(f32[T], ()), "a constant's dims are fixed, found f32[T]"),
        (lambda: Constant(f32[2], (1.0,)), "f32[2] has 2 values, found 1"),
        (lambda: Constant(i8[1], (128,)), "128 is outside i8: -128 to 127"),
        (lambda: Constant(u8[1], (300,)), "300 is outside u8: 0 to 255"),
        (lambda: Constant(i32[1], (1.5,)), "1.5 is no value of i32"),
        (lambda: Constant(bool_[1], (1,)), "1 is no value of bool"),
        (lambda: Compare("<"), "there is no comparison '<'; there are eq, ne, lt, le, gt, ge"),
        (lambda: RmsNorm(-1.0), "eps is 0 or more, found -1.0"),
        (lambda: Rope(0.0, True), "theta is above 0, found 0.0"),
        (
            lambda: Rope(1.0, True, (8.0, 4.0, 1.0, 8192)),
            "scaling is (factor, low_freq_factor, high_freq_factor, original_max_len) with low below high, "
            "found (8.0, 4.0, 1.0, 8192)",
        ),
    ],
)
def test_attributes_that_mean_nothing_are_refused(make, message):
    with pytest.raises(GraphError) as caught:
        make()
    assert str(caught.value) == message
