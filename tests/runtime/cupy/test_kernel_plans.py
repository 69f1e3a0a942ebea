"""Plans are data: sane launches for every op and dtype, sources that compile, refusals in whole sentences."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from tests.runtime.cupy.cases import Case, T, all_cases
from tests.runtime.cupy.machine import body_of, launches_of, name_of
from vxgraph.errors import BindError, InternalError, RunError
from vxgraph.ir.op import OPS, Effect, Op
from vxgraph.ir.types import Dim, TensorType, bf16, f32, i8, i32, i64
from vxgraph.ops import (
    Attention,
    CacheAppend,
    CacheInit,
    Fused,
    MatMul,
    Max,
    QuantizedMatMul,
    Reshape,
    RmsNorm,
    Sample,
    Silu,
    TransferPeer,
)
from vxgraph.runtime.backends.cupy.kernels import Code, Gemm, Launch, fault, plan
from vxgraph.runtime.backends.cupy.kernels.source import cuda
from vxgraph.topology.ids import GPU

CASES = all_cases()


def steps(op: Op, *types: TensorType, same: bool = False, **sizes: int) -> tuple[Launch | Gemm, ...]:
    outs = op.infer(*types)
    planner = plan(op, types, outs)
    return planner.steps([t.shape(sizes) for t in types], [t.shape(sizes) for t in outs], sizes, same=same)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_launch_is_one_that_a_device_takes(case: Case) -> None:
    for launch in launches_of(case):
        assert all(n >= 1 for n in (*launch.grid, *launch.block))
        assert launch.grid[0] < 2**31
        assert max(launch.grid[1:]) < 2**16
        assert launch.block[0] <= 1024
        assert launch.block[0] % 32 == 0 or launch.grid == launch.block == (1, 1, 1)
        assert launch.block[1:] == (1, 1)
        assert launch.shared <= 99 << 10  # what the smallest device since Ampere gives a block
        assert f"{launch.entry}(" in launch.source
        assert "#include" not in launch.source
        assert all(isinstance(a, tuple | np.int32 | np.int64 | np.uint64 | np.float32) for a in launch.args)


def test_every_op_that_runs_has_a_kernel_but_the_one_of_quantised_weights() -> None:
    runs = {name for name, cls in OPS.items() if cls.effect is Effect.PURE and not cls.alias}
    assert runs - {case.op.name for case in CASES} == {"cache_init", "quantized_matmul"}
    assert steps(CacheInit(f32[8, 2]), f32[3, 2])


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, which compiles the kernels")
def test_the_sources_compile_for_hopper(tmp_path: Path) -> None:
    def kind(case: Case, launch: Launch) -> tuple[object, ...]:
        return case.op.name, launch.entry, *(t.dtype for t in case.types[:1])

    chosen = {kind(case, launch): launch.source for case in CASES for launch in launches_of(case)}
    sources = dict.fromkeys(chosen.values())
    spaces = (f"namespace {name_of(source)} {{\n{body_of(source)}\n}}" for source in sources)
    file = tmp_path / "kernels.cu"
    file.write_text("\n".join((cuda("device"), cuda("prelude"), *spaces)))
    command = ["nvcc", "-arch=sm_90", "-std=c++17", "-cubin", "-o", str(tmp_path / "kernels.cubin"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_planning_needs_no_cupy() -> None:
    code = "import sys, vxgraph.runtime.backends.cupy.kernels; sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@dataclass(frozen=True)
class Frobnicate(Op):
    name: ClassVar[str] = "frobnicate"


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        (Frobnicate(), (f32[2], i32[2]), "cupy has no kernel for frobnicate in f32, i32; {}"),
        (Frobnicate(), (), "cupy has no kernel for frobnicate in any dtype; {}"),
        (TransferPeer(GPU[0], GPU[1]), (bf16[2],), "cupy has no kernel for transfer_peer in bf16; {}"),
        (Reshape((2,)), (f32[2],), "cupy has no kernel for reshape in f32; {}"),
        (QuantizedMatMul(), (f32[1, 4], i8[3, 4], f32[3]), "cupy has no kernel for quantized_matmul in f32, i8; {}"),
        (MatMul(True), (f32[1, 4], bf16[3, 4]), "cupy has no kernel for matmul in f32, bf16; {}"),
    ],
    ids=["f32-i32", "none", "moves", "alias", "quantised", "stored-in-halves"],
)
def test_an_op_without_a_kernel_is_refused_by_name(op: Op, types: tuple[TensorType, ...], message: str) -> None:
    with pytest.raises(BindError) as e:
        plan(op, types, types[:1])
    assert str(e.value) == message.format("bind its topology to numpy, or leave it out")


def test_a_fused_expression_with_an_op_without_a_kernel_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Cube(Silu):
        name: ClassVar[str] = "cube"

    monkeypatch.setattr("vxgraph.runtime.backends.cupy.kernels.elementwise._FUNCTIONS", ())
    monkeypatch.setitem(OPS, "cube", Cube)
    with pytest.raises(BindError) as e:
        plan(Fused("cube(neg(a))"), (f32[2],), (f32[2],))
    assert str(e.value) == "cupy has no kernel for cube in fused; write it out of ops that have one"


def test_one_row_by_a_weight_is_a_kernel_and_many_are_a_library_call() -> None:
    (one,) = steps(MatMul(True), bf16[1, 4096], bf16[12288, 4096])
    assert isinstance(one, Launch)
    assert (one.entry, one.grid, one.block) == ("vx_gemv", (1536, 1, 1), (128, 1, 1))
    assert one.args == (("in", 0), ("in", 1), ("out", 0), np.int32(12288), np.int32(4096))
    many = steps(MatMul(True), bf16[T, 64], bf16[10, 64], T=7)
    assert many == (Gemm(("in", 0), ("in", 1), ("out", 0), m=7, n=10, k=64, dtype=bf16, transpose_b=True),)
    assert steps(MatMul(True), bf16[T, 64], bf16[10, 64], T=1)[0] == steps(MatMul(True), bf16[1, 64], bf16[10, 64])[0]


def test_batches_are_strided_and_stretch_with_a_stride_of_zero() -> None:
    (batch,) = steps(MatMul(), f32[5, 2, 3], f32[5, 3, 4])
    assert (batch.batch, batch.stride_a, batch.stride_b, batch.stride_c) == (5, 6, 12, 8)
    (folded,) = steps(MatMul(), f32[5, 2, 3], f32[3, 4])
    assert (folded.batch, folded.m) == (1, 10)
    both = steps(MatMul(), f32[5, 1, 2, 3], f32[1, 6, 3, 4])
    assert [(g.batch, g.stride_a, g.stride_b, g.offset_a, g.offset_c) for g in both] == [
        (6, 0, 12, 6 * i, 48 * i) for i in range(5)
    ]


def test_symbols_take_their_sizes_when_they_are_bound() -> None:
    for size, blocks in ((1, 1), (512, 512)):
        (launch,) = steps(RmsNorm(1e-5), bf16[T, 4096], bf16[4096], T=size)
        assert (launch.grid, launch.block) == ((blocks, 1, 1), (512, 1, 1))


def test_a_decode_step_is_launched_for_its_capacity() -> None:
    cache = bf16[4096, 32, 128]
    (launch,) = steps(Attention(), bf16[1, 32, 128], cache, cache, i32[()])
    assert (launch.entry, launch.grid) == ("vx_attend_rows", (8, 32, 1))
    grouped = bf16[4096, 8, 128]
    (launch,) = steps(Attention(), bf16[1, 32, 128], grouped, grouped, i32[()])
    assert launch.grid == (8, 16, 1)
    (launch,) = steps(Attention(), bf16[Dim("Q", max=4096), 32, 128], cache, cache, i32[()], Q=100)
    assert (launch.entry, launch.grid) == ("vx_attend_tiles", (2, 32, 1))


def test_nothing_runs_where_nothing_is_written() -> None:
    assert steps(Silu(), f32[0, 4]) == ()
    assert steps(CacheInit(f32[512, 2]), f32[T, 2], same=True, T=3) == ()
    assert steps(CacheInit(f32[8, 2])) == ()
    assert steps(MatMul(), f32[0, 4], f32[4, 4]) == ()
    (zeros,) = steps(MatMul(), f32[2, 0], f32[0, 4])
    assert isinstance(zeros, Launch)
    assert zeros.entry == "vx_fill"


def test_an_append_in_place_launches_for_its_rows_alone() -> None:
    (apart,) = steps(CacheAppend(), bf16[4096, 32, 128], bf16[1, 32, 128], i32[()])
    (in_place,) = steps(CacheAppend(), bf16[4096, 32, 128], bf16[1, 32, 128], i32[()], same=True)
    assert (apart.grid[0], in_place.grid[0]) == (1024, 4)


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        (Max(0), (f32[T],), "axis 0 is empty in this run: it has no largest element"),
        (
            Sample(),
            (f32[T], f32[()], f32[()], i64[()], i32[()]),
            "axis 0 is empty in this run: it has no largest element",
        ),
        (
            Attention(causal=False),
            (f32[2, 1, 4], f32[T, 1, 4], f32[T, 1, 4]),
            "q has 2 rows but only 0 of k's are valid: some rows see no key",
        ),
    ],
    ids=["max", "sample", "attention"],
)
def test_sizes_that_cannot_be_are_refused_before_a_launch(op: Op, types: tuple[TensorType, ...], message: str) -> None:
    with pytest.raises(RunError) as e:
        steps(op, *types, T=0)
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("code", "values", "message"),
    [
        (Code.CACHE_APPEND, (512, 1, 512), "1 rows at 512 do not fit the cache, which has 512 rows"),
        (Code.CACHE_APPEND, (-1, 2, 8), "2 rows at -1 do not fit the cache, which has 8 rows"),
        (Code.CAUSAL_LENGTH, (9, 1, 8), "length is 9, but k and v have 8 rows"),
        (Code.CAUSAL_LENGTH, (4, 5, 8), "q has 5 rows but only 4 of k's are valid: some rows see no key"),
        (Code.LENGTH, (0, 5, 8), "q has 5 rows but only 0 of k's are valid: some rows see no key"),
        (Code.EMBED_ID, (10, 10, 0), "id 10 is not in the table, which has 10 rows: 0 to 9"),
    ],
)
def test_a_fault_s_words_are_those_of_the_op_s_own_check(code: Code, values: tuple[int, ...], message: str) -> None:
    assert str(fault(code, values)) == message


def test_a_fault_that_is_none_is_our_own_error() -> None:
    with pytest.raises(InternalError) as e:
        fault(Code.CACHE_APPEND, (0, 1, 8))
    assert str(e.value) == "a kernel reported CACHE_APPEND of 0, 1, 8, which is no fault"


@pytest.mark.parametrize("file", ["cache", "attention", "embed"])
def test_the_kernels_write_the_codes_that_the_host_reads(file: str) -> None:
    wanted = {
        "cache": f"constexpr u64 FAULT_APPEND = {Code.CACHE_APPEND:d};",
        "attention": f"constexpr u64 FAULT_LENGTH = CAUSAL ? {Code.CAUSAL_LENGTH:d} : {Code.LENGTH:d};",
        "embed": f"constexpr u64 FAULT_ID = {Code.EMBED_ID:d};",
    }
    assert wanted[file] in cuda(file)
