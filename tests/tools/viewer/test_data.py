"""What the page is told: everything of the program, once, under its own name."""

from __future__ import annotations

import json
from typing import Any

import pytest

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS
from examples.llama2.model import build as llama
from tests.names import HELL
from vxgraph.program.instructions import Dispatch, flatten
from vxgraph.program.predict import predict
from vxgraph.tools.viewer.data import as_json, page_data

Data = dict[str, Any]


@pytest.fixture(scope="module")
def smollm2() -> tuple[vx.Program, Data]:
    config, machine = preset("smollm2-135m"), vx.load_machine("cpu-x2")
    program = vx.compile(llama(config, PLACEMENTS["disaggregated"](machine, config.layers), max_len=256), machine)
    return program, page_data(program, machine, predicted=predict(program, machine))


def titles(data: Data, kind: str) -> list[str]:
    return [g["title"] for g in data["groups"] if g["kind"] == kind]


def test_every_dispatch_is_a_box_with_its_place_reason_line_and_time(smollm2: tuple[vx.Program, Data]) -> None:
    program, data = smollm2
    boxes = {b["name"]: b for b in data["boxes"] if b["kind"] == "op"}
    dispatches = [i for i, _ in flatten(program.body) if isinstance(i, Dispatch)]
    assert set(boxes) == {f"%{i.name}" for i in dispatches}
    for i in dispatches:
        box = boxes[f"%{i.name}"]
        assert (box["op"], data["places"][box["place"]]["name"]) == (i.op.name, str(i.topology))
        assert (box["why"], box["loc"], box["queue"]) == (i.why, str(i.loc), str(i.queue))
        assert box["nbytes"] == sum(t.max_bytes for t in i.types)
        assert box["predicted"] > 0
        assert box["text"].startswith(f"%{i.name} = ") or box["text"].startswith(", ".join(f"%{o}" for o in i.outputs))


def test_every_transfer_is_a_move_once_and_in_one_row_of_the_bill(smollm2: tuple[vx.Program, Data]) -> None:
    program, data = smollm2
    assert len(data["moves"]) == len(program.transfers)
    assert sorted(k for row in data["bill"] for k in row["moves"]) == list(range(len(data["moves"])))
    for row in data["bill"]:
        assert row["nbytes"] == sum(data["moves"][k]["nbytes"] * data["moves"][k]["count"] for k in row["moves"])
        assert {data["places"][data["moves"][k]["src"]]["name"] for k in row["moves"]} == {row["src"]}
        assert {data["places"][data["moves"][k]["dst"]]["name"] for k in row["moves"]} == {row["dst"]}
    between = [m for m in data["moves"] if m["kind"] == "peer"]
    rows = [t for t in program.transfers if t.src is not None and t.dst is not None]
    assert [m["nbytes"] for m in between] == [t.nbytes for t in rows]
    assert sum(m["name"].startswith("%prefill.layers.") for m in between) == 60


def test_every_move_of_a_run_is_on_one_edge(smollm2: tuple[vx.Program, Data]) -> None:
    program, data = smollm2
    on_edges = [k for e in data["edges"] for k in e["moves"]]
    load = sum(t.when == "load" for t in program.transfers)
    assert sorted(on_edges) == list(range(load, len(data["moves"])))


def test_layers_are_folded_at_first_and_everything_is_in_one_group(smollm2: tuple[vx.Program, Data]) -> None:
    _, data = smollm2
    assert titles(data, "place") == ["host", "cpu:0", "cpu:1"]
    assert titles(data, "repeat") == ["30 x prefill.layers", "30 x handover.layers", "30 x decode.layers"]
    assert [g["open"] for g in data["groups"] if g["kind"] == "repeat"] == [False] * 3
    assert all(0 <= b["parent"] < len(data["groups"]) for b in data["boxes"])
    assert all(g["parent"] < k for k, g in enumerate(data["groups"]))


def test_the_memory_plan_is_every_slot_with_its_bytes_and_its_time(smollm2: tuple[vx.Program, Data]) -> None:
    program, data = smollm2
    assert [(s["value"], s["offset"], s["nbytes"], s["kind"]) for s in data["slots"]] == [
        (f"%{s.value}", s.offset, s.nbytes, s.kind) for s in program.slots
    ]
    assert all(0 <= s["first"] <= s["last"] < len(data["steps"]) for s in data["slots"])
    assert (data["marks"][0]["title"], data["marks"][0]["first"]) == ("load", 0)
    uses = [p["use"] for p in data["places"] if p["use"]]
    assert [u["params"] for u in uses] == [a.params for a in program.arenas]
    assert [m["capacity"] for m in data["memories"]] == [m.capacity for m in program.memories]


def test_a_timelines_slices_are_on_the_tracks_of_their_queues(smollm2: tuple[vx.Program, Data]) -> None:
    _, data = smollm2
    run = data["timelines"]["predicted"]
    assert data["timelines"]["observed"] is None
    assert run["tracks"] == ["cpu:0.compute", "cpu:0.copy", "cpu:1.compute", "cpu:1.copy"]
    for track, start, seconds, kind, index, _ in run["slices"]:
        item = data["boxes" if kind == "b" else "moves"][index]
        assert item["queue"] == run["tracks"][track]
        assert 0 <= start <= start + seconds <= run["seconds"]
    peaks = {place: max(n for _, n in samples) for place, samples in run["memory"]}
    assert all(peak <= data["places"][place]["use"]["arena"] for place, peak in peaks.items())


def test_the_data_is_the_same_text_for_the_same_program(smollm2: tuple[vx.Program, Data]) -> None:
    program, data = smollm2
    machine = vx.load_machine("cpu-x2")
    read = vx.parse_program(program.text())
    assert as_json(page_data(read, machine, predicted=predict(read, machine))) == as_json(data)


@pytest.mark.parametrize("name", HELL)
def test_any_name_comes_back_and_ends_no_script(name: str) -> None:
    with vx.Graph(name) as g, vx.on(vx.CPU[0]):
        vx.output(name, vx.exp(vx.input("x", vx.f32[8])))
    program = vx.compile(g, vx.load_machine("cpu"))
    text = as_json(page_data(program))
    assert "<" not in text
    assert "\u2028" not in text
    data = json.loads(text)
    assert data["name"] == name
    assert any(name in line for b in data["boxes"] for line in b["lines"])


def test_a_graph_has_a_diagram_and_neither_memory_nor_time() -> None:
    with vx.Graph("g") as g:
        x = vx.input("x", vx.f32[8])
        with vx.on(vx.GPU[1]):
            vx.output("y", vx.exp(x.to(vx.GPU[1])))
    data = page_data(g.build())
    assert (data["kind"], data["machine"], data["digest"]) == ("graph", None, None)
    assert [p["name"] for p in data["places"]] == ["gpu:1", "not placed"]
    assert (data["memories"], data["slots"], data["bill"]) == ([], [], [])
    assert data["timelines"] == {"predicted": None, "observed": None}
    (move,) = data["moves"]
    assert (move["kind"], move["nbytes"], data["places"][move["dst"]]["name"]) == ("peer", 32, "gpu:1")
