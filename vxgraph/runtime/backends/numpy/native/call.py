"""One C kernel, ready to run: its arguments are addresses and sizes, bound once.

    class Add(Structure): _fields_ = [("a", c_void_p), ("b", c_void_p), ("y", c_void_p), ("n", c_int64)]
    Call("add", Add(address(a), address(b), address(y), a.size), rows=blocks)

The function's C signature is `Run` of c/pool.h. A binder is a pure function of its arrays' addresses and shapes and of
the sizes: it reads no element, and what it gives is run again as long as those stay. A call of no rows is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import Structure
from dataclasses import dataclass

from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.runtime.backends.numpy.run import Types
from vxgraph.runtime.backends.numpy.space import address_of as address


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel and its arguments. Only the first call of a launch may decline (see c/pool.h)."""

    function: str
    args: Structure
    rows: int  # of work; the pool splits them
    streams: int = 1  # rows that are walked side by side
    grain: int = 0  # log2 of the units that are taken at once
    scratch: int = 0  # bytes that each thread needs of its own
    shared: int = 0  # bytes that the calls of this launch hand on


Binder = Callable[[Sequence[Array], Sequence[Array], Sizes], Sequence[Call]]
Compiler = Callable[[Op, Types, Types], Binder | None]

__all__ = ["Binder", "Call", "Compiler", "address"]
