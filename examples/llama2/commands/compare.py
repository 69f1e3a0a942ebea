"""`python -m examples.llama2 compare`: what weights in fewer bytes do to the logits of a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.llama2.commands.options import ModelOption
from examples.llama2.commands.prompt import read_prompt
from examples.llama2.compare import Difference, difference, logits_of_text
from examples.llama2.config import LlamaConfig, Weights, stored_params
from examples.llama2.model import DTYPES
from examples.llama2.models import open_model
from vxgraph.tools.exits import guarded
from vxgraph.tools.terminal import show


@guarded
def compare(
    prompt: Annotated[str, typer.Option("--prompt", help="The text; - reads it from standard input.")],
    weights: Annotated[Weights, typer.Option("--weights", help="What to store the matrices in.")],
    model: ModelOption = "smollm2-135m",
    tokenizer: Annotated[
        Path | None, typer.Option(help="The tokenizer's file.", show_default="in the checkpoint or beside it")
    ] = None,
) -> None:
    """Say how far logits are from those of f32 weights, at every token of a text.

    Runs twice on this machine's processor: with f32 weights, then with the others. Both compute in f32.

    Example: python -m examples.llama2 compare --weights int8 --prompt "The sun is a star."
    """
    opened = open_model(model, weights="f32", tokenizer=tokenizer, console=Console(stderr=True))
    tokens = opened.tokenizer.encode(read_prompt(prompt))
    wide = opened.checkpoint
    narrow = replace(wide, config=replace(wide.config, weights=weights))
    found = difference(logits_of_text(wide, tokens), logits_of_text(narrow, tokens), tokens)
    show(*report(narrow.config, wide.config, found))


def report(narrow: LlamaConfig, wide: LlamaConfig, found: Difference) -> Iterator[str]:
    """The lines that say it."""
    yield f"{narrow.name}, weights of {narrow.stored} against {wide.stored}, {found.tokens} tokens"
    yield f"  parameters      {nbytes(narrow):,} B, {wide.stored} {nbytes(wide):,} B"
    yield f"  logit error     RMS {found.rms:.3g}, largest {found.largest:.3g}; logits have RMS {found.size:.3g}"
    yield f"  likeliest token the same at {found.same_top} of {found.tokens}"
    yield f"  KL divergence   {found.divergence:.3g} nats, the mean"
    if found.tokens > 1:
        change = found.perplexity / found.wanted_perplexity - 1
        yield f"  perplexity      {found.perplexity:.4g}, {wide.stored} {found.wanted_perplexity:.4g} ({change:+.2%})"


def nbytes(config: LlamaConfig) -> int:
    """Of all parameters, as they are stored."""
    return sum(prod(shape) * DTYPES[stored].itemsize for stored, shape in stored_params(config).values())
