"""Graphs, programs, reports and machines show themselves in notebooks."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

import vxgraph as vx
from vxgraph.display import Displayed
from vxgraph.errors import VxError

ROOT = Path(__file__).parents[2]
VOID = {"br"}
HELL = (
    "</svg><script>alert(1)</script>",
    "\"quoted\" 'names' & &amp; <b>",
    "naïve: 漢字:0 → {x|y} \\N \\l %s",
    "a\x1b[31m\u202eb",
)


def mlp(name: str = "mlp", result: str = "y") -> vx.Graph:
    with vx.Graph(name) as g:
        x = vx.input("x", vx.f32[1, 8])
        w1, w2 = vx.param("w1", vx.f32[8, 16]), vx.param("w2", vx.f32[16, 8])
        with vx.on(vx.GPU[0]):
            h = vx.silu(x @ w1)
        with vx.on(vx.GPU[1]):
            vx.output(result, h @ w2)
    return g


MACHINE = vx.load_machine("h200-x2")
PARAMS = {"w1": np.ones((8, 16), np.float32), "w2": np.ones((16, 8), np.float32)}
X = {"x": np.ones((1, 8), np.float32)}


class Page(HTMLParser):
    """A fragment's tags, which must close in their order, its attributes and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def formatted(shown: object, **chosen: set[str]) -> dict[str, str]:
    """What IPython gets, by its own formatter."""
    data, _ = DisplayFormatter().format(shown, **chosen)
    return data


def report(*, run: bool = True) -> vx.Session:
    with vx.Session(vx.compile(mlp(), MACHINE), PARAMS, bind="numpy") as session:
        if run:
            session.run(X)
        return session


def test_a_program_is_a_picture_with_its_memory_and_what_crosses() -> None:
    program = vx.compile(mlp(), MACHINE)
    bundle = formatted(program)
    assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
    assert bundle["text/plain"] + "\n" == program.text()
    page = Page(bundle["text/html"])
    assert "script" not in page.tags
    assert page.tags.count("svg") == 1
    assert page.tags.count("table") == 2
    assert {"program mlp for h200-x2", "headroom", "139.90 GiB", "direct", "%silu.gpu1"} <= set(page.text)
    svg = ElementTree.fromstring(bundle["image/svg+xml"])
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_graph_shows_itself_while_it_is_built_and_after() -> None:
    graph = mlp()
    for shown in (graph, graph.build()):
        bundle = formatted(shown)
        assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
        assert bundle["text/plain"] + "\n" == graph.text()
        assert "graph mlp" in Page(bundle["text/html"]).text


def test_a_long_text_is_forty_lines_and_how_to_see_all() -> None:
    with vx.Graph("long") as g:
        x = vx.input("x", vx.f32[4])
        for _ in range(100):
            x = vx.neg(x)
        vx.output("y", x)
    lines = formatted(g, include={"text/plain"})["text/plain"].split("\n")
    assert len(lines) == 40
    assert lines[:39] == g.text().split("\n")[:39]
    assert lines[-1] == "... and 65 more lines: print(... .text()) shows all of it"


def test_only_what_is_asked_for_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object) -> None:
        pytest.fail("it draws")

    monkeypatch.setattr("vxgraph.tools.notebook.render", no)
    program = vx.compile(mlp(), MACHINE)
    assert set(formatted(program, include={"text/plain"})) == {"text/plain"}
    assert set(program._repr_mimebundle_(exclude={"text/html", "image/svg+xml"})) == {"text/plain"}
    assert set(program._repr_mimebundle_(include={"text/html", "text/plain"}, exclude={"text/html"})) == {"text/plain"}


@pytest.mark.parametrize("failing", ["find_renderer", "render"])
def test_without_a_picture_there_are_still_tables_and_text(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def fails(*_: object) -> None:
        if failing == "render":
            raise VxError("dot could not draw svg: it said nothing")

    monkeypatch.setattr(f"vxgraph.tools.notebook.{failing}", fails)
    bundle = formatted(vx.compile(mlp(), MACHINE))
    assert set(bundle) == {"text/plain", "text/html"}
    page = Page(bundle["text/html"])
    assert "svg" not in page.tags
    assert page.tags.count("table") == 2


@pytest.mark.parametrize("name", HELL)
def test_names_from_hell_are_text(name: str) -> None:
    graph = mlp(name, name)
    program = vx.compile(graph, MACHINE)
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    with vx.Session(program, PARAMS, bind="numpy") as session:
        session.run(X)
        titles = {
            f"graph {printable}": graph,
            f"program {printable} for h200-x2": program,
            f"report of {printable} for h200-x2": session.report,
        }
    for title, shown in titles.items():
        bundle = formatted(shown)
        page = Page(bundle["text/html"])
        assert title in page.text or title in "".join(page.text)
        assert {"script", "b"} & set(page.tags) == set()
        assert not any(attribute.startswith("on") for attribute in page.attributes)
        if "image/svg+xml" in bundle:
            words = ElementTree.fromstring(bundle["image/svg+xml"]).itertext()
            assert f'result "{printable}"' in {word.strip() for word in words}


def test_a_report_says_planned_and_observed_and_whether_it_conforms() -> None:
    bundle = formatted(report().report)
    assert set(bundle) == {"text/plain", "text/html"}
    verdict = "the run is the plan: places, counts and bytes were observed, and are as planned"
    assert bundle["text/plain"].endswith(f"\n\n{verdict}")
    text = Page(bundle["text/html"]).text
    assert {"report of mlp for h200-x2", " gpu:0", "numpy:gpu:1", "planned", "observed", "✓", f" {verdict}"} <= set(
        text
    )
    row = text.index(" gpu:0", text.index("what crossed"))
    assert text[row : row + 6] == [" gpu:0", "■", " gpu:1", "1", "64 B", "64 B"]
    nothing = Page(formatted(report(run=False).report)["text/html"])
    assert {"✗", " nothing ran: there is nothing to compare with the plan"} <= set(nothing.text)
    assert "what crossed" not in nothing.text


def test_a_machine_and_a_sanitizer_s_verdict_show_themselves() -> None:
    bundle = formatted(MACHINE)
    assert bundle["text/plain"].startswith("machine h200-x2, from h200-x2.toml\n\nplace")
    assert {"machine h200-x2", "hbm1", "140.40 GiB", "450 GB/s"} <= set(Page(bundle["text/html"]).text)
    found = vx.sanitize(vx.compile(mlp(), MACHINE), X, PARAMS, orders=0)
    assert formatted(found)["text/plain"] == str(found)
    assert Page(formatted(found)["text/html"]).text == ["✓", f" {found}"]


def test_showing_is_not_loaded_before_it_is_asked_for() -> None:
    code = "import sys, vxgraph as vx; vx.load_machine('cpu'); print('vxgraph.tools.notebook' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


def test_a_class_that_nobody_renders_shows_nothing() -> None:
    class Other(Displayed):
        pass

    assert Other()._repr_mimebundle_() == {}
