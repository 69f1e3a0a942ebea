"""The little of CUDA that the backend needs, as a Protocol, and its real form over CuPy: the only file that imports it.

Every call that depends on the current device is made by the backend under `set_device`; nothing here switches it. Tests
give the backend a driver that keeps memory in NumPy, defers copies, or lies.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol
from uuid import UUID

import numpy as np

from vxgraph.errors import BindError, RunError

Pointer = int  # a device address
Stream = int  # a cudaStream_t
CudaEvent = int  # a cudaEvent_t
Handle = int  # a cublasHandle_t
Function = Any  # a compiled kernel
Graph = Any  # an instantiated graph


@dataclass(frozen=True, slots=True)
class Properties:
    """What the driver says of an ordinal."""

    name: str
    pci: str  # "0000:3b:00.0"
    uuid: str  # "GPU-6f4e..."
    memory: int  # bytes
    capability: tuple[int, int]


class Driver(Protocol):
    """One process's view of its CUDA devices."""

    def count(self) -> int:
        """Devices visible to this process."""
        ...

    def properties(self, ordinal: int) -> Properties:
        """What the driver says of a device."""
        ...

    def device(self) -> int:
        """The calling thread's current device."""
        ...

    def set_device(self, ordinal: int) -> None:
        """Makes a device the calling thread's current one."""
        ...

    def alloc(self, nbytes: int) -> Any:
        """Memory on the current device, from CuPy's current allocator; an object with `.ptr`, freed when dropped."""
        ...

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        """Page-locked host memory: its address, and the object that keeps it."""
        ...

    def stream(self) -> Stream:
        """A non-blocking stream on the current device."""
        ...

    def destroy_stream(self, stream: Stream) -> None:
        """Gives a stream back."""
        ...

    def event(self) -> CudaEvent:
        """An event without timing on the current device."""
        ...

    def timer(self) -> CudaEvent:
        """An event that keeps when it happened, on the current device."""
        ...

    def elapsed(self, start: CudaEvent, end: CudaEvent) -> float:
        """Seconds between two timers of one device that have happened; negative where `end` was first."""
        ...

    def destroy_event(self, event: CudaEvent) -> None:
        """Gives an event or a timer back."""
        ...

    def record(self, event: CudaEvent, stream: Stream) -> None:
        """The event is what the stream has been given so far."""
        ...

    def stream_wait(self, stream: Stream, event: CudaEvent) -> None:
        """What the stream is given from now on starts after the event."""
        ...

    def synchronize(self, event: CudaEvent) -> None:
        """Returns when the event has happened."""
        ...

    def stream_synchronize(self, stream: Stream) -> None:
        """Returns when the stream is empty."""
        ...

    def copy(self, dst: int, src: int, nbytes: int, stream: Stream) -> None:
        """Any direction within one device and the host, in stream order."""
        ...

    def copy_peer(
        self, dst: Pointer, dst_ordinal: int, src: Pointer, src_ordinal: int, nbytes: int, stream: Stream
    ) -> None:
        """From one device to another, in stream order."""
        ...

    def fill(self, dst: Pointer, byte: int, nbytes: int, stream: Stream) -> None:
        """Sets bytes, in stream order."""
        ...

    def pointer_device(self, pointer: Pointer) -> int:
        """The ordinal that the driver says an address belongs to; -1 for host memory."""
        ...

    def pageable(self, address: int) -> bool:
        """Whether host memory is not page-locked, so that a copy from it returns once the bytes are taken."""
        ...

    def stream_device(self, stream: Stream) -> int:
        """The ordinal that the driver says a stream belongs to."""
        ...

    def compile(self, source: str, entry: str, shared: int) -> Function:
        """A kernel of the source, for the current device, allowed this much dynamic shared memory (bytes)."""
        ...

    def launch(
        self,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Any,
        stream: Stream,
    ) -> None:
        """Starts a kernel; `arguments` is what `pack` made."""
        ...

    def pack(self, values: tuple[Any, ...]) -> Any:
        """Kernel arguments (ints are addresses, NumPy scalars themselves), packed once for many launches."""
        ...

    def handle(self) -> Handle:
        """A cuBLAS handle on the current device."""
        ...

    def destroy_handle(self, handle: Handle) -> None:
        """Gives a handle back."""
        ...

    def gemm(self, handle: Handle, workspace: Pointer, stream: Stream, call: GemmCall) -> None:
        """A batch of matrix products with f32 accumulation; it may use WORKSPACE bytes at the pointer until it ends."""
        ...

    def begin_capture(self, stream: Stream) -> None:
        """From now on the stream records instead of running."""
        ...

    def end_capture(self, stream: Stream) -> Graph:
        """What was recorded, ready to launch."""
        ...

    def launch_graph(self, graph: Graph, stream: Stream) -> None:
        """Runs a recorded graph."""
        ...

    def destroy_graph(self, graph: Graph) -> None:
        """Gives a recorded graph back."""
        ...


@dataclass(frozen=True, slots=True)
class GemmCall:
    """cublasGemmStridedBatchedEx, in column-major terms; strides in elements, `dtype` one of f32, f16, bf16."""

    transpose_a: bool
    transpose_b: bool
    m: int
    n: int
    k: int
    a: Pointer
    lda: int
    stride_a: int
    b: Pointer
    ldb: int
    stride_b: int
    c: Pointer
    ldc: int
    stride_c: int
    batch: int
    dtype: str


WORKSPACE = 32 << 20  # bytes; what cuBLAS recommends on Hopper

_CUDA_R = {"f32": 0, "f16": 2, "bf16": 14}
_COMPUTE_32F = 68
_DEFAULT_ALGORITHM = -1
_CAPTURE_THREAD_LOCAL = 1
_COPY_DEFAULT = 4  # the driver infers the direction from the addresses
_UNREGISTERED = 0  # cudaMemoryType: host memory that CUDA does not know
_DEVICE_TYPES = (2, 3)  # cudaMemoryType: device, managed
_NON_BLOCKING = 1
_TIMING = 0
_NO_TIMING = 2
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_FREE_SHARED = 48 << 10  # bytes that every function may use


def cuda_driver() -> CudaDriver | None:
    """The real driver, or None where CuPy is not installed or finds no device."""
    try:
        driver = CudaDriver()
    except (ImportError, OSError):  # no CuPy, or no libcuda that it could use
        return None
    return driver if driver.count() else None


class CudaDriver:
    """Driver over CuPy's runtime bindings; cuBLAS and launches through the libraries that CuPy has loaded.

    CuPy refuses cuBLAS calls while a stream is captured, although cuBLAS allows them once its workspace is set; so
    those two go through ctypes.
    """

    def __init__(self) -> None:
        self._cupy: Any = import_module("cupy")
        self._rt: Any = self._cupy.cuda.runtime
        self._cublas: Any = import_module("cupy_backends.cuda.libs.cublas")
        self._lib: Any = None
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._one = ctypes.c_float(1.0)
        self._zero = ctypes.c_float(0.0)

    def count(self) -> int:
        """cudaGetDeviceCount; 0 where the driver is missing or too old."""
        try:
            return int(self._rt.getDeviceCount())
        except self._rt.CUDARuntimeError:
            return 0

    def properties(self, ordinal: int) -> Properties:
        """Name, PCI id, UUID and memory."""
        p = self._rt.getDeviceProperties(ordinal)
        pci = str(self._rt.deviceGetPCIBusId(ordinal)).lower()
        capability = (int(p["major"]), int(p["minor"]))
        return Properties(p["name"].decode(), pci, self._uuid(ordinal), int(p["totalGlobalMem"]), capability)

    def _uuid(self, ordinal: int) -> str:
        """cuDeviceGetUuid; CuPy's properties cut it at its first zero byte."""
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        self._check(self._cuda.cuDeviceGet(ctypes.byref(device), ordinal), "cuDeviceGet")
        self._check(self._cuda.cuDeviceGetUuid_v2(raw, device), "cuDeviceGetUuid")
        return f"GPU-{UUID(bytes=bytes(raw))}"

    def device(self) -> int:
        """cudaGetDevice."""
        return int(self._rt.getDevice())

    def set_device(self, ordinal: int) -> None:
        """cudaSetDevice."""
        self._rt.setDevice(ordinal)

    def alloc(self, nbytes: int) -> Any:
        """From CuPy's current allocator, whichever it is."""
        try:
            memory = self._cupy.cuda.alloc(nbytes)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise RunError(f"cuda:{self.device()}: no {nbytes:,} bytes left: {error}") from None
        # The allocator orders its blocks on CuPy's current stream, which ours do not wait for.
        self._cupy.cuda.get_current_stream().synchronize()
        return memory

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        """cudaHostAlloc, through CuPy's pinned pool."""
        memory = self._cupy.cuda.alloc_pinned_memory(nbytes)
        return int(memory.ptr), memory

    def stream(self) -> Stream:
        """cudaStreamCreateWithFlags."""
        return int(self._rt.streamCreateWithFlags(_NON_BLOCKING))

    def destroy_stream(self, stream: Stream) -> None:
        """cudaStreamDestroy."""
        self._rt.streamDestroy(stream)

    def event(self) -> CudaEvent:
        """cudaEventCreateWithFlags."""
        return int(self._rt.eventCreateWithFlags(_NO_TIMING))

    def timer(self) -> CudaEvent:
        """cudaEventCreateWithFlags."""
        return int(self._rt.eventCreateWithFlags(_TIMING))

    def elapsed(self, start: CudaEvent, end: CudaEvent) -> float:
        """cudaEventElapsedTime, in milliseconds of 32 bits."""
        return float(self._rt.eventElapsedTime(start, end)) * 1e-3

    def destroy_event(self, event: CudaEvent) -> None:
        """cudaEventDestroy."""
        self._rt.eventDestroy(event)

    def record(self, event: CudaEvent, stream: Stream) -> None:
        """cudaEventRecord."""
        self._rt.eventRecord(event, stream)

    def stream_wait(self, stream: Stream, event: CudaEvent) -> None:
        """cudaStreamWaitEvent."""
        self._rt.streamWaitEvent(stream, event, 0)

    def synchronize(self, event: CudaEvent) -> None:
        """cudaEventSynchronize."""
        self._rt.eventSynchronize(event)

    def stream_synchronize(self, stream: Stream) -> None:
        """cudaStreamSynchronize."""
        self._rt.streamSynchronize(stream)

    def copy(self, dst: int, src: int, nbytes: int, stream: Stream) -> None:
        """cudaMemcpyAsync."""
        self._rt.memcpyAsync(dst, src, nbytes, _COPY_DEFAULT, stream)

    def copy_peer(
        self, dst: Pointer, dst_ordinal: int, src: Pointer, src_ordinal: int, nbytes: int, stream: Stream
    ) -> None:
        """cudaMemcpyPeerAsync."""
        self._rt.memcpyPeerAsync(dst, dst_ordinal, src, src_ordinal, nbytes, stream)

    def fill(self, dst: Pointer, byte: int, nbytes: int, stream: Stream) -> None:
        """cudaMemsetAsync."""
        self._rt.memsetAsync(dst, byte, nbytes, stream)

    def pointer_device(self, pointer: Pointer) -> int:
        """cudaPointerGetAttributes."""
        attributes = self._rt.pointerGetAttributes(pointer)
        return int(attributes.device) if attributes.type in _DEVICE_TYPES else -1

    def pageable(self, address: int) -> bool:
        """cudaPointerGetAttributes."""
        return int(self._rt.pointerGetAttributes(address).type) == _UNREGISTERED

    def stream_device(self, stream: Stream) -> int:
        """cuStreamGetCtx, and that context's cuCtxGetDevice."""
        context, device = ctypes.c_void_p(), ctypes.c_int(-1)
        self._check(self._cuda.cuStreamGetCtx(ctypes.c_void_p(stream), ctypes.byref(context)), "cuStreamGetCtx")
        self._check(self._cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
        try:
            self._check(self._cuda.cuCtxGetDevice(ctypes.byref(device)), "cuCtxGetDevice")
        finally:
            self._cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        return device.value

    def compile(self, source: str, entry: str, shared: int) -> Function:
        """NVRTC through CuPy, with its disk cache; the function of the current device."""
        function = self._cupy.RawModule(code=source, options=("-std=c++17",)).get_function(entry).kernel
        if shared > _FREE_SHARED:
            code = self._cuda.cuFuncSetAttribute(ctypes.c_void_p(function.ptr), _MAX_DYNAMIC_SHARED, shared)
            self._check(code, "cuFuncSetAttribute")
        return function

    def launch(
        self,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Any,
        stream: Stream,
    ) -> None:
        """cuLaunchKernel."""
        code = self._cuda.cuLaunchKernel(
            ctypes.c_void_p(function.ptr), *grid, *block, shared, ctypes.c_void_p(stream), arguments[0], None
        )
        self._check(code, "cuLaunchKernel")

    def pack(self, values: tuple[Any, ...]) -> Any:
        """The array of pointers that cuLaunchKernel wants, with what it points to."""
        kept = [ctypes.c_void_p(v) if isinstance(v, int) else _scalar(v) for v in values]
        array = (ctypes.c_void_p * max(len(kept), 1))(*(ctypes.addressof(k) for k in kept))
        return array, kept

    def handle(self) -> Handle:
        """cublasCreate."""
        return int(self._cublas.create())

    def destroy_handle(self, handle: Handle) -> None:
        """cublasDestroy."""
        self._cublas.destroy(handle)

    def gemm(self, handle: Handle, workspace: Pointer, stream: Stream, call: GemmCall) -> None:
        """cublasGemmStridedBatchedEx on the stream."""
        lib, p = self._library(), ctypes.c_void_p
        self._check(lib.cublasSetStream_v2(p(handle), p(stream)), "cublasSetStream")
        # cublasSetStream goes back to a workspace of the handle's own, which no graph may keep.
        code = lib.cublasSetWorkspace_v2(p(handle), p(workspace), ctypes.c_size_t(WORKSPACE))
        self._check(code, "cublasSetWorkspace")
        kind = _CUDA_R[call.dtype]
        i64 = ctypes.c_longlong
        code = lib.cublasGemmStridedBatchedEx(
            p(handle),
            int(call.transpose_a),
            int(call.transpose_b),
            call.m,
            call.n,
            call.k,
            ctypes.byref(self._one),
            p(call.a),
            kind,
            call.lda,
            i64(call.stride_a),
            p(call.b),
            kind,
            call.ldb,
            i64(call.stride_b),
            ctypes.byref(self._zero),
            p(call.c),
            kind,
            call.ldc,
            i64(call.stride_c),
            call.batch,
            _COMPUTE_32F,
            _DEFAULT_ALGORITHM,
        )
        self._check(code, "cublasGemmStridedBatchedEx")

    def begin_capture(self, stream: Stream) -> None:
        """cudaStreamBeginCapture."""
        self._rt.streamBeginCapture(stream, _CAPTURE_THREAD_LOCAL)

    def end_capture(self, stream: Stream) -> Graph:
        """cudaStreamEndCapture, cudaGraphInstantiate."""
        graph = self._rt.streamEndCapture(stream)
        executable = self._rt.graphInstantiate(graph)
        self._rt.graphDestroy(graph)
        return executable

    def launch_graph(self, graph: Graph, stream: Stream) -> None:
        """cudaGraphLaunch."""
        self._rt.graphLaunch(graph, stream)

    def destroy_graph(self, graph: Graph) -> None:
        """cudaGraphExecDestroy."""
        self._rt.graphExecDestroy(graph)

    def _library(self) -> Any:
        """The cuBLAS that CuPy has loaded."""
        if self._lib is None:
            with open("/proc/self/maps", encoding="utf-8") as maps:
                paths = {line.split()[-1] for line in maps if "libcublas.so" in line}
            if not paths:
                raise BindError("cuBLAS is not loaded; pip install 'vxgraph[cuda12]' or 'vxgraph[cuda13]' brings it")
            self._lib = ctypes.CDLL(min(paths))
        return self._lib

    def _check(self, code: int, call: str) -> None:
        if code:
            raise RunError(f"cuda:{self.device()}: {call} failed with code {code}")


def _scalar(value: Any) -> Any:
    """A NumPy scalar as the ctypes object of the same bytes."""
    ctypeslib: Any = np.ctypeslib
    return ctypeslib.as_ctypes_type(value.dtype)(value.item())
