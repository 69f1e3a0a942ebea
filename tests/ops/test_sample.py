"""Sampling: greedy at temperature 0, the nucleus and no more above it, the same everywhere for one seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.run_op import run
from vxgraph.ops import Sample
from vxgraph.ops.sample import splitmix64, uniform


def draw(logits, *, temperature=1.0, top_p=1.0, seed=0, position=0) -> int:
    scalars = (np.float32(temperature), np.float32(top_p), np.int64(seed), np.int32(position))
    return int(run(Sample(), np.asarray(logits, np.float32), *scalars))


def test_splitmix64_gives_its_published_sequence():
    """The first outputs of the reference C code from state 1234567."""
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [splitmix64(1234567 + i * 0x9E3779B97F4A7C15) for i in range(5)] == wanted


def test_uniform_is_pinned_so_that_no_backend_drifts():
    pinned = [0.8833108082136426, 0.5665615751722809, 0.9557038184179468, 0.14133295893008335, 0.36034871022616866]
    assert [uniform(s, p) for s, p in ((0, 0), (0, 1), (1, 0), (-1, 0), (2**63 - 1, 2**31 - 1))] == pinned


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_no_temperature_takes_the_first_of_the_best(temperature):
    assert draw([1, 3, 3, 2], temperature=temperature, top_p=0.1) == 1


def test_draws_follow_the_softmax():
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    drawn = np.bincount([draw(logits, seed=7, position=i) for i in range(4000)], minlength=4) / 4000
    np.testing.assert_allclose(drawn, [0.5, 0.3, 0.15, 0.05], atol=0.02)


def test_temperature_sharpens():
    logits = np.log([0.6, 0.4])
    drawn = np.mean([draw(logits, temperature=0.5, position=i) for i in range(4000)])
    assert drawn == pytest.approx(0.16 / 0.52, abs=0.02)


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.0, {1}), (0.49, {1}), (0.6, {0, 1}), (0.85, {0, 1, 3}), (1.0, {0, 1, 2, 3})]
)
def test_only_the_shortest_prefix_that_reaches_top_p_is_drawn(top_p, kept):
    logits = np.log([0.3, 0.5, 0.05, 0.15])
    assert {draw(logits, top_p=top_p, position=i) for i in range(400)} == kept


def test_lower_ids_come_first_among_equals():
    odd_ids = np.where(np.arange(100) % 2, 0.0, -100.0)
    assert {draw(odd_ids, top_p=0.06, position=i) for i in range(100)} == {1, 3, 5}


def test_a_draw_on_the_boundary_takes_the_next_id(monkeypatch):
    monkeypatch.setattr("vxgraph.ops.sample.uniform", lambda seed, position: 0.5)
    assert draw([0, 0]) == 1


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1), st.floats(0.1, 5), st.floats(0, 1))
def test_one_seed_and_position_draw_one_valid_id(seed, position, temperature, top_p):
    logits = np.random.default_rng(0).standard_normal(50)
    first = draw(logits, seed=seed, position=position, temperature=temperature, top_p=top_p)
    assert 0 <= first < 50
    assert draw(logits, seed=seed, position=position, temperature=temperature, top_p=top_p) == first


def test_neighbouring_seeds_and_positions_are_unrelated():
    grid = np.array([[uniform(s, p) for p in range(64)] for s in range(64)])
    assert len(np.unique(grid)) == grid.size
    assert abs(np.corrcoef(grid[:-1].ravel(), grid[1:].ravel())[0, 1]) < 0.05
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.05
