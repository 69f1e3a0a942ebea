"""Placement changes where, never what: any graph at any places gives the bits that one place gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vxgraph as vx
from tests.program.interpret import interpret
from tests.program.recipes import Step, arrays, build, recipes

MACHINE = vx.load_machine("cpu-x8")
PLACES = st.lists(st.sampled_from([vx.CPU[k] for k in range(4)]), min_size=1, max_size=4)
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def run(graph: vx.Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Two runs of one session, which must agree; the second must conform to the plan."""
    inputs, params = arrays()
    with vx.Session(vx.compile(graph, MACHINE), params, bind="numpy", audit=True) as session:
        first = session.run(inputs)
        second = session.run(inputs)
        assert session.report.conforms()
    assert_same(first, second)
    return first


def assert_same(a: dict[str, np.ndarray[Any, Any]], b: dict[str, np.ndarray[Any, Any]]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], strict=True, err_msg=name)


@given(recipes(loops=0, max_steps=14), PLACES, st.booleans())
@QUICK
def test_a_graph_at_any_places_gives_bitwise_what_one_place_gives(
    recipe: tuple[Step, ...], places: list[vx.Topology], pin: bool
) -> None:
    assert_same(run(build(recipe, places, pin_inputs=pin)), run(build(recipe, [vx.CPU[0]])))


@given(recipes(loops=2), PLACES, st.booleans())
@QUICK
def test_a_graph_with_loops_at_any_places_gives_bitwise_what_one_place_gives(
    recipe: tuple[Step, ...], places: list[vx.Topology], pin: bool
) -> None:
    assert_same(run(build(recipe, places, pin_inputs=pin)), run(build(recipe, [vx.CPU[0]])))


@given(recipes(loops=2), PLACES)
@QUICK
def test_a_graph_at_any_places_gives_what_its_ops_mean(recipe: tuple[Step, ...], places: list[vx.Topology]) -> None:
    graph = build(recipe, places)
    inputs, params = arrays()
    wanted, found = interpret(graph, inputs, params), run(graph)
    for name in wanted.keys() | {n for n, v in found.items() if v.size}:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
