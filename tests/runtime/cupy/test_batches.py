"""A loop's steady steps run as graphs: the same results, the same counts, nothing that an audit would miss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.conformance.bed import Bed
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fake_memory import CudaError
from tests.runtime.cupy.fake_queue import Event, Graph, RaceError
from tests.runtime.cupy.fakes import (
    appending,
    branching,
    branching_inputs,
    nothing_left,
    open_bed,
    session_on,
)
from tests.runtime.programs import MACHINE, counting, counting_inputs
from vxgraph.errors import RunError
from vxgraph.ir.types import Array, f32
from vxgraph.ops import Add, MatMul, Softmax
from vxgraph.program.model import Program
from vxgraph.runtime.backends.cupy import capture
from vxgraph.runtime.backends.cupy.lanes import Placed

G0, G1 = vx.GPU[0], vx.GPU[1]
DEVICES = (1, 2)


def ran(driver: FakeDriver, program: Program, inputs: Any, params: Any = None, **keywords: Any) -> tuple[Any, Any]:
    """The results of the second of two runs, and its report."""
    with session_on(driver, program, params, **keywords) as s:
        s.run(inputs)
        found = s.run(inputs)
        assert s.report.conforms()
        report = s.report
    assert nothing_left(driver)
    return found, report


@pytest.mark.parametrize("devices", DEVICES)
def test_batched_steps_give_the_same_and_count_the_same(devices: int) -> None:
    inputs, params = branching_inputs()
    plain, batched = FakeDriver(devices), FakeDriver(devices)
    wanted, audited = ran(plain, branching(), inputs, params, audit=True)
    found, report = ran(batched, branching(), inputs, params)
    assert (plain.calls["graph"], batched.calls["graph"] > 0) == (0, True)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
    assert report.dispatches == audited.dispatches
    assert [(i.instr.name, i.count) for i in report.instructions] == [
        (i.instr.name, i.count) for i in audited.instructions
    ]
    assert [(t.name, t.observed_bytes, t.count) for t in report.transfers] == [
        (t.name, t.observed_bytes, t.count) for t in audited.transfers
    ]


@pytest.mark.parametrize("watch", ["audit", "trace"])
def test_what_is_watched_is_not_batched(watch: str) -> None:
    driver = FakeDriver(2)
    inputs, params = branching_inputs()
    _, report = ran(driver, branching(), inputs, params, **{watch: True})
    assert driver.calls["graph"] == 0
    assert all(e.observed is not None for e in report.instructions)


def test_a_graph_is_made_once_and_launched_in_every_later_step() -> None:
    driver = FakeDriver(2)
    inputs, params = branching_inputs()
    with session_on(driver, branching(steps=6), params) as s:
        s.run(inputs)
        made, launched = driver.alive(Graph), driver.calls["graph"]
        assert made >= 2  # on each side of the transfer
        assert launched == 5 * made
        calls = driver.calls["launch"], driver.calls["gemm"]
        for n in (2, 3):
            s.run(inputs)
            assert (driver.alive(Graph), driver.calls["graph"]) == (made, n * launched)
        steps = driver.calls["launch"] - calls[0], driver.calls["gemm"] - calls[1]
        assert steps[1] == 2 * 4  # what is outside the loop, and its first step
    assert driver.alive(Graph) == 0


def test_a_loop_that_crosses_devices_in_its_body_counts_to_the_same() -> None:
    driver = FakeDriver(2)
    found, _ = ran(driver, counting(), counting_inputs(limit=6))
    assert found["count"].tolist() == [3, 5, 7, 9, 11, 13, 15]
    assert int(found["count_at_end"]) == 15


def test_products_in_a_graph_follow_one_another_because_they_share_scratch_memory() -> None:
    def two_products() -> None:
        bed = open_bed(FakeDriver(1))
        x, t = np.full((4, 4), 2, np.float32), f32[4, 4]
        a, b, c = (bed.put(x, G0) for _ in range(3))
        kernel = bed.backend.kernel(MatMul(), (t, t), (t,), G0)
        batch = bed.backend.batch([(kernel, (a, a), (b,)), (kernel, (a, a), (c,))], G0, sizes={})
        bed.backend.wait(bed.backend.dispatch(batch, (), (), G0, sizes={}))
        np.testing.assert_array_equal([bed.get(b, x, G0), bed.get(c, x, G0)], [x @ x] * 2)

    two_products()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "_touches", lambda bound: (_spans(bound.ins), _spans(bound.outs)))
        with pytest.raises(RaceError, match=r"graph: gemm.* and graph: gemm.* both touch 33554432 bytes"):
            two_products()


def _spans(tensors: Any) -> list[tuple[int, int]]:
    return [(t.pointer, t.pointer + t.nbytes) for t in tensors]


def test_a_graph_whose_branches_are_not_ordered_is_found_out() -> None:
    _, (inputs, params) = FakeDriver(1), branching_inputs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "place", lambda ds: [Placed(k % 2, ()) for k in range(len(ds))])
        with session_on(FakeDriver(1), branching(), params) as s, pytest.raises(RaceError):
            s.run(inputs)


# What kernels complain of.


def rows() -> tuple[Array, Array]:
    return np.full((1, 4), 2, np.float32), np.full((1, 4), 1, np.float32)


def test_a_fault_of_a_kernel_is_raised_with_its_op_and_is_gone_in_the_next_run() -> None:
    first, row = rows()
    driver = FakeDriver(1)
    with session_on(driver, appending(4)) as s:
        for at in (4, -1, 9):
            with pytest.raises(RunError) as e:
                s.run({"rows": first, "row": row, "at": np.int32(at)})
            assert e.value.message == f"%cache_append: 1 rows at {at} do not fit the cache, which has 4 rows"
            found = s.run({"rows": first, "row": row, "at": np.int32(3)})["y"]
            np.testing.assert_array_equal(found[[0, 3]], [[3] * 4, [2] * 4])
            assert s.report.conforms()
    assert nothing_left(driver)


def appending_in_a_loop(capacity: int, steps: int) -> Program:
    """Writes a row at 0, 1, 2, ... until the cache is full, and one step more where there are more steps."""
    with vx.Graph("appending") as g:
        row, one = vx.input("row", vx.f32[1, 4]), vx.input("one", vx.i32[()])
        with vx.on(G0):
            cache = vx.cache_init(vx.f32[capacity, 4])
            at = one - one

            def step(cache: vx.Value, at: vx.Value) -> list[vx.Value]:
                with vx.on(G0):
                    vx.emit("at", at)
                    return [vx.cache_append(cache, row, at), at + one]

            (cache, at), _ = vx.loop(step, [cache, at], max_steps=steps)
            vx.output("y", cache * 2)
    return vx.compile(g, vx.load_machine(MACHINE))


def test_a_fault_in_a_graph_is_raised_by_the_step_that_made_it() -> None:
    inputs = {"row": rows()[1], "one": np.int32(1)}
    driver = FakeDriver(1)
    with session_on(driver, appending_in_a_loop(3, 5)) as s:
        for _ in range(2):
            stream, seen = s.stream(inputs), []
            with pytest.raises(RunError) as e:
                seen.extend(int(group["at"]) for group in stream)
            assert e.value.message == "%cache_append: 1 rows at 3 do not fit the cache, which has 3 rows"
            assert seen == [0, 1, 2]
    assert driver.calls["graph"] > 0
    assert nothing_left(driver)
    driver = FakeDriver(1)
    with session_on(driver, appending_in_a_loop(3, 3)) as s:
        np.testing.assert_array_equal(s.run(inputs)["y"], np.full((3, 4), 2))
        assert s.report.conforms()


def test_the_first_of_two_faults_is_told_and_both_are_gone() -> None:
    bed = open_bed(FakeDriver(2))
    op = vx.ops.Embed()
    table, out = bed.put(np.ones((3, 2), np.float32), G1), bed.empty(f32, (1, 2), G1)
    kernel = bed.backend.kernel(op, (f32[3, 2], vx.i32[1]), (f32[1, 2],), G1)
    events = [
        bed.backend.dispatch(kernel, (table, bed.put(np.array([k], np.int32), G1)), (out,), G1, sizes={})
        for k in (7, 8, 1)
    ]
    with pytest.raises(RunError) as e:
        bed.backend.wait(events[-1])
    assert str(e.value) == "embed: id 7 is not in the table, which has 3 rows: 0 to 2"
    for event in events:
        bed.backend.wait(event)
    bed.touch(G0)
    np.testing.assert_array_equal(bed.get(out, np.zeros((1, 2), np.float32), G1), [[1, 1]])


def test_a_fault_of_one_topology_is_not_told_to_another_on_the_same_device() -> None:
    bed = open_bed(FakeDriver(1))
    op = vx.ops.Embed()
    table, out = bed.put(np.ones((3, 2), np.float32), G1), bed.empty(f32, (1, 2), G1)
    kernel = bed.backend.kernel(op, (f32[3, 2], vx.i32[1]), (f32[1, 2],), G1)
    event = bed.backend.dispatch(kernel, (table, bed.put(np.array([3], np.int32), G1)), (out,), G1, sizes={})
    a = bed.put(np.ones(2, np.float32), G0)
    bed.apply(Add(), [a, a], (f32[2], f32[2]), G0)
    with pytest.raises(RunError, match=r"^embed: id 3"):
        bed.backend.wait(event)


# Captures that fail, and what a batch refuses.


class RefusesInCapture(FakeDriver):
    """The n-th launch of a capture is refused."""

    nth = -1

    def launch(self, *args: Any) -> None:
        if self.capturing():
            self.nth -= 1
            if self.nth == 0:
                raise CudaError("CUDA_ERROR_LAUNCH_FAILED")
        super().launch(*args)

    def capturing(self) -> bool:
        return getattr(self._thread, "capture", None) is not None


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_capture_that_fails_is_over_and_the_next_one_works(nth: int) -> None:
    driver = RefusesInCapture(2)
    inputs, params = branching_inputs()
    with session_on(driver, branching(), params) as s:
        driver.nth = nth
        with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_FAILED"):  # not what ending the capture said
            s.run(inputs)
        assert not driver.capturing()
        found = s.run(inputs)
        assert s.report.conforms()
    assert nothing_left(driver)
    with vx.Session(branching(), params, "numpy") as s:
        np.testing.assert_allclose(found["y"], s.run(inputs)["y"], rtol=1e-5)


def branches(bed: Bed) -> tuple[Array, list[Any], Any]:
    """softmax(a) thrice, side by side, and the sum of two: tensors a, b, c, d, e, and the batch."""
    x, t = np.arange(16, dtype=np.float32).reshape(4, 4), f32[4, 4]
    tensors = [bed.put(x, G0) for _ in range(5)]
    a, b, c, d, e = tensors
    softmax, add = bed.backend.kernel(Softmax(1), (t,), (t,), G0), bed.backend.kernel(Add(), (t, t), (t,), G0)
    return (
        x,
        tensors,
        lambda: bed.backend.batch(
            [
                (softmax, (a,), (b,)),
                (softmax, (a,), (c,)),
                (softmax, (a,), (e,)),
                (add, (b, c), (d,)),
                (softmax, (b,), (a,)),
            ],
            G0,
            sizes={},
        ),
    )


def test_branches_of_a_graph_meet_again() -> None:
    bed = open_bed(FakeDriver(1))
    x, (a, b, c, d, e), batch = branches(bed)
    captured = batch()
    softmax = Softmax(1).reference
    for _ in range(3):
        bed.backend.wait(bed.backend.dispatch(captured, (), (), G0, sizes={}))
        (y,) = softmax({}, x)
        (x,) = softmax({}, y)
        for tensor, wanted in ((a, x), (b, y), (c, y), (e, y), (d, y + y)):
            np.testing.assert_allclose(bed.get(tensor, x, G0), wanted, rtol=1e-5)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_a_capture_that_fails_before_its_branches_meet_tells_the_first_error(nth: int) -> None:
    driver = RefusesInCapture(1)
    bed = open_bed(driver)
    _, _, batch = branches(bed)
    events = driver.alive(Event)
    driver.nth = nth
    with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_FAILED"):
        batch()
    assert (driver.capturing(), driver.alive(Graph)) == (False, 0)
    bed.backend.wait(bed.backend.dispatch(batch(), (), (), G0, sizes={}))
    assert driver.alive(Graph) == 1
    assert driver.alive(Event) <= events + 5  # the fork, and an edge for each of the others: made once
    bed.backend.close()
    assert nothing_left(driver)


def test_a_batch_refuses_what_a_dispatch_refuses() -> None:
    bed = open_bed(FakeDriver(2))
    mine, foreign = bed.put(np.ones(4, np.float32), G0), bed.put(np.ones(4, np.float32), G1)
    kernel = bed.backend.kernel(Add(), (f32[4], f32[4]), (f32[4],), G0)
    for tensors, out in (((mine, foreign), mine), ((mine, mine), foreign)):
        with pytest.raises(RunError) as e:
            bed.backend.batch([(kernel, tensors, (out,))], G0, sizes={})
        assert str(e.value) == "dispatch add on gpu:0: the buffer lives on gpu:1; transfer it first"
    with pytest.raises(RunError) as e:
        bed.backend.batch([(kernel, (foreign, foreign), (foreign,))], G1, sizes={})
    assert str(e.value) == "dispatch add on gpu:1: the kernel was made for gpu:0"
    batch = bed.backend.batch([(kernel, (mine, mine), (mine,))], G0, sizes={})
    with pytest.raises(RunError) as e:
        bed.backend.dispatch(batch, (), (), G1, sizes={})
    assert str(e.value) == "dispatch add on gpu:1: the kernel was made for gpu:0"


def test_a_batch_is_observed_and_counted_where_it_runs() -> None:
    driver = FakeDriver(2)
    bed = open_bed(driver)
    x = np.full((4, 4), 2, np.float32)
    a, b, c, d = (bed.put(x, G1) for _ in range(4))
    t = f32[4, 4]
    product = bed.backend.kernel(MatMul(), (t, t), (t,), G1)
    softmax = bed.backend.kernel(Softmax(axis=1), (t,), (t,), G1)
    batch = bed.backend.batch([(product, (a, a), (b,)), (softmax, (b,), (c,)), (softmax, (a,), (d,))], G1, sizes={})
    bed.touch(G0)
    assert bed.backend.dispatched(G1) == 0
    for n in (1, 2):
        event = bed.backend.dispatch(batch, (), (), G1, sizes={})
        bed.backend.wait(event)
        assert (bed.backend.dispatched(G1), bed.backend.dispatched(G0)) == (3 * n, 0)
        assert bed.backend.observe(event).topologies == (G1,)
    np.testing.assert_allclose(bed.get(c, x, G1), np.full((4, 4), 0.25))
    events = driver.alive(Event)
    bed.backend.wait(bed.backend.dispatch(batch, (), (), G1, sizes={}))
    assert driver.alive(Event) == events


def test_a_batch_of_one_kernel_on_more_tensors_than_it_keeps_is_prepared_before_it_is_captured() -> None:
    bed = open_bed(FakeDriver(1))
    kernel = bed.backend.kernel(Add(), (f32[4], f32[4]), (f32[4],), G0)
    x = np.ones(4, np.float32)
    tensors = [bed.put(x * k, G0, offset=k % 2) for k in range(21)]  # every other one at an odd offset
    launches = [(kernel, (tensors[k], tensors[k]), (tensors[k + 1],)) for k in range(20)]
    batch = bed.backend.batch(launches, G0, sizes={})
    bed.backend.wait(bed.backend.dispatch(batch, (), (), G0, sizes={}))
    np.testing.assert_array_equal(bed.get(tensors[0], x, G0), 0 * x)
    bed.backend.wait(bed.backend.upload(x, tensors[0], G0))
    bed.backend.wait(bed.backend.dispatch(batch, (), (), G0, sizes={}))
    np.testing.assert_array_equal(bed.get(tensors[20], x, G0), 2.0**20 * x)
