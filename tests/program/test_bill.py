"""The transfer bill: every movement with its bytes, how often, and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS
from examples.llama2.model import build as llama
from tests.program.samples import SAMPLES, A, B
from vxgraph.program.instructions import Download, TransferPeer, Upload, flatten
from vxgraph.program.model import Program


def bill(program: Program) -> str:
    """One line per row."""
    ends = [(t, *(str(end) if end is not None else "host" for end in (t.src, t.dst))) for t in program.transfers]
    return "".join(
        f"{t.when} {t.count} x {t.nbytes} B {t.kind} %{t.value} {a} -> {b}: {t.reason}\n" for t, a, b in ends
    )


@pytest.mark.parametrize("name", ["mlp", "loop_with_captures", "emits", "staged", "a_param_on_two_places"])
def test_the_bill_of(name: str, golden: Callable[..., None]) -> None:
    golden(bill(SAMPLES[name].program()), name)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_movement_is_on_it_once(name: str) -> None:
    program = SAMPLES[name].program()
    moves = [i for i, _ in flatten((*program.load, *program.body)) if isinstance(i, Upload | Download | TransferPeer)]
    assert [(t.value, t.type, t.reason, t.loc) for t in program.transfers] == [
        (i.src, i.type, i.why, i.loc) for i in moves
    ]


def test_what_a_nested_loop_moves_counts_its_steps_times_the_outer_ones() -> None:
    def inner(y: vx.Value) -> list[vx.Value]:
        vx.emit("y", y)
        return [y * 2]

    def outer(y: vx.Value) -> list[vx.Value]:
        (y,), _ = vx.loop(inner, [y], max_steps=3)
        vx.emit("z", y)
        return [y]

    with vx.Graph("g") as graph, vx.on(A):
        vx.loop(outer, [vx.input("x", vx.f32[4]) + 1], max_steps=5)
    rows = vx.compile(graph, vx.load_machine("h200-x2")).transfers
    assert [(t.reason, t.when, t.count) for t in rows if t.kind == "download"] == [
        ("emitted as 'y'", "step", 15),
        ("emitted as 'z'", "step", 5),
    ]


def test_llama2_7b_s_hand_over_is_two_transfers_a_layer_and_the_first_token_and_nothing_in_the_loop() -> None:
    config, machine = preset("llama2-7b"), vx.load_machine("h200-x2")
    program = vx.compile(llama(config, PLACEMENTS["disaggregated"](machine, config.layers)), machine)
    crossing = [t for t in program.transfers if t.src == A and t.dst == B]
    kv = [t for t in crossing if len(t.type.dims) == 3]
    assert len(kv) == 2 * config.layers
    assert {str(t.type).partition("[")[2] for t in kv} == {"T, KVHead, D]"}
    assert {(t.when, t.count) for t in crossing} == {("run", 1)}
    assert [t for t in program.transfers if t.when == "step" and None not in (t.src, t.dst)] == []
    uploads = [(t.value, t.dst) for t in program.transfers if t.when == "load"]
    assert len(uploads) == len(set(uploads))
