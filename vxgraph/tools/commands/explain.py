"""`vxgraph explain`: why a value is where it is, and what moves for it."""

from __future__ import annotations

from typing import Annotated

import typer

from vxgraph.tools.commands.options import MachineOption, PlaceOption, SetOption, TargetArgument, machine_of
from vxgraph.tools.exits import guarded
from vxgraph.tools.explain import explainer
from vxgraph.tools.plain import plain
from vxgraph.tools.target import open_target


@guarded
def explain(
    target: TargetArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A value's name, with or without %.", show_default=False)],
    machine: MachineOption = None,
    settings: SetOption = None,
    place: PlaceOption = "auto",
) -> None:
    """Say why a value is where it is, what moves for it, and what would end the move.

    For a graph, each pin that is proposed has been compiled, and what it changes is what that program says.

    Example: vxgraph explain mlp.py:mlp silu -m h200-x2
    """
    opened, found = open_target(target, settings or ()), machine_of(machine)
    for label, text in explainer(opened.build(found), found, place).explain(name):
        line = plain(text)
        typer.echo(f"  {label:9} {line}" if label or not line.startswith("%") else line)
