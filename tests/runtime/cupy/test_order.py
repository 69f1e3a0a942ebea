"""Nothing is read before it is written, overwritten while it is read, or freed while anybody uses it.

The devices here do nothing before somebody waits, and refuse work that no event orders (fake_queue.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.conformance.bed import Bed
from tests.runtime.cupy.fake_driver import Allocator, FakeDriver
from tests.runtime.cupy.fake_queue import RaceError
from tests.runtime.cupy.fakes import (
    branching,
    branching_inputs,
    doubled,
    nothing_left,
    open_bed,
    session_on,
)
from tests.runtime.programs import alternating, crossing, crossing_result, overwriting
from vxgraph.ir.types import Array, f32
from vxgraph.ops import Add, MatMul
from vxgraph.program.instructions import Dispatch, TransferPeer
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.cupy.peer import Mode

MODES: tuple[Mode, ...] = ("probe", "staged", "direct")
G0, G1 = vx.GPU[0], vx.GPU[1]
N = 256


class WaitsForNothing(CupyBackend):
    """Drops the events that it is told to wait for."""

    def _wait_for(self, after: Any, stream: int) -> None:
        pass


@pytest.mark.case("R02")
@pytest.mark.parametrize(
    ("mode", "devices", "times"),
    [("staged", 2, 300), ("staged", 1, 50), ("direct", 2, 50), ("direct", 1, 50), ("probe", 2, 50), ("probe", 1, 50)],
)
def test_ten_steps_between_two_devices_are_right_every_time(mode: Mode, devices: int, times: int) -> None:
    driver = FakeDriver(devices)
    with session_on(driver, alternating(10), peer=mode) as s:
        for k in range(times):
            np.testing.assert_array_equal(s.run({"s": np.full(64, k, np.float32)})["s_end"], k + 10)
        assert s.report.conforms()
    assert nothing_left(driver)


@pytest.mark.case("R05")
@pytest.mark.case("R02")
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_without_the_plans_events_there_is_a_race(mode: Mode, devices: int) -> None:
    with (
        session_on(FakeDriver(devices), alternating(3), peer=mode, kind=WaitsForNothing) as s,
        pytest.raises(RaceError),
    ):
        s.run({"s": np.zeros(64, np.float32)})


@pytest.mark.case("R05")
def test_a_consumer_sees_what_a_slow_producer_sent() -> None:
    with session_on(FakeDriver(2), doubled(4096), peer="direct") as s:
        for k in range(100):
            x = np.arange(k, k + 4096, dtype=np.float32)
            np.testing.assert_array_equal(s.run({"x": x})["y"], 2 * x)


class Logged(FakeDriver):
    """Keeps what orders streams, and what is ordered."""

    def __init__(self, devices: int) -> None:
        super().__init__(devices)
        self.log: list[tuple[Any, ...]] = []

    def record(self, event: int, stream: int) -> None:
        self.log.append(("record", event, stream))
        super().record(event, stream)

    def stream_wait(self, stream: int, event: int) -> None:
        self.log.append(("wait", event, stream))
        super().stream_wait(stream, event)

    def copy_peer(self, dst: int, dst_ordinal: int, src: int, src_ordinal: int, nbytes: int, stream: int) -> None:
        self.log.append(("copy", stream))
        super().copy_peer(dst, dst_ordinal, src, src_ordinal, nbytes, stream)

    def launch(self, *args: Any) -> None:
        self.log.append(("launch", self.device(), args[-1]))
        super().launch(*args)


@pytest.mark.case("R05")
def test_an_event_follows_the_producer_and_the_copy_and_each_is_waited_for() -> None:
    program, driver = doubled(4096), Logged(2)
    after = {i.name: i.after for i in program.body if isinstance(i, Dispatch | TransferPeer)}
    assert (after["add.gpu1"], after["mul"]) == (("add",), ("add.gpu1",))
    with session_on(driver, program, peer="direct") as s:
        s.run({"x": np.zeros(4096, np.float32)})
    log = driver.log
    (copy,) = (k for k, call in enumerate(log) if call[0] == "copy")
    producer = max(k for k in range(copy) if log[k][:2] == ("launch", 0))
    consumer = max(k for k in range(copy, len(log)) if log[k][:2] == ("launch", 1))
    streams = [log[producer][2], log[copy][1], log[consumer][2]]
    assert len(set(streams)) == 3
    assert _hands_on(log[producer + 1 : copy], streams[0], streams[1])
    assert _hands_on(log[copy + 1 : consumer], streams[1], streams[2])


def _hands_on(log: list[tuple[Any, ...]], first: int, second: int) -> bool:
    """Whether an event is recorded on a stream, and the other stream waits for it afterwards."""
    return any(
        ("wait", event, second) in log[k:]
        for k, (verb, event, stream) in enumerate(log)
        if (verb, stream) == ("record", first)
    )


@pytest.mark.case("R11")
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_opposite_transfers_end_and_are_right_every_time(mode: Mode, devices: int) -> None:
    driver = FakeDriver(devices)
    with session_on(driver, crossing(), peer=mode) as s:
        for k in range(30):
            a, b = np.full(16, k, np.float32), np.arange(16, dtype=np.float32)
            found = s.run({"a": a, "b": b})
            for name, wanted in crossing_result(a, b).items():
                np.testing.assert_array_equal(found[name], wanted)
        assert s.report.conforms()
    assert nothing_left(driver)


def test_a_loop_that_crosses_devices_gives_the_same_in_every_mode() -> None:
    inputs, params = branching_inputs()
    with vx.Session(branching(), params, "numpy") as s:
        wanted = s.run(inputs)
    for mode in MODES:
        driver = FakeDriver(2)
        with session_on(driver, branching(), params, peer=mode) as s:
            for _ in range(3):
                found = s.run(inputs)
                assert s.report.conforms()
                for name in wanted:
                    np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)
        assert nothing_left(driver)


# Memory that is freed or reused.


@pytest.mark.case("R06")
@pytest.mark.parametrize("mode", ["staged", "direct"])
def test_what_is_sent_is_whole_though_its_place_dies_and_everything_after_it_is_nan(mode: Mode) -> None:
    driver = FakeDriver(2)
    with session_on(driver, overwriting(), peer=mode) as s:
        for k in range(100):
            found = s.run({"x": np.full(N, k, np.float32), "nothing": np.float32(np.nan)})
            np.testing.assert_array_equal(found["z"], np.full(N, 4 * k * k))
            assert np.isnan(found["h"]).all()
    assert nothing_left(driver)


def queued(bed: Bed, x: Array) -> tuple[Any, Any, Any]:
    """A transfer that has not happened: its source, its destination, its event."""
    source, target = bed.put(x, G0), bed.empty(f32, x.shape, G1)
    return source, target, bed.backend.transfer_peer(source, G0, G1, x.nbytes, into=target)


@pytest.mark.case("R06")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("allocator", ["pool", "none"])
def test_a_source_that_is_freed_behind_its_transfer_was_sent_whole(mode: Mode, allocator: Allocator) -> None:
    driver = FakeDriver(2, allocator=allocator)
    bed = open_bed(driver, peer=mode)
    for k in range(200):
        x = np.full(N, k, np.float32)
        source, target, event = queued(bed, x)
        bed.backend.free(source.buffer, G0)
        again = bed.empty(f32, (N,), G0)  # the block that was freed last, poisoned
        total = bed.empty(f32, (N,), G1)
        kernel = bed.backend.kernel(Add(), (f32[N], f32[N]), (f32[N],), G1)
        bed.backend.wait(
            bed.backend.dispatch(kernel, (target, target), (total,), G1, sizes={}, after=[event]),
        )
        np.testing.assert_array_equal(bed.get(total, x, G1), 2 * x)
        for tensor, place in ((again, G0), (target, G1), (total, G1)):
            bed.backend.free(tensor.buffer, place)
    bed.backend.close()
    assert nothing_left(driver)


@pytest.mark.case("R06")
@pytest.mark.parametrize("mode", MODES)
def test_a_destination_that_is_freed_is_written_by_no_later_arrival(mode: Mode) -> None:
    driver = FakeDriver(2)
    bed = open_bed(driver, peer=mode)
    for k in range(5):
        _, target, _ = queued(bed, np.full(N, k, np.float32))
        at = target.pointer
        bed.backend.free(target.buffer, G1)
        again = bed.empty(f32, (N,), G1)
        assert again.pointer == at
        assert np.isnan(bed.get(again, np.zeros(N, np.float32), G1)).all()
        bed.backend.free(again.buffer, G1)
    bed.backend.close()
    assert nothing_left(driver)


@pytest.mark.case("R06")
@pytest.mark.parametrize("mode", MODES)
def test_a_buffer_that_nobody_holds_is_not_given_to_the_next(mode: Mode) -> None:
    driver = FakeDriver(2)
    bed = open_bed(driver, peer=mode)
    x = np.arange(N, dtype=np.float32)
    source, target, event = queued(bed, x)
    del source
    bed.empty(f32, (N,), G0)
    bed.backend.wait(event)
    np.testing.assert_array_equal(bed.get(target, x, G1), x)
    bed.backend.close()
    assert nothing_left(driver)


@pytest.mark.case("R06")
@pytest.mark.parametrize("mode", MODES)
def test_a_source_is_overwritten_after_its_transfer_only(mode: Mode) -> None:
    bed = open_bed(FakeDriver(2), peer=mode)
    kernel = bed.backend.kernel(Add(), (f32[N], f32[N]), (f32[N],), G0)
    x = np.arange(N, dtype=np.float32)
    source, target, event = queued(bed, x)
    with pytest.raises(RaceError):
        bed.backend.dispatch(kernel, (source, source), (source,), G0, sizes={})
    bed.backend.dispatch(kernel, (source, source), (source,), G0, sizes={}, after=[event])
    bed.backend.wait(event)
    np.testing.assert_array_equal(bed.get(target, x, G1), x)


def test_closing_waits_for_what_is_under_way() -> None:
    driver = FakeDriver(2)
    for mode in MODES:
        bed = open_bed(driver, peer=mode)
        kept = queued(bed, np.zeros(N, np.float32))
        bed.backend.download(kept[0], G0, out=np.zeros(N, np.float32))
        bed.backend.close()
        assert nothing_left(driver)  # although its buffers are still held


def test_a_closed_session_that_is_still_held_keeps_no_device_memory() -> None:
    driver = FakeDriver(2)
    inputs, params = branching_inputs()
    session = session_on(driver, branching(), params)
    session.run(inputs)
    assert driver.used(0) > 0
    session.close()
    assert nothing_left(driver)
    assert session.report.conforms()


# Page-locked memory.


def test_staging_memory_is_reused_once_its_upload_is_done_and_not_before() -> None:
    driver = FakeDriver(2)
    bed = open_bed(driver, peer="staged")
    x = [np.full(N, k, np.float32) for k in range(3)]
    first, second = queued(bed, x[0]), queued(bed, x[1])
    made = driver.calls["pinned"]
    bed.backend.wait(second[2])
    third = queued(bed, x[2])
    bed.backend.wait(third[2])
    assert driver.calls["pinned"] == made
    for (_, target, _), wanted in zip((first, second, third), x, strict=True):
        np.testing.assert_array_equal(bed.get(target, wanted, G1), wanted)


def test_staging_memory_is_kept_by_device_and_size() -> None:
    driver = FakeDriver(2)
    bed = open_bed(driver)
    x = np.zeros(N, np.float32)
    for _ in range(3):
        for place in (G0, G1):
            bed.get(bed.put(x, place), x, place)
            bed.get(bed.put(x[:100], place), x[:100], place)
    ordinals = bed.backend._ordinals  # type: ignore[attr-defined]
    found = {k: {size: len(free) for size, free in ordinals[k].pinned.items() if size > 256} for k in (0, 1)}
    assert found == {0: {512: 1, 1024: 1}, 1: {512: 1, 1024: 1}}
    assert ordinals[0].staging(1024).address != ordinals[1].staging(1024).address


@pytest.mark.parametrize("shape", [(0,), (), (1,), (3,), (0, 7)])
def test_downloads_of_any_size_arrive_when_they_are_waited_for(shape: tuple[int, ...]) -> None:
    bed = open_bed(FakeDriver(1))
    x = np.full(shape, 7, np.float32)
    tensor, out = bed.put(x, G0), np.zeros(shape, np.float32)
    event = bed.backend.download(tensor, G0, out=out)
    assert not out.any()
    bed.backend.wait(event)
    np.testing.assert_array_equal(out, x)
    out[...] = 0
    bed.backend.wait(event)  # it happened: nothing arrives twice
    assert not out.any()


def test_two_downloads_under_way_do_not_share_memory() -> None:
    bed = open_bed(FakeDriver(1))
    x = [np.full(N, k, np.float32) for k in (1, 2)]
    tensors, outs = [bed.put(a, G0) for a in x], [np.zeros(N, np.float32) for _ in x]
    events = [bed.backend.download(t, G0, out=out) for t, out in zip(tensors, outs, strict=True)]
    for event in events[::-1]:
        bed.backend.wait(event)
    for out, wanted in zip(outs, x, strict=True):
        np.testing.assert_array_equal(out, wanted)


def test_a_page_locked_array_may_be_reused_when_its_upload_returns() -> None:
    driver = FakeDriver(1)
    bed = open_bed(driver)
    _, raw = driver.pinned(4 * N)
    x = raw.view(np.float32)
    x[:] = 5
    tensor = bed.empty(f32, (N,), G0)
    event = bed.backend.upload(x, tensor, G0)
    x[:] = 6
    bed.backend.wait(event)
    np.testing.assert_array_equal(bed.get(tensor, x, G0), np.full(N, 5, np.float32))


# Tensors where kernels cannot read them, and what is prepared for the same tensors.


def test_memory_beside_odd_tensors_is_kept_as_long_as_launches_use_it() -> None:
    driver = FakeDriver(1)
    bed = open_bed(driver)
    kernel = bed.backend.kernel(Add(), (f32[N], f32[N]), (f32[N],), G0)
    inputs = [np.full(N, k, np.float32) for k in range(20)]  # more than a kernel keeps
    operands = [bed.put(x, G0, offset=1) for x in inputs]
    totals = [bed.empty(f32, (N,), G0, offset=3) for _ in inputs]
    for a, total in zip(operands, totals, strict=True):
        event = bed.backend.dispatch(kernel, (a, a), (total,), G0, sizes={})
    bed.backend.wait(event)
    for x, total in zip(inputs, totals, strict=True):
        np.testing.assert_array_equal(bed.get(total, x, G0), 2 * x)
    bed.backend.close()
    assert nothing_left(driver)


def test_an_operand_at_an_odd_offset_is_not_written_to() -> None:
    bed = open_bed(FakeDriver(2), peer="direct")
    x = np.arange(N, dtype=np.float32)
    source, target, total = bed.put(x, G0, offset=1), bed.empty(f32, (N,), G1), bed.empty(f32, (N,), G0)
    kernel = bed.backend.kernel(Add(), (f32[N], f32[N]), (f32[N],), G0)
    bed.backend.transfer_peer(source, G0, G1, x.nbytes, into=target)  # reads it at the same time
    bed.backend.wait(bed.backend.dispatch(kernel, (source, source), (total,), G0, sizes={}))
    np.testing.assert_array_equal(bed.get(total, x, G0), 2 * x)


def test_a_list_of_tensors_may_be_used_again_for_others() -> None:
    bed = open_bed(FakeDriver(1))
    x = [np.full((2, 2), k, np.float32) for k in (1, 2)]
    ins, outs = [bed.put(x[0], G0), bed.put(x[0], G0)], [bed.empty(f32, (2, 2), G0)]
    kernel = bed.backend.kernel(MatMul(), (f32[2, 2], f32[2, 2]), (f32[2, 2],), G0)
    for a in x:
        ins[:] = [bed.put(a, G0), bed.put(a, G0)]
        bed.backend.wait(bed.backend.dispatch(kernel, ins, outs, G0, sizes={}))
        np.testing.assert_array_equal(bed.get(outs[0], a, G0), a @ a)


def test_the_same_tensors_at_other_sizes_are_another_run() -> None:
    bed = open_bed(FakeDriver(1))
    op = vx.ops.Size(vx.Dim("T", max=9))
    out = (bed.empty(vx.i32, (), G0),)
    kernel = bed.backend.kernel(op, (), op.infer(), G0)
    for size in (3, 4, 3):
        bed.backend.wait(bed.backend.dispatch(kernel, (), out, G0, sizes={"T": size}))
        assert bed.get(out[0], np.zeros((), np.int32), G0) == size


def test_what_is_empty_at_the_end_of_a_buffer_is_observed_there() -> None:
    bed = open_bed(FakeDriver(1))
    for nbytes in (512, 511, 64):
        buffers = {t: bed.backend.alloc(nbytes, t) for t in (G0, G1)}
        for t, buffer in buffers.items():
            assert bed.backend.observe(bed.backend.tensor(buffer, nbytes, f32, (0,), t)).topologies == (t,)
