"""A traced run as a timeline, next to the prediction of the same program."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import vxgraph as vx
from tests.program.trace_rules import keeps_the_format
from tests.runtime.programs import counting, counting_inputs
from vxgraph.errors import RunError
from vxgraph.program.predict import predict
from vxgraph.program.timeline import Timeline, loop_around, summary
from vxgraph.runtime.session import Session

LIMIT = 3


@pytest.fixture(name="session", scope="module")
def _session() -> Session:
    """One traced run of three steps; closed."""
    with Session(counting(), {}, "numpy", trace=True) as s:
        s.run(counting_inputs(limit=LIMIT))
    return s


def test_a_run_s_timeline_has_every_execution_on_the_host_s_clock(session: Session) -> None:
    timeline = session.report.timeline()
    assert (timeline.source, timeline.clock, timeline.left_out) == ("observed", "host", 0)
    counts = {e.instr.name: e.count for e in session.report.instructions if e.count}  # type: ignore[union-attr]
    found = [s.instr.name for s in timeline.slices]
    assert {name: found.count(name) for name in found} == counts
    assert all(0 <= s.start < s.end <= timeline.seconds for s in timeline.slices)
    assert [s.start for s in timeline.slices] == sorted(s.start for s in timeline.slices)
    assert {s.device for s in timeline.slices} == {"numpy:gpu:0", "numpy:gpu:1"}


def test_slices_lie_in_the_steps_that_they_ran_in(session: Session) -> None:
    timeline, around = session.report.timeline(), loop_around(session.program)
    assert [(s.first, s.last) for s in timeline.sections] == [(k, k) for k in range(LIMIT)]
    assert all(a.end <= b.start for a, b in pairwise(timeline.sections))
    steps = {(s.loop, s.first): s for s in timeline.sections}
    for s in timeline.slices:
        if s.instr.name in around:
            step = steps[around[s.instr.name], s.step]
            assert step.start <= s.start < s.end <= step.end
        else:
            assert s.step == -1


def test_a_run_and_its_prediction_are_the_same_executions(session: Session) -> None:
    observed = session.report.timeline()
    predicted = predict(session.program, vx.load_machine(session.program.machine), steps=LIMIT)

    def executions(timeline: Timeline) -> set[tuple[str, int]]:
        return {(s.instr.name, s.step) for s in timeline.slices}

    assert executions(observed) == executions(predicted)
    assert [s.title for s in observed.sections] == [s.title for s in predicted.sections]
    assert summary(observed, session.program).step.keys() == summary(predicted, session.program).step.keys()


def test_the_trace_of_a_run_keeps_the_format(session: Session) -> None:
    trace = json.loads(json.dumps(session.report.chrome_trace()))
    keeps_the_format(trace)
    assert (trace["otherData"]["source"], trace["otherData"]["clock"]) == ("observed", "host")
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert names == ["loops", "gpu:0 on numpy:gpu:0", "gpu:1 on numpy:gpu:1"]


def test_without_tracing_there_is_no_timeline() -> None:
    with Session(counting(), {}, "numpy") as s:
        s.run(counting_inputs())
        with pytest.raises(RunError) as e:
            s.report.timeline()
    assert str(e.value) == "nothing was traced; make the session with trace=True and run it"
