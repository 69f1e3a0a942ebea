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


@contextmanager
def on(driver: Driver, ordinal: int) -> Generator[None]:
    """Selects a device for the calls inside."""
    before = driver.device()
    if before != ordinal:
        driver.set_device(ordinal)
    try:
        yield
    finally:
        if before != ordinal:
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
    functions: dict[tuple[str, str, int], Function] = field(default_factory=dict[tuple[str, str, int], Function])
    pinned: dict[int, list[Pinned]] = field(default_factory=lambda: defaultdict[int, list[Pinned]](list))

    def handle(self) -> Handle:
        """The cuBLAS handle: made when first asked for, on this device, once."""
        if self.made is None:
            with on(self.driver, self.ordinal):
                handle = self.driver.handle()
                self.made = HandleRecord(self.ordinal, self.driver.device(), handle)
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

    def close(self) -> None:
        """Destroys the handle and forgets kernels and staging."""
        if self.made is not None:
            with on(self.driver, self.ordinal):
                self.driver.destroy_handle(self.made.handle)
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


class State:
    """One topology on its ordinal."""

    def __init__(self, driver: Driver, ordinal: Ordinal, topology: Topology) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.topology = topology
        self.dispatches = 0
        self.blocks: dict[Pointer, Block] = {}  # by address; memory lives until it is freed or the state closes
        self.graphs: list[Graph] = []
        self.lanes: list[Stream] = []  # beside the compute stream, for capturing what may run side by side
        self.in_flight: list[
            tuple[State, CudaEvent, State, CudaEvent, Pinned]
        ] = []  # staged transfers, not yet settled
        self._events: list[CudaEvent] = []
        self._workspace: Any = None
        with on(driver, ordinal.ordinal):
            self._error_memory: Any = driver.alloc(
                FAULT_BYTES
            )  # first: it may be refused, and nothing else is made yet
            self.compute: Stream = driver.stream()
            self.copy: Stream = driver.stream()
            driver.fill(self.error, 0, FAULT_BYTES, self.compute)
            driver.stream_synchronize(self.compute)

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
            with on(self.driver, self.ordinal.ordinal):
                self.lanes.append(self.driver.stream())
        return self.lanes[number - 1] if number else self.compute

    def event(self) -> CudaEvent:
        """An event that nothing uses."""
        if self._events:
            return self._events.pop()
        with on(self.driver, self.ordinal.ordinal):
            return self.driver.event()

    def recycle(self, event: CudaEvent) -> None:
        """Makes an event free for the next one."""
        self._events.append(event)

    def synchronize(self) -> None:
        """Waits for both streams."""
        with on(self.driver, self.ordinal.ordinal):
            self.driver.stream_synchronize(self.compute)
            self.driver.stream_synchronize(self.copy)

    def close(self) -> None:
        """Destroys what the topology has, and frees its memory; nothing is under way."""
        with on(self.driver, self.ordinal.ordinal):
            for stream in (self.compute, self.copy, *self.lanes):
                self.driver.destroy_stream(stream)
            for event in self._events:
                self.driver.destroy_event(event)
            for graph in self.graphs:
                self.driver.destroy_graph(graph)
            self.blocks.clear()
            self._workspace = self._error_memory = None
        self._events.clear()
        self.graphs.clear()
        self.lanes.clear()
