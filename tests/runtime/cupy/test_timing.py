"""Times of work that runs later than its call: what the device says, on the host's clock."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.program.trace_rules import keeps_the_format
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fakes import backend_on, branching, branching_inputs, nothing_left, session_on
from vxgraph.errors import InternalError
from vxgraph.program.timeline import Timeline
from vxgraph.runtime.abi import Timed
from vxgraph.runtime.backends.cupy import timing
from vxgraph.runtime.backends.numpy import NumpyBackend

INPUTS, PARAMS = branching_inputs()


def traced(driver: FakeDriver) -> Timeline:
    with session_on(driver, branching(), PARAMS, trace=True) as s:
        s.run(INPUTS)
        keeps_the_format(s.report.chrome_trace())
        return s.report.timeline()


@pytest.mark.parametrize("devices", [1, 2])
def test_slices_are_when_the_device_worked(devices: int) -> None:
    driver = FakeDriver(devices)
    timeline = traced(driver)
    assert timeline.clock == "device"
    assert all(0 <= s.start <= s.end <= timeline.seconds for s in timeline.slices)
    by_queue: dict[str, list[Any]] = {}
    for s in timeline.slices:
        by_queue.setdefault(str(s.instr.queue), []).append(s)
    assert all(a.end <= b.start + 1e-9 for queue in by_queue.values() for a, b in pairwise(queue))
    assert nothing_left(driver)


def test_what_waits_for_another_starts_after_it_by_the_devices_clocks() -> None:
    """The calls come one right after the other; on these devices nothing runs before the host waits."""
    last: dict[str, float] = {}
    waits = 0
    for s in traced(FakeDriver(2)).slices:
        for name in s.instr.after:
            if name in last:
                waits += 1
                assert last[name] <= s.start + 1e-9
        last[s.instr.name] = s.end
    assert waits > 10


def test_no_timer_is_made_without_a_trace_and_each_is_used_again() -> None:
    program = branching(steps=6)
    driver = Counting(2)
    with session_on(driver, program, PARAMS) as s:
        s.run(INPUTS)
    assert driver.timers == 0
    found: list[int] = []
    for steps in (6, 60):
        driver = Counting(2)
        with session_on(driver, branching(steps=steps), PARAMS, trace=True) as s:
            s.run(INPUTS)
            s.run(INPUTS)
        found.append(driver.timers)
        assert nothing_left(driver)
    assert found[0] == found[1] > 0


class Counting(FakeDriver):
    """Counts the timers that it makes."""

    def __init__(self, devices: int) -> None:
        super().__init__(devices)
        self.timers = 0

    def timer(self) -> int:
        self.timers += 1
        return super().timer()


def test_a_long_run_moves_its_origin_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's 32 bits of milliseconds are too few for hours: a moved origin changes no time."""
    monkeypatch.setattr(timing, "REACH", 0.0)
    driver = FakeDriver(2)
    timeline = traced(driver)
    assert all(0 <= s.start <= s.end <= timeline.seconds for s in timeline.slices)
    assert nothing_left(driver)


def test_the_backend_is_a_timed_one_and_refuses_times_of_what_it_did_not_time() -> None:
    backend = backend_on(FakeDriver(1))
    assert isinstance(backend, Timed)
    assert not isinstance(NumpyBackend(), Timed)
    backend.open(vx.GPU[0], "cuda:0")
    buffer = backend.alloc(16, vx.GPU[0])
    tensor = backend.tensor(buffer, 0, vx.f32, (4,), vx.GPU[0])
    event = backend.upload(np.zeros(4, np.float32), tensor, vx.GPU[0])
    backend.wait(event)
    with pytest.raises(InternalError) as e:
        backend.times(event)
    assert str(e.value) == "an event of gpu:0 is asked for its times, but was not timed"
    backend.close()
