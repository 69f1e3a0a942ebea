"""Running a plan's steps on arrays, and the two machines that can: a CPU through `host_cuda.h`, and a CUDA device.

Every operand and result stands between guards, `shift` elements off an aligned address: a kernel that writes outside
its result, or into an operand, fails the test.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pytest

from tests.runtime.cupy.cases import Case, Fault
from vxgraph.errors import RunError
from vxgraph.ir.types import Array
from vxgraph.runtime.backends.cupy.kernels import FAULT_WORDS, Gemm, Launch, Step, fault, plan
from vxgraph.runtime.backends.cupy.kernels.source import cuda

GUARD = 64  # bytes on each side
SITE = 1234


class Machine(Protocol):
    """What executes steps: device memory by address, launches, matrix products."""

    def put(self, data: bytes) -> int: ...

    def get(self, address: int, nbytes: int) -> bytes: ...

    def launch(self, step: Launch, args: list[object]) -> None: ...

    def gemm(self, step: Gemm, a: int, b: int, c: int) -> None: ...


@dataclass(frozen=True)
class Placed:
    """An array on a machine, with its guards."""

    base: int
    before: int  # bytes
    data: bytes

    @property
    def address(self) -> int:
        return self.base + self.before


def place(machine: Machine, data: bytes, itemsize: int, shift: int, fill: int) -> Placed:
    before = GUARD + shift * itemsize
    return Placed(machine.put(bytes([fill]) * before + data + bytes([fill]) * GUARD), before, data)


def look(machine: Machine, placed: Placed, fill: int) -> bytes:
    whole = machine.get(placed.base, placed.before + len(placed.data) + GUARD)
    guards = whole[: placed.before] + whole[placed.before + len(placed.data) :]
    assert guards == bytes([fill]) * len(guards), "the kernel wrote outside its result"
    return whole[placed.before : placed.before + len(placed.data)]


@dataclass(frozen=True)
class Ran:
    outs: list[Array]
    fault: tuple[int, ...]  # the record's words


def steps_of(case: Case) -> tuple[Step, ...]:
    shapes = [t.shape(case.sizes) for t in case.outs]
    planner = plan(case.op, case.types, case.outs)
    return planner.steps([a.shape for a in case.operands], shapes, case.sizes, same=case.same)


def launches_of(case: Case) -> Iterator[Launch]:
    return (step for step in steps_of(case) if isinstance(step, Launch))


def run_case(machine: Machine, case: Case, record: Array | None = None) -> Ran:
    """The steps of a case's plan, once, from poisoned results; `record` is the faults' before and after."""
    words = np.zeros(FAULT_WORDS, np.int64) if record is None else record
    ins = [place(machine, np.ascontiguousarray(a).tobytes(), a.itemsize, case.shift, 0xEE) for a in case.operands]
    faults = place(machine, words.tobytes(), 8, 0, 0)
    if case.same:
        results = ins[:1]
    else:
        results = [
            place(machine, b"\xff" * t.nbytes(case.sizes), t.dtype.itemsize, case.shift, 0xDD) for t in case.outs
        ]
    for step in steps_of(case):
        execute(machine, step, ins, results, faults)
    for i, placed in enumerate(ins):
        if not (case.same and i == 0):
            assert look(machine, placed, 0xEE) == placed.data, f"the kernel wrote into operand {i}"
    found = [
        np.frombuffer(look(machine, p, 0xEE if case.same else 0xDD), t.dtype.numpy).reshape(t.shape(case.sizes))
        for p, t in zip(results, case.outs, strict=True)
    ]
    words[:] = np.frombuffer(look(machine, faults, 0), np.int64)
    return Ran(found, tuple(words.tolist()))


def check_init(machine: Machine, case: Case) -> None:
    """A cache_init: its rows come first and nothing else is written; in place there is nothing to do."""
    if case.same:
        assert steps_of(case) == ()
        return
    (found,) = run_case(machine, case).outs
    rows = case.operands[0]
    np.testing.assert_array_equal(found[: len(rows)], rows)
    assert set(found[len(rows) :].tobytes()) == {0xFF}


def check_fault(machine: Machine, wanted: Fault) -> None:
    case = wanted.case
    ran = run_case(machine, case)
    code, site, *values = ran.fault
    assert code, "no fault was reported"
    assert site == SITE
    assert str(fault(code, values)) == wanted.message
    with pytest.raises(RunError) as e:
        case.op.reference(case.sizes, *case.operands)
    assert str(e.value) == wanted.message
    if case.same:
        np.testing.assert_array_equal(ran.outs[0], case.operands[0])
    elif wanted.kept:
        assert set(ran.outs[0].tobytes()) <= {0xFF}


def execute(machine: Machine, step: Step, ins: list[Placed], outs: list[Placed], record: Placed) -> None:
    def value(arg: object) -> object:
        match arg:
            case ("in", int(i)):
                return np.uint64(ins[i].address)
            case ("out", int(i)):
                return np.uint64(outs[i].address)
            case ("error",):
                return np.uint64(record.address)
            case ("site",):
                return np.int64(SITE)
            case _:
                return arg

    if isinstance(step, Gemm):
        machine.gemm(step, *(int(value(x)) for x in (step.a, step.b, step.c)))
    else:
        machine.launch(step, [value(a) for a in step.args])


class Host:
    """Kernels compiled for this CPU by g++, all that are wanted in a few libraries; matrix products by NumPy."""

    def __init__(self, launches: Iterable[Launch], folder: Path, *, jobs: int = 2) -> None:
        self._keep: list[object] = []
        self._functions: dict[str, object] = {}
        wanted = sorted({(launch.source, launch.entry) for launch in launches})
        parts = [part for part in (wanted[i::jobs] for i in range(jobs)) if part]
        running = [self._build(part, folder / f"kernels{i}") for i, part in enumerate(parts)]
        for process, path, part in running:
            _, errors = process.communicate()
            assert process.returncode == 0, errors.decode()[:4000]
            library = ctypes.CDLL(str(path))
            for source, entry in part:
                self._functions[source, entry] = getattr(library, f"run_{name_of(source)}_{entry}")

    def _build(self, part: list[tuple[str, str]], path: Path) -> tuple[subprocess.Popen[bytes], Path, list]:
        text = ['#include "host_cuda.h"', cuda("prelude")]
        for source in dict.fromkeys(s for s, _ in part):
            text += [f"namespace {name_of(source)} {{", body_of(source), "}"]
        for source, entry in part:
            name = name_of(source)
            text.append(
                f"RUNNER void run_{name}_{entry}(void** args, const unsigned* grid, unsigned threads, size_t shared, "
                f"int ranks) {{ host::launch({name}::{entry}, args, grid, threads, shared, ranks); }}"
            )
        path.with_suffix(".cpp").write_text("\n".join(text))
        flags = ["-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", "-ffp-contract=off", "-U_FORTIFY_SOURCE"]
        flags += ["-fvisibility=hidden", "-fno-gnu-unique"]  # a library's shared memory is its own
        command = ["g++", *flags, f"-I{Path(__file__).parent}", str(path.with_suffix(".cpp")), "-o", f"{path}.so"]
        return subprocess.Popen(command, stderr=subprocess.PIPE), path.with_suffix(".so"), part

    def put(self, data: bytes) -> int:
        raw = np.empty(len(data) + 256, np.uint8)
        start = -raw.ctypes.data % 256
        raw[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self._keep.append(raw)
        return raw.ctypes.data + start

    def get(self, address: int, nbytes: int) -> bytes:
        return ctypes.string_at(address, nbytes)

    def launch(self, step: Launch, args: list[object]) -> None:
        scalars = [np.atleast_1d(a) for a in args]
        pointers = (ctypes.c_void_p * len(scalars))(*(s.ctypes.data for s in scalars))
        grid = (ctypes.c_uint * 3)(*step.grid)
        ranks = 8 if "CLUSTER(RANKS)" in step.source else 1
        function = self._functions[step.source, step.entry]
        function(pointers, grid, ctypes.c_uint(step.block[0]), ctypes.c_size_t(step.shared), ctypes.c_int(ranks))

    def gemm(self, step: Gemm, a: int, b: int, c: int) -> None:
        left, right, out = (
            self._matrices(step, address, *what)
            for address, what in (
                (a, (step.offset_a, step.stride_a, step.m, step.k)),
                (b, (step.offset_b, step.stride_b, *((step.n, step.k) if step.transpose_b else (step.k, step.n)))),
                (c, (step.offset_c, step.stride_c, step.m, step.n)),
            )
        )
        wide = right.astype(np.float32)
        out[...] = left.astype(np.float32) @ (wide.swapaxes(1, 2) if step.transpose_b else wide)

    def _matrices(self, step: Gemm, address: int, offset: int, stride: int, rows: int, columns: int) -> Array:
        size = step.dtype.itemsize
        elements = offset + (step.batch - 1) * stride + rows * columns
        raw = (ctypes.c_uint8 * (elements * size)).from_address(address)
        flat = np.frombuffer(raw, np.uint8).view(step.dtype.numpy)
        strides = (stride * size, columns * size, size)
        return np.lib.stride_tricks.as_strided(flat[offset:], (step.batch, rows, columns), strides, writeable=True)


class Device:
    """The current CUDA device, through CuPy: modules by NVRTC, matrix products by cuBLAS, nothing of the backend's."""

    TYPES: ClassVar = {"f32": 0, "f16": 2, "bf16": 14}  # cudaDataType
    COMPUTE_32F = 68

    def __init__(self) -> None:
        import cupy
        from cupy_backends.cuda.libs import cublas

        self._cupy, self._cublas = cupy, cublas
        self._handle = cublas.create()
        self._modules: dict[str, Any] = {}
        self._keep: list[object] = []

    def put(self, data: bytes) -> int:
        memory = self._cupy.cuda.alloc(max(1, len(data)))
        memory.copy_from_host(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))
        self._keep.append(memory)
        return memory.ptr

    def get(self, address: int, nbytes: int) -> bytes:
        self._cupy.cuda.runtime.deviceSynchronize()
        data = ctypes.create_string_buffer(nbytes)
        self._cupy.cuda.runtime.memcpy(ctypes.addressof(data), address, nbytes, 2)  # device to host
        return data.raw

    def forget(self) -> None:
        self._keep.clear()

    def function(self, step: Launch) -> Any:
        if step.source not in self._modules:
            self._modules[step.source] = self._cupy.RawModule(code=step.source, options=("-std=c++17",))
        function = self._modules[step.source].get_function(step.entry)
        if step.shared > 48 << 10:
            function.max_dynamic_shared_size_bytes = step.shared
        return function

    def launch(self, step: Launch, args: list[object]) -> None:
        self.function(step)(step.grid, step.block, tuple(args), shared_mem=step.shared)

    def gemm(self, step: Gemm, a: int, b: int, c: int) -> None:
        self._cublas.setStream(self._handle, self._cupy.cuda.get_current_stream().ptr)
        size, kind = step.dtype.itemsize, self.TYPES[step.dtype.name]
        one, zero = np.array(1, np.float32), np.array(0, np.float32)
        self._cublas.gemmStridedBatchedEx(
            *(self._handle, int(step.transpose_b), 0, step.n, step.m, step.k, one.ctypes.data),
            *(b + step.offset_b * size, kind, step.k if step.transpose_b else step.n, step.stride_b),
            *(a + step.offset_a * size, kind, step.k, step.stride_a, zero.ctypes.data),
            *(c + step.offset_c * size, kind, step.n, step.stride_c, step.batch, self.COMPUTE_32F, -1),
        )


def name_of(source: str) -> str:
    return "k" + hashlib.sha256(source.encode()).hexdigest()[:16]


def body_of(source: str) -> str:
    """What a source has of its own, without C linkage: the head of all stands once before them."""
    head = cuda("device") + "\n" + cuda("prelude")
    assert source.startswith(head)
    return source.removeprefix(head).replace('extern "C" ', "")
