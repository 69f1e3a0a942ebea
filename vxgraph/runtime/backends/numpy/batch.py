"""Launches of a loop's steady state as one kernel: what C has is one call, whatever their number.

launch %a (C), launch %b (C), launch %c (NumPy), launch %d (C)    ->    C(%a %b), NumPy(%c), C(%d)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from vxgraph.errors import RunError
from vxgraph.ir.types import Array, Sizes
from vxgraph.runtime.abi import KernelError
from vxgraph.runtime.backends.numpy.kernels import Kernel
from vxgraph.runtime.backends.numpy.native.call import Call
from vxgraph.runtime.backends.numpy.native.pool import Pool
from vxgraph.runtime.backends.numpy.run import Run
from vxgraph.runtime.backends.numpy.space import Buffer, Event, Tensor


class Bind:
    """A launch on its arrays."""

    __slots__ = ("ins", "kernel", "outs", "plain", "sizes")

    def __init__(self, kernel: Kernel, ins: Sequence[Tensor], outs: Sequence[Tensor], sizes: Sizes) -> None:
        self.kernel = kernel
        self.ins: list[Array] = [t.view for t in ins]
        self.outs: list[Array] = [t.view for t in outs]
        self.sizes = sizes
        self.plain: Run = kernel.native.plain if kernel.native is not None else kernel.run

    def __call__(self) -> None:
        """Runs it in NumPy; KernelError that names the kernel, for a batch is many."""
        try:
            self.plain(self.ins, self.outs, self.sizes)
        except RunError as error:
            raise KernelError(self.kernel.op.name, error, self.kernel) from error


class Stretch:
    """Consecutive launches that C has."""

    def __init__(self, pool: Pool, launches: Sequence[Bind]) -> None:
        self._pool = pool
        self._launches = launches
        calls: list[Call] = []
        self._owner: list[int] = []  # of each call: the launch that it is of
        for index, launch in enumerate(launches):
            assert launch.kernel.native is not None
            own = launch.kernel.native.binder(launch.ins, launch.outs, launch.sizes)
            calls += own
            self._owner += [index] * len(own)
        self._bound = pool.bind(calls)

    def __call__(self) -> None:
        """One call of C; what it declines, NumPy does, and C goes on after it."""
        at = self._pool.run(self._bound)
        while at < self._bound.count:
            owner = self._owner[at]
            self._launches[owner]()
            while at < self._bound.count and self._owner[at] == owner:
                at += 1
            if at < self._bound.count:
                at = self._pool.run(self._bound, at)


class Batch:
    """A kernel without operands. `buffers` are those that it touches, `event` tells where."""

    def __init__(self, launches: Sequence[tuple[Kernel, Sequence[Tensor], Sequence[Tensor]]], sizes: Sizes) -> None:
        tensors = [t for _, ins, outs in launches for t in (*ins, *outs)]
        self.buffers: list[Buffer] = list({id(t.buffer): t.buffer for t in tensors}.values())
        self.event = Event(tuple(t for _, _, outs in launches for t in outs))
        self.count = len(launches)
        self.parts: list[Bind | Stretch] = []
        binds = [Bind(kernel, ins, outs, sizes) for kernel, ins, outs in launches]
        for pool, stretch in groupby(binds, lambda b: b.kernel.native.pool if b.kernel.native is not None else None):
            alike = list(stretch)
            self.parts += alike if pool is None else [Stretch(pool, alike)]

    def run(self) -> None:
        """All of them, in order."""
        for part in self.parts:
            part()
