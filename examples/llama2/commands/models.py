"""`python -m examples.llama2 models` and `fetch`: what there is, and getting what can be had."""

from __future__ import annotations

from math import prod
from typing import Annotated

import typer
from rich.console import Console

from examples.llama2.config import PRESETS, LlamaConfig, param_shapes
from examples.llama2.fetch import MODELS, locate
from examples.llama2.fetch import fetch as fetch_model
from vxgraph.tools.exits import guarded
from vxgraph.tools.tables import plain_table
from vxgraph.tools.terminal import show


@guarded
def fetch(name: Annotated[str, typer.Argument(metavar="[NAME]", show_default=True)] = "smollm2-135m") -> None:
    """Fetch a model where it is not here, check it, and print its path.

    Example: python -m examples.llama2 fetch smollm2-135m
    """
    typer.echo(fetch_model(name, console=Console(stderr=True)))


@guarded
def models() -> None:
    """List the models whose configuration is known, and where their weights are.

    All of them compile without weights. A model that is not fetched here runs from the path of its checkpoint.

    Example: python -m examples.llama2 models
    """
    table = plain_table(
        "name", "parameters", "layers", "context", "dtype", "weights", right=("parameters", "layers", "context")
    )
    for name, config in PRESETS.items():
        table.add_row(
            name,
            f"{_parameters(config) / 1e6:,.0f} M",
            str(config.layers),
            str(config.max_len),
            config.dtype,
            _weights(name),
        )
    show(table)


def _parameters(config: LlamaConfig) -> int:
    return sum(prod(shape) for shape in param_shapes(config).values())


def _weights(name: str) -> str:
    if name not in MODELS:
        return "give a path"
    found = locate(name)
    return str(found) if found else f"fetched when needed ({MODELS[name].nbytes / 1e6:.0f} MB)"
