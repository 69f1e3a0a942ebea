"""The pool has a thread for each core that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vxgraph.runtime.backends.numpy.native.cores import cores

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight CPUs, two a core."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    for cpu in range(8):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("granted", "wanted"),
    [("max 100000", 4), ("250000 100000", 3), ("50000 100000", 1), ("900000 100000", 4), ("?", 4)],
)
def test_two_threads_of_a_core_are_one_and_a_container_has_what_it_is_granted(
    machine: Path, granted: str, wanted: int
) -> None:
    (machine / "fs/cgroup/cpu.max").write_text(granted + "\n")
    assert cores(machine) == wanted


def test_a_process_that_may_use_one_cpu_has_one_thread(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5})
    assert cores(machine) == 1


def test_where_the_system_tells_nothing_every_cpu_is_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert cores(tmp_path) == 3
