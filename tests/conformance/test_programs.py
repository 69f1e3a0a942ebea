"""Whole programs on every backend: the same results as NumPy, at the observed places, with the planned bytes.

The program here is what a disaggregated model is made of: rows of keys made on one topology and moved to another, a
loop there that attends to them and appends its own, and weights on both sides. tests/examples/test_disaggregated.py
asks the same of the Llama.
"""

from __future__ import annotations

import numpy as np
import pytest

import vxgraph as vx
from tests.conformance.bed import Bed
from vxgraph.ir.types import Array
from vxgraph.program.instructions import Queue
from vxgraph.program.model import Program
from vxgraph.runtime.abi import Timed
from vxgraph.runtime.session import Session

RNG = np.random.default_rng(6)
WIDTH, LENGTH, STEPS, ROWS = 8, 16, 5, 3
WITHIN_A_DEVICE, BETWEEN_DEVICES = 2e-6, 2e-4  # seconds that observed times may be off
T = vx.Dim("T", min=1, max=LENGTH - STEPS)
G0, G1 = vx.GPU[0], vx.GPU[1]
PARAMS = {name: RNG.standard_normal((WIDTH, WIDTH)).astype(np.float32) for name in ("wk", "wq")}
INPUTS = {
    "x": RNG.standard_normal((ROWS, WIDTH)).astype(np.float32),
    "first": RNG.standard_normal((1, WIDTH)).astype(np.float32),
}


def decoder(prefill: vx.Topology, decode: vx.Topology) -> Program:
    """`wk` is read on both sides, `wq` by the loop."""
    with vx.Graph("decoder") as g:
        x, first = vx.input("x", vx.f32[T, WIDTH]), vx.input("first", vx.f32[1, WIDTH])
        wk, wq = (vx.param(name, vx.f32[WIDTH, WIDTH]) for name in PARAMS)
        with vx.on(prefill):
            rows = vx.reshape(vx.matmul(x, wk), [T, 1, WIDTH], name="rows")
        with vx.on(decode):
            cache = vx.cache_init(vx.f32[LENGTH, 1, WIDTH], rows)
            at = vx.size(T)

        def step(h: vx.Value, cache: vx.Value, at: vx.Value) -> list[vx.Value]:
            with vx.on(decode):
                cache = vx.cache_append(cache, vx.reshape(h @ wk, [1, 1, WIDTH]), at)
                at = at + 1
                q = vx.reshape(h @ wq, [1, 1, WIDTH])
                h = vx.reshape(vx.attention(q, cache, cache, length=at), [1, WIDTH])
                vx.emit("h", h)
                return [h, cache, at]

        (h, _, _), steps = vx.loop(step, [first, cache, at], max_steps=STEPS)
        vx.output("y", h)
        vx.output("steps", steps)
    return vx.compile(g, vx.load_machine("h200-x2"))


@pytest.fixture(scope="module")
def wanted() -> dict[str, Array]:
    """What NumPy gives on one device."""
    with Session(decoder(G0, G0), PARAMS, "numpy") as s:
        return s.run(INPUTS)


@pytest.mark.parametrize("audit", [False, True])
@pytest.mark.parametrize("places", [(G0, G0), (G1, G1), (G0, G1), (G1, G0)])
def test_any_placement_gives_numpys_results_and_conforms(
    closed_bed: Bed, wanted: dict[str, Array], places: tuple[vx.Topology, vx.Topology], audit: bool
) -> None:
    with closed_bed.session(decoder(*places), PARAMS, audit=audit) as s:
        for _ in range(2):
            found = s.run(INPUTS)
            assert s.report.conforms()
            for name, array in wanted.items():
                np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)
    assert found["h"].shape == (STEPS, 1, WIDTH)


def test_prefill_is_observed_on_one_side_and_the_steps_on_the_other(closed_bed: Bed) -> None:
    with closed_bed.session(decoder(G0, G1), PARAMS) as s:
        s.run(INPUTS)
        report = s.report
    assert report.dispatches[G0] == sum(
        e.count for e in report.instructions if e.instr.topology == G0 and hasattr(e.instr, "op")
    )
    assert report.dispatches[G1] >= 4 * STEPS
    assert all(e.observed is not None for e in report.instructions)


def test_on_one_device_the_other_has_no_work(closed_bed: Bed) -> None:
    program = decoder(G0, G0)
    with closed_bed.session(program, PARAMS) as s:
        s.run(INPUTS)
        assert set(s.report.dispatches) == {G0}
        assert s.report.dispatches[G0] > 0
        assert [t for t in s.report.transfers if t.src is not None and t.dst is not None] == []


def test_the_hand_over_is_the_plans_to_the_byte_and_no_step_moves_anything_else(closed_bed: Bed) -> None:
    with closed_bed.session(decoder(G0, G1), PARAMS) as s:
        s.run(INPUTS)
        peers = [t for t in s.report.transfers if t.src is not None and t.dst is not None]
        moved = closed_bed.backend.moved(G0, G1)
        s.run(INPUTS)
        assert closed_bed.backend.moved(G0, G1) - moved == ROWS * WIDTH * 4
    assert [(t.src, t.dst, t.count, t.planned_bytes, t.observed_bytes) for t in peers] == [
        (G0, G1, 1, ROWS * WIDTH * 4, ROWS * WIDTH * 4)
    ]
    assert (peers[0].observed_src, peers[0].observed_dst) == (G0, G1)


def test_every_weight_is_uploaded_once_for_each_topology_that_reads_it(closed_bed: Bed) -> None:
    with closed_bed.session(decoder(G0, G1), PARAMS) as s:
        for _ in range(2):
            s.run(INPUTS)
        uploads = {(u.param, u.topology): (u.count, u.nbytes, u.observed) for u in s.report.uploads}
        in_a_run = {t.value for t in s.report.transfers if t.src is None}
    nbytes = WIDTH * WIDTH * 4
    assert uploads == {
        ("wk", G0): (1, nbytes, G0),
        ("wk", G1): (1, nbytes, G1),
        ("wq", G1): (1, nbytes, G1),
    }
    assert not in_a_run & set(PARAMS)


def test_a_trace_carries_the_observed_device_of_every_event(closed_bed: Bed) -> None:
    with closed_bed.session(decoder(G0, G1), PARAMS, trace=True) as s:
        s.run(INPUTS)
        trace = s.report.chrome_trace()["traceEvents"]
        events = [e for e in trace if e["ph"] == "X" and e["cat"] != "loop"]
    assert all(e["args"]["observed"] for e in events)
    kernels = [(e["args"]["planned"], e["args"]["observed"]) for e in events if e["name"].startswith("dispatch")]
    assert len(kernels) > 4 * STEPS
    here, there = ({seen for planned, seen in kernels if planned == str(t)} for t in (G0, G1))
    assert len(here) == len(there) == 1
    assert here.isdisjoint(there) == closed_bed.apart(G0, G1)


def test_a_timeline_keeps_the_order_of_the_program(closed_bed: Bed) -> None:
    with closed_bed.session(decoder(G0, G1), PARAMS, trace=True) as s:
        s.run(INPUTS)
        timeline = s.report.timeline()
    assert timeline.clock == ("device" if isinstance(closed_bed.backend, Timed) else "host")
    ends: dict[str, float] = {}
    queues: dict[Queue, float] = {}
    for event in timeline.slices:
        before = [ends[name] for name in event.instr.after if name in ends]
        assert max(before, default=0.0) <= event.start + BETWEEN_DEVICES
        assert queues.get(event.instr.queue, 0.0) <= event.start + WITHIN_A_DEVICE
        ends[event.instr.name] = queues[event.instr.queue] = event.end
    assert max(ends.values()) <= timeline.seconds + BETWEEN_DEVICES


def test_memory_is_given_back_when_a_session_closes(closed_bed: Bed) -> None:
    if closed_bed.used is None:
        pytest.skip("this bed does not count its memory")
    program, sessions = decoder(G0, G1), []
    used: list[int] = []
    for _ in range(3):
        session = closed_bed.session(program, PARAMS)
        session.run(INPUTS)
        used.append(closed_bed.used(G0))
        session.close()
        sessions.append(session)  # closed, and still held
    assert used == used[:1] * 3


def test_zeroed_bytes_change_the_result(closed_bed: Bed, wanted: dict[str, Array]) -> None:
    """The hand-over is load-bearing: without its bytes the results are others."""
    nothing = {**INPUTS, "x": np.zeros_like(INPUTS["x"])}
    with closed_bed.session(decoder(G0, G1), PARAMS) as s:
        assert np.abs(s.run(nothing)["h"] - wanted["h"]).max() > 0.01


# Programs of single cases.


@pytest.mark.case("R09")
def test_what_is_flipped_or_empty_crosses_as_it_is(closed_bed: Bed) -> None:
    flips = {"rows": np.s_[::-1], "columns": np.s_[:, ::-1]}
    with vx.Graph("flipped") as g:
        x, nothing = vx.input("x", vx.f32[3, 4]), vx.input("nothing", vx.f32[0, 4])
        with vx.on(G0):
            here = {name: (x + 1)[where] for name, where in flips.items()} | {"nothing": nothing + 1}
        with vx.on(G1):
            for name, value in here.items():
                vx.output(name, value * 2)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with closed_bed.session(vx.compile(g, vx.load_machine("h200-x2")), audit=True) as s:
        found = s.run({"x": x, "nothing": np.zeros((0, 4), np.float32)})
        assert s.report.conforms()
        assert [t.observed_bytes for t in s.report.transfers if t.src and t.dst] == [48, 48, 0]
    for name, where in flips.items():
        np.testing.assert_array_equal(found[name], 2 * (x + 1)[where])
        assert all(stride > 0 for stride in found[name].strides)
    assert (found["nothing"].shape, found["nothing"].dtype) == ((0, 4), np.float32)


@pytest.mark.case("D02")
def test_a_hand_over_of_32_rows_moves_them_all_though_the_last_write_ended_at_20(closed_bed: Bed) -> None:
    with vx.Graph("rolled_back") as g:
        rows, again = vx.input("rows", vx.f32[32, 1, WIDTH]), vx.input("again", vx.f32[4, 1, WIDTH])
        with vx.on(G0):
            cache = vx.cache_append(vx.cache_init(vx.f32[512, 1, WIDTH]), rows, vx.constant(0))
            valid = vx.cache_append(cache, again, vx.constant(16))[:32]
        with vx.on(G1):
            vx.output("rows", vx.cache_init(vx.f32[512, 1, WIDTH], valid)[:32])
    rows, again = (np.full((n, 1, WIDTH), value, np.float32) for n, value in ((32, 1), (4, 2)))
    with closed_bed.session(vx.compile(g, vx.load_machine("h200-x2"))) as s:
        found = s.run({"rows": rows, "again": again})["rows"]
        assert s.report.conforms()
        assert closed_bed.backend.moved(G0, G1) == 32 * WIDTH * 4
    assert found[:, 0, 0].tolist() == [1] * 16 + [2] * 4 + [1] * 12


@pytest.mark.case("D05")
def test_a_second_chunk_is_refused_beyond_the_cache_and_written_up_to_its_end(closed_bed: Bed) -> None:
    """300 rows and 300 rows: each would fit, both do not."""
    chunk = vx.Dim("C", min=1, max=512)
    with vx.Graph("chunks") as g:
        first, second = vx.input("first", vx.f32[300, 4]), vx.input("second", vx.f32[chunk, 4])
        with vx.on(G0):
            cache = vx.cache_append(vx.cache_init(vx.f32[512, 4]), first, vx.constant(0))
            vx.output("cache", vx.cache_append(cache, second, vx.constant(300), name="both"))
    first, second = np.ones((300, 4), np.float32), np.full((300, 4), 2, np.float32)
    program = vx.compile(g, vx.load_machine("h200-x2"))
    with closed_bed.session(program) as s:
        with pytest.raises(vx.RunError) as error:
            s.run({"first": first, "second": second})
        where, _, what = error.value.message.rpartition(": ")
        assert what == "300 rows at 300 do not fit the cache, which has 512 rows"
        assert where in ("%both", "cache_append", "dispatch %both (cache_append)")
    with closed_bed.session(program) as s:
        found = s.run({"first": first, "second": second[:212]})["cache"]
        assert s.report.conforms()
    assert found[:, 0].tolist() == [1] * 300 + [2] * 212
