"""The Backend protocol on CUDA devices.

    backend = CupyBackend()
    backend.open(GPU[0], "cuda:0")        -> "cuda:0 NVIDIA H200 0000:3b:00.0 GPU-6f4e..."
    backend.open(GPU[1], "cuda:0")        two topologies on one device: streams and memory apart, one cuBLAS handle

Nothing here uses CuPy's current device or stream: each call selects the device of the topology that it names, works on
that topology's own streams, and gives the caller's device back. Queues map to streams as the program says: dispatches
on the compute stream, transfers on the source's (an upload: the destination's) copy stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn
from weakref import finalize

import numpy as np

from vxgraph.errors import BindError, RunError
from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, DType, Sizes, TensorType
from vxgraph.runtime.abi import DeviceInfo, Observation
from vxgraph.runtime.backends.cupy import timing
from vxgraph.runtime.backends.cupy.capture import capture
from vxgraph.runtime.backends.cupy.device import FAULT_BYTES, Block, HandleRecord, Ordinal, Pinned, State, on
from vxgraph.runtime.backends.cupy.driver import CudaEvent, Driver, Pointer, Stream, cuda_driver
from vxgraph.runtime.backends.cupy.launch import Launcher
from vxgraph.runtime.backends.cupy.objects import Buffer, Captured, Event, Kernel, Tensor
from vxgraph.runtime.backends.cupy.peer import Mode, Peers, bytes_at, settle
from vxgraph.topology.ids import Topology

SCHEME = "cuda"
POISON = 0xFF  # a NaN in every float type, -1 in every signed integer


class CupyBackend:
    """The Backend protocol on CUDA. `peer` says how devices are copied between: probed, or one way for all pairs."""

    def __init__(self, driver: Driver | None = None, *, peer: Mode = "probe", launcher: Launcher | None = None) -> None:
        self._driver_found: Driver | None = driver
        self._launcher = launcher if launcher is not None else Launcher()
        self._mode: Mode = peer
        self._ordinals: dict[int, Ordinal] = {}
        self._states: dict[Topology, State] = {}
        self._moved: Counter[tuple[Topology | None, Topology | None]] = Counter()
        self._peers: Peers | None = None

    # Devices and states.

    def devices(self) -> tuple[DeviceInfo, ...]:
        """The ordinals that CUDA_VISIBLE_DEVICES leaves visible, named with PCI id and UUID."""
        driver = self._find()
        if driver is None:
            return ()
        found = [(k, driver.properties(k)) for k in range(driver.count())]
        return tuple(DeviceInfo(f"{SCHEME}:{k}", "gpu", f"{p.name} {p.pci} {p.uuid}", p.memory) for k, p in found)

    def open(self, topology: Topology, target: str) -> str:
        """Makes the topology's streams on the ordinal; BindError where there is no such ordinal."""
        driver = self._find()
        if driver is None:
            raise BindError(f"{topology}={target}: CuPy finds no CUDA device here; bind {topology}=numpy")
        ordinal = self._ordinal_of(topology, target, driver)
        if topology in self._states:
            raise BindError(f"{topology} is open already")
        # Known before it has anything: closing must find what an interrupt leaves.
        self._states[topology] = state = State(driver, self._ordinals[ordinal], topology)
        try:
            state.open()
        except Exception:
            state.close()
            del self._states[topology]
            raise
        p = driver.properties(ordinal)
        return f"{target} {p.name} {p.pci} {p.uuid}"

    def _ordinal_of(self, topology: Topology, target: str, driver: Driver) -> int:
        scheme, _, number = target.partition(":")
        here = [f"{SCHEME}:{k}" for k in range(driver.count())]
        if scheme != SCHEME or target not in here:
            raise BindError(f"{topology}={target}: there is no device {target!r} here; there are {', '.join(here)}")
        ordinal = int(number)
        self._ordinals.setdefault(ordinal, Ordinal(driver, ordinal))
        return ordinal

    def _find(self) -> Driver | None:
        if self._driver_found is None:
            self._driver_found = cuda_driver()
        return self._driver_found

    @property
    def _driver(self) -> Driver:
        assert self._driver_found is not None  # a state is open, so there is one
        return self._driver_found

    def close(self) -> None:
        """Destroys streams and handles; buffers that are still around stay unusable."""
        self._settle()  # all before the first is closed: they write into each other's memory
        for topology in list(self._states):
            self._states[topology].close()
            del self._states[topology]
        for ordinal in self._ordinals.values():
            ordinal.close()
        self._ordinals.clear()
        self._launcher.forget()
        self._moved.clear()
        self._peers = None

    def scope(self) -> AbstractContextManager[None]:
        """Nothing to give back: every call gives the device back itself."""
        return nullcontext()

    def handles(self) -> tuple[HandleRecord, ...]:
        """The cuBLAS handles made so far, each with the device that was current then."""
        return tuple(o.made for o in self._ordinals.values() if o.made is not None)

    @property
    def peers(self) -> Peers:
        """How pairs of devices are copied, as far as they were used."""
        if self._peers is None:
            self._peers = Peers(self._driver, self._mode)
        return self._peers

    # Memory.

    def alloc(self, nbytes: int, topology: Topology) -> Buffer:
        """Poisoned memory on the topology's device, from CuPy's current allocator."""
        state = self._state(topology)
        with on(self._driver, state.ordinal.ordinal):
            memory = self._driver.alloc(nbytes + 1)  # what is empty and stands at the end lies in it too
            self._driver.fill(memory.ptr, POISON, nbytes + 1, state.compute)
            self._driver.stream_synchronize(state.compute)
        state.blocks[memory.ptr] = Block(memory, nbytes)
        return Buffer(state, memory.ptr, nbytes)

    def free(self, buffer: Buffer, topology: Topology) -> None:
        """Gives memory back once nothing is under way; what is sent here travels on its source's stream."""
        state = self._own(buffer, topology, "free")
        for each in self._states.values():
            each.synchronize()
        with on(self._driver, state.ordinal.ordinal):
            del state.blocks[buffer.pointer]
        buffer.state = None

    def tensor(self, buffer: Buffer, offset: int, dtype: DType, shape: tuple[int, ...], topology: Topology) -> Tensor:
        """A view at a byte offset; it need not be aligned."""
        self._own(buffer, topology, "tensor")
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if offset < 0 or offset + nbytes > buffer.nbytes:
            raise RunError(
                f"tensor on {topology}: bytes {offset} to {offset + nbytes} are outside a buffer of "
                f"{buffer.nbytes} bytes"
            )
        return Tensor(buffer, buffer.pointer + offset, dtype, shape, nbytes)

    # Moves.

    def upload(self, array: Array, into: Tensor, topology: Topology, *, after: Sequence[Event] = ()) -> Event:
        """cudaMemcpyAsync, which returns once the bytes of pageable memory are taken; page-locked memory is copied."""
        state = self._own(into.buffer, topology, "upload")
        self._match(into, array.shape, array.dtype, f"upload to {topology}")
        host = np.ascontiguousarray(array)
        self._wait_for(after, state.copy)
        began = timing.mark(self._driver, state, state.copy)
        if into.nbytes:
            if not self._driver.pageable(host.ctypes.data):
                host = host.copy()
            with on(self._driver, state.ordinal.ordinal):
                self._driver.copy(into.pointer, host.ctypes.data, into.nbytes, state.copy)
        self._moved[None, topology] += into.nbytes
        return self._timed(Event(state, state.copy, (into.pointer,)), began)

    def download(self, tensor: Tensor, topology: Topology, *, out: Array, after: Sequence[Event] = ()) -> Event:
        """Through pinned memory, so that the stream is not held up; `out` is filled when the event is waited for."""
        state = self._own(tensor.buffer, topology, "download")
        self._match(tensor, out.shape, out.dtype, f"download from {topology}")
        self._wait_for(after, state.copy)
        self._moved[topology, None] += tensor.nbytes
        began = timing.mark(self._driver, state, state.copy)
        if not tensor.nbytes:
            return self._timed(Event(state, state.copy, (tensor.pointer,)), began)
        pinned = state.ordinal.staging(tensor.nbytes)
        with on(self._driver, state.ordinal.ordinal):
            self._driver.copy(pinned.address, tensor.pointer, tensor.nbytes, state.copy)

        def arrive() -> None:
            raw = bytes_at(pinned.address, tensor.nbytes)
            out[...] = raw.view(out.dtype).reshape(out.shape)
            state.ordinal.give_back(pinned)

        return self._timed(Event(state, state.copy, (tensor.pointer,), arrive), began)

    def transfer_peer(
        self,
        src: Tensor,
        src_topology: Topology,
        dst_topology: Topology,
        nbytes: int,
        *,
        into: Tensor,
        after: Sequence[Event] = (),
    ) -> Event:
        """Device to device on the source's copy stream; see peer.py for the ways."""
        source = self._own(src.buffer, src_topology, "transfer_peer")
        target = self._own(into.buffer, dst_topology, "transfer_peer")
        where = f"transfer_peer from {src_topology} to {dst_topology}"
        if src_topology == dst_topology:
            raise RunError(f"{where}: both ends are the same place")
        if src.nbytes != nbytes:
            raise RunError(f"{where}: asked for {nbytes} bytes of a tensor of {src.nbytes} bytes")
        self._match(into, src.shape, src.dtype.numpy, where)
        self._wait_for(after, source.copy)
        began = timing.mark(self._driver, source, source.copy)
        self.peers.copy(source, src.pointer, target, into.pointer, nbytes)
        self._moved[src_topology, dst_topology] += nbytes
        return self._timed(Event(source, source.copy, (into.pointer,)), began)

    # Work.

    def kernel(self, op: Op, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...], topology: Topology) -> Kernel:
        """The op's plan; BindError that names the op where there is none."""
        state = self._state(topology)
        try:
            planner = self._launcher.plan(op, ins, outs)
        except BindError as error:
            raise BindError(f"{op.name} on {topology}: {error.message}", details=error.details) from None
        return self._launcher.made(Kernel(op, state, planner))

    def dispatch(
        self,
        kernel: Kernel | Captured,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        topology: Topology,
        *,
        sizes: Sizes,
        after: Sequence[Event] = (),
    ) -> Event:
        """Launches on the topology's compute stream."""
        state = self._state(topology)
        self._fits(kernel, (*ins, *outs), state)
        self._wait_for(after, state.compute)
        with on(self._driver, state.ordinal.ordinal):
            if isinstance(kernel, Captured):
                self._driver.launch_graph(kernel.graph, state.compute)
                state.dispatches += len(kernel.bound)
                return Event(state, state.compute, kernel.touched, ran=True)
            began = timing.mark(self._driver, state, state.compute)
            self._launcher.run(self._driver, kernel, ins, outs, sizes, state.compute)
        state.dispatches += 1
        return self._timed(Event(state, state.compute, tuple(t.pointer for t in outs), ran=True), began)

    def batch(
        self, launches: Sequence[tuple[Kernel, Sequence[Tensor], Sequence[Tensor]]], topology: Topology, *, sizes: Sizes
    ) -> Captured:
        """Many dispatches as one CUDA graph. The handle's workspace is set, so cuBLAS may be captured."""
        state = self._state(topology)
        state.sweep()
        for kernel, ins, outs in launches:
            self._fits(kernel, (*ins, *outs), state)
        bound = tuple(self._launcher.ready(self._driver, *launch, sizes) for launch in launches)
        touched = tuple(t.pointer for b in bound for t in b.outs)
        captured = Captured(state, capture(self._driver, state, bound), bound, touched, launches[0][0].op)
        # Only noted when it is dropped, which may be at any time, also in another capture; destroyed by `sweep`.
        finalize(captured, state.unused.append, captured.graph).atexit = False
        return captured

    # Waiting and observing.

    def start_timing(self, topologies: Sequence[Topology]) -> None:
        """Timers before and after all work on these topologies; see timing.py for how far they can be trusted."""
        timing.start(self._driver, [self._state(t) for t in topologies])

    def stop_timing(self, topologies: Sequence[Topology]) -> None:
        """No more timers."""
        timing.stop([self._state(t) for t in topologies])

    def times(self, event: Event) -> tuple[float, float]:
        """What its timers say."""
        return timing.times(self._driver, event)

    def _timed(self, event: Event, began: CudaEvent | None) -> Event:
        if began is not None:
            ended = timing.mark(self._driver, event.state, event.stream)
            event.span = None if ended is None else (began, ended)
        return event

    def wait(self, event: Event) -> None:
        """Waits for the event's stream as it is now; fills downloads, and raises what kernels complained of."""
        if event.happened:
            return
        state, driver = event.state, self._driver
        point = state.event()
        words = state.ordinal.staging(FAULT_BYTES) if event.stream == state.compute else None
        with on(driver, state.ordinal.ordinal):
            if words is not None:
                driver.copy(words.address, state.error, FAULT_BYTES, event.stream)
            driver.record(point, event.stream)
            driver.synchronize(point)
        state.recycle(point)
        event.happened = True
        if event.stream == state.copy:
            settle(driver, state)
        if event.arrive is not None:
            event.arrive()
        if words is not None:
            self._complain(state, words)

    def _complain(self, state: State, pinned: Pinned) -> None:
        """RunError for the first complaint of the topology's kernels, which is taken back."""
        words = bytes_at(pinned.address, FAULT_BYTES).view(np.int64).copy()
        state.ordinal.give_back(pinned)
        if words[0]:
            with on(self._driver, state.ordinal.ordinal):
                self._driver.fill(state.error, 0, FAULT_BYTES, state.compute)
            raise self._launcher.complaint(words)

    def observe(self, thing: Buffer | Tensor | Event) -> Observation:
        """What the driver says: the device of the addresses, and for an event also that of its stream."""
        pointers = _evidence(thing)
        ordinals = {self._driver.pointer_device(p) for p in pointers} | self._ran_on(thing)
        found = tuple(
            t
            for t, state in self._states.items()
            if ordinals == {state.ordinal.ordinal} and all(map(state.holds, pointers)) and _runs(state, thing)
        )
        device = " and ".join(self._name(k) for k in sorted(ordinals))
        return Observation(found, device if found else device + self._elsewhere(thing))

    def _ran_on(self, thing: Buffer | Tensor | Event) -> set[int]:
        """The device of a kernel's stream; of a move's, which may write elsewhere, only where it is not its own."""
        if not isinstance(thing, Event):
            return set()
        ordinal = self._driver.stream_device(thing.stream)
        return {ordinal} if thing.ran or ordinal != thing.state.ordinal.ordinal else set()

    def _elsewhere(self, thing: Buffer | Tensor | Event) -> str:
        """Whose stream a kernel ran on, where it is not that of who holds its results."""
        if not isinstance(thing, Event) or not thing.ran:
            return ""
        owners = [str(t) for t, state in self._states.items() if thing.stream == state.compute]
        return f", on a compute stream of {', '.join(owners) or 'no topology'}"

    def _name(self, ordinal: int) -> str:
        if ordinal < 0:
            return "host memory"
        bound = [str(t) for t, state in self._states.items() if state.ordinal.ordinal == ordinal]
        return f"{SCHEME}:{ordinal} ({', '.join(bound) or 'bound to no topology'})"

    def moved(self, src: Topology | None, dst: Topology | None) -> int:
        """Counted where it is copied."""
        return self._moved[src, dst]

    def dispatched(self, topology: Topology) -> int:
        """Counted where it is launched."""
        return self._state(topology).dispatches

    def recover(self) -> bool:
        """Waits for every stream. A capture was ended when it failed, and what was taken from a pool is left alone."""
        self._settle()
        for state in self._states.values():
            state.forget_faults()
        return True

    def _settle(self) -> None:
        for ordinal in self._ordinals.values():
            ordinal.synchronize()
        for state in self._states.values():
            state.synchronize()
            settle(state.driver, state)

    # Checks.

    def _wait_for(self, after: Sequence[Event], stream: Stream) -> None:
        for event in after:
            if event.stream == stream:
                continue
            state = event.state
            point = state.event()
            with on(self._driver, state.ordinal.ordinal):
                self._driver.record(point, event.stream)
                self._driver.stream_wait(stream, point)
            state.recycle(point)  # CUDA keeps what was recorded for who waits already

    def _state(self, topology: Topology) -> State:
        state = self._states.get(topology)
        if state is None:
            here = ", ".join(map(str, self._states)) or "none"
            raise RunError(f"{topology} is not open on the CuPy backend (open: {here})")
        return state

    def _fits(self, kernel: Kernel | Captured, tensors: Sequence[Tensor], state: State) -> None:
        """Whether a kernel and its tensors are the state's."""
        if kernel.state is not state:
            made_for = kernel.state.topology
            raise RunError(f"dispatch {kernel.op.name} on {state.topology}: the kernel was made for {made_for}")
        for tensor in tensors:
            if tensor.buffer.state is not state:
                self._refuse(tensor.buffer, state.topology, f"dispatch {kernel.op.name}")

    def _own(self, buffer: Buffer, topology: Topology, verb: str) -> State:
        state = self._state(topology)
        if buffer.state is not state:
            self._refuse(buffer, topology, verb)
        return state

    def _refuse(self, buffer: Buffer, topology: Topology, verb: str) -> NoReturn:
        if buffer.state is None or self._states.get(buffer.state.topology) is not buffer.state:
            raise RunError(f"{verb} on {topology}: the buffer was freed")
        raise RunError(f"{verb} on {topology}: the buffer lives on {buffer.state.topology}; transfer it first")

    def _match(self, tensor: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
        if tensor.shape != shape or tensor.dtype.numpy != dtype:
            raise RunError(
                f"{where}: {dtype}{list(shape)} on one side, {tensor.dtype.numpy}{list(tensor.shape)} on the other"
            )


def _evidence(thing: Buffer | Tensor | Event) -> tuple[Pointer, ...]:
    match thing:
        case Event():
            return thing.touched
        case Tensor():
            return (thing.pointer,)
        case Buffer():
            return (thing.pointer,) if thing.state is not None else ()


def _runs(state: State, thing: Buffer | Tensor | Event) -> bool:
    """Whether a kernel ran on the topology's own stream; a move is where its bytes are."""
    return not isinstance(thing, Event) or not thing.ran or thing.stream == state.compute
