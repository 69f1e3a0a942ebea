"""CUDA devices that are not there and lie, one class per lie; those on peers are modes of the fake driver itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fake_kernels import Spec
from tests.runtime.cupy.fake_memory import CudaError, host_view
from tests.runtime.cupy.fake_queue import Queues, Work


class Careless(Queues):
    """Queues that let races happen, as devices do, instead of telling."""

    def work(self, label: str, run: Any, reads: Any, writes: Any, before: Any) -> Work:
        found = Work(label, run, reads, writes, tuple(w for w in before if not w.done))
        self.pending[found] = None
        return found


class CarelessDriver(FakeDriver):
    """An honest driver whose devices tell nobody of races."""

    def __init__(self, devices: int = 1, **keywords: Any) -> None:
        super().__init__(devices, **keywords)
        self.queues = Careless()


class ForgetsWaits(CarelessDriver):
    """cudaStreamWaitEvent does nothing."""

    def stream_wait(self, stream: int, event: int) -> None:
        pass


class SaysDoneTooEarly(CarelessDriver):
    """cudaEventSynchronize returns at once."""

    def synchronize(self, event: int) -> None:
        pass


class KeepsTheCallersArray(FakeDriver):
    """A copy from pageable memory returns before the bytes are taken."""

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        if not self._pageable(src):
            super().copy(dst, src, nbytes, stream)
            return
        s = self.objects[stream]
        self._copy(s, dst, nbytes, "upload", lambda: host_view(src, src + nbytes).copy())


class LeavesAnError(FakeDriver):
    """The first peer copy enables peer access, which it was; the code stays, and the next kernel fails (R03)."""

    last = ""

    def copy_peer(self, *args: Any) -> None:
        super().copy_peer(*args)
        if sum(self.peer_copies.values()) == 1:
            self.last = "cudaErrorPeerAccessAlreadyEnabled: peer access is already enabled"

    def launch(self, *args: Any) -> None:
        last, self.last = self.last, ""
        if last:
            raise CudaError(last)
        super().launch(*args)


class _Changed(Spec):
    def run(self, addresses: Any, error: int, site: int, read: Any) -> None:
        super().run(addresses, error, site, read)
        self.spoil([read(a, self.nbytes(k)) for k, a in enumerate(addresses)])

    def spoil(self, spans: list[Any]) -> None:
        raise NotImplementedError


class _IntoOperands(_Changed):
    def spoil(self, spans: list[Any]) -> None:
        for operand in spans[: len(self.ins)][:1]:
            operand[...] = 0


class _Wrong(_Changed):
    def spoil(self, spans: list[Any]) -> None:
        result = spans[len(self.ins)].view(self.outs[0].dtype.numpy)[:1]
        if result.dtype != np.bool_:
            result += result.dtype.type(1)


class WritesIntoOperands(FakeDriver):
    """A kernel leaves its first operand zeroed."""

    def launch(self, function: tuple[int, Spec], *rest: Any) -> None:
        super().launch((function[0], _IntoOperands(**vars(function[1]))), *rest)


class Miscalculates(FakeDriver):
    """A kernel's first element is off by one."""

    def launch(self, function: tuple[int, Spec], *rest: Any) -> None:
        super().launch((function[0], _Wrong(**vars(function[1]))), *rest)
