"""Predictions against sums that were done by hand, and against the rules of what happens before what."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

import vxgraph as vx
from tests.program.round_machine import LINK, RELU, A, B, C, X, at, compiled, machine, times
from tests.program.samples import SAMPLES
from tests.strategies import graphs
from tests.work import calls
from vxgraph.errors import MachineError, RunError
from vxgraph.ir.graph import Graph
from vxgraph.program.instructions import flatten
from vxgraph.program.predict import LAUNCH_SECONDS, predict
from vxgraph.program.timeline import Timeline, loop_around, summary

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NEAR = 1e-9  # seconds: what adding a step's start in another order may change


def chain() -> None:
    with vx.on(A):
        vx.output("y", vx.relu(vx.input("x", X)))


def test_a_chain_takes_its_links_its_bytes_and_a_launch() -> None:
    timeline = predict(compiled(chain, machine()), machine())
    assert times(timeline) == {
        "x.gpu0": at(0, LINK),
        "relu": at(LINK, LINK + RELU),
        "relu.host": at(LINK + RELU, LINK + RELU + LINK),
    }
    assert timeline == Timeline("predicted", "virtual", timeline.slices[-1].end, timeline.slices, (), 0, {})


def test_arithmetic_that_takes_longer_than_its_bytes_is_what_counts() -> None:
    """2 * 10 * 10 * 10 FLOP at 1,000 a second, f16 at 2,000; 600 and 1,200 bytes would take less."""

    def product(dtype: vx.DType) -> float:
        def build() -> None:
            a, b = vx.input("a", dtype[10, 10]), vx.input("b", dtype[10, 10])
            with vx.on(A):
                vx.output("y", a @ b)

        return next(
            s.seconds for s in predict(compiled(build, machine()), machine()).slices if s.instr.name == "matmul"
        )

    assert product(vx.f32) == pytest.approx(2.0 + LAUNCH_SECONDS)
    assert product(vx.f16) == pytest.approx(1.0 + LAUNCH_SECONDS)


def test_a_dtype_that_a_device_has_no_rate_of_is_computed_at_its_slowest() -> None:
    def build() -> None:
        a, b = vx.input("a", vx.bf16[10, 10]), vx.input("b", vx.bf16[10, 10])
        with vx.on(A):
            vx.output("y", a @ b)

    found = predict(compiled(build, machine()), machine())
    assert next(s.seconds for s in found.slices if s.instr.name == "matmul") == pytest.approx(2.0 + LAUNCH_SECONDS)


def test_two_places_work_side_by_side() -> None:
    def both() -> None:
        x = vx.input("x", X)
        for name, place in (("y", A), ("z", B)):
            with vx.on(place):
                vx.output(name, vx.relu(x))

    timeline = predict(compiled(both, machine()), machine())
    assert timeline.seconds == pytest.approx(LINK + RELU + LINK)
    assert {s.start for s in timeline.slices if s.instr.queue.kind == "compute"} == {LINK}


def test_two_transfers_over_one_link_follow_one_another_also_from_two_queues() -> None:
    """gpu:0 and gpu:2 send to gpu:1 through the host at the same time: the last hop is one link."""

    def meet() -> None:
        x, y = vx.input("x", X), vx.input("y", X)
        with vx.on(A):
            here = vx.relu(x)
        with vx.on(C):
            there = vx.relu(y)
        with vx.on(B):
            vx.output("z", here + there)

    found = times(predict(compiled(meet, machine()), machine()))
    made = LINK + RELU
    assert found["relu.gpu1"] == at(made, made + 2 * LINK)
    assert found["relu.1.gpu1"] == at(made, made + 3 * LINK)
    assert found["add"][0] == round(made + 3 * LINK, 9)
    direct = machine(peers=[(0, 1), (2, 1)])
    assert times(predict(compiled(meet, direct), direct))["add"][0] == round(made + LINK, 9)


def looped() -> None:
    """Each step takes two times RELU: its result is copied into the bytes that the next step reads."""
    x = vx.input("x", X)
    with vx.on(A):
        (y,), _ = vx.loop(lambda y: [vx.relu(y)], [x], max_steps=1000)
        vx.output("y", y)


STEP = 2 * RELU


def test_a_loop_takes_as_many_steps_as_it_has_and_the_first_ones_are_kept() -> None:
    timeline = predict(compiled(looped, machine()), machine(), kept=5)
    assert timeline.seconds == pytest.approx(LINK + 1000 * STEP + LINK)
    assert [(s.instr.name, s.step) for s in timeline.slices] == [
        ("x.gpu0", -1),
        ("relu", 0),
        ("x.step.next", 0),
        ("relu", 1),
        ("x.step.next", 1),
        ("loop.host", -1),
    ]
    assert timeline.left_out == 998 * 2
    assert [s.title for s in timeline.sections] == [
        "loop %loop.1 step 0",
        "loop %loop.1 step 1",
        "loop %loop.1 steps 2 to 999",
    ]
    last = timeline.sections[-1]
    assert (last.start, last.end) == (pytest.approx(LINK + 2 * STEP), pytest.approx(LINK + 1000 * STEP))
    assert timeline.slices[-1].start == pytest.approx(last.end)


def test_one_step_is_kept_however_little_room_there_is() -> None:
    timeline = predict(compiled(looped, machine()), machine(), kept=0)
    assert [s.step for s in timeline.slices] == [-1, 0, 0, -1]


def test_fewer_steps_take_less_and_none_take_nothing() -> None:
    program = compiled(looped, machine())
    assert predict(program, machine(), steps=2).seconds == pytest.approx(LINK + 2 * STEP + LINK)
    assert predict(program, machine(), steps=0).seconds == pytest.approx(LINK + LINK)
    assert predict(program, machine(), steps=5000) == predict(program, machine())


def test_a_million_steps_are_no_more_work_than_ten() -> None:
    program = compiled(looped, machine())
    few, many = (calls(lambda n=n: predict(program, machine(), steps=n, kept=1)) for n in (10, 1000))
    assert many == few


def test_symbols_have_the_sizes_that_are_asked_for_and_else_their_bounds() -> None:
    t = vx.Dim("T", min=1, max=4)

    def sized() -> None:
        with vx.on(A):
            vx.output("y", vx.relu(vx.input("x", vx.f32[t, 25])))

    program = compiled(sized, machine())
    assert predict(program, machine(), sizes={"T": 1}).seconds == pytest.approx(LINK + RELU + LINK)
    assert predict(program, machine()).seconds == pytest.approx(5 + 0.8 + LAUNCH_SECONDS + 5)
    for sizes, message in (
        ({"S": 1}, "size S: the program has no such symbol; its symbols: T <= 4"),
        ({"T": 9}, "size T=9: T runs from 1 to 4"),
    ):
        with pytest.raises(RunError) as e:
            predict(program, machine(), sizes=sizes)
        assert str(e.value) == message
    with pytest.raises(RunError) as e:
        predict(program, machine(), steps=-1)
    assert str(e.value) == "steps is -1; wanted 0 or more"


def test_a_machine_without_the_place_is_told_as_such() -> None:
    with pytest.raises(MachineError) as e:
        predict(compiled(chain, machine()), vx.load_machine("cpu"))
    assert str(e.value).startswith("cpu has no gpu:0; it has cpu:0 (")


def test_the_summary_tells_the_first_emit_and_the_time_of_a_step() -> None:
    program = SAMPLES["emits"].program()
    timeline = predict(program, vx.load_machine("h200-x2"), steps=5)
    found = summary(timeline, program)
    (loop,) = {s.loop for s in timeline.sections}
    first, second = (next(s for s in timeline.sections if s.first == k) for k in (0, 1))
    assert found.step == {loop: pytest.approx(second.start - first.start)}
    download = next(s for s in timeline.slices if s.instr.name == "add.host")
    assert found.first_emit == pytest.approx(download.end)
    assert found.seconds == timeline.seconds > found.first_emit


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_keep_the_rules(name: str) -> None:
    keeps_the_rules(SAMPLES[name].program(), SAMPLES[name].machine)


@given(graphs())
@QUICK
def test_nothing_starts_before_what_it_waits_for_is_done(graph: Graph) -> None:
    keeps_the_rules(vx.compile(graph, vx.load_machine("cpu-x8")), "cpu-x8")


def keeps_the_rules(program: vx.Program, on: str) -> None:
    """Waits, queues, barriers; every instruction is there; the same again."""
    timeline = predict(program, vx.load_machine(on))
    assert timeline == predict(program, vx.load_machine(on))
    last: dict[str, float] = {}  # the end of each instruction's latest slice
    for s in timeline.slices:
        assert all(last[name] <= s.start + NEAR for name in s.instr.after if name in last)
        last[s.instr.name] = s.end
    assert set(last) == {i.name for i, _ in flatten(program.body) if hasattr(i, "queue")}
    by_queue: dict[str, list[tuple[float, float]]] = {}
    for s in timeline.slices:
        by_queue.setdefault(str(s.instr.queue), []).append((s.start, s.end))
    assert all(a[1] <= b[0] + NEAR for queue in by_queue.values() for a, b in pairwise(queue))
    assert max((s.end for s in timeline.slices), default=0) <= timeline.seconds + NEAR
    keeps_barriers(program, timeline)


def keeps_barriers(program: vx.Program, timeline: Timeline) -> None:
    """A slice lies within a step of its loop, and one of no loop lies in none."""
    around = loop_around(program)
    for s in timeline.slices:
        inside = [x for x in timeline.sections if x.start - NEAR <= s.start and s.end <= x.end + NEAR]
        mine = [x for x in inside if x.loop == around.get(s.instr.name) and x.first == s.step]
        assert bool(mine) == (s.step >= 0)
