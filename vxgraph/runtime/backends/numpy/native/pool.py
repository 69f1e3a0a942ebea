"""Threads that run calls: many in one call of C, in order, each of them by all threads.

    pool = Pool(library, threads=8)
    bound = pool.bind([Call("pack", ...), Call("gemm", ...)])
    pool.run(bound)                                           -> 2, or the index of the call that declined

One list runs at a time, whichever thread asks; Python's lock is free meanwhile. A fork has none of its parent's
threads: the pool opens again there when it is next used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import Structure, addressof, c_int32, c_void_p, sizeof
from dataclasses import dataclass
from typing import Any

from vxgraph.errors import InternalError, RunError
from vxgraph.runtime.backends.numpy.native.call import Call
from vxgraph.runtime.backends.numpy.native.library import Library

SPIN = 4000  # turns that an idle thread waits for work before it sleeps: about as long as waking it takes
UNITS = 1 << 24  # of a call, fewer: what c/pool.c has room for


class _Kernel(Structure):
    _fields_ = (
        ("run", c_void_p),
        ("args", c_void_p),
        ("rows", c_int32),
        ("streams", c_int32),
        ("grain", c_int32),
        ("pad", c_int32),
    )


@dataclass(frozen=True, slots=True)
class Bound:
    """Calls in C's form. What they point to lives as long as this does; their operands are the caller's to keep."""

    start: int  # the address of the first
    count: int
    scratch: int
    shared: int
    keep: tuple[Any, ...]


class Pool:
    """Threads of C, one of them the caller's; they sleep where there is nothing to run."""

    def __init__(self, library: Library, threads: int) -> None:
        self._library = library
        self._wanted = threads
        self._run = library.lib.pool_run
        self._handle: int | None = None
        self._scratch = self._shared = 0  # bytes reserved
        self._process = _PROCESS[0]

    @property
    def threads(self) -> int:
        """Those that there are; opens the pool."""
        return self._library.lib.pool_threads(self._opened())

    def bind(self, calls: Sequence[Call]) -> Bound:
        """Calls to be run in order."""
        for call in calls:
            if not 0 <= call.rows < UNITS * call.streams:
                raise InternalError(f"{call.function}: {call.rows} rows by {call.streams} are too many for the pool")
        kernels = (_Kernel * len(calls))(*[self._kernel(call) for call in calls])
        scratch = max((call.scratch for call in calls), default=0)
        shared = max((call.shared for call in calls), default=0)
        return Bound(addressof(kernels), len(calls), scratch, shared, (kernels, *(call.args for call in calls)))

    def run(self, bound: Bound, first: int = 0) -> int:
        """Runs calls from `first` on; the index of the one that declined, else their number."""
        if self._process != _PROCESS[0]:
            self._forget()
        if self._handle is None or bound.scratch > self._scratch or bound.shared > self._shared:
            self._reserve(bound)
        if first == 0:
            return self._run(self._handle, bound.start, bound.count)
        return first + self._run(self._handle, bound.start + first * sizeof(_Kernel), bound.count - first)

    def close(self) -> None:
        """Ends the threads."""
        if self._process != _PROCESS[0]:
            self._forget()
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._library.lib.pool_close(handle)
        self._scratch = self._shared = 0

    def _forget(self) -> None:
        """In a fork: the threads are the parent's, and what they hold is left alone."""
        self._process = _PROCESS[0]
        self._handle = None
        self._scratch = self._shared = 0

    def _kernel(self, call: Call) -> _Kernel:
        run = self._library.address(call.function)
        return _Kernel(run, addressof(call.args), call.rows, call.streams, call.grain)

    def _opened(self) -> int:
        if self._handle is None:
            self._handle = self._library.lib.pool_open(self._wanted, SPIN)
            if not self._handle:
                raise RunError("this host has no memory left for the CPU kernels' threads")
        return self._handle

    def _reserve(self, bound: Bound) -> None:
        scratch, shared = max(bound.scratch, self._scratch), max(bound.shared, self._shared)
        if self._library.lib.pool_reserve(self._opened(), scratch, shared):
            raise RunError(f"this host has no {scratch + shared:,} bytes left for the CPU kernels' scratch")
        self._scratch, self._shared = scratch, shared


_PROCESS = [0]  # forks between the first process that loaded this and this one: asking for its id is a system call


def _forked() -> None:
    _PROCESS[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
