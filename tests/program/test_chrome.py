"""A timeline as Chrome trace events."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import vxgraph as vx
from tests.program.round_machine import LINK, RELU, A, B, X, compiled, machine
from tests.program.samples import SAMPLES
from tests.program.trace_rules import keeps_the_format
from tests.strategies import graphs
from vxgraph.ir.graph import Graph
from vxgraph.program.chrome import chrome_trace
from vxgraph.program.instructions import TransferPeer, flatten, label
from vxgraph.program.predict import predict

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DIRECT = machine(peers=[(0, 1)])


def crossing() -> None:
    with vx.on(A):
        y = vx.relu(vx.input("x", X))
    with vx.on(B):
        vx.output("z", vx.neg(y))


@pytest.fixture(name="trace", scope="module")
def _trace() -> dict[str, Any]:
    program = compiled(crossing, DIRECT)
    return chrome_trace(predict(program, DIRECT), program, {A: "cuda:0 NVIDIA H200"})


def names_of(trace: dict[str, Any], what: str) -> dict[int, str]:
    key = "pid" if what == "process_name" else "tid"
    return {e[key]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == what}


def test_each_topology_is_a_process_with_its_device_and_each_queue_a_thread(trace: dict[str, Any]) -> None:
    assert list(names_of(trace, "process_name").values()) == ["gpu:0 on cuda:0 NVIDIA H200", "gpu:1"]
    threads = names_of(trace, "thread_name")
    assert list(threads.values()) == ["gpu:0.compute", "gpu:0.copy", "gpu:1.compute", "gpu:1.copy"]
    orders = [e["args"]["sort_index"] for e in trace["traceEvents"] if e["name"] == "thread_sort_index"]
    assert orders == sorted(threads)


def test_a_slice_says_what_it_is_where_why_and_from_which_line(trace: dict[str, Any]) -> None:
    (found,) = (e for e in trace["traceEvents"] if e["name"] == "transfer_peer %relu.gpu1")
    threads = names_of(trace, "thread_name")
    assert (threads[found["tid"]], found["cat"], found["ph"]) == ("gpu:0.copy", "copy", "X")
    assert found["ts"] == pytest.approx((LINK + RELU) * 1e6)
    assert found["dur"] == pytest.approx(LINK * 1e6)
    source = found["args"].pop("source")
    assert source.startswith("tests/program/test_chrome.py:")
    assert found["args"] == {
        "instruction": "%relu.gpu1",
        "planned": "gpu:0",
        "to": "gpu:1",
        "bytes": 100,
        "reason": "read by %neg",
    }


def test_an_arrow_goes_from_the_maker_through_the_transfer_to_the_first_reader(trace: dict[str, Any]) -> None:
    assert arrows(trace) == [
        ["upload %x.gpu0", "dispatch %relu (relu)"],
        ["dispatch %relu (relu)", "transfer_peer %relu.gpu1", "dispatch %neg (neg)"],
        ["dispatch %neg (neg)", "download %neg.host"],
    ]


def arrows(trace: dict[str, Any]) -> list[list[str]]:
    """The names of the slices that each arrow stands on."""
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    found: dict[int, list[str]] = {}
    for e in trace["traceEvents"]:
        if e["ph"] in "stf":
            at = [s for s in slices if s["tid"] == e["tid"] and s["ts"] <= e["ts"] < s["ts"] + s["dur"]]
            found.setdefault(e["id"], []).append(at[0]["name"])
    return list(found.values())


def test_no_arrow_stands_on_a_slice_of_no_time() -> None:
    program = compiled(crossing, DIRECT)
    timeline = predict(program, DIRECT)
    sudden = [replace(s, seconds=0.0) if s.instr.name == "neg" else s for s in timeline.slices]
    trace = chrome_trace(replace(timeline, slices=tuple(sudden)), program)
    keeps_the_format(trace)
    assert arrows(trace) == [["upload %x.gpu0", "dispatch %relu (relu)"]]


def test_a_clock_s_rounding_makes_no_slice_overlap_the_next() -> None:
    """Perfetto drops a slice that begins a nanosecond before the last one has ended."""
    program = compiled(crossing, DIRECT)
    timeline = predict(program, DIRECT)
    one = replace(timeline.slices[0], start=1e-6 / 7, seconds=1e-5 / 7)
    for early in (3e-9, 0.0, 5e-10):
        two = (one, replace(one, start=one.end - early))
        keeps_the_format(chrome_trace(replace(timeline, slices=two), program))


def test_memory_is_counted_at_each_change(trace: dict[str, Any]) -> None:
    by_process = {
        pid: [(round(e["ts"] / 1e6, 3), e["args"]["transient"]) for e in trace["traceEvents"]
              if e["ph"] == "C" and e["pid"] == pid]
        for pid in names_of(trace, "process_name")
    }  # fmt: skip
    first, second = by_process.values()
    assert first == [(0.0, 100), (2.0, 200), (2.2, 100)]  # x, x and its relu, the relu
    assert second == [(0.0, 0), (2.2, 100), (4.2, 200), (4.4, 100)]


def test_what_the_trace_is_of_stands_beside_the_events(trace: dict[str, Any]) -> None:
    program = compiled(crossing, DIRECT)
    assert trace["otherData"] == {
        "format": 1,
        "program": "crossing",
        "machine": "round",
        "digest": program.digest,
        "source": "predicted",
        "clock": "virtual",
        "seconds": pytest.approx(3 * LINK + 2 * RELU),
        "sizes": {},
        "devices": {"gpu:0": "cuda:0 NVIDIA H200"},
        "events dropped": 0,
    }


def test_steps_of_loops_are_on_a_track_of_their_own() -> None:
    program = SAMPLES["hand_over"].program()
    trace = chrome_trace(predict(program, vx.load_machine("h200-x2")), program)
    sections = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "loop"]
    assert [e["name"] for e in sections] == ["loop %loop.2 step 0", "loop %loop.2 step 1"]
    assert {names_of(trace, "thread_name")[e["tid"]] for e in sections} == {"loop %loop.2"}
    assert {names_of(trace, "process_name")[e["pid"]] for e in sections} == {"loops"}


def test_bytes_are_those_of_the_sizes_that_ran() -> None:
    program = SAMPLES["views"].program()
    timeline = predict(program, vx.load_machine("h200-x2"), sizes={"T": 3})
    trace = chrome_trace(timeline, program)
    assert trace["otherData"]["sizes"] == {"T": 3}
    assert {e["args"]["bytes"] for e in trace["traceEvents"] if "bytes" in e.get("args", {})} == {3 * 8 * 4}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_transfer_between_devices_has_an_arrow_through_it(name: str) -> None:
    sample = SAMPLES[name]
    program = sample.program()
    trace = chrome_trace(predict(program, vx.load_machine(sample.machine)), program)
    keeps_the_format(trace)
    shown = {slice for arrow in arrows(trace) for slice in arrow}
    assert {label(i) for i, _ in flatten(program.body) if isinstance(i, TransferPeer)} <= shown
    crossing_ones = [a for a in arrows(trace) if any(s.startswith("transfer_peer") for s in a)]
    assert all(a[1].startswith("transfer_peer") and len(a) == 3 for a in crossing_ones)


@given(graphs())
@QUICK
def test_the_trace_of_any_graph_keeps_the_format_and_is_the_same_bytes_again(graph: Graph) -> None:
    on = vx.load_machine("cpu-x8")
    program = vx.compile(graph, on)
    first, second = (json.dumps(chrome_trace(predict(program, on), program)) for _ in range(2))
    assert first == second
    keeps_the_format(json.loads(first))
