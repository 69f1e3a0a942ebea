"""`vxgraph show`: a graph or a program as text or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from vxgraph.errors import VxError
from vxgraph.ir.graph import Graph
from vxgraph.program.model import Program
from vxgraph.tools.commands.options import MachineOption, PlaceOption, SetOption, TargetArgument, machine_of
from vxgraph.tools.draw.dot import to_dot
from vxgraph.tools.draw.render import find_renderer, render
from vxgraph.tools.draw.walk import sketch_graph, sketch_program
from vxgraph.tools.exits import guarded
from vxgraph.tools.files import write_bytes, write_text
from vxgraph.tools.target import open_target

Format = Literal["text", "dot", "svg", "png"]


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

    Pictures have a cluster per place; transfers between devices are red and carry their bytes.

    Example: vxgraph show mlp.py:mlp -m h200-x2

    Example: vxgraph show llama.vxp -o llama.svg
    """
    opened = open_target(target, settings or ())
    found = machine_of(machine)
    shown = opened.build(None) if found is None else opened.program(found, place=place)
    wanted = format or _format_of(output)
    if wanted == "text":
        _write(shown.text(), output)
    elif wanted == "dot":
        _write(_dot(shown), output)
    else:
        _draw(_dot(shown), wanted, output)


def _format_of(output: Path | None) -> Format:
    suffix = "" if output is None else output.suffix.removeprefix(".")
    return next((f for f in get_args(Format) if f == suffix), "text")


def _dot(shown: Graph | Program) -> str:
    return to_dot(sketch_program(shown) if isinstance(shown, Program) else sketch_graph(shown))


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)


def _draw(dot: str, format: Literal["svg", "png"], output: Path | None) -> None:
    if output is None:
        raise VxError(f"--format {format} makes a picture: say where to write it, like -o graph.{format}")
    renderer = find_renderer()
    if renderer is None:
        beside = output.with_suffix(".dot")
        write_text(beside, dot)
        raise VxError(
            f"{output}: nothing here draws DOT; its text is in {beside}, and this draws it: pip install graphviz-pure"
        )
    write_bytes(output, render(dot, format, renderer))
