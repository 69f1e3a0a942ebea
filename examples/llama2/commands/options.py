"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from examples.llama2.config import DType, Weights
from examples.llama2.generate import MAX_CONTEXT


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
WeightsOption = Annotated[
    Weights | None,
    typer.Option(
        "--weights", help="What to store the matrices in, computing in f32.", show_default="what is computed in"
    ),
]
