"""The options that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from vxgraph.program.compile import Mode
from vxgraph.topology.load import load_machine
from vxgraph.topology.model import Machine

TargetArgument = Annotated[
    str, typer.Argument(metavar="TARGET", help="file.py:function, or a saved graph or program.", show_default=False)
]
MachineOption = Annotated[
    str | None,
    typer.Option("--machine", "-m", metavar="MACHINE", help="A shipped machine's name, or the path of a machine file."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An argument of the function; may be given several times."),
]
PlaceOption = Annotated[
    Mode, typer.Option("--place", help="strict refuses a node without a pin; auto finds a place for it.")
]


def machine_of(name: str | None) -> Machine | None:
    """The machine that -m names, if it is given."""
    return None if name is None else load_machine(name)
