"""What a model's name or path stands for: its configuration, its weights file and its tokenizer.

smollm2-135m                  fetched where it is not here
llama2-7b                     a preset: a configuration without weights
stories15M.bin, folder/       any checkpoint that `examples.llama2.weights` reads, with the tokenizer in or beside it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from examples.llama2.config import PRESETS, DType, LlamaConfig, Weights, with_types
from examples.llama2.fetch import MODELS, fetch
from examples.llama2.tokenizer import Tokenizer, open_tokenizer
from examples.llama2.weights import Checkpoint, open_checkpoint
from vxgraph.errors import VxError


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint and the tokenizer that it was trained with."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer


def config_of(model: str, dtype: DType | None = None, weights: Weights | None = None) -> LlamaConfig:
    """The configuration of a preset (no weights needed) or of the checkpoint at a path; what is given overrides it."""
    if model in PRESETS:
        return with_types(PRESETS[model], dtype, weights)
    return open_checkpoint(_existing(model), dtype, weights).config


def open_model(
    model: str,
    *,
    dtype: DType | None = None,
    weights: Weights | None = None,
    tokenizer: Path | None = None,
    console: Console,
) -> Model:
    """The model that a name or a path stands for, fetched if need be; `tokenizer` where its tokenizer stands elsewhere.

    Raises `VxError` where there is no such model, or its file or its tokenizer cannot be read.
    """
    path = fetch(model, console=console) if model in MODELS else _existing(model)
    checkpoint = open_checkpoint(path, dtype, weights)
    return Model(checkpoint, open_tokenizer(tokenizer or _tokenizer_of(path)))


def _existing(model: str) -> Path:
    path = Path(model)
    try:
        if path.exists():
            return path
    except OSError as error:  # a name too long, a folder that nobody may look into
        raise VxError(f"{model}: {error.strerror}") from None
    fetched = ", ".join(MODELS)
    if model in PRESETS:
        raise VxError(
            f"{model}: its configuration is known here, its weights are not; give the path of a checkpoint, "
            f"or a model that can be fetched: {fetched}"
        )
    raise VxError(
        f"{model}: there is no such file or folder, and no model of that name",
        details=(f"can be fetched: {fetched}", f"can be compiled without weights: {', '.join(PRESETS)}"),
    )


def _tokenizer_of(path: Path) -> Path:
    """A folder and a GGUF file hold their own; llama2.c keeps it beside the weights."""
    if path.is_dir() or path.suffix != ".bin":
        return path
    beside = path.parent / "tokenizer.bin"
    if not beside.exists():
        raise VxError(f"{path}: its tokenizer is not beside it as {beside.name}; give it with --tokenizer FILE")
    return beside
