"""The executor hands over every order that the plan asks for.

The backend here does nothing before something waits for it: each queue runs in order, and work of another queue runs
first only where `after` names it. What is read too early is poison, so that a forgotten event shows in the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import (
    alternating,
    bound_to,
    by_hand,
    counting,
    counting_inputs,
    mlp,
    mlp_params,
    mlp_result,
    overwriting,
    rows,
)
from vxgraph.errors import ProgramError
from vxgraph.ir.types import Array, f32
from vxgraph.ops import Add
from vxgraph.program.instructions import Dispatch, Download, Emit, TransferPeer, Upload
from vxgraph.program.verify import verify_program
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.numpy.space import Event, Tensor
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session
from vxgraph.topology.ids import Topology

B = {"b": np.full(4, 10, np.float32)}
X = {"x": np.arange(4, dtype=np.float32)}


class Pending(Event):
    """Work that has not happened."""

    __slots__ = ("before", "work")

    def __init__(self, tensors: tuple[Tensor, ...], before: list[Pending], work: Callable[[], Any]) -> None:
        super().__init__(tensors)
        self.before = before
        self.work: Callable[[], Any] | None = work


class Deferred(NumpyBackend):
    """Queues everything; `forget` drops the events that it is told to wait for."""

    def __init__(self, *, forget: bool = False) -> None:
        super().__init__()
        self.forget = forget
        self.last: dict[tuple[Topology, str], Pending] = {}
        self.ran = 0

    def batch(self, *args: Any, **keywords: Any) -> None:
        """Every launch is waited for on its own."""

    def _later(
        self,
        queue: tuple[Topology, str],
        tensors: tuple[Tensor, ...],
        after: Sequence[Event],
        work: Callable[[], Any],
    ) -> Event:
        before = [] if self.forget else [e for e in after if isinstance(e, Pending)]
        if queue in self.last:
            before.append(self.last[queue])
        self.last[queue] = event = Pending(tensors, before, work)
        return event

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        self._moved[src_topology, dst_topology] += dst.nbytes  # counted when asked for, as a driver's queue is

    def upload(self, array: Array, into: Tensor, topology: Topology, *, after: Sequence[Event] = ()) -> Event:
        super().upload(array, into, topology)
        kept = array.copy()  # the caller may reuse its array at once
        return self._later((topology, "copy"), (into,), after, lambda: np.copyto(into.view, kept))

    def download(self, tensor: Tensor, topology: Topology, *, out: Array, after: Sequence[Event] = ()) -> Event:
        super().download(tensor, topology, out=out)
        return self._later((topology, "copy"), (tensor,), after, lambda: np.copyto(out, tensor.view))

    def transfer_peer(
        self,
        src: Tensor,
        src_topology: Topology,
        dst_topology: Topology,
        nbytes: int,
        *,
        into: Tensor,
        after: Sequence[Event] = (),
    ) -> Event:
        super().transfer_peer(src, src_topology, dst_topology, nbytes, into=into)
        return self._later((src_topology, "copy"), (into,), after, lambda: np.copyto(into.view, src.view))

    def dispatch(
        self,
        kernel: Any,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        topology: Topology,
        *,
        sizes: Any,
        after: Sequence[Event] = (),
    ) -> Event:
        self._spaces[topology].dispatches += 1
        operands, results = [t.view for t in ins], [t.view for t in outs]
        return self._later((topology, "compute"), tuple(outs), after, lambda: kernel.run(operands, results, sizes))

    def wait(self, event: Event) -> None:
        assert isinstance(event, Pending)
        if event.work is None:
            return
        work, event.work = event.work, None
        for earlier in event.before:
            self.wait(earlier)
        event.before = []
        work()
        self.ran += 1


def test_nothing_runs_before_it_is_waited_for() -> None:
    program, backend = by_hand(), Deferred()
    with Session(program, B, bound_to(backend, program)) as s:
        loaded = backend.ran
        assert loaded == 2
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
        assert backend.ran - loaded == 5
        assert s.report.conforms()


def test_a_forgotten_event_shows_in_the_result() -> None:
    program = mlp()
    with Session(program, mlp_params(), bound_to(Deferred(forget=True), program)) as s:
        assert not np.isfinite(s.run({"x": np.ones((1, 64), np.float32)})["y"]).all()


@pytest.mark.parametrize("audit", [False, True])
def test_programs_give_the_same_when_everything_is_late(audit: bool) -> None:
    program, params = mlp(), mlp_params()
    x = np.random.default_rng(2).standard_normal((1, 64)).astype(np.float32)
    with Session(program, params, bound_to(Deferred(), program), audit=audit) as s:
        for _ in range(3):
            np.testing.assert_allclose(s.run({"x": x})["y"], mlp_result(x, params), rtol=1e-4, atol=1e-4)
            assert s.report.conforms()
    program = rows()
    with Session(program, {}, bound_to(Deferred(), program), audit=audit) as s:
        for n in (3, 1, 8, 3):
            x = np.full((n, 4), n, np.float32)
            np.testing.assert_array_equal(s.run({"x": x, "z": x[:, 0]})["y"], 4 * x)
            assert s.report.conforms()


@pytest.mark.parametrize("audit", [False, True])
def test_loops_give_the_same_when_everything_is_late(audit: bool) -> None:
    program = counting()
    with Session(program, {}, bound_to(Deferred(), program), audit=audit) as s:
        for start in (3, 4, 5):
            found = s.run(counting_inputs(start=start, limit=5))
            assert found["count"].tolist() == [start + 2 * k for k in range(6)]
            assert found["twice"].tolist() == [2 * start + 4 * k for k in range(1, 6)]
            assert int(found["steps"]) == 5
            assert s.report.conforms()
        assert s.run(counting_inputs(last=6, limit=5))["count"].tolist() == [3, 5, 7]


def test_a_run_that_is_given_up_is_over_when_its_stream_is_closed() -> None:
    program, backend = by_hand(), Deferred()
    t, (g0, g1) = f32[4], program.topologies
    body = (
        Upload("x", "x.0", t, g0),
        Upload("x", "y.1", t, g1),
        Dispatch(Add(), ("x.0", "b.0"), ("y",), (t,), g0, ("x.0",)),
        Download("y", "y.host", t, g0, ("y",)),
        Emit("y", "y.host"),  # the upload to gpu:1 may still be under way here
        Dispatch(Add(), ("y.1", "b.1"), ("z",), (t,), g1, ("y.1",)),
        Download("z", "z.host", t, g1, ("z",)),
    )
    program = replace(program, body=body)
    with Session(program, B, bound_to(backend, program)) as s:
        stream = s.stream(X)
        np.testing.assert_array_equal(next(stream)["y"], [10, 11, 12, 13])
        assert not all(event.work is None for event in backend.last.values())
        stream.close()
        assert all(event.work is None for event in backend.last.values())
        np.testing.assert_array_equal(s.run(X)["z"], [10, 11, 12, 13])


def test_a_dispatch_waits_for_another_backends_work_where_the_plan_says_so() -> None:
    program = by_hand()
    t, (g0, g1) = f32[4], program.topologies
    again = Dispatch(Add(), ("x.0", "b.0"), ("x.0",), (t,), g0, ("y.1",))  # overwrites, after the transfer has read
    program = replace(program, body=(*program.body[:3], again, *program.body[3:]))
    second = Deferred()
    arrived: list[bool] = []

    class First(Deferred):
        def dispatch(self, *args: Any, **keywords: Any) -> Event:
            arrived.append(second.last[g1, "copy"].work is None)
            return super().dispatch(*args, **keywords)

    with Session(program, B, Binding({g0: (First(), "numpy"), g1: (second, "numpy")})) as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
    assert arrived[-1]


def test_different_late_backends_wait_for_each_other() -> None:
    program, params = mlp(), mlp_params()
    binding = Binding({t: (Deferred(), "numpy") for t in program.topologies})
    x = np.random.default_rng(2).standard_normal((1, 64)).astype(np.float32)
    with Session(program, params, binding) as s:
        np.testing.assert_allclose(s.run({"x": x})["y"], mlp_result(x, params), rtol=1e-4, atol=1e-4)
        assert s.report.conforms()
    program = counting()
    binding = Binding({t: (Deferred(), "numpy") for t in program.topologies})
    with Session(program, {}, binding) as s:
        assert s.run(counting_inputs())["count"].tolist() == [3, 5, 7, 9, 11]
        assert s.report.conforms()


# Two devices without a path between them, and memory that is used again.


@pytest.mark.case("R02")
def test_ten_steps_through_the_host_are_right_a_thousand_times() -> None:
    program = alternating(10, machine="rtx4090-x2")
    assert [i.route for i in program.body if isinstance(i, TransferPeer)] == ["staged"] * 9
    with Session(program, {}, bound_to(Deferred(), program)) as s:
        for k in range(1000):
            np.testing.assert_array_equal(s.run({"s": np.full(64, k, np.float32)})["s_end"], k + 10)
        assert s.report.conforms()


@pytest.mark.case("R02")
def test_a_step_that_does_not_wait_for_its_copy_reads_poison() -> None:
    program = alternating(10, machine="rtx4090-x2")
    early = tuple(replace(i, after=()) if isinstance(i, Dispatch) and i.after else i for i in program.body)
    with Session(replace(program, body=early), {}, bound_to(Deferred(), program)) as s:
        assert np.isnan(s.run({"s": np.zeros(64, np.float32)})["s_end"]).all()


NOTHING = {"nothing": np.float32(np.nan)}


@pytest.mark.case("R06")
def test_what_is_sent_is_whole_though_its_place_dies_and_everything_after_it_is_nan() -> None:
    program = overwriting()
    with Session(program, {}, bound_to(Deferred(), program)) as s:
        for k in range(200):
            found = s.run({"x": np.full(256, k, np.float32), **NOTHING})
            np.testing.assert_array_equal(found["z"], np.full(256, 4 * k * k))
            assert np.isnan(found["h"]).all()


@pytest.mark.case("R06")
def test_bytes_that_are_used_again_before_they_were_sent_are_refused_and_show_in_the_result() -> None:
    program = overwriting()
    y = program.slot_of["y"]
    slots = tuple(replace(s, offset=y.offset) if s.value == "h0" else s for s in program.slots)
    early = replace(program, slots=slots)
    with pytest.raises(ProgramError) as e:
        verify_program(early)
    assert e.value.message == (
        "softmax %h0 on gpu:0: writes %h0 over %y, which an instruction on gpu:0.copy may still use"
    )
    with Session(early, {}, bound_to(Deferred(), program)) as s:
        assert np.isnan(s.run({"x": np.ones(256, np.float32), **NOTHING})["z"]).all()
