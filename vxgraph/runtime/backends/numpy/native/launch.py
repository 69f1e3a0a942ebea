"""An op in C: bound where its operands lie, and run.

native = Native(binder, plain, pool)
native.run([x, w], [y], sizes)           binds and runs; what C declines, `plain` (NumPy) does
"""

from __future__ import annotations

from collections.abc import Sequence

from vxgraph.ir.types import Array, Sizes
from vxgraph.runtime.backends.numpy.native.call import Binder, address
from vxgraph.runtime.backends.numpy.native.pool import Bound, Pool
from vxgraph.runtime.backends.numpy.run import Run


class Native:
    """Keeps its last binding: a program runs an instruction where it ran it before."""

    __slots__ = ("_bound", "_key", "binder", "plain", "pool")

    def __init__(self, binder: Binder, plain: Run, pool: Pool) -> None:
        self.binder = binder
        self.plain = plain
        self.pool = pool
        self._key: tuple[object, ...] = ()
        self._bound: Bound | None = None

    def run(self, ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        """As any kernel's `run`."""
        key = (*map(address, ins), *map(address, outs), *sizes.values())
        self.run_at(key, ins, outs, sizes)

    def run_at(self, key: tuple[object, ...], ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        """The same, where the caller has the addresses and sizes at hand: they are what a binding depends on."""
        bound = self._bound
        if bound is None or self._key != key:
            self._bound = bound = self.pool.bind(self.binder(ins, outs, sizes))
            self._key = key
        if self.pool.run(bound) < bound.count:
            self.plain(ins, outs, sizes)
