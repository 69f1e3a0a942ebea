"""What a graph becomes: golden programs, each run against what the graph's ops mean."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import vxgraph as vx
from tests.program.interpret import interpret
from tests.program.samples import SAMPLES, A
from tests.program.simulate import simulate
from vxgraph.program.instructions import Dispatch, Loop, Upload, flatten


@pytest.mark.parametrize("name", SAMPLES)
def test_the_program_of(name: str, golden: Callable[..., None]) -> None:
    golden(SAMPLES[name].program().text(), name)


@pytest.mark.parametrize("name", SAMPLES)
def test_it_computes_what_the_ops_mean(name: str) -> None:
    sample = SAMPLES[name]
    wanted = interpret(sample.graph(), sample.inputs, sample.params)
    with vx.Session(sample.program(), sample.params, bind="numpy", audit=True) as session:
        found = session.run(sample.inputs)
        assert session.report.conforms()
    assert found.keys() == wanted.keys()
    for key in wanted:
        np.testing.assert_allclose(found[key], wanted[key], rtol=1e-5, atol=1e-6, strict=True, err_msg=key)


@pytest.mark.parametrize("name", SAMPLES)
def test_it_computes_the_same_in_every_order_that_its_waits_allow(name: str) -> None:
    sample = SAMPLES[name]
    wanted = interpret(sample.graph(), sample.inputs, sample.params)
    for seed in range(20):
        found = simulate(sample.program(), sample.inputs, sample.params, random.Random(seed))
        for key in wanted:
            np.testing.assert_allclose(found[key], wanted[key], rtol=1e-5, atol=1e-6, strict=True, err_msg=key)


def test_params_are_uploaded_in_the_load_section_once_per_place_and_never_in_a_run() -> None:
    program = SAMPLES["loop_with_captures"].program()
    assert [(i.src, str(i.topology)) for i in program.load if isinstance(i, Upload)] == [("w", "gpu:0"), ("w", "gpu:1")]
    assert {i.src for i, _ in flatten(program.body) if isinstance(i, Upload)} == {"x"}


def test_a_swap_costs_one_copy_beside_the_one_that_breaks_the_cycle() -> None:
    loop = next(i for i in SAMPLES["swap"].program().body if isinstance(i, Loop))
    assert [(i.op.name, i.why) for i in loop.body if isinstance(i, Dispatch)] == [
        ("copy", "handed on unchanged"),
        ("copy", "handed on unchanged"),
        ("copy", "%add.step is still read when %add.step.next is made"),
    ]


HOST_PARAMS = {
    "result 'y' is param %w itself": lambda w, x: vx.output("y", w),
    "emit 'y' is param %w itself": lambda w, x: vx.emit("y", w),
    "the limit of loop %loop.1 is param %n itself": lambda w, x: vx.output(
        "y", vx.loop(lambda y: [y + 1], [x], max_steps=2, steps=vx.param("n", vx.i32[()]))[0][0]
    ),
    "the stop predicate of loop %loop.1 is param %s itself": lambda w, x: vx.output(
        "y", vx.loop(lambda y: [(vx.stop(stop_param()), y + 1)[1]], [x], max_steps=2)[0][0]
    ),
}


def stop_param() -> vx.Value:
    """The param that `test_a_param_...` made before the loop."""
    return STOPS[-1]


STOPS: list[vx.Value] = []


@pytest.mark.parametrize("message", HOST_PARAMS)
def test_a_param_that_a_run_reads_on_the_host_is_refused_with_its_line(message: str) -> None:
    with vx.Graph("g") as graph, vx.on(A):
        STOPS.append(vx.param("s", vx.bool[()]))
        HOST_PARAMS[message](vx.param("w", vx.f32[4]), vx.input("x", vx.f32[4]))
    name = message.split("%")[-1].split()[0]
    line = next(p.loc for p in graph.build().params if p.name == name)
    with pytest.raises(vx.GraphError) as error:
        vx.compile(graph, vx.load_machine("h200-x2"))
    assert str(error.value) == (
        f"{line}: {message}, which a run has on devices only; "
        "send it to one first, value.to(vx.CPU[0]) say, and use what that gives"
    )


def test_a_param_sent_to_a_place_first_can_be_a_result() -> None:
    with vx.Graph("g") as graph:
        vx.output("y", vx.param("w", vx.f32[4]).to(A))
    program = vx.compile(graph, vx.load_machine("h200-x2"))
    assert vx.run(program, {}, {"w": np.arange(4, dtype=np.float32)}, bind="numpy")["y"].tolist() == [0, 1, 2, 3]


def test_a_carried_value_that_the_host_reads_is_downloaded_in_the_step() -> None:
    def outer(n: vx.Value, x: vx.Value) -> list[vx.Value]:
        (x,), _ = vx.loop(lambda x: [x + 1], [x], max_steps=9, steps=n)
        return [n + 1, x]

    with vx.Graph("g") as graph, vx.on(A):
        (_, x), _ = vx.loop(outer, [vx.input("n", vx.i32[()]), vx.input("x", vx.f32[()])], max_steps=3)
        vx.output("x", x)
    program = vx.compile(graph, vx.load_machine("h200"))
    assert vx.run(program, {"n": np.int32(2), "x": np.float32(0)}, bind="numpy")["x"] == 2 + 3 + 4


def test_a_next_value_that_is_a_view_needs_no_copy() -> None:
    with vx.Graph("views") as g:
        x = vx.input("x", vx.f32[4, 2])

        def body(a: vx.Value) -> list[vx.Value]:
            half = a * 0.5
            vx.emit("half", half)  # so that it stays a value of its own
            return [(half + half).reshape(8).reshape(4, 2)]

        with vx.on(vx.CPU[0]):
            (out,), _ = vx.loop(body, [x], max_steps=3)
        vx.output("y", out)
    program = vx.compile(g, vx.load_machine("cpu"))
    loop = next(i for i in program.body if isinstance(i, Loop))
    assert [i.op.name for i in loop.body if isinstance(i, Dispatch)] == ["mul", "add"]
    given = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(vx.run(program, {"x": given})["y"], given)
