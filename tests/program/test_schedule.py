"""Waits: enough of them, none too many, none within a queue."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vxgraph as vx
from tests.mutants.edits import paths, swapped
from tests.program.samples import SAMPLES
from tests.program.simulate import simulate
from tests.strategies import arrays, graphs
from vxgraph.errors import ProgramError
from vxgraph.ir.graph import Graph
from vxgraph.program.instructions import Loop, Queued, flatten
from vxgraph.program.verify import verify_program

MACHINE = vx.load_machine("cpu-x8")
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def queued(program: vx.Program) -> list[Queued]:
    return [i for i, _ in flatten((*program.load, *program.body)) if isinstance(i, Queued)]


@pytest.mark.parametrize("name", SAMPLES)
def test_no_instruction_waits_for_one_of_its_own_queue(name: str) -> None:
    program = SAMPLES[name].program()
    by_name = {i.name: i for i in queued(program)}
    assert [i.name for i in by_name.values() for a in i.after if by_name[a].queue == i.queue] == []


def needless_waits(program: vx.Program) -> list[str]:
    """Waits whose program proves without them; one for no bytes at all says that of any program."""
    found: list[str] = []
    for where in ("load", "body"):
        for path, instr in paths(getattr(program, where)):
            for k, name in enumerate(getattr(instr, "after", ())):
                if name in program.slot_of and not program.slot_of[name].nbytes:
                    continue
                fewer = type(instr)(**{**fields_of(instr), "after": instr.after[:k] + instr.after[k + 1 :]})
                try:
                    verify_program(swapped(program, where, path, fewer))
                    found.append(f"%{instr.name} after %{name}")
                except ProgramError:
                    pass
    return found


def fields_of(instr: Queued) -> dict[str, object]:
    return {name: getattr(instr, name) for name in instr.__dataclass_fields__}


@pytest.mark.parametrize("name", SAMPLES)
def test_without_any_one_of_its_waits_a_program_does_not_prove(name: str) -> None:
    program = SAMPLES[name].program()
    assert any(i.after for i in queued(program))
    assert needless_waits(program) == []


@given(graphs(loops=1))
@QUICK
def test_no_wait_of_any_graph_is_needless(graph: Graph) -> None:
    assert needless_waits(vx.compile(graph, MACHINE)) == []


def test_a_copy_that_another_one_follows_waits_for_nobody_who_reads_what_it_does_not_write() -> None:
    with vx.Graph("g") as g, vx.on(vx.CPU[0]):
        x = vx.input("x", vx.f32[4])

        def step(a: vx.Value, b: vx.Value, c: vx.Value) -> list[vx.Value]:
            with vx.on(vx.CPU[1]):
                vx.emit("e", b + c)
            return [vx.neg(b, name="last"), x, a]

        for k, out in enumerate(vx.loop(step, [x, x, x], max_steps=2)[0]):
            vx.output(f"y{k}", out)
    program = vx.compile(g, MACHINE)
    copies = [i for i in queued(program) if i.name.endswith((".next", ".next.1"))]
    assert len(copies) > 2
    assert needless_waits(program) == []


@given(graphs(loops=1), st.randoms(use_true_random=False))
@QUICK
def test_every_order_that_the_waits_allow_gives_the_same_bits(graph: Graph, rng: random.Random) -> None:
    program = vx.compile(graph, MACHINE)
    first, second = (simulate(program, *arrays(graph), rng) for _ in range(2))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_a_wait_that_another_one_implies_is_left_out() -> None:
    with vx.Graph("g") as graph:
        x = vx.input("x", vx.f32[4])
        with vx.on(vx.CPU[0]):
            a = x + 1
        with vx.on(vx.CPU[1]):
            vx.output("y", vx.neg(a))
            vx.output("z", vx.relu(a))
    waits = {i.name: i.after for i in queued(vx.compile(graph, MACHINE))}
    assert (waits["neg"], waits["relu"]) == (("add.cpu1",), ())


def test_the_later_of_two_makers_may_make_the_wait_for_the_earlier_one_needless_whatever_their_queues() -> None:
    """Numbers within queues say nothing across queues: both are the first on theirs."""
    with vx.Graph("g") as graph:
        with vx.on(vx.CPU[0]):
            x = vx.input("x", vx.f32[4])
        with vx.on(vx.CPU[1]):
            there = vx.neg(x)
        with vx.on(vx.CPU[0]):
            vx.output("y", x + there)
    waits = {i.name: i.after for i in queued(vx.compile(graph, MACHINE))}
    assert waits["add"] == ("neg.cpu0",)


def test_the_copy_that_ends_a_step_waits_for_transfers_that_still_read_the_step_s_value() -> None:
    loop = next(i for i in SAMPLES["emits"].program().body if isinstance(i, Loop))
    copy = next(i for i in loop.body if isinstance(i, Queued) and i.name == "add.step.next")
    assert copy.after == ("add.step.host",)


def test_nothing_in_a_loop_waits_for_what_is_before_it() -> None:
    """A loop is a barrier, so that such a wait says nothing."""
    for sample in SAMPLES.values():
        for loop in (i for i in sample.program().body if isinstance(i, Loop)):
            inside = {i.name for i, _ in flatten(loop.body) if isinstance(i, Queued)}
            assert [a for i, _ in flatten(loop.body) for a in getattr(i, "after", ()) if a not in inside] == []
