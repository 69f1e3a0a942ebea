"""`vxgraph show`: a graph or a program as text, as a picture, or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from vxgraph.errors import VxError
from vxgraph.tools.commands.options import MachineOption, PlaceOption, SetOption, TargetArgument, machine_of
from vxgraph.tools.exits import guarded
from vxgraph.tools.files import write_text
from vxgraph.tools.pictures import dot_text, page_text, write_picture
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show_source

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
) -> None:
    """Print or draw a graph, or, with a machine, its program.

    Pictures have a cluster per place and a block for layers that are alike; transfers between devices are thick and
    carry their bytes. html is a page that opens without a network: the graph to search and unfold, memory over time,
    the transfer bill, and the predicted timeline.

    Example: vxgraph show mlp.py:mlp -m h200-x2

    Example: vxgraph show llama.vxp -o llama.svg

    Example: vxgraph show llama.vxp -o llama.html
    """
    opened = open_target(target, settings or ())
    found = machine_of(machine)
    shown = opened.build(None) if found is None else opened.program(found, place=place)
    wanted = format or _format_of(output)
    if wanted == "text":
        _write(shown.text(), output)
    elif wanted == "dot":
        _write(dot_text(shown), output)
    elif output is None:
        what = "a page" if wanted == "html" else "a picture"
        raise VxError(f"--format {wanted} makes {what}: say where to write it, like -o graph.{wanted}")
    elif wanted == "html":
        write_text(output, page_text(shown, found))
    else:
        write_picture(shown, wanted, output)


def _format_of(output: Path | None) -> Format:
    suffix = "" if output is None else output.suffix.removeprefix(".")
    return next((f for f in get_args(Format) if f == suffix), "text")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        show_source(text)
    else:
        write_text(output, text)
