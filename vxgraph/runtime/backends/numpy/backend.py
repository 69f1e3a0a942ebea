"""NumPy with one isolated, poisoned address space per topology: fast enough to use, strict enough to trust.

    backend = NumpyBackend()
    backend.open(GPU[0], "numpy")                     -> "numpy:gpu:0"
    buffer = backend.alloc(1 << 20, GPU[0])
    backend.observe(buffer).topologies                -> (gpu:0,), by the address of its bytes

Everything has happened when a call returns, so events are done when they are made. Kernels are C where this machine has
a compiler and the types a C form, else NumPy, else the op's own `reference`; on the target "numpy:plain" never C.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

import numpy as np

from vxgraph.errors import BindError, RunError
from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, DType, Sizes, TensorType
from vxgraph.runtime.abi import DeviceInfo, Observation
from vxgraph.runtime.backends.numpy.batch import Batch
from vxgraph.runtime.backends.numpy.kernels import Kernel, compile_kernel
from vxgraph.runtime.backends.numpy.native.cores import cores
from vxgraph.runtime.backends.numpy.native.launch import Native
from vxgraph.runtime.backends.numpy.native.library import Library, library
from vxgraph.runtime.backends.numpy.native.pool import Pool
from vxgraph.runtime.backends.numpy.space import Buffer, Event, Space, Tensor, address_of
from vxgraph.topology.ids import Topology

TARGET = "numpy"
PLAIN = "numpy:plain"  # without kernels in C


class NumpyBackend:
    """The Backend protocol on host memory."""

    def __init__(self) -> None:
        self._spaces: dict[Topology, Space] = {}
        self._pool: Pool | None = None
        self._observations: dict[tuple[Topology, ...], Observation] = {}
        self._moved: Counter[tuple[Topology | None, Topology | None]] = Counter()

    def devices(self) -> tuple[DeviceInfo, ...]:
        """The host, once: any number of topologies can be bound to it, each with a space of its own."""
        name = f"NumPy {np.__version__} on {platform.machine()}, {os.cpu_count()} cores"
        return (DeviceInfo(TARGET, "cpu", name, _host_memory()),)

    def open(self, topology: Topology, target: str) -> str:
        """Makes the topology's space; BindError where it has one or the target is another backend's."""
        if target not in (TARGET, PLAIN):
            raise BindError(f"{topology}={target}: the NumPy backend offers {TARGET!r} and {PLAIN!r} only")
        if topology in self._spaces:
            raise BindError(f"{topology} is open already")
        self._spaces[topology] = Space(topology, self._threads() if target == TARGET else None)
        return f"{TARGET}:{topology}"

    def close(self) -> None:
        """Drops every space; buffers that are still around stay unusable."""
        self._spaces.clear()
        self._observations.clear()
        self._moved.clear()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def scope(self) -> AbstractContextManager[None]:
        """Float errors give inf and NaN without a warning, as on every device."""
        return np.errstate(all="ignore")

    def alloc(self, nbytes: int, topology: Topology) -> Buffer:
        """A poisoned block, 64-byte aligned; RunError where the host has not the memory, before it is asked for it."""
        space = self._space(topology)
        memory = _host_memory()
        left = memory - sum(s.nbytes for s in self._spaces.values())
        # Poison is written to all of it: a host that promises more than it has would end this process, or another one.
        if memory and nbytes > left:
            raise RunError(
                f"{topology}: {nbytes:,} bytes are wanted, but this host has {memory:,} and {left:,} of them left"
            )
        try:
            return Buffer(space, space.take(nbytes))
        except MemoryError:
            raise RunError(f"{topology}: the host has no {nbytes:,} bytes left for it") from None

    def free(self, buffer: Buffer, topology: Topology) -> None:
        """Gives a block back; refuses one that was given back, or lives elsewhere."""
        space = self._own(buffer, topology, "free")
        buffer.space = None
        space.give_back(buffer.block)

    def tensor(self, buffer: Buffer, offset: int, dtype: DType, shape: tuple[int, ...], topology: Topology) -> Tensor:
        """A view at a byte offset; it need not be aligned."""
        self._own(buffer, topology, "tensor")
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if offset < 0 or offset + nbytes > buffer.block.nbytes:
            raise RunError(
                f"tensor on {topology}: bytes {offset} to {offset + nbytes} are outside a buffer of "
                f"{buffer.block.nbytes} bytes"
            )
        # From the block's slice rather than with `offset=`, which NumPy refuses for zero bytes at the very end.
        return Tensor(buffer, buffer.block[offset : offset + nbytes].view(dtype.numpy).reshape(shape))

    def upload(self, array: Array, into: Tensor, topology: Topology, *, after: Sequence[Event] = ()) -> Event:
        """Copies from the host, of any strides."""
        self._own(into.buffer, topology, "upload")
        self._match(into, array, f"upload to {topology}")
        self.copy(array, into.view, None, topology)
        return Event((into,))

    def download(self, tensor: Tensor, topology: Topology, *, out: Array, after: Sequence[Event] = ()) -> Event:
        """Copies to the host."""
        self._own(tensor.buffer, topology, "download")
        self._match(tensor, out, f"download from {topology}")
        self.copy(tensor.view, out, topology, None)
        return Event((tensor,))

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
        """Copies from space to space."""
        self._own(src.buffer, src_topology, "transfer_peer")
        self._own(into.buffer, dst_topology, "transfer_peer")
        where = f"transfer_peer from {src_topology} to {dst_topology}"
        if src_topology == dst_topology:
            raise RunError(f"{where}: both ends are the same place")
        if src.view.nbytes != nbytes:
            raise RunError(f"{where}: asked for {nbytes} bytes of a tensor of {src.view.nbytes} bytes")
        self._match(into, src.view, where)
        self.copy(src.view, into.view, src_topology, dst_topology)
        return Event((into,))

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        """The one place where bytes cross between spaces, and where they are counted; never a view of the source."""
        np.copyto(dst, src, casting="no")
        self._moved[src_topology, dst_topology] += dst.nbytes

    def kernel(self, op: Op, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...], topology: Topology) -> Kernel:
        """C where there is a form of it, else NumPy, else the op's reference."""
        return compile_kernel(op, ins, outs, topology, self._space(topology).pool)

    def dispatch(
        self,
        kernel: Kernel | Batch,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        topology: Topology,
        *,
        sizes: Sizes,
        after: Sequence[Event] = (),
    ) -> Event:
        """Runs a kernel on operands of this space, into results of this space."""
        space = self._space(topology)
        if isinstance(kernel, Batch):
            return self._dispatch_batch(kernel, space)
        if kernel.native is not None:
            return self._dispatch_native(kernel, kernel.native, ins, outs, space, sizes)
        operands: list[Array] = []
        results: list[Array] = []
        for tensors, views in ((ins, operands), (outs, results)):
            for tensor in tensors:
                if tensor.buffer.space is not space:
                    self._refuse(tensor.buffer, topology, f"dispatch {kernel.op.name}")
                views.append(tensor.view)
        kernel.run(operands, results, sizes)
        space.dispatches += 1
        return Event(tuple(outs))

    def _dispatch_native(
        self,
        kernel: Kernel,
        native: Native,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        space: Space,
        sizes: Sizes,
    ) -> Event:
        launch = native.last
        again = launch is not None and launch.on(ins, outs, sizes)
        for buffer in launch.buffers if launch is not None and again else [t.buffer for t in (*ins, *outs)]:
            if buffer.space is not space:
                self._refuse(buffer, space.topology, f"dispatch {kernel.op.name}")
        if launch is None or not again:
            launch = native.launch(ins, outs, sizes)
        launch.run()
        space.dispatches += 1
        return Event(tuple(outs))

    def _dispatch_batch(self, batch: Batch, space: Space) -> Event:
        for buffer in batch.buffers:
            if buffer.space is not space:
                self._refuse(buffer, space.topology, "dispatch a batch")
        batch.run()
        space.dispatches += batch.count
        return batch.event

    def batch(
        self, launches: Sequence[tuple[Kernel, Sequence[Tensor], Sequence[Tensor]]], topology: Topology, *, sizes: Sizes
    ) -> Batch | None:
        """Looks everything up once; what is C and stands together is one call. Operands are of this space."""
        for kernel, ins, outs in launches:
            for tensor in (*ins, *outs):
                self._own(tensor.buffer, topology, f"dispatch {kernel.op.name}")
        return Batch(launches, sizes)

    def wait(self, event: Event) -> None:
        """Nothing to wait for."""

    def observe(self, thing: Buffer | Tensor | Event) -> Observation:
        """Whose blocks hold the addresses, whatever the handles and the records say."""
        addresses = _addresses_of(thing)
        found = tuple([topology for topology, space in self._spaces.items() if space.holds(addresses)])
        if found not in self._observations:
            device = " and ".join(f"{TARGET}:{t}" for t in found) or "no space of the NumPy backend"
            self._observations[found] = Observation(found, device)
        return self._observations[found]

    def moved(self, src: Topology | None, dst: Topology | None) -> int:
        """Counted by `copy`."""
        return self._moved[src, dst]

    def dispatched(self, topology: Topology) -> int:
        """Counted by `dispatch`."""
        return self._space(topology).dispatches

    def recover(self) -> bool:
        """Nothing is under way, and no call leaves anything half done but bytes that the next run writes."""
        return True

    def _threads(self) -> Pool | None:
        """One pool for all topologies: a call has happened when it returns, so they never run at the same time."""
        if self._pool is None and isinstance(found := library(), Library):
            self._pool = Pool(found, cores())
        return self._pool

    def _space(self, topology: Topology) -> Space:
        space = self._spaces.get(topology)
        if space is None:
            here = ", ".join(map(str, self._spaces)) or "none"
            raise RunError(f"{topology} is not open on the NumPy backend (open: {here})")
        return space

    def _own(self, buffer: Buffer, topology: Topology, verb: str) -> Space:
        space = self._space(topology)
        if buffer.space is not space:
            self._refuse(buffer, topology, verb)
        return space

    def _refuse(self, buffer: Buffer, topology: Topology, verb: str) -> NoReturn:
        if buffer.space is None or self._spaces.get(buffer.space.topology) is not buffer.space:
            raise RunError(f"{verb} on {topology}: the buffer was freed")
        raise RunError(f"{verb} on {topology}: the buffer lives on {buffer.space.topology}; transfer it first")

    def _match(self, tensor: Tensor, array: Array, where: str) -> None:
        if tensor.view.shape != array.shape or tensor.view.dtype != array.dtype:
            raise RunError(
                f"{where}: {array.dtype}{list(array.shape)} on one side, "
                f"{tensor.view.dtype}{list(tensor.view.shape)} on the other"
            )


def _host_memory() -> int:
    """Bytes, or 0 where the system does not say."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0


def _addresses_of(thing: Buffer | Tensor | Event) -> list[int]:
    match thing:
        case Event():
            return [t.address for t in thing.tensors]
        case Tensor():
            return [thing.address]
        case Buffer():
            return [address_of(thing.block)]
