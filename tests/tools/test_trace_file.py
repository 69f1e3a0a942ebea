"""Traces read back: what we wrote is what we read, and whatever else is one message."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vxgraph as vx
from tests.program.samples import SAMPLES
from tests.runtime.programs import counting, counting_inputs
from vxgraph.errors import VxError
from vxgraph.program.chrome import chrome_trace
from vxgraph.program.predict import predict
from vxgraph.program.timeline import Timeline
from vxgraph.runtime.session import Session
from vxgraph.tools.trace_file import read_timeline

PROGRAM = SAMPLES["hand_over"].program()
TRACE = chrome_trace(predict(PROGRAM, vx.load_machine("h200-x2"), steps=1), PROGRAM)
TEXT = json.dumps(TRACE)


def near(a: Timeline, b: Timeline) -> bool:
    """The same, to the nanosecond that a trace is written in."""

    def without_times(t: Timeline) -> Any:
        slices = [(s.instr, s.step, s.device) for s in t.slices]
        return t.source, t.clock, t.seconds, slices, [(s.loop, s.first, s.last) for s in t.sections], t.left_out

    def times(t: Timeline) -> list[float]:
        return [x for s in (*t.slices, *t.sections) for x in (s.start, s.end)]

    return without_times(a) == without_times(b) and times(a) == pytest.approx(times(b), abs=1.5e-9, rel=0)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_prediction_is_read_back(name: str) -> None:
    program = SAMPLES[name].program()
    timeline = predict(program, vx.load_machine(SAMPLES[name].machine), kept=8)
    assert near(read_timeline(json.dumps(chrome_trace(timeline, program)), program, "t.json"), timeline)


def test_a_run_is_read_back_with_its_devices() -> None:
    with Session(counting(), {}, "numpy", trace=True) as s:
        s.run(counting_inputs(limit=3))
    read = read_timeline(json.dumps(s.report.chrome_trace()), s.program, "t.json")
    assert near(read, s.report.timeline())
    assert {found.device for found in read.slices} == {"numpy:gpu:0", "numpy:gpu:1"}


def changed(**other: Any) -> str:
    return json.dumps({**TRACE, "otherData": {**TRACE["otherData"], **other}})


def with_event(**event: Any) -> str:
    return json.dumps({**TRACE, "traceEvents": [{"ph": "X", "cat": "copy", "ts": 1, "dur": 1, **event}]})


MISTAKES = {
    "": "t.json: is no trace of ours: invalid JSON: EOF while parsing a value at line 1 column 0; wanted what --trace "
    "writes",
    "[1, 2]": "t.json: is no trace of ours: input should be an object; wanted what --trace writes",
    "{}": "t.json: is no trace of ours: otherData: field required; wanted what --trace writes",
    changed(format=7): "t.json: is a trace of format 7, wanted 1; write it anew",
    changed(digest="sha256:00"): "t.json: is a trace of another program: found digest 'sha256:00', wanted "
    f"'{PROGRAM.digest}' ('hand_over'); trace a run of this one",
    changed(source="guessed"): "t.json: is no trace of ours: otherData.source: input should be 'predicted' or "
    "'observed'; wanted what --trace writes",
    with_event(ts="soon"): "t.json: is no trace of ours: traceEvents.0.ts: input should be a valid number; wanted what "
    "--trace writes",
    with_event(dur=-1): "t.json: is no trace of ours: traceEvents.0.dur: input should be greater than or equal to 0; "
    "wanted what --trace writes",
    with_event(args={"instruction": "%nothing"}): "t.json: event 0 is of instruction '%nothing', which 'hand_over' has "
    "not: the file was edited",
    with_event(cat="loop", args={"loop": "%add"}): "t.json: event 0 is of loop '%add', which 'hand_over' has not: the "
    "file was edited",
    "[" * 100_000: "t.json: is no trace of ours: invalid JSON: recursion limit exceeded at line 1 column 202; wanted "
    "what --trace writes",
    '{"traceEvents": NaN}': "t.json: is no trace of ours: otherData: field required; wanted what --trace writes",
    "\ud800": "t.json: is no trace of ours: input should be a valid string, unable to parse raw data as a unicode "
    "string; wanted what --trace writes",
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_what_is_no_trace_of_this_program_is_told_in_one_message(text: str) -> None:
    with pytest.raises(VxError) as e:
        read_timeline(text, PROGRAM, "t.json")
    assert str(e.value) == MISTAKES[text]


def test_events_of_other_kinds_are_somebody_else_s() -> None:
    """Perfetto's own notes, for instance, in a trace that was saved there."""
    trace = {**TRACE, "traceEvents": [*TRACE["traceEvents"], {"ph": "i", "ts": 3, "name": "note", "s": "g"}]}
    assert read_timeline(json.dumps(trace), PROGRAM, "t.json") == read_timeline(TEXT, PROGRAM, "t.json")


@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_file_that_is_spoilt_anywhere_is_read_or_refused(start: int, length: int, put: str) -> None:
    spoilt = TEXT[:start] + put + TEXT[start + length :]
    with suppress(VxError):  # and nothing else
        assert isinstance(read_timeline(spoilt, PROGRAM, "t.json"), Timeline)
