"""Graphs and programs as text and as pictures."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS
from examples.llama2.model import build as llama
from tests.names import HELL
from tests.tools.conftest import Cli
from vxgraph.program.text import load_program
from vxgraph.tools.draw.render import find_renderer, render
from vxgraph.tools.plain import plain

Golden = Callable[..., None]
ROOT = Path(__file__).parents[2]


def test_a_graph_is_shown_as_its_text(cli: Cli) -> None:
    shown = cli.succeeds("show", "mlp.py:mlp")
    assert vx.parse_graph(shown).text() == shown
    assert "@gpu:1" in shown


def test_with_a_machine_the_program_is_shown(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.vxp")
    assert cli.succeeds("show", "mlp.py:mlp", "-m", "h200-x2") == load_program("mlp.vxp").text()
    assert cli.succeeds("show", "mlp.vxp") == load_program("mlp.vxp").text()


def test_a_program_that_does_not_fit_is_shown_all_the_same(cli: Cli) -> None:
    assert cli.succeeds("show", "mlp.py:mlp", "-m", "./small.toml").startswith('program "mlp" version')


def test_a_programs_drawing_has_clusters_notes_and_thick_transfers(cli: Cli, golden: Golden) -> None:
    golden(cli.succeeds("show", "mlp.py:mlp", "-m", "h200-x2", "--format", "dot"))


def test_a_loops_drawing_nests_it_in_every_place_that_it_runs_at(cli: Cli, golden: Golden) -> None:
    golden(cli.succeeds("show", "tiny.py:tiny", "-m", "h200-x2", "--format", "dot"))


def test_a_graphs_drawing_has_a_cluster_for_what_is_not_placed(cli: Cli, golden: Golden) -> None:
    golden(cli.succeeds("show", "tiny.py:tiny", "--format", "dot"))


def test_layers_of_a_large_program_are_one_block(cli: Cli, golden: Golden) -> None:
    golden(cli.succeeds("show", "tiny.py:tiny", "--set", "layers=40", "-m", "h200-x2", "--format", "dot"))


def test_a_drawing_does_not_depend_on_the_hash_seed(cli: Cli) -> None:
    cli.succeeds("compile", "tiny.py:tiny", "--set", "layers=40", "-m", "h200-x2", "-o", "tiny.vxp")
    command = [sys.executable, "-c", "from vxgraph.tools.cli import main; main()", "show", "tiny.vxp", "-f", "dot"]
    texts = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(texts) == 1
    assert texts == {cli.succeeds("show", "tiny.vxp", "-f", "dot").encode()}


def test_png_and_svg_are_pictures_and_the_suffix_says_which(cli: Cli) -> None:
    assert cli.succeeds("show", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.png") == ""
    data = (cli.folder / "mlp.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[12:16] == b"IHDR"
    assert min(struct.unpack(">II", data[16:24])) > 100
    cli.succeeds("show", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.svg")
    svg = ET.parse(cli.folder / "mlp.svg").getroot()
    words = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"gpu:0", "gpu:1", "host", "%silu.gpu1", "1.00 KiB, direct"} <= set(words)


def test_a_format_outweighs_the_suffix(cli: Cli) -> None:
    cli.succeeds("show", "mlp.py:mlp", "--format", "dot", "-o", "mlp.txt")
    assert (cli.folder / "mlp.txt").read_text().startswith("digraph mlp {")


def test_without_a_renderer_the_dot_text_is_written_and_one_line_says_how_to_get_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vxgraph.tools.pictures.find_renderer", lambda: None)
    assert cli.fails("show", "mlp.py:mlp", "-o", "mlp.svg") == (
        "error: mlp.svg: nothing here draws DOT; its text is in mlp.dot, and this draws it: pip install graphviz-pure\n"
    )
    assert (cli.folder / "mlp.dot").read_text() == cli.succeeds("show", "mlp.py:mlp", "-f", "dot")
    assert not (cli.folder / "mlp.svg").exists()


def test_a_picture_needs_a_file(cli: Cli) -> None:
    assert cli.fails("show", "mlp.py:mlp", "-f", "png") == (
        "error: --format png makes a picture: say where to write it, like -o graph.png\n"
    )


def test_a_renderer_that_fails_is_quoted() -> None:
    renderer = find_renderer()
    assert renderer is not None
    with pytest.raises(vx.VxError) as caught:
        render("digraph {", "svg", renderer)
    assert str(caught.value).startswith(f"{renderer} could not draw svg: ")


@pytest.mark.parametrize("name", HELL)
def test_any_name_is_in_the_picture_as_it_is(name: str, tmp_path: Path) -> None:
    with vx.Graph(name) as g, vx.on(vx.CPU[0]):
        vx.output(name, vx.exp(vx.input("x", vx.f32[8])))
    program = vx.compile(g, vx.load_machine("cpu"))
    vx.draw(program, tmp_path / "x.svg")
    svg = ET.parse(tmp_path / "x.svg").getroot()
    words = {text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"{plain(name)} for cpu", f'result "{plain(name)}"'} <= words
    assert not list(svg.iter("{http://www.w3.org/2000/svg}script"))


def test_a_suffix_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    with vx.Graph("g") as g:
        vx.output("y", vx.exp(vx.input("x", vx.f32[8])))
    with pytest.raises(vx.VxError) as caught:
        vx.draw(g.build(), tmp_path / "g.gif")
    assert (
        str(caught.value)
        == f"{tmp_path / 'g.gif'}: the suffix says what to draw; wanted one of .dot, .svg, .png, .html"
    )
    assert list(tmp_path.iterdir()) == []


def test_llama2_7b_in_two_places_fits_a_screen(tmp_path: Path) -> None:
    config, machine = preset("llama2-7b"), vx.load_machine("h200-x2")
    program = vx.compile(llama(config, PLACEMENTS["disaggregated"](machine, config.layers), max_len=4096), machine)
    vx.draw(program, tmp_path / "llama.svg")
    svg = ET.parse(tmp_path / "llama.svg").getroot()
    words = [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"32 x prefill.layers", "32 x handover.layers", "32 x decode.layers"} <= set(words)
    assert {"64 transfers", "2.00 GiB, direct", "15.05 GiB of 140.40 GiB in hbm1"} <= set(words)
    width, height = (float(svg.attrib[side].removesuffix("pt")) * 96 / 72 for side in ("width", "height"))
    letters = 11 * 96 / 72 * min(1920 / width, 1080 / height, 1)  # pixels, on a screen of 1920 x 1080
    assert letters >= 11


def test_a_runs_trace_is_laid_over_the_prediction_of_its_own_sizes_and_steps(cli: Cli) -> None:
    cli.succeeds("compile", "tiny.py:tiny", "-m", "h200-x2", "-o", "tiny.vxp")
    cli.succeeds("run", "tiny.vxp", "--bind", "numpy", "--size", "T=5", "--trace", "run.json")
    assert cli.succeeds("show", "tiny.vxp", "--trace", "run.json", "-o", "tiny.html") == ""
    data = page_data_of(cli.folder / "tiny.html")
    runs = data["timelines"]
    assert len(runs["observed"]["slices"]) == len(runs["predicted"]["slices"]) > 0
    assert data["notes"] == ["Predicted on h200-x2 for T = 5, 16 steps of a loop at most"]


def test_without_a_run_the_page_predicts_what_it_is_asked_for(cli: Cli) -> None:
    cli.succeeds("show", "tiny.py:tiny", "-m", "h200-x2", "--size", "T=9", "--steps", "2", "-o", "tiny.html")
    data = page_data_of(cli.folder / "tiny.html")
    assert data["timelines"]["observed"] is None
    assert data["notes"] == ["Predicted on h200-x2 for T = 9, 2 steps of a loop at most"]
    cli.succeeds("show", "tiny.py:tiny", "-m", "h200-x2", "-o", "tiny.html")
    assert page_data_of(cli.folder / "tiny.html")["notes"] == [
        "Predicted on h200-x2 for T = 64, every step that a loop may run"
    ]


def test_a_page_of_a_machine_that_is_not_here_says_why_it_has_no_times(cli: Cli) -> None:
    cli.succeeds("show", "mlp.py:mlp", "-m", "./small.toml", "-o", "mlp.vxp")
    cli.succeeds("show", "mlp.vxp", "-o", "mlp.html")
    data = page_data_of(cli.folder / "mlp.html")
    assert data["timelines"] == {"predicted": None, "observed": None}
    assert data["notes"][0].startswith("No times: mlp is for machine 'small', which is not shipped")


def page_data_of(path: Path) -> dict[str, Any]:
    """What a page is told, out of its text."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-f", "html"], "--format html makes a page: say where to write it, like -o graph.html"),
        (["--steps", "3"], "--steps is for a page's timeline, and this is text; wanted --format html"),
        (["--size", "T=3", "-o", "x.svg"], "--size is for a page's timeline, and this is svg; wanted --format html"),
        (["--trace", "no.json", "-o", "x.html"],
         "--trace is of a program's run, and tiny is a graph; give its machine, like -m h200-x2"),
        (["-m", "h200-x2", "--trace", "no.json", "-o", "x.html"],
         "no.json: cannot read: No such file or directory; wanted what --trace writes"),
    ],
)  # fmt: skip
def test_a_page_that_cannot_be_written_is_told_and_nothing_is(cli: Cli, options: list[str], message: str) -> None:
    before = sorted(cli.folder.iterdir())
    assert cli.fails("show", "tiny.py:tiny", *options) == f"error: {message}\n"
    assert sorted(cli.folder.iterdir()) == before
