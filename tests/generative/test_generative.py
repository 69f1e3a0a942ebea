"""Ten thousand random graphs, and that a compiler which is wrong fails on far fewer."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from typer.testing import CliRunner

import vxgraph as vx
from tests.generative import __main__ as command
from tests.generative.build import build, machine_of
from tests.generative.check import Choices, compiled
from tests.generative.recipe import Given, Recipe, Spot, Step, recipe_of
from tests.generative.shrink import shrink
from tests.generative.sweep import ELSEWHERE, Failure, Report, kind, smallest, sweep, why_of
from vxgraph.ir.op import OPS
from vxgraph.passes import fuse
from vxgraph.program import compile as compiler
from vxgraph.program import memory, schedule, text

GRAPHS = 10_000
SAMPLE = 4  # every fourth graph is compiled again in a process with another hash seed


# What the graphs must have had between them, to be worth their number.
OCCUR = [f"places:{n}" for n in (1, 2, 3, 4)] + [f"loops:{n}" for n in (0, 1, 2, 3)]
OCCUR += ["depth:2", "runs with T = 0", "transfers", "waits", "donations"]


def test_ten_thousand_graphs_of_all_ops_at_any_places_in_any_legal_order_are_right():
    """One test, so that the sweep runs once however the suite is split."""
    report = sweep(range(GRAPHS), jobs=min(2, os.cpu_count() or 1), sample=SAMPLE)
    assert [(f.seed, f.why, f.recipe) for f in report.failures] == []
    assert (report.graphs, report.again) == (GRAPHS, GRAPHS // SAMPLE)
    assert [name for name in OPS if report.counts[f"op:{name}"] < 20] == []
    assert [what for what in OCCUR if report.counts[what] < 30] == []


def test_any_subset_of_a_recipes_steps_and_inputs_is_a_graph():
    rng = random.Random(0)
    for seed in range(100):
        recipe = recipe_of(seed)
        steps = tuple(s for s in recipe.steps if rng.random() < 0.6)
        given = tuple(g for g in recipe.given if rng.random() < 0.6)
        compiled(replace(recipe, steps=steps, given=given))


def test_what_is_checked_is_what_vx_compile_gives():
    for seed in range(50):
        recipe = recipe_of(seed)
        program = vx.compile(build(recipe), machine_of(recipe.machine))
        assert program.text() == compiled(recipe).program.text()


def test_choices_that_are_used_up_begin_again():
    choices = Choices((1, 0, 2))
    assert [choices.choice("abc") for _ in range(5)] == ["a", "c", "b", "a", "c"]
    assert Choices(()).choice("abc") == "a"


# A compiler that is wrong.


def failures_of(seeds: range, enough: int = 2) -> list[Failure]:
    """The first few."""
    found = (Failure(seed, why) for seed in seeds if (why := why_of(recipe_of(seed))))
    return list(islice(found, enough))


@pytest.fixture
def no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are run as they are: what the runs find, and not what the proof finds."""
    monkeypatch.setattr(compiler, "verify_program", lambda program: None)
    monkeypatch.setattr(text, "verify_program", lambda program: None)


def test_a_wait_too_few_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch, no_proof: None):
    right = schedule._Scheduler._queued

    def wrong(self: schedule._Scheduler, instr):
        found = right(self, instr)
        return replace(found, after=found.after[:-1])

    monkeypatch.setattr(schedule._Scheduler, "_queued", wrong)
    found = failures_of(range(20), enough=10)
    assert len(found) == 10
    assert all(kind(f.why).startswith(("CheckError", "HazardError", "LookupError")) for f in found)
    recipe = smallest(found[0])
    assert len(recipe.steps) <= 2
    assert why_of(recipe)


def test_bytes_that_are_taken_too_early_are_found_and_made_small(monkeypatch: pytest.MonkeyPatch, no_proof: None):
    monkeypatch.setattr(memory, "_done", lambda touched, clock: True)
    found = failures_of(range(30))
    assert len(found) == 2
    recipe = smallest(found[0])
    assert len(recipe.steps) <= 4
    assert why_of(recipe)


def test_a_donation_too_many_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch, no_proof: None):
    monkeypatch.setattr(memory._Groups, "_obstacle", lambda self, *_: "")
    found = failures_of(range(100))
    assert len(found) == 2
    recipe = smallest(found[0])
    assert len(recipe.steps) <= 4
    assert why_of(recipe)


def test_operands_that_fusing_swaps_are_found_and_made_small(monkeypatch: pytest.MonkeyPatch):
    right = fuse._chain

    def wrong(*args):
        chain = right(*args)
        return replace(chain, expr=replace(chain.expr, operands=chain.expr.operands[::-1]))

    monkeypatch.setattr(fuse, "_chain", wrong)
    found = failures_of(range(150))
    assert len(found) == 2
    recipe = smallest(found[0])
    assert len(recipe.steps) <= 6
    assert "the plan in a legal order" in why_of(recipe)


def test_a_recipe_is_made_as_small_as_what_fails_allows():
    seed = next(s for s in range(1000) if sum(step.kind == "softmax" for step in recipe_of(s).steps) == 1)
    small = shrink(recipe_of(seed), lambda r: any(step.kind == "softmax" for step in r.steps))
    plain = Spot("free", 0)
    assert [(s.kind, s.picks, s.spot, s.out) for s in small.steps] == [("softmax", (0, 0, 0, 0), plain, False)]
    assert (small.given, small.order, len(small.places), len(small.runs)) == ((), (), 1, 1)


def test_the_command_shows_the_seed_and_the_small_graph_and_ends_with_1(monkeypatch: pytest.MonkeyPatch):
    step = Step(1, "unary", (0, 0, 0, 1), Spot("free", 0))
    recipe = Recipe("cpu", (0,), (Given(0, 2, False, Spot("free", 0)),), (step,), ((1, 1),), 3, (1,))
    failed = Report(10, seconds=2.0, counts=Counter({"runs": 12}), failures=[Failure(7, ELSEWHERE, recipe)])
    monkeypatch.setattr(command, "sweep", lambda *_, **__: failed)
    result = CliRunner().invoke(command.app, ["--count", "10"])
    assert result.exit_code == 1
    assert "10 graphs, 12 runs, failures 1, 2 s, 5 graphs/s" in result.stdout
    assert f"seed 7\n{ELSEWHERE}" in result.stdout
    assert "%exp = exp(%x0) : f32[4, 4]" in result.stdout
    assert "schedule (1,), sizes of (T, L) ((1, 1),)" in result.stdout


def test_a_sweep_without_failures_ends_with_0(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command, "sweep", lambda *_, **__: Report(10, seconds=2.0))
    assert CliRunner().invoke(command.app, ["--count", "10"]).exit_code == 0
