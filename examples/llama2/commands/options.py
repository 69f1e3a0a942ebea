"""The options that commands share, and what ends a command early."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, ParamSpec

import typer

from examples.llama2.config import DType
from examples.llama2.generate import MAX_CONTEXT
from vxgraph.tools.exits import guarded

INTERRUPTED = 130  # what a shell expects after Ctrl-C: 128 + SIGINT

P = ParamSpec("P")


class Place(StrEnum):
    """The placements of `examples.llama2.model`."""

    SINGLE = "single"
    DISAGGREGATED = "disaggregated"
    PIPELINE = "pipeline"


# Not typer's defaults: a command that is given a saved program must know which of them were typed.
PLACE = Place.DISAGGREGATED
MACHINE = "h200-x2"

ModelOption = Annotated[
    str, typer.Option("--model", metavar="NAME_OR_PATH", help="A name that the command models lists, or a checkpoint.")
]
PlaceOption = Annotated[Place | None, typer.Option("--place", help="Where the layers run.", show_default=PLACE.value)]
MachineOption = Annotated[
    str | None,
    typer.Option(
        "--machine",
        "-m",
        metavar="MACHINE",
        help="What to plan for: a shipped machine's name, or the path of a machine file.",
        show_default=MACHINE,
    ),
]
MaxLenOption = Annotated[
    int | None,
    typer.Option(
        "--max-len",
        help="Room for prompt and output together, in tokens.",
        show_default=f"the model's context, at most {MAX_CONTEXT}",
    ),
]
DTypeOption = Annotated[
    DType | None, typer.Option("--dtype", help="What to compute in.", show_default="the model's own")
]


def command(function: Callable[P, None]) -> Callable[P, None]:
    """The command with errors turned into messages and exit codes, and Ctrl-C into a clean line."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            guarded(function)(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo()
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run
