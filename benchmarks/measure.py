"""What every benchmark needs: where it ran, sides measured in turns, and a spread instead of a number.

    AMD EPYC, 2 CPUs, load 0.4; Linux 6.18, Python 3.11.7, NumPy 2.4.6, OPENBLAS_NUM_THREADS=1
    41.2 (39.8..42.0)

A median of turns A B A B outlives a noisy machine, where one long A and then one long B does not. Beside the wall clock
stands the CPU time of this process: with one BLAS thread, work that others do meanwhile is not in it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
from rich.console import Console
from rich.table import Table

BLAS_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Spread:
    """Figures of one side, one per turn."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.values)

    def each(self, change: Callable[[float], float]) -> Spread:
        """Every figure changed, to another unit say."""
        return Spread(tuple(map(change, self.values)))

    def over(self, other: Spread) -> Spread:
        """This over the other, turn by turn."""
        return Spread(tuple(a / b for a, b in zip(self.values, other.values, strict=True)))

    def less(self, other: Spread) -> Spread:
        """This less the other, turn by turn."""
        return Spread(tuple(a - b for a, b in zip(self.values, other.values, strict=True)))

    def __str__(self) -> str:
        return f"{self.median:.3g} ({min(self.values):.3g}..{max(self.values):.3g})"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per unit of work: by the wall clock, and of this process on all CPUs."""

    wall: float
    cpu: float


class Stopwatch:
    """Starts when it is made."""

    def __init__(self) -> None:
        self._cpu = process_time()
        self._wall = perf_counter()

    def per(self, units: int) -> Timing:
        """The time since the start, per unit."""
        return Timing((perf_counter() - self._wall) / units, (process_time() - self._cpu) / units)


@dataclass(frozen=True, slots=True)
class Timings:
    """A side's turns."""

    wall: Spread
    cpu: Spread


def in_turns(turns: int, sides: Mapping[str, Callable[[], Timing]]) -> dict[str, Timings]:
    """What each side measures, `turns` times each, one after the other: A B A B."""
    found: dict[str, list[Timing]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, side in sides.items():
            found[name].append(side())
    return {
        name: Timings(Spread(tuple(t.wall for t in timings)), Spread(tuple(t.cpu for t in timings)))
        for name, timings in found.items()
    }


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, notes: Sequence[str] = ()) -> None:
    """Prints the table, the machine under it, and the notes."""
    table = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if k else "left")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = 140
    console.print(table)
    for line in (machine(), *notes):
        console.print(line, highlight=False)


def bound(figure: float, wanted: str, holds: bool) -> str:
    """`0.93, wanted >= 0.8: yes`."""
    return f"{figure:.3g}, wanted {wanted}: {'yes' if holds else 'NO'}"


def machine() -> str:
    """The machine, what else it is doing, and the versions that matter, in one line."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    threads = next((f"{name}={os.environ[name]}" for name in BLAS_SETTINGS if name in os.environ), "BLAS on all CPUs")
    return (
        f"{_cpu()}, {os.cpu_count()} CPUs{load}; {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, {threads}"
    )


def _cpu() -> str:
    """The CPU's name as Linux has it, else the architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
