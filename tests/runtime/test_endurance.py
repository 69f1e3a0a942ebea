"""Ten thousand runs in one process, sessions by the hundred, streams left half-way: nothing grows, nothing stays."""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fake_queue import Event, Graph
from tests.runtime.cupy.fakes import branching, branching_inputs, nothing_left, session_on
from tests.runtime.programs import MACHINE, counting, counting_inputs, crossing, crossing_result
from vxgraph.errors import BindError, RunError
from vxgraph.program.model import Program
from vxgraph.runtime import batch
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session

SIZES = (1, 1, 2, 1, 5, 5, 3, 3, 8, 8, 7, 7)  # more than are kept prepared, several times each


def halving(steps: int = 2) -> Program:
    """x: f32[T, 4] halved on gpu:0, 1 added on gpu:1, and so on; emits its maximum."""
    t = vx.Dim("T", min=1, max=8)
    with vx.Graph("halving") as g:
        x = vx.input("x", vx.f32[t, 4])
        with vx.on(vx.GPU[0]):
            first = x * 1

        def step(h: vx.Value) -> list[vx.Value]:
            with vx.on(vx.GPU[0]):
                half = (h + 2) * 0.5 - 1
            with vx.on(vx.GPU[1]):
                again = half + 1
                vx.emit("most", vx.max(again, axis=0))
            with vx.on(vx.GPU[0]):
                return [again * 1]

        (h,), _ = vx.loop(step, [first], max_steps=steps)
        vx.output("y", h)
    return vx.compile(g, vx.load_machine(MACHINE))


def halve(s: Session, n: int, steps: int = 2) -> None:
    """One run with T = n, which is right."""
    x = np.full((n, 4), 4 + n, np.float32)
    found = s.run({"x": x})
    wanted = [2 + (2 + n) / 2**k for k in range(steps + 1)]
    assert (found["y"] == wanted[-1]).all()
    assert found["y"].shape == (n, 4)
    assert found["most"].tolist() == [[w] * 4 for w in wanted[1:]]


def ours() -> Counter[str]:
    """How many objects of this package's classes are alive, by class."""
    gc.collect()
    kinds = Counter(type(o) for o in gc.get_objects())
    named = {f"{k.__module__}.{k.__qualname__}": n for k, n in kinds.items()}
    return Counter({name: n for name, n in named.items() if name.startswith("vxgraph")})


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def snapshot() -> tracemalloc.Snapshot:
    gc.collect()
    sys._clear_type_cache()  # CPython keeps up to 4,096 names in it
    return tracemalloc.take_snapshot()


def left(run: Callable[[int], object], times: int) -> list[str]:
    """The lines that left an object for every run, and NumPy's bytes where they are others than before."""
    before = snapshot()
    for k in range(times):
        run(k)
    after = snapshot()
    grown = [str(line) for line in after.compare_to(before, "lineno") if line.count_diff >= times]
    arrays = [sum(t.size for t in s.filter_traces([ARRAYS]).traces) for s in (before, after)]
    return grown if arrays[0] == arrays[1] else [*grown, f"NumPy held {arrays[0]} bytes, then {arrays[1]}"]


ARRAYS = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)


def is_flat(run: Callable[[int], object], times: int, *, untraced: int = 0) -> None:
    """Nothing is left of `times` runs, once they are warm; and of `untraced` others, which are faster."""
    tracemalloc.start()
    try:
        for k in range(len(SIZES) * 3):
            run(k)
        objects = ours()
        assert left(run, times) == []
    finally:
        tracemalloc.stop()
    before = resident() if Path("/proc/self/statm").exists() else 0
    for k in range(untraced):
        run(k)
    assert ours() == objects
    if before:
        assert resident() - before < 8 << 20  # a page per run would be four times as many


@pytest.mark.parametrize(
    ("bind", "traced", "untraced"), [("numpy", 600, 9408), ("sanitizer", 60, 60), ("sanitizer:7", 60, 24)]
)
def test_memory_is_flat_over_runs(bind: str, traced: int, untraced: int) -> None:
    with Session(halving(steps=1), {}, bind) as s:
        is_flat(lambda k: halve(s, SIZES[k % len(SIZES)], steps=1), traced, untraced=untraced)
        assert s.report.conforms()


@pytest.mark.parametrize("devices", [1, 2])
def test_memory_is_flat_over_runs_on_cuda_devices(devices: int) -> None:
    """Device and pinned memory, streams, events and graphs, too."""
    driver = FakeDriver(devices)

    def held() -> list[int]:
        return [driver.alive(Event), driver.alive(Graph), driver.calls["pinned"], driver.used(0)]

    with session_on(driver, halving()) as s:
        for k in range(48):
            halve(s, SIZES[k % len(SIZES)])
        before = held()
        for k in range(96):
            halve(s, SIZES[k % len(SIZES)])
            assert s.report.conforms()
        assert held() == before
    assert nothing_left(driver)


def softened() -> Program:
    """softmax(softmax(x)), three times over, for x: f32[T, 4]: two kernels in a row, which CUDA captures."""
    t = vx.Dim("T", min=1, max=12)
    with vx.Graph("softened") as g:
        x = vx.input("x", vx.f32[t, 4])
        with vx.on(vx.GPU[0]):
            first = x * 1

        def step(h: vx.Value) -> list[vx.Value]:
            with vx.on(vx.GPU[0]):
                return [vx.softmax(vx.softmax(h, axis=-1), axis=-1)]

        (h,), _ = vx.loop(step, [first], max_steps=3)
        with vx.on(vx.GPU[1]):
            vx.output("y", h + 0)
    return vx.compile(g, vx.load_machine(MACHINE))


@pytest.mark.parametrize("devices", [1, 2])
def test_graphs_of_batches_that_are_evicted_are_freed(devices: int) -> None:
    driver, alive = FakeDriver(devices), list[int]()
    with session_on(driver, softened()) as s:
        for k in range(36):
            found = s.run({"x": np.full((1 + k % 12, 4), k, np.float32)})
            assert (found["y"] == 0.25).all()
            alive.append(driver.alive(Graph))
    assert alive[0] == 1
    assert max(alive) == batch.KEPT
    assert nothing_left(driver)


# Sessions and streams.


@pytest.mark.parametrize(("bind", "traced", "untraced"), [("numpy", 24, 164), ("sanitizer", 24, 12)])
def test_sessions_that_are_opened_and_closed_leave_nothing(bind: str, traced: int, untraced: int) -> None:
    program, inputs = counting(), counting_inputs(limit=1)

    def opened_and_closed(k: int) -> None:
        with Session(program, {}, bind) as s:
            if k % 8 == 0:
                assert s.run(inputs)["count"].tolist() == [3, 5]

    is_flat(opened_and_closed, traced, untraced=untraced)


def test_two_hundred_sessions_leave_nothing_on_a_device() -> None:
    program, (inputs, params), driver = branching(steps=2), branching_inputs(), FakeDriver(2)
    for k in range(200):
        with session_on(driver, program, params) as s:
            if k % 20 == 0:
                s.run(inputs)
        assert nothing_left(driver)


@pytest.mark.parametrize(("bind", "times"), [("numpy", 1000), ("sanitizer", 120)])
def test_streams_left_half_way_leave_nothing(bind: str, times: int) -> None:
    inputs = counting_inputs(limit=4)
    with Session(counting(), {}, bind) as s:

        def left_half_way(k: int) -> None:
            stream = s.stream(inputs)
            for _ in range(k % 5):
                next(stream)
            if k % 2:
                stream.close()

        is_flat(left_half_way, 60, untraced=times - 60)
        assert s.run(inputs)["count"].tolist() == [3, 5, 7, 9, 11]
        assert s.report.conforms()


def test_streams_left_half_way_leave_nothing_on_a_device() -> None:
    driver = FakeDriver(2)
    inputs, params = branching_inputs()
    with session_on(driver, branching(), params) as s:
        wanted = s.run(inputs)["y"]
        held = driver.alive(Event), driver.alive(Graph), driver.calls["pinned"]
        for k in range(100):
            stream = s.stream(inputs)
            for _ in range(k % 5):
                next(stream)
        del stream
        assert (driver.alive(Event), driver.alive(Graph), driver.calls["pinned"]) == held
        np.testing.assert_array_equal(s.run(inputs)["y"], wanted)
    assert nothing_left(driver)


# Threads.


def in_threads(*works: Callable[[], object]) -> None:
    """Runs them at the same time, and raises what the first of them raised."""
    errors: list[BaseException] = []
    start = Barrier(len(works))

    def guarded(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize(("bind", "times"), [("numpy", 200), ("sanitizer", 20), ("sanitizer:3", 20)])
def test_two_sessions_in_two_threads_are_right(bind: str, times: int) -> None:
    same, other = counting(), crossing()

    def count_up(start: int) -> None:
        with Session(same, {}, bind) as s:
            for k in range(times):
                found = s.run(counting_inputs(start=start + k, limit=3, last=10_000))
                assert found["count"].tolist() == [start + k + 2 * n for n in range(4)]
                assert s.report.conforms()

    def cross() -> None:
        with Session(other, {}, bind) as s:
            for k in range(times):
                a, b = np.full(16, k, np.float32), np.arange(16, dtype=np.float32)
                for name, array in s.run({"a": a, "b": b}).items():
                    np.testing.assert_array_equal(array, crossing_result(a, b)[name])
                assert s.report.conforms()

    in_threads(lambda: count_up(3), lambda: count_up(1000), cross)


BUSY = "the session of 'counting' is running already; exhaust or close its stream, or make a second session"


@pytest.mark.parametrize("bind", ["numpy", "sanitizer"])
def test_of_two_threads_in_one_session_one_is_right_and_the_other_is_told(bind: str) -> None:
    told: list[str] = []
    right: list[int] = []
    with Session(counting(), {}, bind) as s:

        def run(start: int) -> None:
            for k in range(100 if bind == "numpy" else 10):
                try:
                    found = s.run(counting_inputs(start=start + k, limit=3, last=10_000))
                except RunError as error:
                    told.append(str(error))
                else:
                    right.append(found["count"].tolist() == [start + k + 2 * n for n in range(4)])

        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # so that they meet
        try:
            in_threads(*(lambda start=start: run(start) for start in (3, 1000, 2000)))
        finally:
            sys.setswitchinterval(switch)
        assert set(told) <= {BUSY}
        assert all(right)
        assert right
        assert s.run(counting_inputs(limit=1))["count"].tolist() == [3, 5]
        assert s.report.conforms()


def test_a_second_thread_is_told_in_the_middle_of_a_step_and_the_first_goes_on() -> None:
    """Whatever it calls: a run, the same stream's next step, its end, or the session's."""
    inside, go_on = Barrier(2), Barrier(2)

    class Waits(NumpyBackend):
        waiting = False

        def download(self, *args: Any, **keywords: Any) -> Any:
            if Waits.waiting:
                Waits.waiting = False
                inside.wait()
                go_on.wait()
            return super().download(*args, **keywords)

    program = counting()
    seen: list[int] = []
    with Session(program, {}, Binding(dict.fromkeys(program.topologies, (Waits(), "numpy")))) as s:
        stream = s.stream(counting_inputs(limit=3))
        seen.append(int(next(stream)["count"]))
        Waits.waiting = True
        thread = Thread(target=lambda: seen.extend(int(group["count"]) for group in stream))
        thread.start()
        inside.wait()
        middle = "the stream is in the middle of a step in another thread: end it there, or wait"
        for call, message in (
            (lambda: s.run(counting_inputs()), BUSY),
            (lambda: next(stream), middle),
            (stream.close, middle),
            (s.close, middle),
        ):
            with pytest.raises(RunError) as e:
                call()
            assert str(e.value) == message
        go_on.wait()
        thread.join()
        assert seen == [3, 5, 7, 9]
        assert int(stream.results["steps"]) == 3
        assert s.report.conforms()


def test_a_backend_that_another_session_has_open_is_refused_and_left_alone() -> None:
    program, backend = counting(), NumpyBackend()
    binding = Binding(dict.fromkeys(program.topologies, (backend, "numpy")))
    with Session(program, {}, binding) as s:
        with pytest.raises(BindError) as e:
            Session(program, {}, binding)
        assert str(e.value) == "gpu:0 is open already"
        assert s.run(counting_inputs(limit=1))["count"].tolist() == [3, 5]
