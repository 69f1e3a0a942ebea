"""How long people wait for pictures and pages.

    python -m benchmarks.page [--turns 5]

Wall seconds: drawing Llama-2-7B as SVG, writing its page, and in Debian's Chromium (headless, software drawing) from
the address to the first layout, to a search's result, and to an unfolded block, for SmolLM2, Llama-2-7B and a graph of
10,000 operations without names or pattern. Needs `chromium` and `pip install playwright`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import vxgraph as vx
from benchmarks.measure import Spread, bound, show
from examples.llama2.model import disaggregated
from tests.chromium import chromium, missing

OPERATIONS = 10_000


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    if why := missing():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        pages = _pages(Path(folder))
        svg, page = Path(folder, "llama.svg"), Path(folder, "again.html")
        llama = _program("llama2-7b", "h200-x2")
        drawn = {"llama2-7b as SVG": lambda: vx.draw(llama, svg), "llama2-7b as a page": lambda: vx.draw(llama, page)}
        rows = {name: Spread(tuple(_seconds(do) for _ in range(turns))) for name, do in drawn.items()}
        for name, (path, wanted) in pages.items():
            found = [_visit(browser, path, wanted) for _ in range(turns)]
            for k, what in enumerate(("open", "search and unfold what hides it")):
                rows[f"{name}: {what}"] = Spread(tuple(times[k] for times in found))
    slowest = max(rows[f"{OPERATIONS:,} operations: open"].values)
    show(
        "pictures and pages, seconds",
        ("what", "wall"),
        [(name, str(spread)) for name, spread in rows.items()],
        notes=(
            f"SVG of llama2-7b: {bound(rows['llama2-7b as SVG'].median, '< 5', rows['llama2-7b as SVG'].median < 5)}",
            f"{OPERATIONS:,} operations usable, slowest: {bound(slowest, '< 3', slowest < 3)}",
        ),
    )


def _program(model: str, machine: str) -> vx.Program:
    on = vx.load_machine(machine)
    return vx.compile(disaggregated(on, model), on)


def _pages(folder: Path) -> dict[str, tuple[Path, str]]:
    """Pages, each with the name of an operation that is folded away at first."""
    graph = _graph()
    shown: dict[str, tuple[vx.Program | Any, str]] = {
        "smollm2-135m": (_program("smollm2-135m", "cpu-x2"), "prefill.layers.7.attention"),
        "llama2-7b": (_program("llama2-7b", "h200-x2"), "prefill.layers.7.attention"),
        f"{OPERATIONS:,} operations": (graph, graph.nodes[OPERATIONS // 2].name),
    }
    found: dict[str, tuple[Path, str]] = {}
    for name, (what, wanted) in shown.items():
        path = folder / f"{len(found)}.html"
        vx.draw(what, path)
        found[name] = (path, wanted)
    return found


def _graph() -> Any:
    with vx.Graph("wide") as g, vx.on(vx.CPU[0]):
        values = [vx.input("x", vx.f32[64])]
        for k in range(OPERATIONS):
            a, b = values[-1 - k * 7 % min(len(values), 90)], values[-1 - k * k % min(len(values), 31)]
            values.append((vx.add, vx.mul, vx.maximum, vx.sub)[(k * k // 7 + k // 13) % 4](a, b))
        vx.output("y", values[-1])
    return g.build()


def _seconds(do: Callable[[], object]) -> float:
    start = perf_counter()
    do()
    return perf_counter() - start


def _visit(browser: Any, path: Path, wanted: str) -> tuple[float, float]:
    """Seconds to open a page, and to find an operation that is folded away."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})

    def open() -> None:
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=true]")

    def search() -> None:
        page.keyboard.press("/")
        page.keyboard.insert_text(wanted)
        page.wait_for_selector("#matches .match")
        page.keyboard.press("Enter")
        page.wait_for_selector(f'[data-box][aria-label^="%{wanted},"]')

    times = _seconds(open), _seconds(search)
    page.close()
    return times


if __name__ == "__main__":
    main()
