"""Graphs and programs as files that people look at.

vx.draw(program, "llama.svg")                                        clusters per place, transfers with their bytes
vx.draw(program, "llama.html", machine=machine, report=s.report)     the page, the run laid over the prediction
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from vxgraph.errors import MachineError, VxError
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
    return write_text(path, page_text(shown, machine, report.timeline() if report else None))


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
    """The page, with a prediction at these sizes and for so many steps of each loop where a machine is known.

    By default they are those of the observed run, else the program's bounds.
    """
    if isinstance(shown, Graph):
        return page(page_data(shown, notes=[f"{shown.name} is a graph: memory and time are a program's."]))
    notes: list[str] = []
    try:
        machine = machine_for(shown, machine)
    except MachineError as error:
        notes.append(f"No times: {error}")
    if observed is not None:
        sizes = observed.sizes if sizes is None else sizes
        steps = observed.steps if steps is None else steps
    predicted = None if machine is None else predict(shown, machine, sizes=sizes, steps=steps)
    if machine is not None and predicted is not None:
        notes = [_said(machine, predicted, steps)]
    return page(page_data(shown, machine, predicted=predicted, observed=observed, notes=notes))


def machine_for(program: Program, machine: Machine | None) -> Machine:
    """The machine that is given, else the shipped one that the program names; MachineError where that is none."""
    if machine is not None:
        return machine
    if program.machine not in shipped_machines():
        raise MachineError(
            f"{program.name} is for machine {program.machine!r}, which is not shipped; give its file, like -m my.toml",
            details=(f"shipped: {', '.join(shipped_machines())}",),
        )
    return load_machine(program.machine)


def _said(machine: Machine, predicted: Timeline, steps: int | None) -> str:
    """`Predicted on h200-x2 for T = 4096, 63 steps of each loop at most`"""
    parts = [f"{name} = {size}" for name, size in predicted.sizes.items()]
    if predicted.steps is not None:
        parts.append("every step that a loop may run" if steps is None else f"{steps} steps of a loop at most")
    return f"Predicted on {machine.name}" + (f" for {', '.join(parts)}" if parts else "")
