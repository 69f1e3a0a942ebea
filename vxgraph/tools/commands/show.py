"""`vxgraph show`: a graph or a program as text, as a picture, or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from vxgraph.errors import VxError
from vxgraph.ir.graph import Graph
from vxgraph.program.model import Program
from vxgraph.tools.commands.options import (
    MachineOption,
    PlaceOption,
    SetOption,
    SizeOption,
    StepsOption,
    TargetArgument,
    machine_of,
    sizes_of,
)
from vxgraph.tools.exits import guarded
from vxgraph.tools.files import write_text
from vxgraph.tools.pictures import dot_text, page_text, write_picture
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show_source
from vxgraph.tools.trace_file import load_timeline

Format = Literal["text", "dot", "svg", "png", "html"]


@guarded
def show(
    target: TargetArgument,
    machine: MachineOption = None,
    settings: SetOption = None,
    place: PlaceOption = "auto",
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="By default what FILE's suffix says, or text.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="On a page: a run's trace, to lay over the prediction.")
    ] = None,
    size: SizeOption = None,
    steps: StepsOption = None,
) -> None:
    """Print or draw a graph, or, with a machine, its program.

    Pictures have a cluster per place and a block for layers that are alike; transfers between devices are thick and
    carry their bytes. html is a page that opens without a network: the graph to search and unfold, memory over time,
    the transfer bill, and the timeline, predicted for the sizes and steps of --trace, else of --size and --steps, else
    at the program's bounds.

    Example: vxgraph show mlp.py:mlp -m h200-x2

    Example: vxgraph show llama.vxp -o llama.svg

    Example: vxgraph show llama.vxp --trace run.json -o llama.html
    """
    opened = open_target(target, settings or ())
    found = machine_of(machine)
    shown = opened.build(None) if found is None else opened.program(found, place=place)
    wanted = format or _format_of(output)
    for option, given in (("--trace", trace), ("--size", size), ("--steps", steps)):
        if given is not None and wanted != "html":
            raise VxError(f"{option} is for a page's timeline, and this is {wanted}; wanted --format html")
    if wanted == "text":
        _write(shown.text(), output)
    elif wanted == "dot":
        _write(dot_text(shown), output)
    elif output is None:
        what = "a page" if wanted == "html" else "a picture"
        raise VxError(f"--format {wanted} makes {what}: say where to write it, like -o graph.{wanted}")
    elif wanted == "html":
        observed = None if trace is None else load_timeline(trace, _program(shown, "--trace"))
        write_text(output, page_text(shown, found, observed, sizes=sizes_of(size) if size else None, steps=steps))
    else:
        write_picture(shown, wanted, output)


def _program(shown: Graph | Program, option: str) -> Program:
    if isinstance(shown, Graph):
        raise VxError(f"{option} is of a program's run, and {shown.name} is a graph; give its machine, like -m h200-x2")
    return shown


def _format_of(output: Path | None) -> Format:
    suffix = "" if output is None else output.suffix.removeprefix(".")
    return next((f for f in get_args(Format) if f == suffix), "text")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        show_source(text)
    else:
        write_text(output, text)
