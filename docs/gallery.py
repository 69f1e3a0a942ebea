"""The pictures of the docs, and the page that shows them: docs/gallery.md.

python docs/gallery.py          all of it; screenshots of the page need Debian's `chromium` and `pip install playwright`
python docs/gallery.py --svg    what needs no browser
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS
from examples.llama2.model import build as llama
from examples.mlp import mlp
from tests.chromium import chromium, missing

DOCS = Path(__file__).resolve().parent
SIZE = {"width": 1600, "height": 900}


@dataclass(frozen=True)
class Picture:
    """A drawing, the program that it is of, and the command that a reader would type for it."""

    name: str
    title: str
    text: str
    command: str
    program: Callable[[], vx.Program]


@dataclass(frozen=True)
class Screenshot:
    """The page of llama2-7b in some state: `theme`, and what is done to it."""

    name: str
    text: str
    theme: str
    do: Callable[[Any], None]


def llama_at(model: str, placement: str, machine: str, max_len: int) -> vx.Program:
    """A Llama's program."""
    config, on = preset(model), vx.load_machine(machine)
    return vx.compile(llama(config, PLACEMENTS[placement](on, config.layers), max_len=max_len), on)


def chain() -> vx.Graph:
    """10,000 operations whose names say nothing, over four places."""
    with vx.Graph("chain") as graph:
        x = vx.input("x", vx.f32[1, 64])
        for place in range(4):
            with vx.on(vx.CPU[place]):
                for _ in range(1250):
                    x = vx.exp(vx.silu(x))
        vx.output("y", x)
    return graph


MODEL = "examples/llama2/model.py"
PICTURES = (
    Picture(
        "mlp",
        "A layer on each of two GPUs",
        "One cluster per place with what its memory holds; what crosses between devices is thick and says its bytes.",
        "vxgraph show examples/mlp.py:mlp -m h200-x2 -o mlp.svg",
        lambda: vx.compile(mlp(), vx.load_machine("h200-x2")),
    ),
    Picture(
        "llama2-7b-disaggregated",
        "Llama-2-7B, prefill on one GPU and decode on the other",
        "Layers that are alike are one block with their count. The KV cache crosses as 64 transfers before the loop.",
        f"vxgraph show {MODEL}:disaggregated --set model=llama2-7b --set max_len=4096 -m h200-x2 -o llama.svg",
        lambda: llama_at("llama2-7b", "disaggregated", "h200-x2", 4096),
    ),
    Picture(
        "llama2-7b-pipeline",
        "The same model with its layers split",
        "The hidden state crosses in every step, and the token goes back.",
        f"vxgraph show {MODEL}:pipeline --set model=llama2-7b --set max_len=4096 -m h200-x2 -o llama.svg",
        lambda: llama_at("llama2-7b", "pipeline", "h200-x2", 4096),
    ),
    Picture(
        "chain",
        "Ten thousand operations without a name",
        "What is there again and again is one block, whatever it is called.",
        "vxgraph show docs/gallery.py:chain -m cpu-x8 -o chain.svg",
        lambda: vx.compile(chain(), vx.load_machine("cpu-x8")),
    ),
)


def draw(folder: Path) -> None:
    """Writes the drawings."""
    for picture in PICTURES:
        vx.draw(picture.program(), folder / f"{picture.name}.svg")


# The page.


def _graph(page: Any) -> None:
    page.locator('.edge-label[aria-label^="64 transfers"]').first.click()
    page.mouse.move(400, 700)
    page.keyboard.press("0")


def _layer(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.insert_text("prefill.layers.3.attention")
    page.wait_for_selector("#matches .match")
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-box][aria-label*="prefill.layers.3.attention"]')


def _tab(key: str, seen: str) -> Callable[[Any], None]:
    def turn(page: Any) -> None:
        page.keyboard.press(key)
        page.wait_for_selector(seen)

    return turn


SCREENSHOTS = (
    Screenshot("page-graph", "The graph as it opens, with the hand-over selected.", "light", _graph),
    Screenshot("page-layer", "A search: what hides the node unfolds, and it says all of itself.", "dark", _layer),
    Screenshot(
        "page-memory",
        "Memory: addresses over the program's positions, and what is live where it is fullest.",
        "light",
        _tab("2", "#memory-canvas"),
    ),
    Screenshot("page-transfers", "Every transfer.", "dark", _tab("3", "#bill-table")),
    Screenshot("page-timeline", "The predicted timeline.", "light", _tab("4", "#timeline-canvas")),
)


def photograph(folder: Path) -> None:
    """Writes the screenshots of the page."""
    if why := missing():
        raise SystemExit(f"{why}; --svg draws what needs no browser")
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        path = Path(temporary, "llama.html")
        vx.draw(llama_at("llama2-7b", "disaggregated", "h200-x2", 4096), path)
        for shot in SCREENSHOTS:
            page = browser.new_page(viewport=SIZE, color_scheme=shot.theme, reduced_motion="reduce")
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready=true]")
            shot.do(page)
            page.wait_for_timeout(800)  # until what moves stands
            page.screenshot(path=folder / f"{shot.name}.png")
            page.close()


# The text.


def text() -> str:
    """docs/gallery.md."""
    lines = ["# Gallery", "", "Made by `python docs/gallery.py`. Each drawing is what the command above it writes.", ""]
    for p in PICTURES:
        lines += [f"## {p.title}", "", p.text, "", "```sh", p.command, "```", ""]
        lines += [f"![{p.title}](images/{p.name}.svg)", ""]
    lines += ["## The page", "", "One file that opens without a network:", "", "```sh"]
    lines += [f"vxgraph show {MODEL}:disaggregated --set model=llama2-7b --set max_len=4096 -m h200-x2 -o llama.html"]
    lines += ["```", ""]
    for shot in SCREENSHOTS:
        lines += [shot.text, "", f"![{shot.text}](images/{shot.name}.png)", ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--svg", action="store_true", help="only what needs no browser")
    images = DOCS / "images"
    draw(images)
    if not parser.parse_args().svg:
        photograph(images)
    (DOCS / "gallery.md").write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
