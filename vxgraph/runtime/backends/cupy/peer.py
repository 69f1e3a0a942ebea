"""Bytes from device to device: one call, with or without a direct path.

    local     both topologies on one ordinal: a copy within it
    direct    two ordinals, and the pair's probe came back whole
    staged    two ordinals, and the probe came back wrong, or staging is asked for: through pinned host memory

A driver's word that peer access works is not trusted: each ordered pair is probed once, when it is first used, with a
pattern that has no zeros and does not repeat. A pair that fails is staged, with one warning.
"""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from vxgraph.runtime.backends.cupy.device import SCRATCH, Ordinal, State, on
from vxgraph.runtime.backends.cupy.driver import Driver, Pointer

Mode = Literal["probe", "staged", "direct"]


class PeerWarning(UserWarning):
    """A pair of devices whose direct path does not deliver."""


@dataclass
class Peers:
    """How each ordered pair of ordinals is copied. `mode` forces one way for all pairs, or probes each."""

    driver: Driver
    mode: Mode = "probe"
    found: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])  # pair -> direct
    probes: int = 0
    staged: int = 0  # bytes that went through the host

    def copy(self, src: State, src_at: Pointer, dst: State, dst_at: Pointer, nbytes: int) -> None:
        """Copies on the source's copy stream; on return it is queued there, and later work there comes after it."""
        a, b = src.ordinal, dst.ordinal
        if not nbytes:
            return
        if a is b and self.mode != "staged":
            with on(self.driver, a.ordinal):
                self.driver.copy(dst_at, src_at, nbytes, src.copy)
        elif self._direct(a, b):
            with on(self.driver, a.ordinal):
                self.driver.copy_peer(dst_at, b.ordinal, src_at, a.ordinal, nbytes, src.copy)
        else:
            self._stage(src, src_at, dst, dst_at, nbytes)

    def _direct(self, a: Ordinal, b: Ordinal) -> bool:
        if self.mode != "probe":
            return self.mode == "direct"
        pair = (a.ordinal, b.ordinal)
        if pair not in self.found:
            self.found[pair] = self._probe(a, b)
            if not self.found[pair]:
                warnings.warn(
                    f"peer copies from cuda:{pair[0]} to cuda:{pair[1]} do not deliver; they go through the host",
                    PeerWarning,
                    stacklevel=2,
                )
        return self.found[pair]

    def _probe(self, a: Ordinal, b: Ordinal) -> bool:
        """Whether a pattern arrives, twice (a first copy that alone works has been seen)."""
        self.probes += 1
        pattern = np.arange(1, SCRATCH // 4 + 1, dtype=np.uint32)
        (source, sender), (target, reader) = a.scratch(), b.scratch()
        with on(self.driver, a.ordinal):
            self.driver.copy(source, pattern.ctypes.data, SCRATCH, sender)
        found: list[bool] = []
        for _ in range(2):
            with on(self.driver, b.ordinal):
                self.driver.fill(target, 0xFF, SCRATCH, reader)
                self.driver.stream_synchronize(reader)
            with on(self.driver, a.ordinal):
                self.driver.copy_peer(target, b.ordinal, source, a.ordinal, SCRATCH, sender)
                self.driver.stream_synchronize(sender)
            back = np.zeros_like(pattern)
            with on(self.driver, b.ordinal):
                self.driver.copy(back.ctypes.data, target, SCRATCH, reader)
                self.driver.stream_synchronize(reader)
            found.append(np.array_equal(back, pattern))
        return all(found)

    def _stage(self, src: State, src_at: Pointer, dst: State, dst_at: Pointer, nbytes: int) -> None:
        """Down and up, ordered on both sides: the upload waits for the download, the source's stream for the upload."""
        pinned = src.ordinal.staging(nbytes)
        arrived, done = src.event(), dst.event()
        with on(self.driver, src.ordinal.ordinal):
            self.driver.copy(pinned.address, src_at, nbytes, src.copy)
            self.driver.record(arrived, src.copy)
        with on(self.driver, dst.ordinal.ordinal):
            self.driver.stream_wait(dst.copy, arrived)
            self.driver.copy(dst_at, pinned.address, nbytes, dst.copy)
            self.driver.record(done, dst.copy)
        with on(self.driver, src.ordinal.ordinal):
            self.driver.stream_wait(src.copy, done)
        # In flight: the pinned bytes are free again only once the upload is done.
        src.in_flight.append((src, arrived, dst, done, pinned))
        self.staged += nbytes


def settle(driver: Driver, state: State) -> None:
    """After the state's copy stream is known to be empty: its staging and events are free again."""
    while state.in_flight:
        driver.synchronize(state.in_flight[0][3])
        src, arrived, dst, done, pinned = state.in_flight.pop(0)  # given back once, wherever an interrupt comes
        src.recycle(arrived)
        dst.recycle(done)
        src.ordinal.give_back(pinned)


def bytes_at(address: int, nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Host memory as an array, not copied."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
