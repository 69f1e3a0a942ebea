"""Placement changes where, never what, for the graphs that hypothesis makes small; `tests.generative` has the many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings

from tests.generative.build import arrays, build, params
from tests.generative.check import check, same
from tests.generative.recipe import Recipe
from tests.program.interpret import interpret
from tests.strategies import recipes

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(recipes())
@QUICK
def test_a_graph_at_any_places_gives_what_its_ops_mean_in_any_legal_order(recipe: Recipe) -> None:
    check(recipe)


@given(recipes())
@QUICK
def test_where_a_graph_is_to_run_is_no_part_of_its_meaning(recipe: Recipe) -> None:
    anywhere, one = build(recipe), build(replace(recipe, places=recipe.places[:1]))
    inputs, given_params = arrays(anywhere, recipe.runs[0], recipe.data), params(anywhere, recipe.data)
    with np.errstate(all="ignore"):
        same("at one place", *([interpret(g, inputs, given_params)] for g in (anywhere, one)))
