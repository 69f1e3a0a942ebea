"""The page as people use it: in a browser, by mouse and by keyboard."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS
from examples.llama2.model import build as llama
from tests.names import HELL
from tests.tools.viewer.conftest import Opens, Tab
from vxgraph.program.instructions import TransferPeer, flatten
from vxgraph.tools.viewer.page import LIBRARIES, SCRIPTS, WORKER

HAND_OVER = 256 * 3 * 64 * 4  # bytes of one K or V: rows x KV heads x head dim x f32


@pytest.fixture(scope="module")
def program() -> vx.Program:
    config, machine = preset("smollm2-135m"), vx.load_machine("cpu-x2")
    return vx.compile(llama(config, PLACEMENTS["disaggregated"](machine, config.layers), max_len=256), machine)


@pytest.fixture(scope="module")
def smollm2(program: vx.Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "smollm2.html"
    vx.draw(program, path)
    return path


def block(tab: Tab, title: str) -> str:
    """The selector of a block by what it says first."""
    label = tab.page.locator(f'[data-group][aria-label^="{title}"]').first
    return f'[data-group="{label.get_attribute("data-group")}"]'


def unfold(tab: Tab, title: str) -> None:
    shut = block(tab, title)
    tab.page.locator(shut).first.focus()
    tab.press("Enter")
    tab.see(f'{shut}[aria-expanded="true"]')


def test_it_opens_with_layers_folded_and_says_what_it_is(smollm2: Path, opens: Opens, program: vx.Program) -> None:
    tab = opens(smollm2)
    assert tab.page.title() == "smollm2-135m-disaggregated for cpu-x2"
    for title in ("prefill", "handover", "decode"):
        assert tab.count(f'[data-group][aria-label^="30 × {title}.layers"]') == 1
    tab.press("d")
    assert program.digest in tab.text("#details")
    policy = tab.page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy


def test_search_finds_a_node_unfolds_what_hides_it_and_tells_all_of_it(smollm2: Path, opens: Opens) -> None:
    tab = opens(smollm2)
    assert tab.count('[data-box][aria-label*="prefill.layers.7.attention"]') == 0
    tab.search("prefill.layers.7.attention")
    tab.see('[data-box][aria-label*="prefill.layers.7.attention"]')
    assert tab.text("[data-testid=details-title]") == "%prefill.layers.7.attention"
    said = tab.text("#details")
    for part in ("attention", "f32[T, ", "examples/llama2/model.py:", "cpu:0.compute", "predicted"):
        assert part in said
    assert tab.text("[data-testid=text]").startswith("%prefill.layers.7.attention = attention(")


def test_a_block_unfolds_to_its_layers_and_a_layer_to_its_operations(smollm2: Path, opens: Opens) -> None:
    tab = opens(smollm2)
    unfold(tab, "30 × prefill.layers")
    tab.see('[data-group][aria-label^="prefill.layers.29"]')
    assert tab.count('[data-group][aria-label^="prefill.layers."]') == 30
    unfold(tab, "prefill.layers.3")
    tab.see('[data-box][aria-label*="prefill.layers.3.attention"]')
    assert tab.count('[data-box][aria-label*="prefill.layers.3."]') >= 15
    assert tab.count('[data-box][aria-label*="prefill.layers.4."]') == 0


def test_the_hand_over_is_one_edge_of_60_transfers_and_each_says_its_bytes(
    smollm2: Path, opens: Opens, program: vx.Program
) -> None:
    sent = [i for i, _ in flatten(program.body) if isinstance(i, TransferPeer) and "layers" in i.dst]
    assert [i.type.max_bytes for i in sent] == [HAND_OVER] * 60
    tab = opens(smollm2)
    label = tab.see('.edge-label[aria-label^="60 transfers"]')
    assert label.get_attribute("aria-label") == "60 transfers, 11.25 MiB"
    label.click()
    assert tab.text("[data-testid=details-title]") == "60 transfers, 11.25 MiB"
    each = [line for line in tab.texts("#details li") if "192.00 KiB" in line]
    assert len(each) == 60
    assert f"%{sent[59].dst}" in each[59]


def test_unfolded_on_both_sides_the_hand_over_is_an_edge_for_each_layer(smollm2: Path, opens: Opens) -> None:
    tab = opens(smollm2)
    unfold(tab, "30 × prefill.layers")
    unfold(tab, "30 × handover.layers")
    tab.see('.edge-label[aria-label^="2 transfers, 384.00 KiB"]')
    assert tab.count('.edge-label[aria-label^="2 transfers, 384.00 KiB"]') == 30


def test_the_bill_lists_the_hand_over(smollm2: Path, opens: Opens) -> None:
    tab = opens(smollm2)
    tab.press("3")
    tab.see("#bill-table")
    tab.page.fill("#bill-filter", "handover")
    assert "60 transfers, 11.25 MiB" in tab.text("#bill-facts")


def test_the_timeline_has_a_track_for_each_queue(smollm2: Path, opens: Opens) -> None:
    tab = opens(smollm2)
    tab.press("4")
    tab.see("#timeline-canvas")
    assert tab.page.get_by_role("tab", name="Timeline").get_attribute("aria-selected") == "true"
    drawn = tab.page.evaluate("vxg.views.timeline.debug()")
    assert [track["name"] if isinstance(track, dict) else track for track in drawn["tracks"]] == [
        "cpu:0.compute",
        "cpu:0.copy",
        "cpu:1.compute",
        "cpu:1.copy",
    ]
    assert drawn["mode"] == "predicted"
    assert drawn["drawn"] > 100
    assert tab.count('#timeline-mode input[value="observed"]:disabled') == 1


def test_the_memory_plan_shows_every_slot_of_a_place(smollm2: Path, opens: Opens, program: vx.Program) -> None:
    tab = opens(smollm2)
    tab.press("2")
    tab.see("#memory-canvas")
    shown = tab.page.evaluate("vxg.views.memory.debug()")
    place = program.topologies[0]
    assert shown["slots"] == sum(s.topology == place for s in program.slots)
    assert "530.02 MiB of 16.00 GiB" in tab.text("#memory-use")


def test_it_wears_the_readers_theme_and_the_button_changes_it(smollm2: Path, opens: Opens) -> None:
    def ground(tab: Tab) -> list[int]:
        colour = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return [int(n) for n in re.findall(r"\d+", colour)[:3]]

    tab = opens(smollm2, theme="dark")
    assert max(ground(tab)) < 64
    tab.page.click("#theme")
    assert min(ground(tab)) > 192


def test_ten_thousand_operations_are_few_boxes_at_first_and_all_can_be_found(tmp_path: Path, opens: Opens) -> None:
    with vx.Graph("wide") as g, vx.on(vx.CPU[0]):
        x = vx.input("x", vx.f32[64])
        values = [x]
        for k in range(10_000):  # no pattern, no names
            a, b = values[-1 - k * 7 % min(len(values), 90)], values[-1 - k * k % min(len(values), 31)]
            values.append((vx.add, vx.mul, vx.maximum, vx.sub)[(k * k // 7 + k // 13) % 4](a, b))
        vx.output("y", values[-1])
    path = tmp_path / "wide.html"
    vx.draw(g.build(), path)
    tab = opens(path)
    assert 1 < tab.count("[data-box], [data-group]") <= 80
    names = [n.name for n in g.build().nodes]
    assert len(names) == 10_000
    for name in (names[17], names[5000], names[-1]):
        tab.search(name)
        tab.see(f'[data-box][aria-label^="%{name},"]')
        assert tab.text("[data-testid=details-title]") == f"%{name}"
        assert tab.count("[data-box], [data-group]") <= 400


def test_any_name_is_text_and_nothing_else(tmp_path: Path, opens: Opens) -> None:
    title = "".join(HELL)
    with vx.Graph(title) as g, vx.on(vx.CPU[0]):
        x = vx.input("x", vx.f32[8])
        for name in HELL:
            vx.output(name, x := vx.exp(x))
    vx.draw(vx.compile(g, vx.load_machine("cpu")), tmp_path / "x.html")
    tab = opens(tmp_path / "x.html")
    shown = tab.page.evaluate("[...document.querySelectorAll('[data-box]')].map(b => b.getAttribute('aria-label'))")
    for name in HELL:
        assert any(f'result "{name}"' in label for label in shown)
    assert tab.page.evaluate("document.getElementById('title').textContent") == f"{title} for cpu"
    assert tab.page.evaluate("document.scripts.length") == len(LIBRARIES) + len(SCRIPTS) + 2


def test_nothing_in_the_pages_own_files_ends_a_script() -> None:
    folder = files("vxgraph.tools.viewer")
    for path in (*(f"page/{s}" for s in SCRIPTS), *(f"vendor/{s}" for s in (*LIBRARIES, WORKER))):
        text = folder.joinpath(path).read_text(encoding="utf-8")
        assert "</script" not in text.lower(), path
        assert "<!--" not in text, path
