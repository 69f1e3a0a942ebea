"""Graphs and programs as files that people look at.

vx.draw(program, "llama.svg")                                        clusters per place, transfers with their bytes
vx.draw(program, "llama.html", machine=machine, report=s.report)     the page, the run laid over the prediction
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from vxgraph.errors import VxError
from vxgraph.ir.graph import Graph
from vxgraph.ir.types import Sizes
from vxgraph.program.model import Program
from vxgraph.program.predict import predict
from vxgraph.program.timeline import Timeline
from vxgraph.runtime.report import Report
from vxgraph.tools.draw.dot import to_dot
from vxgraph.tools.draw.render import find_renderer, render
from vxgraph.tools.draw.walk import sketch_graph, sketch_program
from vxgraph.tools.files import write_bytes, write_text
from vxgraph.tools.viewer.data import page_data
from vxgraph.tools.viewer.page import page
from vxgraph.topology.load import load_machine, shipped_machines
from vxgraph.topology.model import Machine

Drawn = Literal["dot", "svg", "png", "html"]


def draw(
    shown: Graph | Program, path: str | Path, *, machine: Machine | None = None, report: Report | None = None
) -> None:
    """Writes a picture, of the kind that the suffix says: .dot, .svg, .png, or .html, the page.

    On the page, `machine` prices a program's transfers and predicts its timeline (by default it is the shipped machine
    that the program was compiled for), and a report of a session with `trace=True` adds the timeline of its last run.
    VxError for another suffix, for a folder that does not take the file, and where nothing here draws; RunError where
    the report traced nothing.
    """
    path = Path(path)
    kind = next((k for k in get_args(Drawn) if path.suffix == f".{k}"), None)
    if kind is None:
        raise VxError(f"{path}: the suffix says what to draw; wanted one of .{', .'.join(get_args(Drawn))}")
    if kind != "html":
        return write_picture(shown, kind, path)
    if report is None or report.run is None:
        return write_text(path, page_text(shown, machine))
    steps = max(report.steps.values(), default=None)
    return write_text(path, page_text(shown, machine, report.timeline(), sizes=report.run.sizes, steps=steps))


def dot_text(shown: Graph | Program) -> str:
    """The picture as DOT text."""
    return to_dot(sketch_program(shown) if isinstance(shown, Program) else sketch_graph(shown))


def write_picture(shown: Graph | Program, kind: Literal["dot", "svg", "png"], path: Path) -> None:
    """Draws with what is here; VxError where nothing is, and then the DOT text is there."""
    dot = dot_text(shown)
    if kind == "dot":
        return write_text(path, dot)
    renderer = find_renderer()
    if renderer is None:
        beside = path.with_suffix(".dot")
        write_text(beside, dot)
        raise VxError(
            f"{path}: nothing here draws DOT; its text is in {beside}, and this draws it: pip install graphviz-pure"
        )
    return write_bytes(path, render(dot, kind, renderer))


def page_text(
    shown: Graph | Program,
    machine: Machine | None = None,
    observed: Timeline | None = None,
    *,
    sizes: Sizes | None = None,
    steps: int | None = None,
) -> str:
    """The page, with a prediction at these sizes and for so many steps of each loop where a machine is known."""
    if isinstance(shown, Graph):
        return page(page_data(shown, notes=[f"{shown.name} is a graph: memory and time are a program's"]))
    machine, notes = _machine(shown, machine)
    predicted = None
    if machine is not None:
        predicted = predict(shown, machine, sizes=sizes, steps=steps)
        notes = [_said(shown, machine, sizes or {}, steps)]
    return page(page_data(shown, machine, predicted=predicted, observed=observed, notes=notes))


def _machine(program: Program, machine: Machine | None) -> tuple[Machine | None, Sequence[str]]:
    if machine is not None:
        return machine, ()
    if program.machine in shipped_machines():
        return load_machine(program.machine), ()
    return None, [f"machine {program.machine} is not a shipped one: give its file, for times"]


def _said(program: Program, machine: Machine, sizes: Sizes, steps: int | None) -> str:
    """Predicted on h200-x2 for T = 4096, 63 steps of each loop"""
    symbols = [f"{d.name} = {sizes.get(d.name, d.bound)}" for d in program.dims if d.symbolic]
    loops = [f"{steps} steps of each loop" if steps is not None else "every step that a loop may run"]
    return f"predicted on {machine.name} for {', '.join([*symbols, *loops])}"
