"""The options that commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from vxgraph.errors import RunError
from vxgraph.program.compile import Mode
from vxgraph.tools.feed import parse_size
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
InputsOption = Annotated[Path | None, typer.Option(help="Args, from an .npz file; drawn without it.")]
ParamsOption = Annotated[Path | None, typer.Option(help="Params, from an .npz file; drawn without it.")]
SizeOption = Annotated[list[str] | None, typer.Option("--size", metavar="DIM=N", help="The size of a symbolic dim.")]
StepsOption = Annotated[
    int | None, typer.Option("--steps", min=0, metavar="N", help="Steps of each loop, at most; by default its bound.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seeds what is drawn.")]


def machine_of(name: str | None) -> Machine | None:
    """The machine that -m names, if it is given."""
    return None if name is None else load_machine(name)


def sizes_of(sizes: Sequence[str]) -> dict[str, int]:
    """What --size says."""
    found: dict[str, int] = {}
    for name, size in map(parse_size, sizes):
        if name in found:
            raise RunError(f"--size {name} is given twice: {found[name]} and {size}")
        found[name] = size
    return found


def bindings_of(bindings: Sequence[str]) -> str | dict[str, str] | None:
    """What --bind says, as a session wants it."""
    if not bindings:
        return None
    if len(bindings) == 1 and "=" not in bindings[0]:
        return bindings[0]
    found: dict[str, str] = {}
    for binding in bindings:
        place, equals, device = binding.partition("=")
        if not equals or not device:
            raise RunError(f"--bind {binding}: wanted a place and a device, like gpu:0=cuda:0")
        if place in found:
            raise RunError(f"--bind {place} is given twice: {found[place]} and {device}")
        found[place] = device
    return found
