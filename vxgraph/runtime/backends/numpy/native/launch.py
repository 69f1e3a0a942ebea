"""An op in C: bound where its operands lie, and run.

native = Native(binder, plain, pool)
native.run([x, w], [y], sizes)                      binds and runs; what C declines, `plain` (NumPy) does
launch = native.launch((x, w), (y,), sizes)         on tensors: bound once, for a program runs it there again
launch.run()
"""

from __future__ import annotations

from collections.abc import Sequence

from vxgraph.ir.types import Array, Sizes
from vxgraph.runtime.backends.numpy.native.call import Binder
from vxgraph.runtime.backends.numpy.native.pool import Bound, Pool
from vxgraph.runtime.backends.numpy.run import Run
from vxgraph.runtime.backends.numpy.space import Buffer, Tensor


class Native:
    """What C has of an op; keeps its last launch."""

    __slots__ = ("binder", "last", "plain", "pool")

    def __init__(self, binder: Binder, plain: Run, pool: Pool) -> None:
        self.binder = binder
        self.plain = plain
        self.pool = pool
        self.last: Launch | None = None

    def run(self, ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        """As any kernel's `run`."""
        bound = self.pool.bind(self.binder(ins, outs, sizes))
        if self.pool.run(bound) < bound.count:
            self.plain(ins, outs, sizes)

    def launch(self, ins: Sequence[Tensor], outs: Sequence[Tensor], sizes: Sizes) -> Launch:
        """On these tensors, whose places the caller has checked."""
        bound = self.pool.bind(self.binder([t.view for t in ins], [t.view for t in outs], sizes))
        self.last = Launch(bound, self.pool, self.plain, ins, outs, sizes)
        return self.last


class Launch:
    """A kernel in C on its tensors. `buffers` are those that it touches."""

    __slots__ = ("_bound", "_given", "_ins", "_outs", "_plain", "_pool", "_sizes", "buffers")

    def __init__(
        self, bound: Bound, pool: Pool, plain: Run, ins: Sequence[Tensor], outs: Sequence[Tensor], sizes: Sizes
    ) -> None:
        # Not the op's Native, which keeps this: an arena would live until Python looks for circles.
        self._bound, self._pool, self._plain = bound, pool, plain
        self._given = (ins, outs)
        self._ins = [t.view for t in ins]
        self._outs = [t.view for t in outs]
        self._sizes = dict(sizes)
        self.buffers: list[Buffer] = list({id(t.buffer): t.buffer for t in (*ins, *outs)}.values())

    def on(self, ins: Sequence[Tensor], outs: Sequence[Tensor], sizes: Sizes) -> bool:
        """Whether it is on these very tuples, as a program's instruction gives them each time."""
        mine = self._given
        return ins is mine[0] and outs is mine[1] and type(ins) is type(outs) is tuple and sizes == self._sizes

    def run(self) -> None:
        """Runs it; what C declines, NumPy does."""
        if self._pool.run(self._bound) < self._bound.count:
            self._plain(self._ins, self._outs, self._sizes)
