"""What the machine could do at most: how fast it reads as many bytes as the weights are, and how fast BLAS multiplies.

Ceilings(read={"f32": 25.4e9, "int8": 31.0e9}, sgemm=174e9)      bytes and operations per second
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.cpu.sizes import BYTES_PER_WEIGHT, weights_read
from examples.llama2.config import LlamaConfig

FILLS = 0.3  # seconds
ENOUGH = 1 << 30  # bytes that no cache holds: more read no slower
SIDE = 1024  # of the matrices that BLAS multiplies
SOURCE = Path(__file__).with_name("stream.c")


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Bytes read per second, for weights stored as each type, and f32 operations per second."""

    read: Mapping[str, float]
    sgemm: float


class Machine:
    """Measures ceilings; wants a C compiler."""

    def __init__(self, config: LlamaConfig, threads: int) -> None:
        self._stream_read, self._threads = _compiled(), threads
        self._bytes = {storage: int(weights_read(config) * each) for storage, each in BYTES_PER_WEIGHT.items()}
        # As large arenas do, NumPy asks for huge pages.
        self._memory = np.ones(min(max(self._bytes.values()), ENOUGH) // 4, np.float32)
        self._a, self._b = np.random.default_rng(0).standard_normal((2, SIDE, SIDE), np.float32)
        self._c = np.empty_like(self._a)

    def measure(self) -> Ceilings:
        """All of them, each the middle of some."""
        read = {storage: self._bandwidth(min(nbytes, ENOUGH) // 4) for storage, nbytes in self._bytes.items()}
        return Ceilings(read, _middle(self._multiply))

    def _bandwidth(self, count: int) -> float:
        return _middle(lambda: self._stream_read(self._memory.ctypes.data, count, self._threads))

    def _multiply(self) -> float:
        start = perf_counter()
        np.matmul(self._a, self._b, out=self._c)
        return 2 * SIDE**3 / (perf_counter() - start)


def _compiled() -> Callable[[int, int, int], float]:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "stream.so")
        compiler = os.environ.get("CC", "cc")
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-pthread", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True)
        function = ctypes.CDLL(str(library)).stream_read
    function.restype = ctypes.c_double
    function.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_int)
    return function


def _middle(rate: Callable[[], float]) -> float:
    start, rates = perf_counter(), [rate()]
    while perf_counter() - start < FILLS:
        rates.append(rate())
    return median(rates)
