"""`vxgraph explain`: why a value is where it is, and what moves for it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from vxgraph.tools.commands.options import MachineOption, PlaceOption, SetOption, TargetArgument, machine_of
from vxgraph.tools.exits import guarded
from vxgraph.tools.explain import Row, explainer
from vxgraph.tools.plain import plain
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show

LABEL = 11  # columns


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
    story = explainer(opened.build(found), found, place)
    show(*map(_row, story.explain(name)), places=story.program.topologies)


def _row(row: Row) -> RenderableType:
    """A label and what it labels, in a column of its own; what the value is, at the margin."""
    label, line = row[0], plain(row[1])
    if not label and line.startswith("%"):
        return line
    grid = Table.grid(Column(width=LABEL), Column(overflow="fold"), padding=(0, 1, 0, 0), pad_edge=False)
    grid.highlight = True
    grid.add_row(Text(f"  {label}", "bold"), line)
    return grid
