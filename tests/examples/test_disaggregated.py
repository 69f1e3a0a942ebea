"""Prefill in one place, decode in another: observed there, and the same logits at every step as in one place."""

from __future__ import annotations

import numpy as np
import pytest

import vxgraph as vx
from examples.llama2 import model
from examples.llama2.model import PLACEMENTS, build
from tests.examples.disaggregation import (
    HERE,
    THERE,
    Bed,
    Watched,
    decode_ran_at,
    disaggregated,
    dispatches,
    forced_choice,
    handover_moved,
    placement,
    prefill_ran_at,
    program_of,
    prompt_went_through_once,
    run,
    single,
    spread_out,
)
from vxgraph.runtime.report import Report


def test_every_check_fails_on_an_empty_trace_and_on_a_run_without_decode_steps(bed: Bed):
    program = program_of(bed, disaggregated(bed))
    empty = Report(program, {}, None, None)
    with pytest.raises(vx.ConformanceError, match=r"^nothing ran: there is nothing to compare with the plan$"):
        empty.conforms()
    for check in (
        lambda: prefill_ran_at(empty, HERE),
        lambda: decode_ran_at(empty, THERE),
        lambda: handover_moved(empty, 0),
        lambda: prompt_went_through_once(empty, bed, 0, decode=THERE),
    ):
        with pytest.raises((AssertionError, ValueError)):
            check()
    with run(bed, disaggregated(bed), steps=0) as r, pytest.raises(AssertionError, match="every step was prefill"):
        decode_ran_at(r.report, THERE)


# One text, two places (1, 2, 3).


def test_single_and_disaggregated_graphs_differ_in_places_alone(bed: Bed):
    one, two = (build(bed.config, where(bed)).build().text() for where in (single, disaggregated))
    assert "@cpu:1" not in one
    assert "@cpu:1" in two
    assert two.replace("@cpu:1", "@cpu:0") == one


def test_prefill_is_observed_here_and_decode_there(bed: Bed):
    with run(bed, disaggregated(bed)) as r:
        prefill_ran_at(r.report, HERE)
        decode_ran_at(r.report, THERE)
        assert {e.observed for e in dispatches(r.report, "handover")} == {THERE}
        counted = {t: r.backend.dispatched(t) for t in (HERE, THERE)}
        assert counted == r.report.dispatches
        assert r.report.conforms()


def test_single_does_no_work_on_a_second_device_that_is_there(bed: Bed):
    backend = Watched()
    backend.open(THERE, "numpy")
    with run(bed, single(bed), backend=backend) as r:
        decode_ran_at(r.report, HERE)
        assert backend.dispatched(HERE) == r.report.dispatches[HERE] > 0
        assert backend.dispatched(THERE) == 0
        assert [backend.moved(a, THERE) + backend.moved(THERE, a) for a in (HERE, None)] == [0, 0]
        assert THERE not in backend.buffers


# The same numbers (4).


@pytest.mark.case("D07")
def test_tokens_are_those_of_one_device_and_of_a_pipeline(bed: Bed):
    layers = bed.config.layers
    pipeline = PLACEMENTS["pipeline"](vx.load_machine("cpu-x3"), layers)
    found: list[list[int]] = []
    for where in (single(bed), disaggregated(bed), pipeline, spread_out(bed)):
        with run(bed, where) as r:
            assert r.out["steps"] == len(bed.golden) - bed.prompt > 0
            found.append(r.out["token"].tolist())
    assert found[0] == found[1] == found[2] == found[3]
    assert len(set(found[0])) > 5


@pytest.mark.case("D07")
@pytest.mark.case("D01")
@pytest.mark.parametrize(("prefill", "decode"), [(HERE, THERE), (THERE, HERE)], ids=["there", "and back"])
def test_logits_agree_at_every_step_with_one_device_and_with_float64(
    bed: Bed, prefill: vx.Topology, decode: vx.Topology
):
    with run(bed, single(bed), forced=True) as r:
        one = r.out["logits"]
    with run(bed, placement(bed, [prefill], [decode]), forced=True) as r:
        prefill_ran_at(r.report, prefill)
        decode_ran_at(r.report, decode)
        two, positions = r.out["logits"], r.out["position"]
    assert positions.tolist() == list(range(bed.prompt, len(bed.golden) + 1))
    assert len(two) == len(bed.golden) - bed.prompt + 1 > 30
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-4)
    np.testing.assert_allclose(two, bed.golden[bed.prompt - 1 :], rtol=0, atol=1e-3)


@pytest.mark.case("D01")
def test_a_rotary_position_off_by_one_after_the_handover_shows_in_the_logits(bed: Bed, monkeypatch: pytest.MonkeyPatch):
    right = model.Position
    monkeypatch.setattr(model, "Position", lambda rows, at=None: right(rows if at is None else rows + 1, at))
    graph = build(bed.config, disaggregated(bed), choose=forced_choice(bed))
    wrong = vx.compile(graph, vx.load_machine("cpu-x3"))
    with run(bed, disaggregated(bed), program=wrong) as r:
        off = np.abs(r.out["logits"] - bed.golden[bed.prompt - 1 :]).max(axis=1)
    assert off[0] < 1e-3  # prefill's own
    assert off[1:].min() > 1e-3
    assert off[1:].max() > 0.1


# The prompt once (D07).


@pytest.mark.case("D07")
def test_the_prompt_goes_through_the_layers_once_and_its_rows_are_moved(bed: Bed):
    with run(bed, disaggregated(bed)) as r:
        prompt_went_through_once(r.report, bed, bed.prompt, decode=THERE)


@pytest.mark.case("D07")
def test_a_decoder_that_computes_the_prompt_itself_is_found_out(bed: Bed):
    alone = placement(bed, [THERE], [THERE])
    with run(bed, alone) as r, pytest.raises(AssertionError, match="kernels over the prompt ran where decode runs"):
        prompt_went_through_once(r.report, bed, bed.prompt, decode=THERE)


@pytest.mark.case("D07")
def test_a_decoder_that_computes_a_layer_of_the_prompt_itself_is_found_out(bed: Bed):
    some = placement(bed, [HERE, HERE, HERE, HERE, THERE], [THERE])
    with run(bed, some) as r, pytest.raises(AssertionError, match="kernels over the prompt ran where decode runs"):
        prompt_went_through_once(r.report, bed, bed.prompt, decode=THERE)
