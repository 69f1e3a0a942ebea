"""Which engines stay in memory between their turns, where not all have room at once."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from pathlib import Path

from benchmarks.cpu.ceilings import ENOUGH
from benchmarks.cpu.engines import ENGINES
from benchmarks.cpu.host import CEILINGS, Host
from benchmarks.cpu.sizes import BYTES_PER_WEIGHT
from examples.llama2.config import param_shapes

SPARE = 1 << 30  # bytes for what is not weights, and for others
BASE = 300 << 20  # bytes of a process with its libraries
COPIES = 1.15


def keep_what_fits(hosts: Collection[Host]) -> None:
    """Marks hosts as kept, the smallest first, as long as the largest of the others can still be started."""
    available = _available()
    if available is None:
        return
    room = available - SPARE
    by_need = sorted(hosts, key=_need)
    for place, host in enumerate(by_need):
        later = max((_need(other) for other in by_need[place + 1 :]), default=0)
        host.kept = _need(host) + later <= room
        room -= _need(host) if host.kept else 0


def _need(host: Host) -> float:
    if host.name == CEILINGS:
        return BASE + ENOUGH
    weights = sum(prod(shape) for shape in param_shapes(host.setting.config).values())
    return BASE + COPIES * weights * BYTES_PER_WEIGHT[ENGINES[host.name].storage]


def _available() -> int | None:
    """Bytes that Linux says could be had."""
    info = Path("/proc/meminfo")
    if not info.exists():
        return None
    line = next(line for line in info.read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10
