"""A device that does not do what it was told is found out, on the CPU as on CUDA: what is planned here is a fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.conformance import test_backend as suite
from tests.conformance.bed import PLACES, Bed
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fake_memory import CudaError, Memory, device_of
from tests.runtime.cupy.fake_queue import RaceError
from tests.runtime.cupy.fakes import backend_on, nothing_left, session_on, targets
from tests.runtime.programs import by_hand
from vxgraph.errors import ConformanceError, VxError
from vxgraph.ir.types import f32
from vxgraph.ops import Add
from vxgraph.runtime.backends.cupy import CupyBackend

B = {"b": np.full(4, 10, np.float32)}
X = {"x": np.arange(4, dtype=np.float32)}


class SelectsNothing(FakeDriver):
    """cudaSetDevice does nothing: everything happens on the device that is current anyway (the seed's bug)."""

    def set_device(self, ordinal: int) -> None:
        pass

    def copy_peer(self, dst: int, dst_ordinal: int, src: int, src_ordinal: int, *rest: Any) -> None:
        super().copy_peer(dst, device_of(dst), src, device_of(src), *rest)  # CUDA believes the addresses


class AllocatesOnZero(FakeDriver):
    """Memory comes from device 0, whatever device is current; the devices may write each other's."""

    def alloc(self, nbytes: int) -> Memory:
        before = self.device()
        super().set_device(0)
        try:
            return super().alloc(nbytes)
        finally:
            super().set_device(before)

    def copy_peer(self, dst: int, dst_ordinal: int, src: int, src_ordinal: int, *rest: Any) -> None:
        super().copy_peer(dst, device_of(dst), src, device_of(src), *rest)


class MakesHandlesOnZero(FakeDriver):
    """Library handles belong to device 0."""

    def handle(self) -> int:
        self.set_device(0)
        return super().handle()


class OnAnothersStream(CupyBackend):
    """Kernels for gpu:1 run on gpu:0's compute stream."""

    @contextmanager
    def _swapped(self, topology: vx.Topology) -> Iterator[None]:
        state = self._states[topology]
        own = state.compute
        state.compute = self._states[vx.GPU[0]].compute
        yield
        state.compute = own

    def dispatch(self, kernel: Any, ins: Any, outs: Any, topology: vx.Topology, **keywords: Any) -> Any:
        with self._swapped(topology):
            return super().dispatch(kernel, ins, outs, topology, **keywords)


class MakesStreamsElsewhere(CupyBackend):
    """gpu:1's streams are made on device 0."""

    def open(self, topology: vx.Topology, target: str) -> str:
        name = super().open(topology, target)
        if topology == vx.GPU[1]:
            self._states[topology].compute = self._states[vx.GPU[0]].driver.stream()
        return name


@pytest.mark.parametrize("driver", [SelectsNothing, AllocatesOnZero])
def test_memory_on_the_wrong_device_is_found_out_at_load(driver: type[FakeDriver]) -> None:
    for lied_to in (driver(2), driver(2)):
        with pytest.raises(ConformanceError) as e:
            session_on(lied_to, by_hand(), B, audit=True, peer="direct")
        assert str(e.value) == "transfer_peer %b.1: planned to gpu:1, observed to cuda:0 (gpu:0)"
        assert nothing_left(lied_to)


def test_a_device_selection_that_does_nothing_gives_the_right_answer_and_a_report_that_says_where() -> None:
    with session_on(SelectsNothing(2), by_hand(), B) as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
        assert str(e.value) == "transfer_peer %b.1: planned to gpu:1, observed to cuda:0 (gpu:0)"
        assert s.report.dispatches == {vx.GPU[0]: 1, vx.GPU[1]: 0}  # the other ran on no device that it was meant for


def test_a_device_selection_that_does_nothing_is_found_out_by_the_first_thing_that_is_made() -> None:
    driver = SelectsNothing(2)
    bed = Bed(backend_on(driver), targets(driver, PLACES))
    bed.open()
    observed = bed.backend.observe(bed.backend.alloc(64, vx.GPU[1]))
    assert (observed.topologies, observed.device) == ((), "cuda:0 (gpu:0, gpu:2)")


@pytest.mark.parametrize("lie", ["nothing", "half", "zeros"])
def test_a_copy_that_does_not_arrive_is_found_out_by_an_audit(lie: Any) -> None:
    driver = FakeDriver(2, lies={(0, 1): lie})
    with pytest.raises(ConformanceError) as e:
        session_on(driver, by_hand(), B, audit=True, peer="direct")
    assert str(e.value) == "transfer_peer %b.1: the bytes on gpu:1 are not those on gpu:0"
    assert nothing_left(driver)


def test_kernels_on_another_topologys_stream_are_found_out_on_one_device() -> None:
    message = (
        "model.py:9: dispatch %z (add): planned on gpu:1, "
        "observed on cuda:0 (gpu:0, gpu:1), on a compute stream of gpu:0"
    )
    with session_on(FakeDriver(1), by_hand(), B, kind=OnAnothersStream) as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
    assert str(e.value) == message
    with session_on(FakeDriver(1), by_hand(), B, audit=True, kind=OnAnothersStream) as s:
        with pytest.raises(ConformanceError) as e:
            s.run(X)
        assert str(e.value) == message
        assert s.report.dispatches == {vx.GPU[0]: 1, vx.GPU[1]: 0}


def test_a_stream_of_another_device_is_refused_by_the_driver() -> None:
    with pytest.raises(CudaError, match="a stream of cuda:0 on cuda:1"):
        session_on(FakeDriver(2), by_hand(), B, kind=MakesStreamsElsewhere)


def test_kernels_on_another_devices_stream_are_found_out() -> None:
    driver = FakeDriver(2)
    bed = Bed(backend_on(driver), targets(driver, PLACES))
    bed.open()
    event = bed.backend.upload(X["x"], bed.empty(f32, (4,), vx.GPU[1]), vx.GPU[1])
    event.ran, event.stream = True, bed.backend._states[vx.GPU[0]].compute  # type: ignore[attr-defined]
    observed = bed.backend.observe(event)
    assert observed.topologies == ()
    assert observed.device == "cuda:0 (gpu:0, gpu:2) and cuda:1 (gpu:1), on a compute stream of gpu:0"


def test_a_handle_of_another_device_shows_in_its_record() -> None:
    for driver, current in ((FakeDriver(2), 1), (SelectsNothing(2), 0)):
        bed = Bed(backend_on(driver), targets(driver, PLACES))
        bed.open()
        bed.backend._ordinals[1].handle()  # type: ignore[attr-defined]
        (record,) = bed.backend.handles()  # type: ignore[attr-defined]
        assert (record.ordinal, record.current) == (1, current)


def test_a_handle_that_is_used_on_another_device_is_refused() -> None:
    driver = MakesHandlesOnZero(2)
    bed = Bed(backend_on(driver), targets(driver, PLACES))
    bed.open()
    with pytest.raises(CudaError, match=r"a handle of another device|a stream of cuda:1 on cuda:0"):
        suite.test_dispatch_runs_where_it_was_asked(bed, vx.GPU[1], vx.GPU[0])


@pytest.mark.parametrize(
    "driver",
    [
        SelectsNothing(2),
        AllocatesOnZero(2),
        MakesHandlesOnZero(2),
        *(FakeDriver(2, lies={(0, 1): lie}) for lie in ("zeros", "half", "nothing")),
    ],
    ids=["selects nothing", "allocates on 0", "handles on 0", "zeros", "half", "nothing"],
)
def test_the_conformance_suite_fails_on_a_device_that_lies(driver: FakeDriver) -> None:
    checks = [
        lambda bed: suite.test_alloc_is_observed_where_it_was_asked(bed, vx.GPU[1], vx.GPU[0]),
        lambda bed: suite.test_dispatch_runs_where_it_was_asked(bed, vx.GPU[1], vx.GPU[0]),
        lambda bed: suite.test_a_transfer_is_equal_new_and_leaves_its_source(bed, vx.GPU[0], vx.GPU[1]),
    ]
    assert all(_passes(check, FakeDriver(2)) for check in checks)
    assert not all(_passes(check, driver) for check in checks)


def _passes(check: Any, driver: FakeDriver) -> bool:
    bed = Bed(backend_on(driver, peer="direct"), targets(driver, PLACES))
    try:
        bed.open()
        check(bed)
    except (AssertionError, VxError, CudaError):
        return False
    return True


# The devices that are not there can fail: otherwise what is tested on them would mean nothing.


def test_work_that_no_event_orders_is_a_race() -> None:
    driver = FakeDriver(1)
    memory, streams = driver.alloc(16), [driver.stream(), driver.stream()]
    driver.fill(memory.ptr, 0, 16, streams[0])
    with pytest.raises(RaceError, match=r"fill on stream 2 and fill on stream 1 both touch 8 bytes at 0x.*, unordered"):
        driver.fill(memory.ptr + 8, 0, 8, streams[1])
    event = driver.event()
    driver.record(event, streams[0])
    driver.stream_wait(streams[1], event)
    driver.fill(memory.ptr + 8, 1, 8, streams[1])
    assert driver.read(memory.ptr, 16).tolist() == [0xFE] * 16  # nothing has run
    driver.stream_synchronize(streams[1])
    assert driver.read(memory.ptr, 16).tolist() == [0] * 8 + [1] * 8


def test_an_event_covers_what_its_stream_had_when_it_was_recorded() -> None:
    driver = FakeDriver(1)
    memory, stream, event = driver.alloc(16), driver.stream(), driver.event()
    driver.fill(memory.ptr, 1, 16, stream)
    driver.record(event, stream)
    driver.fill(memory.ptr, 2, 16, stream)
    driver.synchronize(event)
    assert driver.read(memory.ptr, 1) == 1
    driver.stream_synchronize(stream)
    assert driver.read(memory.ptr, 1) == 2


def test_memory_that_is_freed_under_pending_work_is_written_down() -> None:
    driver = FakeDriver(1)
    memory, stream = driver.alloc(16), driver.stream()
    driver.fill(memory.ptr, 1, 16, stream)
    del memory
    assert driver.faults == ["16 bytes were freed before fill on stream 1"]


def test_the_block_that_was_freed_last_is_handed_out_first() -> None:
    driver = FakeDriver(1)
    a, b = driver.alloc(512), driver.alloc(512)
    first, second = a.ptr, b.ptr
    assert second == first + 512
    del b, a
    assert [driver.alloc(500).ptr, second] == [first, second]


def test_what_belongs_to_another_device_is_refused() -> None:
    driver = FakeDriver(2)
    stream, event, memory = driver.stream(), driver.event(), driver.alloc(16)
    driver.set_device(1)
    other = driver.stream()
    refused = {
        "a stream of cuda:0 on cuda:1": lambda: driver.fill(memory.ptr, 0, 16, stream),
        "an event of another device": lambda: driver.record(event, other),
        "copy between devices": lambda: driver.copy(driver.alloc(16).ptr, memory.ptr, 16, other),
        "invalid argument": lambda: driver.copy_peer(memory.ptr, 1, memory.ptr, 0, 16, stream),
        "illegal memory access": lambda: driver.copy(memory.ptr, memory.ptr + 8, 16, stream),
        "invalid device ordinal": lambda: driver.set_device(2),
        "no stream 99": lambda: driver.stream_synchronize(99),
    }
    for message, call in refused.items():
        with pytest.raises(CudaError, match=message):
            call()


def test_while_a_stream_is_captured_nothing_is_waited_for_or_allocated() -> None:
    driver = FakeDriver(1)
    memory, stream, side, event = driver.alloc(16), driver.stream(), driver.stream(), driver.event()
    for call in (
        lambda: driver.alloc(16),
        lambda: driver.stream_synchronize(stream),
        lambda: driver.stream_synchronize(side),
        driver.handle,
    ):
        driver.begin_capture(stream)
        with pytest.raises(CudaError, match="cudaErrorStreamCaptureUnsupported"):
            call()
        with pytest.raises(CudaError, match="cudaErrorStreamCaptureInvalidated"):
            driver.end_capture(stream)
    driver.begin_capture(stream)
    driver.record(event, stream)
    driver.stream_wait(side, event)
    driver.fill(memory.ptr, 1, 16, side)
    with pytest.raises(CudaError, match="cudaErrorStreamCaptureUnjoined"):
        driver.end_capture(stream)
    driver.stream_synchronize(side)
    assert driver.read(memory.ptr, 1) == 0xFE


def test_a_graph_runs_when_it_is_launched_and_again_when_it_is_launched_again() -> None:
    driver = FakeDriver(1)
    a, b, stream = driver.alloc(16), driver.alloc(16), driver.stream()
    driver.begin_capture(stream)
    driver.copy(b.ptr, a.ptr, 16, stream)
    graph = driver.end_capture(stream)
    for value in (1, 2):
        driver.fill(a.ptr, value, 16, stream)
        driver.launch_graph(graph, stream)
        driver.stream_synchronize(stream)
        assert driver.read(b.ptr, 16).tolist() == [value] * 16


def test_a_device_whose_pending_work_is_never_waited_for_has_done_nothing() -> None:
    driver = FakeDriver(1)
    bed = Bed(backend_on(driver), targets(driver, PLACES))
    bed.open()
    x = np.ones(4, np.float32)
    a, total = bed.put(x, vx.GPU[0]), bed.empty(f32, (4,), vx.GPU[0])
    kernel = bed.backend.kernel(Add(), (f32[4], f32[4]), (f32[4],), vx.GPU[0])
    event = bed.backend.dispatch(kernel, (a, a), (total,), vx.GPU[0], sizes={})
    assert np.isnan(driver.read(total.pointer, 16).view(np.float32)).all()
    bed.backend.wait(event)
    assert driver.read(total.pointer, 16).view(np.float32).tolist() == [2] * 4
