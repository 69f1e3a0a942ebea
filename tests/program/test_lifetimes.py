"""How long bytes are a value's own: what is alive together lies apart, and every reader finds its value alive."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings

import vxgraph as vx
from tests.program.samples import SAMPLES
from tests.strategies import graphs
from vxgraph.ir.graph import Graph
from vxgraph.program.instructions import Loop, Queued, Upload, View, flatten, reads, writes
from vxgraph.program.lifetimes import Live, Stretch, lifetimes, live_bytes, positions, same_bytes, stretches

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lives(name: str) -> dict[str, tuple[int, int]]:
    return {found.slot.value: (found.first, found.last) for found in lifetimes(SAMPLES[name].program())}


def test_positions_are_instructions_in_program_order_and_a_loop_stands_before_its_body() -> None:
    program = SAMPLES["hand_over"].program()
    assert positions(program) == (
        "upload %x.gpu0",
        "upload %at.gpu1",
        "dispatch %constant (constant)",
        "dispatch %mul (mul)",
        "transfer_peer %mul.gpu1",
        "dispatch %cache_init (cache_init)",
        "upload %row.gpu1",
        "dispatch %constant.1.pre (constant)",
        "loop %loop.2",
        "dispatch %add (add)",
        "dispatch %cache_append (cache_append)",
        "dispatch %at.step.next (copy)",
        "dispatch %slice (slice)",
        "download %slice.host",
    )
    assert stretches(program) == (Stretch("run", 0, 13), Stretch("loop %loop.2", 8, 11))
    mlp = SAMPLES["mlp"].program()
    assert stretches(mlp) == (Stretch("load", 0, 1), Stretch("run", 2, len(positions(mlp)) - 1))


def test_a_hand_over_from_birth_to_last_reader() -> None:
    assert lives("hand_over") == {
        "x.gpu0": (0, 3),
        "at.gpu1": (1, 8),  # until the loop carries it
        "constant": (2, 3),
        "mul": (3, 4),
        "mul.gpu1": (4, 5),  # until the cache takes its bytes over
        "cache_init": (5, 8),
        "row.gpu1": (6, 11),  # read in every step
        "constant.1.pre": (7, 11),
        "at.step": (8, 11),
        "loop": (11, 11),
        "cache_init.step": (8, 11),
        "loop.1": (11, 12),
        "add": (9, 11),
        "cache_append": (10, 11),
        "at.step.next": (11, 11),
        "slice": (12, 13),
    }


def test_params_live_to_the_end_and_what_is_seen_through_a_view_as_long_as_the_view() -> None:
    last = len(positions(SAMPLES["mlp"].program())) - 1
    assert {lives("mlp")[w] for w in ("w1.gpu0", "w2.gpu1")} == {(0, last), (1, last)}
    program = SAMPLES["views"].program()
    found = {f.slot.value: f.last for f in lifetimes(program)}
    views = [i for i, _ in flatten(program.body) if isinstance(i, View)]
    assert views
    assert all(found[v.src] >= found[v.dst] for v in views)


def test_live_bytes_count_what_is_the_same_bytes_once() -> None:
    live = live_bytes(SAMPLES["hand_over"].program())
    assert live[vx.GPU[0]][:6] == tuple(Live(0, n) for n in (128, 128, 132, 260, 128, 0))
    assert [found.kv for found in live[vx.GPU[1]]] == [0] * 4 + [256] * 9 + [0]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_lives_of_the_samples_keep_the_rules(name: str) -> None:
    keeps_the_rules(SAMPLES[name].program())


@given(graphs())
@QUICK
def test_what_is_alive_together_lies_apart_or_is_the_same_on_purpose(graph: Graph) -> None:
    keeps_the_rules(vx.compile(graph, vx.load_machine("cpu-x8")))


def keeps_the_rules(program: vx.Program) -> None:
    found = lifetimes(program)
    assert [f.slot for f in found] == list(program.slots)
    root = same_bytes(program)
    for a, b in combinations((f for f in found if f.slot.nbytes), 2):
        together = a.slot.topology == b.slot.topology and a.first <= b.last and b.first <= a.last
        if together and max(a.slot.offset, b.slot.offset) < min(a.slot.end, b.slot.end):
            assert root[a.slot.value] == root[b.slot.value], (a, b)
    every_use_is_alive(program, {f.slot.value: (f.first, f.last) for f in found})
    for arena in program.arenas:
        most = max((x.kv + x.transient for x in live_bytes(program)[arena.topology]), default=0)
        assert arena.params + most <= arena.nbytes


def every_use_is_alive(program: vx.Program, alive: dict[str, tuple[int, int]]) -> None:
    """Also in the next step of a loop: what a step reads and does not make itself lives as long as the loop."""
    walk = [i for i, _ in flatten((*program.load, *program.body))]
    for at, instr in enumerate(walk):
        if isinstance(instr, Queued):
            for value in (*reads(instr), *writes(instr)):
                assert alive[value][0] <= at <= alive[value][1]
        if isinstance(instr, Loop):
            inside = [i for i, _ in flatten(instr.body)]
            made = {v for i in inside if isinstance(i, Queued) for v in writes(i)}
            made |= {v for i in inside if isinstance(i, View) for v in (i.dst,)}
            made |= {v for i in inside if isinstance(i, Loop) for c in i.carried for v in (c.arg, c.out)}
            for value in {v for i in inside if isinstance(i, Queued) for v in reads(i)} - made:
                assert alive[value][0] <= at
                assert alive[value][1] >= at + len(inside)
    for upload in program.load:
        assert isinstance(upload, Upload)
        assert alive[upload.dst][1] == len(walk) - 1
