"""One isolated, poisoned address space per topology, in host memory.

    space = Space(GPU[1]);  block = space.take(4096)      64-byte aligned, every byte 0xFF
    space.holds(address)                                  asked of the blocks that were allocated, not of any handle

Poison 0xFF is a NaN in every float type and -1 in every signed integer (u8: 255), so that what was never written shows
in the results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from vxgraph.errors import RunError
from vxgraph.ir.types import Array
from vxgraph.topology.ids import Topology

if TYPE_CHECKING:
    from vxgraph.runtime.backends.numpy.native.pool import Pool

ALIGNMENT = 64  # bytes: a cache line, and a whole AVX-512 register
POISON = 0xFF


class Space:
    """The memory of one topology: the blocks taken from the host for it, and what ran in it."""

    def __init__(self, topology: Topology, pool: Pool | None = None) -> None:
        self.topology = topology
        self.pool = pool  # that runs what is in C here
        self.dispatches = 0
        self._ranges: list[tuple[int, int]] = []  # of each block, its end included

    def take(self, nbytes: int) -> Array:
        """A fresh block of `nbytes` bytes (u8), aligned and poisoned."""
        # NumPy asks the system for huge pages for large arrays, which is worth a tenth of the speed of reading weights.
        # At least one byte follows every block, so that a zero-size view at its end still has an address of its own.
        raw = np.empty(nbytes + 2 * ALIGNMENT, np.uint8)
        start = -address_of(raw) % ALIGNMENT
        block = raw[start : start + nbytes]
        block.fill(POISON)
        self._ranges.append(_range(block))
        return block

    def give_back(self, block: Array) -> None:
        """Forgets a block; the host frees it with its last view."""
        self._ranges.remove(_range(block))

    def holds(self, addresses: Iterable[int]) -> bool:
        """Whether every address is inside a block of this space (or at its very end)."""
        for address in addresses:
            for start, end in self._ranges:
                if start <= address <= end:
                    break
            else:
                return False
        return True

    @property
    def nbytes(self) -> int:
        """Bytes allocated now."""
        return sum(end - start for start, end in self._ranges)


def _range(block: Array) -> tuple[int, int]:
    start = address_of(block)
    return start, start + block.nbytes


def address_of(array: Array) -> int:
    """The address of an array's first byte."""
    return array.__array_interface__["data"][0]


class Opaque:
    """What the caller gets a handle of and cannot look into."""

    __slots__ = ()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise RunError(f"{self!r} is not readable from the host; download it")


class Buffer(Opaque):
    """A block in a space; `space` is None once it is freed."""

    __slots__ = ("block", "space")

    def __init__(self, space: Space, block: Array) -> None:
        self.space: Space | None = space
        self.block = block

    def __repr__(self) -> str:
        return f"a buffer of {self.space.topology}" if self.space else "a freed buffer"


class Tensor(Opaque):
    """A dense row-major view of a buffer's bytes."""

    __slots__ = ("address", "buffer", "view")

    def __init__(self, buffer: Buffer, view: Array) -> None:
        self.buffer = buffer
        self.view = view
        self.address = address_of(view)  # of the array that kernels get; asking again would cost a microsecond

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.view.shape))
        return f"a tensor {self.view.dtype}[{dims}] in {self.buffer!r}"


class Event(Opaque):
    """Work that is done when it is made. Keeps the tensors that the work wrote (or, for a download, read)."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self.tensors = tensors

    def __repr__(self) -> str:
        return f"an event of {self.tensors!r}"
