"""Memory of devices that are not there: NumPy blocks at made-up addresses, a range for each device.

The allocator is the worst that a caching one may be: the block that was freed last is handed out first, poisoned.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vxgraph.ir.types import Array

GRANULE = 512  # bytes; what a pool rounds up to
FREED = 0xFE  # every byte of a freed block: NaN in float types
BASE = 1 << 50  # above every address of a process

Span = tuple[int, int]  # addresses [start, end)


class CudaError(Exception):
    """What the driver refuses."""


def device_of(address: int) -> int:
    """The device of an address, by its range; -1 for the host."""
    return address // BASE - 1


class Memory:
    """An allocation; dropping it gives the block back, as CuPy does."""

    def __init__(self, ptr: int, nbytes: int, freed: Callable[[Memory], None]) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self._freed = freed

    def __del__(self) -> None:
        self._freed(self)


@dataclass
class Block:
    start: int
    bytes: Array  # rounded up
    asked: int = 0  # 0: nobody has it


@dataclass
class DeviceMemory:
    """One device's blocks. Neighbours touch: the end of one is the start of the next."""

    device: int
    recycles: bool = True
    blocks: dict[int, Block] = field(default_factory=dict[int, Block])
    starts: list[int] = field(default_factory=list[int])
    free: list[Block] = field(default_factory=list[Block])
    top: int = 0

    @property
    def used(self) -> int:
        """Bytes handed out."""
        return sum(block.asked for block in self.blocks.values())

    def take(self, nbytes: int) -> int:
        size = -(-nbytes // GRANULE) * GRANULE
        block = next((b for b in reversed(self.free) if len(b.bytes) == size), None) if self.recycles else None
        if block is None:
            block = Block((self.device + 1) * BASE + self.top, np.full(size, FREED, np.uint8))
            self.top += size
            self.starts.append(block.start)
            self.blocks[block.start] = block
        else:
            self.free.remove(block)
        block.asked = nbytes
        return block.start

    def give_back(self, start: int) -> None:
        block = self.blocks[start]
        block.bytes.fill(FREED)
        block.asked = 0
        self.free.append(block)

    def find(self, address: int) -> Block | None:
        """The block that holds an address."""
        k = bisect_right(self.starts, address) - 1
        block = self.blocks[self.starts[k]] if k >= 0 else None
        return block if block is not None and address < block.start + len(block.bytes) else None

    def view(self, start: int, end: int) -> Array:
        """The bytes; CudaError where they are not all in one allocation."""
        block = self.find(start)
        if block is None or end > block.start + block.asked:
            raise CudaError(f"an illegal memory access was encountered: {end - start} bytes of cuda:{self.device}")
        return block.bytes[start - block.start : end - block.start]


def host_view(start: int, end: int) -> Array:
    """The process's own memory."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))


def meet(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]
