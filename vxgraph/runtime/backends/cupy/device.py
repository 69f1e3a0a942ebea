"""What belongs to a device ordinal, and what belongs to a topology.

    Ordinal   the cuBLAS handle, compiled kernels, pinned staging: one per device, shared by the topologies that are
              bound to it, never by two devices
    State     compute and copy streams, allocations, cuBLAS's workspace, the error word, counters: one per topology

Both are made under `on(ordinal)`, which selects the device and gives the caller's back, also after an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vxgraph.runtime.backends.cupy.driver import (
    WORKSPACE,
    CudaEvent,
    Driver,
    Function,
    Graph,
    Handle,
    Pointer,
    Stream,
)
from vxgraph.runtime.backends.cupy.kernels.faults import FAULT_WORDS
from vxgraph.topology.ids import Topology

FAULT_BYTES = 8 * FAULT_WORDS  # int64 words, as kernels/faults.py says
SCRATCH = 1 << 16  # bytes


@contextmanager
def on(driver: Driver, ordinal: int) -> Generator[None]:
    """Selects a device for the calls inside, and gives the caller's back, wherever an interrupt comes."""
    before = driver.device()
    away = before != ordinal
    try:
        try:
            if away:
                driver.set_device(ordinal)
            yield
        finally:
            if away:
                driver.set_device(before)
                away = False
    finally:
        if away:
            driver.set_device(before)


@dataclass(frozen=True, slots=True)
class HandleRecord:
    """The making of a cuBLAS handle: for which ordinal, and the device that the driver had current then."""

    ordinal: int
    current: int
    handle: Handle


@dataclass
class Ordinal:
    """One device of this process."""

    driver: Driver
    ordinal: int
    made: HandleRecord | None = None
    _handles: list[Handle] = field(default_factory=list[Handle])  # one at most, unless an interrupt came
    _scratch: Any = None
    _scratch_streams: list[Stream] = field(default_factory=list[Stream])
    functions: dict[tuple[str, str, int], Function] = field(default_factory=dict[tuple[str, str, int], Function])
    pinned: dict[int, list[Pinned]] = field(default_factory=lambda: defaultdict[int, list[Pinned]](list))

    def handle(self) -> Handle:
        """The cuBLAS handle: made when first asked for, on this device, once."""
        if self.made is None:
            with on(self.driver, self.ordinal):
                self._handles.append(self.driver.handle())
                self.made = HandleRecord(self.ordinal, self.driver.device(), self._handles[-1])
        return self.made.handle

    def function(self, source: str, entry: str, shared: int) -> Function:
        """A kernel compiled for this device, once, allowed this much dynamic shared memory (bytes)."""
        key = (source, entry, shared)
        if key not in self.functions:
            with on(self.driver, self.ordinal):
                self.functions[key] = self.driver.compile(source, entry, shared)
        return self.functions[key]

    def staging(self, nbytes: int) -> Pinned:
        """Page-locked memory of at least this size that nothing uses; `give_back` when its bytes are taken."""
        size = max(1 << (nbytes - 1).bit_length(), 256)
        if self.pinned[size]:
            return self.pinned[size].pop()
        with on(self.driver, self.ordinal):
            address, keep = self.driver.pinned(size)
        return Pinned(address, size, keep)

    def give_back(self, pinned: Pinned) -> None:
        """Makes page-locked memory free for the next one."""
        self.pinned[pinned.nbytes].append(pinned)

    def scratch(self) -> tuple[Pointer, Stream]:
        """SCRATCH bytes and a stream to try the device with, kept until it is closed: a try may be interrupted."""
        with on(self.driver, self.ordinal):
            if not self._scratch_streams:
                self._scratch_streams.append(self.driver.stream())
            if self._scratch is None:
                self._scratch = self.driver.alloc(SCRATCH)
        return self._scratch.ptr, self._scratch_streams[0]

    def synchronize(self) -> None:
        """Waits for what somebody tried."""
        with on(self.driver, self.ordinal):
            for stream in self._scratch_streams:
                self.driver.stream_synchronize(stream)

    def close(self) -> None:
        """Destroys the handle and forgets kernels and staging; nothing is under way."""
        with on(self.driver, self.ordinal):
            self._scratch = None
            while self._scratch_streams:
                self.driver.destroy_stream(self._scratch_streams.pop())
            while self._handles:
                self.driver.destroy_handle(self._handles.pop())
        self.made = None
        self.functions.clear()
        self.pinned.clear()


@dataclass(frozen=True, slots=True)
class Pinned:
    """Page-locked host memory."""

    address: int
    nbytes: int
    keep: Any


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of one topology."""

    memory: Any
    nbytes: int


@dataclass(slots=True)
class Origin:
    """A timer of a topology's, and when it was, as `time.perf_counter` counts (see timing.py)."""

    state: State
    timer: CudaEvent
    at: float


class State:
    """One topology on its ordinal."""

    def __init__(self, driver: Driver, ordinal: Ordinal, topology: Topology) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.topology = topology
        self.dispatches = 0
        self.blocks: dict[Pointer, Block] = {}  # by address; memory lives until it is freed or the state closes
        self.graphs: list[Graph] = []
        self.unused: list[Graph] = []  # of batches that nobody has any more
        self.lanes: list[Stream] = []  # beside the compute stream, for capturing what may run side by side
        self.in_flight: list[
            tuple[State, CudaEvent, State, CudaEvent, Pinned]
        ] = []  # staged transfers, not yet settled
        self.origin: Origin | None = None  # while it is timed
        self.timers: list[CudaEvent] = []  # that nothing uses
        self._events: list[CudaEvent] = []  # that nothing uses
        self._every_event: list[CudaEvent] = []
        self._workspace: Any = None
        self._error_memory: Any = None
        self._streams: list[Stream] = []  # compute, copy, lanes

    def open(self) -> None:
        """Makes the streams and the error word."""
        with on(self.driver, self.ordinal.ordinal):
            self._error_memory = self.driver.alloc(FAULT_BYTES)  # first: it may be refused
        self.compute: Stream = self._stream()
        self.copy: Stream = self._stream()
        self.forget_faults()

    def _stream(self) -> Stream:
        with on(self.driver, self.ordinal.ordinal):
            self._streams.append(self.driver.stream())
        return self._streams[-1]

    @property
    def error(self) -> Pointer:
        """Where kernels say what went wrong."""
        return int(self._error_memory.ptr)

    def holds(self, address: Pointer) -> bool:
        """Whether an address lies in a block of this topology (or at its very end)."""
        return any(start <= address <= start + block.nbytes for start, block in self.blocks.items())

    def workspace(self) -> Pointer:
        """cuBLAS's scratch memory, made when first asked for. Not the ordinal's: topologies work side by side."""
        if self._workspace is None:
            with on(self.driver, self.ordinal.ordinal):
                self._workspace = self.driver.alloc(WORKSPACE)
        return int(self._workspace.ptr)

    def lane(self, number: int) -> Stream:
        """The compute stream, or one of those beside it."""
        while len(self.lanes) < number:
            self.lanes.append(self._stream())
        return self.lanes[number - 1] if number else self.compute

    def event(self) -> CudaEvent:
        """An event that nothing uses."""
        if self._events:
            return self._events.pop()
        with on(self.driver, self.ordinal.ordinal):
            self._every_event.append(self.driver.event())
        return self._every_event[-1]

    def timer(self) -> CudaEvent:
        """A timer that nothing uses."""
        if self.timers:
            return self.timers.pop()
        with on(self.driver, self.ordinal.ordinal):
            self._every_event.append(self.driver.timer())
        return self._every_event[-1]

    def forget_faults(self) -> None:
        """Takes back what kernels complained of."""
        with on(self.driver, self.ordinal.ordinal):
            self.driver.fill(self.error, 0, FAULT_BYTES, self.compute)
            self.driver.stream_synchronize(self.compute)

    def sweep(self) -> None:
        """Destroys the graphs of batches that nobody has any more."""
        if self.unused:
            self.synchronize()
        with on(self.driver, self.ordinal.ordinal):
            while self.unused:
                self.driver.destroy_graph(self.graphs.pop(self.graphs.index(self.unused.pop())))

    def recycle(self, event: CudaEvent) -> None:
        """Makes an event free for the next one."""
        self._events.append(event)

    def synchronize(self) -> None:
        """Waits for both streams."""
        with on(self.driver, self.ordinal.ordinal):
            for stream in self._streams[:2]:
                self.driver.stream_synchronize(stream)

    def close(self) -> None:
        """Destroys what the topology has, and frees its memory; nothing is under way. After an interrupt it goes on."""
        with on(self.driver, self.ordinal.ordinal):
            while self._streams:
                self.driver.destroy_stream(self._streams.pop())
            while self._every_event:
                self.driver.destroy_event(self._every_event.pop())
            while self.graphs:
                self.driver.destroy_graph(self.graphs.pop())
            self.blocks.clear()
            self._workspace = self._error_memory = None
        self._events.clear()
        self.timers.clear()
        self.origin = None
        self.lanes.clear()
        self.unused.clear()
