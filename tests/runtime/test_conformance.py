"""A run that is not the plan is found out, whoever lies: the handles, the counters, or the copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.conformance import test_backend as suite
from tests.conformance.bed import PLACES, Bed
from tests.mutants.liars import (
    AllocatesElsewhere,
    CopiesBehindTheBack,
    CopiesTwice,
    DispatchesElsewhere,
    DispatchesTwice,
    Eager,
    HalvesCopies,
    SelectsNothing,
    SkipsCopies,
    Zeroes,
    told,
)
from tests.runtime.programs import (
    bound_to,
    by_hand,
    counting,
    counting_inputs,
    mlp,
    mlp_params,
)
from vxgraph.errors import ConformanceError, RunError, VxError
from vxgraph.program.instructions import Loop
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.session import Session

B = {"b": np.full(4, 10, np.float32)}
X = {"x": np.arange(4, dtype=np.float32)}


ZeroesCopies = told(Zeroes, Eager)


@pytest.mark.parametrize("sabotage", [SelectsNothing, AllocatesElsewhere])
def test_a_backend_that_works_in_the_wrong_place_is_found_out(sabotage: type[NumpyBackend]) -> None:
    program = by_hand()
    with Session(program, B, bound_to(sabotage(), program)) as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])  # the answer is right, and the place is not
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
    assert str(e.value) == "transfer_peer %b.1: planned to gpu:1, observed to numpy:gpu:0"


@pytest.mark.parametrize("sabotage", [SelectsNothing, AllocatesElsewhere])
def test_an_audited_session_does_not_even_load_there(sabotage: type[NumpyBackend]) -> None:
    program = by_hand()
    with pytest.raises(ConformanceError) as e:
        Session(program, B, bound_to(sabotage(), program), audit=True)
    assert str(e.value) == "transfer_peer %b.1: planned to gpu:1, observed to numpy:gpu:0"


def test_a_dispatch_on_the_wrong_device_is_found_out() -> None:
    program = by_hand()
    with Session(program, B, bound_to(DispatchesElsewhere(), program)) as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
        assert s.report.dispatches == {vx.GPU[0]: 2, vx.GPU[1]: 0}
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
    assert str(e.value) == "model.py:9: dispatch %z (add): planned on gpu:1, observed on numpy:gpu:0"


def test_an_audit_stops_at_the_first_difference() -> None:
    program = by_hand()
    with Session(program, B, bound_to(DispatchesElsewhere(), program), audit=True) as s:
        with pytest.raises(ConformanceError) as e:
            s.run(X)
        assert str(e.value) == "model.py:9: dispatch %z (add): planned on gpu:1, observed on numpy:gpu:0"
        assert [t.count for t in s.report.transfers] == [1, 1, 0]  # the download after it never ran


@pytest.mark.parametrize(
    ("sabotage", "message"),
    [
        (SkipsCopies, "transfer_peer %b.1: planned 16 bytes, observed 0"),
        (HalvesCopies, "transfer_peer %b.1: planned 16 bytes, observed 8"),
        (CopiesTwice, "transfer_peer %b.1: planned 16 bytes, observed 32"),
        (CopiesBehindTheBack, "gpu:0 to gpu:1: planned 16 bytes in all, the backend counted 20"),
        (DispatchesTwice, "gpu:0: planned 1 dispatches in all, the backend counted 2"),
    ],
)
def test_bytes_and_dispatches_that_are_not_the_plans_are_found_out(sabotage: type[NumpyBackend], message: str) -> None:
    program = by_hand()
    with Session(program, B, bound_to(sabotage(), program)) as s:
        s.run(X)
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
    assert str(e.value) == message


@pytest.mark.parametrize("sabotage", [SkipsCopies, HalvesCopies, ZeroesCopies])
def test_an_audit_compares_both_ends_of_every_transfer(sabotage: type[NumpyBackend]) -> None:
    program = by_hand()
    with pytest.raises(ConformanceError) as e:
        Session(program, B, bound_to(sabotage(), program), audit=True)
    assert str(e.value) == "transfer_peer %b.1: the bytes on gpu:1 are not those on gpu:0"


@pytest.mark.parametrize(
    "sabotage",
    [SelectsNothing, AllocatesElsewhere, SkipsCopies, HalvesCopies, ZeroesCopies, CopiesTwice, DispatchesTwice],
)
def test_the_suite_fails_for_a_backend_that_lies(sabotage: type[NumpyBackend]) -> None:
    checks = [
        lambda bed: suite.test_alloc_is_observed_where_it_was_asked(bed, vx.GPU[1], vx.GPU[0]),
        lambda bed: suite.test_dispatch_runs_where_it_was_asked(bed, vx.GPU[1], vx.GPU[0]),
        lambda bed: suite.test_a_transfer_is_equal_new_and_leaves_its_source(bed, vx.GPU[0], vx.GPU[1]),
        suite.test_bytes_are_counted_per_ordered_pair,
    ]
    assert all(_passes(check, NumpyBackend()) for check in checks)
    assert not all(_passes(check, sabotage()) for check in checks)


def _passes(check: Any, backend: NumpyBackend) -> bool:
    bed = Bed(backend, dict.fromkeys(PLACES, "numpy"))
    bed.open()
    try:
        check(bed)
    except (AssertionError, VxError):
        return False
    return True


# The report itself.


def test_a_report_of_nothing_conforms_to_nothing() -> None:
    with Session(by_hand(), B, "numpy") as s:
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
        assert str(e.value) == "nothing ran: there is nothing to compare with the plan"
        assert s.report.dispatches == {vx.GPU[0]: 0, vx.GPU[1]: 0}
        assert s.report.transfers == s.report.instructions == ()


def test_a_run_that_did_not_finish_conforms_to_nothing() -> None:
    with Session(counting(), {}, "numpy") as s:
        stream = s.stream(counting_inputs())
        next(stream)
        next(stream)
        stream.close()
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
        assert str(e.value) == "the run did not finish: only a whole run can be compared with the plan"


def test_the_report_shows_the_last_run_and_an_older_one_stays_as_it_was() -> None:
    with Session(counting(), {}, "numpy") as s:
        s.run(counting_inputs(limit=2))
        first = s.report
        s.run(counting_inputs(limit=5))
        assert list(first.steps.values()) == [2]
        assert list(s.report.steps.values()) == [5]
        assert first.conforms()
        assert s.report.conforms()
        more = s.report.dispatches[vx.GPU[1]] - first.dispatches[vx.GPU[1]]
        assert more == 3  # one dispatch on gpu:1 per step


def test_transfers_show_planned_and_observed_bytes_of_every_step() -> None:
    with Session(counting(), {}, "numpy", audit=True) as s:
        s.run(counting_inputs(limit=4))
        peers = [t for t in s.report.transfers if t.src is not None and t.dst is not None]
        assert {(t.src, t.dst): (t.planned_bytes, t.observed_bytes, t.count) for t in peers} == {
            (vx.GPU[0], vx.GPU[1]): (16, 16, 4),
            (vx.GPU[1], vx.GPU[0]): (16, 16, 4),
        }
        assert all((t.observed_src, t.observed_dst) == (t.src, t.dst) for t in s.report.transfers)
        assert {(t.value, t.src, t.dst) for t in s.program.transfers} == {
            (t.value, t.src, t.dst) for t in s.report.transfers
        }


def test_instructions_carry_counts_seconds_and_the_observed_place() -> None:
    with Session(mlp(), mlp_params(), "numpy") as s:
        s.run({"x": np.ones((1, 64), np.float32)})
        by_name = {e.instr.name: e for e in s.report.instructions}  # type: ignore[union-attr]
        assert (by_name["h"].count, by_name["h"].observed) == (1, vx.GPU[0])
        assert (by_name["y"].count, by_name["y"].observed) == (1, vx.GPU[1])
        assert all(e.seconds > 0 for e in by_name.values())


def test_a_loop_that_did_too_many_steps_is_found_out() -> None:
    with Session(counting(), {}, "numpy") as s:
        s.run(counting_inputs(limit=4))
        assert s.report.run is not None
        (record,) = [r for r in s.report.run.records if isinstance(r.instr, Loop)]
        assert isinstance(record.instr, Loop)
        record.instr = replace(record.instr, max_steps=3)
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
        assert e.value.message == f"loop %{record.instr.name}: planned at most 3 steps, did 4"


def test_a_missing_execution_is_found_out() -> None:
    with Session(by_hand(), B, "numpy") as s:
        s.run(X)
        assert s.report.run is not None
        s.report.run.records[1].count = 0
        with pytest.raises(ConformanceError) as e:
            s.report.conforms()
        assert str(e.value) == "model.py:7: dispatch %y (add): planned once, ran 0 times"


def test_a_tensor_from_elsewhere_stops_the_run_with_the_users_line() -> None:
    program = by_hand()
    moved = replace(program.body[3], inputs=("y", "b.1"))  # reads gpu:0's value on gpu:1: the transfer is bypassed
    broken = replace(program, body=(*program.body[:3], moved, *program.body[4:]))
    with Session(broken, B, "numpy") as s:
        with pytest.raises(RunError) as e:
            s.run(X)
        assert str(e.value) == "model.py:9: %z: dispatch add on gpu:1: the buffer lives on gpu:0; transfer it first"


# Traces.


def test_a_trace_has_a_track_per_queue_and_the_observed_device_on_every_event() -> None:
    with Session(counting(), {}, "numpy", trace=True) as s:
        s.run(counting_inputs(limit=3))
        trace = s.report.chrome_trace()
    events = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "loop"]
    tracks = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    queues = {"gpu:0.compute", "gpu:1.compute", "gpu:0.copy", "gpu:1.copy"}
    assert queues | {"loop %loop.1"} == set(tracks.values())
    assert len(events) == sum(e.count for e in s.report.instructions)
    for e in events:
        assert tracks[e["tid"]].startswith(e["args"]["planned"])
        assert e["args"]["observed"].startswith("numpy:gpu:")
        assert e["dur"] > 0
    on_gpu1 = [e for e in events if tracks[e["tid"]] == "gpu:1.compute"]
    assert [e["name"] for e in on_gpu1].count("dispatch %more (maximum)") in (0, 3)
    assert {e["args"]["observed"] for e in on_gpu1} == {"numpy:gpu:1"}
    assert sorted(e["ts"] for e in events) == [e["ts"] for e in events]


def test_a_trace_does_not_claim_what_did_not_happen() -> None:
    program = by_hand()
    with Session(program, B, bound_to(DispatchesElsewhere(), program), trace=True) as s:
        s.run(X)
        events = {e["name"]: e["args"] for e in s.report.chrome_trace()["traceEvents"] if e["ph"] == "X"}
    z = events["dispatch %z (add)"]
    assert (z["planned"], z["observed"]) == ("gpu:1", "numpy:gpu:0")


def test_a_trace_keeps_its_last_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vxgraph.runtime.record.TRACED", 5)
    with Session(counting(), {}, "numpy", trace=True) as s:
        s.run(counting_inputs(limit=3))
        trace = s.report.chrome_trace()
    total = sum(e.count for e in s.report.instructions)
    assert len([e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "loop"]) == 5
    assert trace["otherData"]["events dropped"] == total - 5


def test_without_tracing_there_is_no_trace() -> None:
    with Session(by_hand(), B, "numpy") as s:
        s.run(X)
        with pytest.raises(RunError) as e:
            s.report.chrome_trace()
        assert str(e.value) == "nothing was traced; make the session with trace=True and run it"
