"""Every kernel in C gives what the op's reference gives: all dtypes, odd shapes, no elements, any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.cupy.cases import FLOATS, Case, Fault, Maker, all_cases, fault_cases, init_cases, named, scalar
from vxgraph.errors import RunError
from vxgraph.ir.types import Array, Dim, bf16, f16, f32, i32
from vxgraph.ops import (
    Add,
    ArgMax,
    Attention,
    Cast,
    Embed,
    Exp,
    Fused,
    MatMul,
    Mul,
    QuantizedMatMul,
    RmsNorm,
    Rope,
    Sample,
    Silu,
)
from vxgraph.runtime.backends.numpy.kernels import Kernel, compile_kernel
from vxgraph.runtime.backends.numpy.native.build import recipe
from vxgraph.runtime.backends.numpy.native.library import Library, library, load
from vxgraph.runtime.backends.numpy.native.pool import Pool
from vxgraph.topology.ids import CPU

pytestmark = pytest.mark.skipif(not isinstance(library(), Library), reason="needs a C compiler")

GUARD = 64  # bytes on each side


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[int, Pool]]:
    found = library()
    assert isinstance(found, Library)
    made = {threads: Pool(found, threads) for threads in (1, 2, 3)}
    yield made
    for pool in made.values():
        pool.close()


@dataclass
class Placed:
    """An array `shift` bytes off an aligned address, between guards that nobody may write."""

    raw: Array
    view: Array
    fill: int

    def look(self) -> Array:
        start = self.view.__array_interface__["data"][0] - self.raw.__array_interface__["data"][0]
        guards = np.concatenate((self.raw[:start], self.raw[start + self.view.nbytes :]))
        assert (guards == self.fill).all(), "the kernel wrote outside its result"
        return self.view.copy()


def place(shape: tuple[int, ...], dtype: np.dtype, shift: int, fill: int) -> Placed:
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.full(nbytes + 4 * GUARD, fill, np.uint8)
    start = -raw.__array_interface__["data"][0] % GUARD + GUARD + shift
    return Placed(raw, raw[start : start + nbytes].view(dtype).reshape(shape), fill)


def compiled(case: Case, pool: Pool) -> Kernel:
    return compile_kernel(case.op, case.types, case.outs, CPU[0], pool)


def run_case(case: Case, pool: Pool, *, shift: int = 0) -> list[Array]:
    """The kernel once, from poisoned results; NumPy's is out of reach."""
    kernel = compiled(case, pool)
    assert kernel.native is not None
    ins = [place(a.shape, a.dtype, shift, 0xEE) for a in case.operands]
    for placed, a in zip(ins, case.operands, strict=True):
        placed.view[...] = a
    outs = [place(t.shape(case.sizes), t.dtype.numpy, shift, 0xFF) for t in case.outs]
    if case.same:
        outs = ins[:1]
    bound = pool.bind(kernel.native.binder([p.view for p in ins], [p.view for p in outs], case.sizes))
    if pool.run(bound) < bound.count:
        raise DeclinedError
    for i, (placed, a) in enumerate(zip(ins, case.operands, strict=True)):
        found = placed.look()
        if not (case.same and i == 0):
            assert found.tobytes() == np.ascontiguousarray(a).tobytes(), f"the kernel wrote into operand {i}"
    return [p.look() for p in outs]


class DeclinedError(Exception):
    """The kernel leaves it to NumPy's."""


def native_of(cases: Iterator[Case] | list[Case]) -> list[Case]:
    """Those whose types have a form in C; without a compiler there is nobody to ask."""
    found = library()
    if not isinstance(found, Library):
        return []
    pool = Pool(found, 1)  # opens no thread unless it runs
    return [case for case in cases if compiled(case, pool).by == "native" and greedy(case)]


def greedy(case: Case) -> bool:
    """Whether C draws nothing: that it leaves to NumPy."""
    return not isinstance(case.op, Sample) or case.operands[1] <= 0


def more_cases(some: Maker) -> Iterator[Case]:
    """Products of more rows than a chunk, of weights stored in less; prompts of more than one tile of keys."""
    for m, k, n in ((1, 300, 70), (2, 17, 16), (7, 256, 48), (5, 600, 33), (241, 40, 65), (6, 8, 257), (3, 40, 1040)):
        for transpose in (True, False):
            for dtype in FLOATS:
                w = some(dtype, n, k) if transpose else some(dtype, k, n)
                name = named("mixed", dtype, transpose, (m, k, n))
                yield Case(name, MatMul(transpose), (some(f32, m, k), w), loose=4)
        w, scale = some(i32, n, k).clip(-127, 127).astype(np.int8), abs(some(f32, n)) / 127
        yield Case(named("quantized", (m, k, n)), QuantizedMatMul(), (some(f32, m, k), w, scale), loose=8)
    for heads, kv, depth, width in ((9, 3, 64, 64), (8, 8, 16, 24), (16, 1, 5, 3), (24, 8, 32, 32)):
        for queries, keys in ((1, 130), (2, 65), (49, 49), (100, 200)):
            for dtype in (f32, bf16):
                q, k, v = some(dtype, queries, heads, depth), some(dtype, keys, kv, depth), some(dtype, keys, kv, width)
                yield Case(named("prompt", dtype, (queries, keys), (heads, kv, depth)), Attention(), (q, k, v))
    for dtype in FLOATS:
        x = (100 * some(dtype, 3000).astype(np.float32)).astype(dtype.numpy)
        yield Case(named("exp-wide", dtype), Exp(), (x,))
        yield Case(named("silu-wide", dtype), Silu(), (x,))
        yield Case(named("fused-deep", dtype), Fused("mul(add(a, mul(b, sub(a, b))), maximum(a, b))"), (x, x[::-1]))
    yield Case("rmsnorm-wide", RmsNorm(0.0), (some(f32, 3, 20000), some(f32, 20000)))


CASES = native_of([*all_cases(large=False), *more_cases(Maker())])
FAULTS = [f for f in fault_cases(Maker()) if f.case in native_of([f.case])]


def test_most_cases_have_a_form_in_c() -> None:
    assert len(CASES) > 500
    assert {case.op.name for case in CASES} >= {
        *("add", "argmax", "attention", "cache_append", "cast", "copy", "div", "embed", "exp", "fused", "matmul"),
        *("maximum", "minimum", "mul", "neg", "quantized_matmul", "relu", "rmsnorm", "rope", "rsqrt", "sample", "silu"),
        *("slice", "sqrt", "sub"),
    }


@pytest.mark.parametrize("op", sorted({case.op.name for case in CASES}))
def test_a_kernel_gives_its_reference(pools: dict[int, Pool], op: str) -> None:
    for case in CASES:
        if case.op.name == op:
            check(case, run_case(case, pools[2], shift=case.shift)[0])


def check(case: Case, found: Array) -> None:
    try:
        case.check(found)
    except AssertionError as error:
        error.add_note(case.name)
        raise


def test_any_number_of_threads_gives_the_same_bits(pools: dict[int, Pool]) -> None:
    for case in CASES:
        found = [run_case(case, pool)[0].tobytes() for pool in pools.values()]
        assert found == found[:1] * 3, case.name


def test_operands_may_stand_at_any_address(pools: dict[int, Pool]) -> None:
    for case in CASES[::3]:
        for shift in (1, 2, 4):
            check(case, run_case(case, pools[1], shift=shift)[0])


def test_a_build_for_any_cpu_of_this_kind_gives_the_references_too(tmp_path: Path) -> None:
    made_of = replace(recipe(), flags=("-O1", "-std=gnu17", "-shared", "-fPIC", "-pthread", "-Wno-psabi"))
    found = load(made_of, tmp_path)
    assert isinstance(found, Library)
    pool = Pool(found, 2)
    for case in CASES[::2]:
        check(case, run_case(case, pool)[0])
    pool.close()


@pytest.mark.parametrize("case", native_of(init_cases(Maker())), ids=lambda case: case.name)
def test_a_new_cache_starts_with_its_rows(pools: dict[int, Pool], case: Case) -> None:
    if case.same:  # the rows lie where the cache begins: there is nothing to do
        cache = np.empty((8, 3), case.operands[0].dtype)
        kernel = compiled(case, pools[2])
        assert kernel.native is not None
        assert not kernel.native.binder([cache[:5]], [cache], {})
        return
    (found,) = run_case(case, pools[2])
    np.testing.assert_array_equal(found[:5], case.operands[0])
    assert set(found[5:].tobytes()) == {0xFF}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case.name)
def test_what_the_reference_refuses_is_declined_and_numpy_says_why(pools: dict[int, Pool], fault: Fault) -> None:
    case = fault.case
    with pytest.raises(DeclinedError):
        run_case(case, pools[2])
    outs = [np.zeros(t.shape(case.sizes), t.dtype.numpy) for t in case.outs]
    with pytest.raises(RunError) as e:
        compiled(case, pools[2]).run(list(case.operands), outs, case.sizes)
    assert str(e.value) == fault.message
    assert not any(out.any() for out in outs)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_and_inf_spread_as_in_the_reference(pools: dict[int, Pool], dtype: object) -> None:
    some = Maker()
    for bad in (np.nan, np.inf, -np.inf):
        x, w = some(dtype, 1, 40), some(dtype, 7, 40)
        x[0, 3] = bad
        for op, operands in (
            (MatMul(True), (x, w)),
            (MatMul(True), (np.repeat(x, 3, 0), w)),
            (RmsNorm(1e-5), (x, w[0])),
            (ArgMax(-1), (x,)),
            (ArgMax(-1), (np.full((2, 9), bad, x.dtype),)),
            (Rope(1e4, True), (x.reshape(1, 4, 10), np.array([3], np.int32))),
            (Mul(), (x, x)),
            (Attention(), (x.reshape(1, 4, 10), *(some(dtype, 5, 2, 10) for _ in range(2)))),
            (Attention(), (some(dtype, 5, 4, 10), *(np.full((5, 2, 10), bad, x.dtype) for _ in range(2)))),
        ):
            case = Case("bad", op, operands)
            with np.errstate(all="ignore"):
                check(case, run_case(case, pools[2])[0])


def test_scores_of_minus_infinity_hide_no_later_key(pools: dict[int, Pool]) -> None:
    q, k, v = (np.ones((n, 1, 8), np.float32) for n in (1, 130, 130))
    k[:100] = -np.inf
    for queries in (1, 3):
        case = Case("late", Attention(causal=False), (np.repeat(q, queries, 0), k, v))
        np.testing.assert_allclose(run_case(case, pools[2])[0], 1)


def test_a_prompt_s_rows_read_no_key_beyond_the_valid_ones(pools: dict[int, Pool]) -> None:
    some = Maker()
    q, k, v = some(f32, 50, 4, 16), some(f32, 200, 2, 16), some(f32, 200, 2, 16)
    k[70:], v[70:] = np.nan, np.nan
    case = Case("valid", Attention(), (q, k, v, scalar(70)))
    check(case, run_case(case, pools[2])[0])


def test_a_draw_is_left_to_numpy(pools: dict[int, Pool]) -> None:
    rest = (scalar(0.9, np.float32), scalar(7, np.int64), scalar(3))
    for temperature in (0.7, np.nan):
        case = Case("draw", Sample(), (Maker()(f32, 60), scalar(temperature, np.float32), *rest))
        with pytest.raises(DeclinedError):
            run_case(case, pools[2])
        out = np.empty((), np.int32)
        compiled(case, pools[2]).run(list(case.operands), [out], {})
        case.check(out)


def test_positions_far_away_and_asked_for_twice_turn_alike(pools: dict[int, Pool]) -> None:
    at = np.array([5, 5, 1 << 20, -3, (1 << 17) - 1, 1 << 17, 5], np.int64)
    case = Case("turn", Rope(12345.0, False), (Maker()(f32, 7, 2, 6), at), loose=0.5)
    first, second = (run_case(case, pools[3])[0] for _ in range(2))
    case.check(first)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_every_half_widens_and_every_tie_rounds_as_numpy_has_it(pools: dict[int, Pool], dtype: object) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    wide = Case("widen", Cast(f32), (halves,), exact=True)
    found = run_case(wide, pools[2])[0]
    wide.check(found)
    with np.errstate(all="ignore"):
        bits = found.view(np.uint32)
        for ties in (bits + (0x1000 if dtype is f16 else 0x8000), bits + 1, bits - 1):
            Case("narrow", Cast(dtype), (ties.view(np.float32),), exact=True).check(
                run_case(Case("narrow", Cast(dtype), (ties.view(np.float32),)), pools[2])[0]
            )


def test_what_has_no_form_in_c_is_numpy_s(pools: dict[int, Pool]) -> None:
    for op, types in (
        (MatMul(), (i32[2, 3], i32[3, 2])),
        (MatMul(), (f32[2, 2, 3], f32[2, 3, 2])),
        (MatMul(True), (bf16[1, 20000], bf16[2, 20000])),
        (Add(), (f32[4, 1], f32[4, 4])),
        (ArgMax(0), (f32[3, 4],)),
        (RmsNorm(1e-5), (f32[1 << 24, 1], f32[1])),
        (Embed(), (f32[3, 1], i32[1 << 24])),
        (MatMul(True), (f32[1, 1], f32[1 << 24, 1])),
        (Attention(), (f32[1, 1, 300], f32[4, 1, 300], f32[4, 1, 8])),
    ):
        assert compile_kernel(op, types, op.infer(*types), CPU[0], pools[1]).by != "native"


def test_sizes_that_a_run_tells_reach_the_kernel(pools: dict[int, Pool]) -> None:
    t = Dim("T", max=64)
    types = (f32[t, 8], f32[8])
    kernel = compile_kernel(Add(), types, Add().infer(*types), CPU[0], pools[2])
    assert kernel.by == "native"
    for rows in (0, 1, 5):
        x, out = Maker()(f32, rows, 8), np.empty((rows, 8), np.float32)
        kernel.run([x, np.arange(8, dtype=np.float32)], [out], {"T": rows})
        np.testing.assert_array_equal(out, x + np.arange(8, dtype=np.float32))


def test_embed_of_no_id_does_nothing(pools: dict[int, Pool]) -> None:
    case = Case("none", Embed(), (np.ones((3, 2), np.float32), np.empty(0, np.int32)))
    assert run_case(case, pools[2])[0].shape == (0, 2)
