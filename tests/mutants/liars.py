"""Backends on NumPy that lie, one class per lie.

What a lie does to copies and kernels is a mixin, so that the same lie can be told over NumPy (`Eager`, where all has
happened when a call returns) and over the sanitizer (`Late`, where it happens when somebody waits):

    class Zeroes(Meddler): ...
    told(Zeroes, Eager)()        told(Zeroes, Late)()
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from tests.runtime.test_deferred import Deferred
from vxgraph.errors import RunError
from vxgraph.ir.types import Array, Sizes
from vxgraph.runtime.abi import Observation
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.numpy.kernels import Kernel
from vxgraph.runtime.backends.numpy.run import Run
from vxgraph.runtime.backends.numpy.space import Buffer, Event, Space, Tensor
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.topology.ids import Topology

Pair = tuple[Topology | None, Topology | None]


@cache
def told(lie: type[Any], over: type[NumpyBackend]) -> type[NumpyBackend]:
    """The lie over that backend."""
    return type(lie.__name__, (lie, over), {})


class Meddler:
    """What a lie may change: how bytes are carried, and how a kernel runs."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        np.copyto(dst, src)

    def ran(self, run: Run, operands: Sequence[Array], results: Sequence[Array], sizes: Sizes) -> None:
        run(operands, results, sizes)


class Eager(Meddler, NumpyBackend):
    """NumPy with both put in the lie's hands."""

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        self.carry(src, dst, (src_topology, dst_topology))
        self._moved[src_topology, dst_topology] += dst.nbytes

    def kernel(self, *args: Any) -> Kernel:
        honest = super().kernel(*args)
        return Kernel(honest.op, partial(self.ran, honest.run), honest.by)


class Late(Meddler, SanitizerBackend):
    """The sanitizer with both put in the lie's hands; what it checks is its own."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: dict[int, Pair] = {}

    def upload(self, array: Array, into: Tensor, topology: Topology, **keywords: Any) -> Event:
        self.pairs[id(into.view)] = (None, topology)
        return super().upload(array, into, topology, **keywords)

    def download(self, tensor: Tensor, topology: Topology, *, out: Array, **keywords: Any) -> Event:
        self.pairs[id(out)] = (topology, None)
        return super().download(tensor, topology, out=out, **keywords)

    def transfer_peer(self, src: Tensor, a: Topology, b: Topology, nbytes: int, *, into: Tensor, **kw: Any) -> Event:
        self.pairs[id(into.view)] = (a, b)
        return super().transfer_peer(src, a, b, nbytes, into=into, **kw)

    def deliver(self, src: Array, dst: Array) -> None:
        self.carry(src, dst, self.pairs[id(dst)])

    def kernel(self, *args: Any) -> Kernel:
        honest = super().kernel(*args)
        return Kernel(honest.op, partial(self.ran, honest.run), honest.by)


class Queued(Deferred):
    """Deferred queues that check nothing but what the conformance suite asks of every backend."""

    def dispatch(self, kernel: Any, ins: Any, outs: Any, topology: Topology, **keywords: Any) -> Event:
        for tensor in (*ins, *outs):
            self._own(tensor.buffer, topology, f"dispatch {kernel.op.name}")

        def run(*arrays: Any) -> None:
            try:
                kernel.run(*arrays)
            except RunError as error:  # long after it was asked for
                raise RunError(f"{kernel.op.name}: {error.message}") from error

        return super().dispatch(Kernel(kernel.op, run, kernel.by), ins, outs, topology, **keywords)

    def wait(self, event: Event) -> None:
        with np.errstate(all="ignore"):
            super().wait(event)


def between_devices(pair: Pair) -> bool:
    return None not in pair


# Copies (R01: the driver says that it worked).


class Zeroes(Meddler):
    """Peer copies write zeros, and count them as if they had copied."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        super().carry(np.zeros_like(src) if between_devices(pair) else src, dst, pair)


class Halves(Meddler):
    """Peer copies stop half way, and count all of it."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        if between_devices(pair) and src.ndim:
            src, dst = src[: len(src) // 2], dst[: len(dst) // 2]
        super().carry(src, dst, pair)


class SendsNothing(Meddler):
    """Peer copies do nothing, and count all of it."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        if not between_devices(pair):
            super().carry(src, dst, pair)


class _ByTurn(Meddler):
    wrong: tuple[bool, bool]  # a pair's first copy, and its later ones

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        sent: set[Pair] = self.__dict__.setdefault("sent", set())
        wrong = between_devices(pair) and self.wrong[pair in sent]
        sent.add(pair)
        super().carry(np.zeros_like(src) if wrong else src, dst, pair)


class FirstIsWrong(_ByTurn):
    """The first copy of each pair writes zeros."""

    wrong = (True, False)


class OnlyFirstIsRight(_ByTurn):
    """Every copy of a pair but the first writes zeros."""

    wrong = (False, True)


class OneBadPair(Meddler):
    """Of six ordered pairs one writes zeros."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        bad = between_devices(pair) and tuple(int(t) % 100 for t in pair if t is not None) == (2, 0)
        super().carry(np.zeros_like(src) if bad else src, dst, pair)


class ScribblesOnSources(Meddler):
    """A peer copy arrives, and leaves its source zeroed."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        super().carry(src, dst, pair)
        if between_devices(pair):
            src[...] = 0


class GarblesUploads(Meddler):
    """Uploads lose their first byte."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        super().carry(src, dst, pair)
        if pair[0] is None:
            dst.reshape(-1).view(np.uint8)[:1] = 0x55


class GarblesDownloads(Meddler):
    """Downloads lose their first byte."""

    def carry(self, src: Array, dst: Array, pair: Pair) -> None:
        super().carry(src, dst, pair)
        if pair[1] is None:
            dst.reshape(-1).view(np.uint8)[:1] = 0x55


class SkipsCopies(NumpyBackend):
    """Peer copies do nothing, and count nothing."""

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        if not between_devices((src_topology, dst_topology)):
            super().copy(src, dst, src_topology, dst_topology)


class HalvesCopies(NumpyBackend):
    """Peer copies stop half way, and count the half."""

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        if between_devices((src_topology, dst_topology)) and src.ndim:
            src, dst = src[: len(src) // 2], dst[: len(dst) // 2]
        super().copy(src, dst, src_topology, dst_topology)


class CopiesTwice(NumpyBackend):
    """Peer copies are done twice."""

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        for _ in range(2 if between_devices((src_topology, dst_topology)) else 1):
            super().copy(src, dst, src_topology, dst_topology)


class CopiesBehindTheBack(NumpyBackend):
    """Every dispatch also sends something to the other topologies."""

    def dispatch(self, *args: Any, **keywords: Any) -> Event:
        event = super().dispatch(*args, **keywords)
        for topology in self._spaces:
            if topology != args[3]:
                self._moved[args[3], topology] += 4
        return event


# Kernels.


class DispatchesTwice(NumpyBackend):
    """Every kernel runs twice."""

    def batch(self, *args: Any, **keywords: Any) -> None:
        """Never: a batch that is run twice is a step of a loop more."""

    def dispatch(self, *args: Any, **keywords: Any) -> Event:
        super().dispatch(*args, **keywords)
        return super().dispatch(*args, **keywords)


class LosesKernels(Meddler):
    """Kernels are counted and never run."""

    def ran(self, run: Run, operands: Sequence[Array], results: Sequence[Array], sizes: Sizes) -> None:
        pass


class WritesIntoOperands(Meddler):
    """A kernel leaves its first operand zeroed."""

    def ran(self, run: Run, operands: Sequence[Array], results: Sequence[Array], sizes: Sizes) -> None:
        run(operands, results, sizes)
        for operand in operands[:1]:
            operand[...] = 0


class Miscalculates(Meddler):
    """A kernel's first element is off by one."""

    def ran(self, run: Run, operands: Sequence[Array], results: Sequence[Array], sizes: Sizes) -> None:
        run(operands, results, sizes)
        first = results[0].reshape(-1)[:1]
        if first.dtype != np.bool_:
            first += first.dtype.type(1)


# Places.


class SelectsNothing(NumpyBackend):
    """Selecting a topology does nothing: everything happens in the first space (the seed's bug)."""

    def _space(self, topology: Topology) -> Space:
        return super()._space(next(iter(self._spaces)))


class AllocatesElsewhere(NumpyBackend):
    """Memory comes from the first space, whatever its handle says."""

    def alloc(self, nbytes: int, topology: Topology) -> Buffer:
        first = next(iter(self._spaces.values()))
        return Buffer(self._spaces[topology], first.take(nbytes))

    def free(self, buffer: Buffer, topology: Topology) -> None:
        next(iter(self._spaces.values())).give_back(buffer.block)


class DispatchesElsewhere(NumpyBackend):
    """Kernels for the second topology run on copies of their operands in the first, and say so to nobody."""

    def batch(self, *args: Any, **keywords: Any) -> None:
        """Never: a batch has no operands that could be copied."""

    def dispatch(
        self, kernel: Any, ins: Sequence[Tensor], outs: Sequence[Tensor], topology: Topology, **keywords: Any
    ) -> Event:
        first, *others = self._spaces
        if topology not in others[:1]:
            return super().dispatch(kernel, ins, outs, topology, **keywords)
        space = self._spaces[first]

        def elsewhere(tensor: Tensor) -> Tensor:
            block = space.take(tensor.view.nbytes)
            view = block.view(tensor.view.dtype).reshape(tensor.view.shape)
            view[...] = tensor.view
            return Tensor(Buffer(space, block), view)

        results = [elsewhere(t) for t in outs]
        event = super().dispatch(kernel, [elsewhere(t) for t in ins], results, first, **keywords)
        for result, out in zip(results, outs, strict=True):
            out.view[...] = result.view
        return event


# Accounts.


class CountsTwice(NumpyBackend):
    """Bytes are copied once and counted twice."""

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        super().copy(src, dst, src_topology, dst_topology)
        self._moved[src_topology, dst_topology] += dst.nbytes


class CountsNothing(NumpyBackend):
    """Kernels run, and none is counted."""

    def dispatched(self, topology: Topology) -> int:
        super().dispatched(topology)
        return 0


class ObservesItsRecords(AllocatesElsewhere):
    """Memory comes from the first space, and `observe` believes the handles."""

    def observe(self, thing: Buffer | Tensor | Event) -> Observation:
        buffers = [t.buffer for t in thing.tensors] if isinstance(thing, Event) else [getattr(thing, "buffer", thing)]
        topology = buffers[0].space.topology
        return Observation((topology,), f"numpy:{topology}")


# Order, which only shows where work is late: over the deferred queues of NumPy, and over the sanitizer's.


class ForgetsWaits:
    """Nothing waits for work of another queue."""

    def upload(self, *args: Any, after: Any = (), **keywords: Any) -> Event:
        return super().upload(*args, **keywords)  # type: ignore[misc]

    def download(self, *args: Any, after: Any = (), **keywords: Any) -> Event:
        return super().download(*args, **keywords)  # type: ignore[misc]

    def transfer_peer(self, *args: Any, after: Any = (), **keywords: Any) -> Event:
        return super().transfer_peer(*args, **keywords)  # type: ignore[misc]

    def dispatch(self, *args: Any, after: Any = (), **keywords: Any) -> Event:
        return super().dispatch(*args, **keywords)  # type: ignore[misc]


class SaysDoneTooEarly:
    """Waiting for an event returns at once."""

    def wait(self, event: Event) -> None:
        pass


class FillsDownloadsLater:
    """Waiting for a download returns before the array is filled."""

    def download(self, *args: Any, **keywords: Any) -> Event:
        event = super().download(*args, **keywords)  # type: ignore[misc]
        self.__dict__.setdefault("downloads", []).append(event)
        return event

    def wait(self, event: Event) -> None:
        if all(event is not d for d in self.__dict__.get("downloads", ())):
            super().wait(event)  # type: ignore[misc]


class _Uncopied(np.ndarray):
    def copy(self, order: Any = "C") -> Any:
        return self


class KeepsTheCallersArray:
    """An upload remembers the array and not what is in it."""

    def upload(self, array: Array, *args: Any, **keywords: Any) -> Event:
        return super().upload(array.view(_Uncopied), *args, **keywords)  # type: ignore[misc]


ON_COPIES_AND_KERNELS = (
    *(Zeroes, Halves, SendsNothing, FirstIsWrong, OnlyFirstIsRight, OneBadPair),
    *(ScribblesOnSources, GarblesUploads, GarblesDownloads, LosesKernels, WritesIntoOperands, Miscalculates),
)
ON_COUNTS = (SkipsCopies, HalvesCopies, CopiesTwice, CopiesBehindTheBack, CountsTwice, CountsNothing)
ON_PLACES = (SelectsNothing, AllocatesElsewhere, DispatchesElsewhere, DispatchesTwice, ObservesItsRecords)
ON_ORDER = (ForgetsWaits, SaysDoneTooEarly, FillsDownloadsLater, KeepsTheCallersArray)
