"""Weights files of three formats, read the same way.

open_checkpoint("SmolLM2-135M-Instruct.Q4_1.gguf")    GGUF, recognised by its magic
open_checkpoint("stories15M.bin")                     llama2.c, all three header forms
open_checkpoint("TinyLlama-1.1B-Chat-v1.0/")          Hugging Face: config.json and safetensors
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from examples.llama2.config import DType, Weights, with_types
from examples.llama2.weights.checkpoint import Checkpoint
from examples.llama2.weights.gguf import open_gguf
from examples.llama2.weights.gguf_header import MAGIC as GGUF_MAGIC
from examples.llama2.weights.huggingface import open_huggingface
from examples.llama2.weights.huggingface_config import config_from_huggingface
from examples.llama2.weights.llama2c import open_llama2c
from vxgraph.errors import CheckpointError

__all__ = ["Checkpoint", "config_from_huggingface", "open_checkpoint"]


def open_checkpoint(path: str | Path, dtype: DType | None = None, weights: Weights | None = None) -> Checkpoint:
    """Open a model file or directory; its content says which format it is.

    Everything is checked here: names, shapes, and sizes against the file. No tensor is read until `params` is asked
    for it. `dtype` overrides the compute dtype, which is otherwise the file's own (f32 for quantised files), whatever a
    `config.json` beside it says. `weights` stores the matrices in another type, and computes in f32 unless `dtype` says
    otherwise.

    Raises `CheckpointError` for a file that is truncated, of another format or not a Llama model, and `VxError` when
    the package that reads it is not installed.
    """
    path = Path(path)
    opened = _open(path, dtype)
    return replace(opened, config=with_types(opened.config, dtype, weights))


def _open(path: Path, dtype: DType | None) -> Checkpoint:
    if path.is_dir():
        return open_huggingface(path, dtype)
    if _magic(path) == GGUF_MAGIC:
        return open_gguf(path, dtype)
    return open_llama2c(path, dtype)


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
