"""CUDA devices that are not there, as strict as real ones and as late as they may be.

    driver = FakeDriver(3, lies={(2, 0): "half"})
    backend = CupyBackend(driver, launcher=Launcher(fake_plan))

Every thread starts on device 0. What belongs to another device than it is used on is refused as CUDA refuses it. Work
runs when somebody waits for it, no earlier; what should have been ordered and was not raises RaceError (fake_queue).
`faults` holds what nobody could be told at once: memory that was freed while work on it was pending.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import wraps
from inspect import isfunction
from itertools import count
from time import perf_counter
from typing import Any, Literal

import numpy as np

from tests.runtime.cupy.fake_kernels import SPECS, Spec
from tests.runtime.cupy.fake_memory import CudaError, DeviceMemory, Memory, Span, device_of, host_view
from tests.runtime.cupy.fake_queue import Capture, Event, Graph, Queues, Stream, end_capture
from vxgraph.ir.types import DTYPES, Array
from vxgraph.runtime.backends.cupy.driver import WORKSPACE, GemmCall, Properties

Lie = Literal["zeros", "half", "nothing", "first is wrong", "only first is right"]
Allocator = Literal["pool", "async pool", "none"]


def locked(cls: type[Any]) -> type[Any]:
    """One call at a time, from whichever thread."""
    lock = threading.RLock()

    def guarded(method: Any) -> Any:
        @wraps(method)
        def call(*args: Any, **keywords: Any) -> Any:
            with lock:
                return method(*args, **keywords)

        return call

    for name, value in list(vars(cls).items()):
        if isfunction(value):
            setattr(cls, name, guarded(value))
    return cls


class Handle:
    def __init__(self, device: int) -> None:
        self.device = device
        self.destroyed = False


@locked
class FakeDriver:
    """The Driver protocol on NumPy. `lies` says how peer copies of an ordered pair go wrong while they succeed."""

    def __init__(
        self, devices: int = 1, *, lies: dict[tuple[int, int], Lie] | None = None, allocator: Allocator = "pool"
    ) -> None:
        self.devices = [DeviceMemory(k, recycles=allocator != "none") for k in range(devices)]
        self.lies = lies or {}
        self.allocator = allocator
        self.queues = Queues()
        self.faults: list[str] = []
        self.calls: Counter[str] = Counter()
        self.peer_copies: Counter[tuple[int, int]] = Counter()
        self.objects: dict[int, Any] = {}  # streams, events, handles, graphs by number
        self._numbers = count(1)
        self._pinned: dict[int, tuple[Span, Any]] = {}
        self._thread = threading.local()
        self._null = [Stream(k, 0) for k in range(devices)]

    # What a test asks.

    def alive(self, kind: type[Any]) -> int:
        """Objects of a kind that were made and not destroyed."""
        return sum(isinstance(o, kind) and not o.destroyed for o in self.objects.values())

    def used(self, device: int) -> int:
        """Bytes allocated on a device."""
        return self.devices[device].used

    def read(self, address: int, nbytes: int) -> Array:
        """Bytes as they are now, wherever they are; what is queued has not happened."""
        device = device_of(address)
        return host_view(address, address + nbytes) if device < 0 else self._view(address, nbytes)

    # Devices.

    def count(self) -> int:
        return len(self.devices)

    def properties(self, ordinal: int) -> Properties:
        return Properties("Fake", f"0000:{ordinal:02x}:00.0", f"GPU-{ordinal}", 1 << 30, (9, 0))

    def device(self) -> int:
        return getattr(self._thread, "device", 0)

    def set_device(self, ordinal: int) -> None:
        if not 0 <= ordinal < len(self.devices):
            raise CudaError("cudaErrorInvalidDevice: invalid device ordinal")
        self._thread.device = ordinal

    # Memory.

    def alloc(self, nbytes: int) -> Memory:
        self._outside_capture("cudaMalloc")
        device = self.device()
        start = self.devices[device].take(nbytes)
        return Memory(start, nbytes, self._free)

    def _free(self, memory: Memory) -> None:
        work = self.queues.touching((memory.ptr, memory.ptr + memory.nbytes))
        if work is not None:
            self.faults.append(f"{memory.nbytes} bytes were freed before {work.label}")
        self.devices[device_of(memory.ptr)].give_back(memory.ptr)

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        self._outside_capture("cudaHostAlloc")
        self.calls["pinned"] += 1
        keep = np.full(nbytes, 0xEE, np.uint8)
        address = keep.ctypes.data
        self._pinned[address] = ((address, address + nbytes), keep)
        return address, keep

    def pageable(self, address: int) -> bool:
        return not any(start <= address < end for (start, end), _ in self._pinned.values())

    def pointer_device(self, pointer: int) -> int:
        device = device_of(pointer)
        return device if device >= 0 and self.devices[device].find(pointer) is not None else -1

    def _view(self, address: int, nbytes: int) -> Array:
        return self.devices[device_of(address)].view(address, address + nbytes)

    def _span(self, address: int, nbytes: int) -> Span:
        if device_of(address) >= 0:
            self._view(address, nbytes)  # refused now, not when it runs
        return address, address + nbytes

    # Streams and events.

    def stream(self) -> int:
        number = next(self._numbers)
        self.objects[number] = Stream(self.device(), number)
        return number

    def destroy_stream(self, stream: int) -> None:
        self._get(stream, Stream).destroyed = True

    def event(self) -> int:
        return self._add(Event(self.device()))

    def timer(self) -> int:
        return self._add(Event(self.device(), timing=True))

    def elapsed(self, start: int, end: int) -> float:
        a, b = self._get(start, Event), self._get(end, Event)
        if not (a.timing and b.timing) or a.device != b.device:
            raise CudaError("cudaErrorInvalidResourceHandle: no timers of one device")
        if not all(e.work is not None and e.work.done for e in (a, b)):
            raise CudaError("cudaErrorNotReady")
        return b.time - a.time

    def destroy_event(self, event: int) -> None:
        self._get(event, Event).destroyed = True

    def record(self, event: int, stream: int) -> None:
        e, s = self._get(event, Event), self._get(stream, Stream)
        if e.device != s.device:
            raise CudaError("cudaErrorInvalidResourceHandle: an event of another device")
        if e.timing:
            self.queues.put(s, f"timer on stream {s.number}", lambda: setattr(e, "time", perf_counter()))
        e.work, e.capture, e.tails = s.last, s.capture, s.tails

    def stream_wait(self, stream: int, event: int) -> None:
        e, s = self._get(event, Event), self._get(stream, Stream)
        if e.capture is not None and e.capture.streams is not None and s.capture is None:
            if e.capture.origin.capture is not e.capture:
                raise CudaError("cudaErrorCapturedEvent")
            s.capture = e.capture  # it forks
            e.capture.streams.append(s)
        if s.capture is not None:
            if e.capture is not s.capture:
                raise self._break(s.capture, "waits for an event from outside")
            s.tails = tuple(dict.fromkeys((*s.tails, *e.tails)))
        elif e.work is not None:
            self.queues.put(s, "wait", None, also=(e.work,))

    def synchronize(self, event: int) -> None:
        e = self._get(event, Event)
        if e.capture is not None:
            raise CudaError("cudaErrorCapturedEvent")
        self._outside_capture("cudaEventSynchronize")
        self.queues.finish(e.work)

    def stream_synchronize(self, stream: int) -> None:
        s = self._get(stream, Stream)
        if s.capture is not None:
            raise self._break(s.capture, "cudaStreamSynchronize")
        self._outside_capture("cudaStreamSynchronize")
        self.queues.finish(s.last)

    def stream_device(self, stream: int) -> int:
        return self._get(stream, Stream).device

    # Copies.

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        self.calls["copy"] += 1
        s = self._get(stream, Stream)
        ends = {device_of(a) for a in (dst, src)} - {-1}
        if len(ends) == 2:
            raise CudaError("copy between devices without peer access")
        if self._pageable(src) and device_of(src) < 0:
            taken = host_view(src, src + nbytes).copy()  # the call returns once the bytes are taken
            self._copy(s, dst, nbytes, "upload", lambda: taken)
        else:
            span = self._span(src, nbytes)
            self._copy(s, dst, nbytes, "copy", lambda: self.read(src, nbytes), span)
        if self._pageable(dst) and device_of(dst) < 0:
            self.stream_synchronize(stream)  # CUDA returns once a copy to pageable memory is complete

    def _pageable(self, address: int) -> bool:
        return device_of(address) < 0 and self.pageable(address)

    def _copy(self, s: Stream, dst: int, nbytes: int, label: str, source: Any, *reads: Span) -> None:
        def run() -> None:
            self.read(dst, nbytes)[...] = source()

        self.queues.put(s, f"{label} on stream {s.number}", run, reads=reads, writes=(self._span(dst, nbytes),))

    def copy_peer(self, dst: int, dst_ordinal: int, src: int, src_ordinal: int, nbytes: int, stream: int) -> None:
        if (device_of(dst), device_of(src)) != (dst_ordinal, src_ordinal):
            raise CudaError("cudaMemcpyPeer: invalid argument")
        pair = (src_ordinal, dst_ordinal)
        self.peer_copies[pair] += 1
        lie, first = self.lies.get(pair), self.peer_copies[pair] == 1

        def run() -> None:
            target, source = self.read(dst, nbytes), self.read(src, nbytes)
            match lie:
                case "zeros":
                    target[:] = 0
                case "half":
                    target[: nbytes // 2] = source[: nbytes // 2]
                case "nothing":
                    pass
                case "first is wrong" if first:
                    target[:] = 0
                case "only first is right" if not first:
                    target[:] = 0
                case _:
                    target[:] = source

        spans = self._span(src, nbytes), self._span(dst, nbytes)
        s = self._get(stream, Stream)
        self.queues.put(s, f"peer copy on stream {s.number}", run, reads=spans[:1], writes=spans[1:])

    def fill(self, dst: int, byte: int, nbytes: int, stream: int) -> None:
        self._selected(stream)
        span = self._span(dst, nbytes)
        s = self._get(stream, Stream)
        self.queues.put(s, f"fill on stream {s.number}", lambda: self._view(dst, nbytes).fill(byte), writes=(span,))

    # Kernels.

    def compile(self, source: str, entry: str, shared: int) -> tuple[int, Spec]:
        self._outside_capture("cuModuleLoad")
        self.calls["compile"] += 1
        return self.device(), SPECS[source]

    def pack(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return values

    def launch(
        self, function: tuple[int, Spec], grid: Any, block: Any, shared: int, arguments: tuple[Any, ...], stream: int
    ) -> None:
        self.calls["launch"] += 1
        device, spec = function
        *addresses, error, site = arguments
        s = self._selected(stream)
        if device != s.device:
            raise CudaError("CUDA_ERROR_INVALID_HANDLE: a function of another device")
        spans = [self._local(a, spec.nbytes(k), s.device) for k, a in enumerate(addresses)]
        self.queues.put(
            s,
            f"{spec.op.name} on stream {s.number}",
            lambda: spec.run(addresses, error, int(site), self.read),
            reads=spans[: len(spec.ins)],
            writes=spans[len(spec.ins) :],
        )

    def _local(self, address: int, nbytes: int, device: int) -> Span:
        if nbytes and device_of(address) != device:
            raise CudaError("CUDA_ERROR_ILLEGAL_ADDRESS: memory of another device")
        return self._span(address, nbytes) if nbytes else (address, address)

    # The library.

    def handle(self) -> int:
        self._outside_capture("cublasCreate")
        return self._add(Handle(self.device()))

    def destroy_handle(self, handle: int) -> None:
        self._get(handle, Handle).destroyed = True

    def gemm(self, handle: int, workspace: int, stream: int, call: GemmCall) -> None:
        self.calls["gemm"] += 1
        s = self._selected(stream)
        if self._get(handle, Handle).device != s.device:
            raise CudaError("CUBLAS_STATUS_EXECUTION_FAILED: a handle of another device")
        size = DTYPES[call.dtype].itemsize
        a = self._local(call.a, call.m * call.k * size, s.device)
        b = self._local(call.b, call.k * call.n * size, s.device)
        c = self._local(call.c, call.m * call.n * size, s.device)
        scratch = self._local(workspace, WORKSPACE, s.device)
        label = f"gemm on stream {s.number}"
        self.queues.put(s, label, lambda: self._product(call), reads=(a, b), writes=(c, scratch))

    def _product(self, call: GemmCall) -> None:
        """C = op(A) op(B), all column-major: seen row-major, each is its own transpose."""
        assert call.batch == 1
        dtype = DTYPES[call.dtype].numpy

        def seen(address: int, columns: int, lead: int) -> Array:
            return self.read(address, columns * lead * dtype.itemsize).view(dtype).reshape(columns, lead)

        a = seen(call.a, call.m, call.lda) if call.transpose_a else seen(call.a, call.k, call.lda).T
        b = seen(call.b, call.k, call.ldb) if call.transpose_b else seen(call.b, call.n, call.ldb).T
        seen(call.c, call.n, call.ldc)[...] = (a.astype(np.float32) @ b.astype(np.float32)).T.astype(dtype)

    # Graphs.

    def begin_capture(self, stream: int) -> None:
        s = self._selected(stream)
        if s.capture is not None:
            raise CudaError("cudaErrorIllegalState: the stream is being captured")
        s.capture, s.tails = Capture(s), ()
        self._thread.capture = s.capture

    def end_capture(self, stream: int) -> int:
        capture = self._get(stream, Stream).capture
        if capture is None:
            raise CudaError("cudaErrorIllegalState: the stream is not being captured")
        self._thread.capture = None
        return self._add(Graph(capture.origin.device, end_capture(capture)))

    def launch_graph(self, graph: int, stream: int) -> None:
        self.calls["graph"] += 1
        s, g = self._selected(stream), self._get(graph, Graph)
        if g.device != s.device:
            raise CudaError("cudaErrorInvalidResourceHandle: a graph of another device")
        self.queues.replay(g, s)

    def destroy_graph(self, graph: int) -> None:
        self._get(graph, Graph).destroyed = True

    # Checks.

    def _selected(self, stream: int) -> Stream:
        """A stream of the current device, as what runs code needs."""
        s = self._get(stream, Stream)
        if s.device != self.device():
            raise CudaError(f"cudaErrorInvalidResourceHandle: a stream of cuda:{s.device} on cuda:{self.device()}")
        return s

    def _outside_capture(self, call: str) -> None:
        capture = getattr(self._thread, "capture", None)
        if capture is not None:
            raise self._break(capture, call)

    def _break(self, capture: Capture, why: str) -> CudaError:
        capture.broken = why
        return CudaError(f"cudaErrorStreamCaptureUnsupported: {why}")

    def _add(self, thing: Any) -> int:
        number = next(self._numbers)
        self.objects[number] = thing
        return number

    def _get(self, number: int, kind: type[Any]) -> Any:
        found = self.objects.get(number)
        if not isinstance(found, kind) or found.destroyed:
            raise CudaError(f"invalid resource handle: no {kind.__name__.lower()} {number}")
        return found
