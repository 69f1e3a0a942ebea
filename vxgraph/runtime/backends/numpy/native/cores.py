"""How many threads a machine has work for: one a core that this process may use.

16 CPUs, two a core                    -> 8     two threads of a core share what multiplies and what reads
a container of 2.5 CPUs on them        -> 3     more would be stopped in turns while the others wait for them
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from math import ceil
from pathlib import Path

SYSTEM = Path("/sys")


def cores(system: Path = SYSTEM) -> int:
    """Cores, as far as the system tells."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    apart = {_core(system, cpu) for cpu in os.sched_getaffinity(0)}
    return max(1, min(len(apart), _quota(system)))


def _core(system: Path, cpu: int) -> str:
    """The CPUs of its core."""
    with suppress(OSError):
        return (system / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii")
    return str(cpu)


def _quota(system: Path) -> int:
    """CPUs that the container's control group grants, a part of one as a whole one."""
    with suppress(OSError, ValueError):
        granted, period = (system / "fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if granted != "max":
            return ceil(int(granted) / int(period))
    return sys.maxsize
