"""The header of a safetensors file: 8 bytes of length, then JSON.

    {"model.norm.weight": {"dtype": "BF16", "shape": [2048], "data_offsets": [0, 4096]}, "__metadata__": {...}}

Parsed here because the `safetensors` package cannot read BF16 into NumPy, and does not say which tensor of a damaged
file is at fault. Format: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
from pydantic import BaseModel, NonNegativeInt, RootModel, ValidationError

from examples.llama2.weights.checkpoint import Bytes, map_file
from vxgraph.errors import CheckpointError

# Bits of each dtype of the format.
_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16}
_BITS |= {"U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of a file and its bytes, mapped."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Bytes


class _Entry(BaseModel):
    dtype: str
    shape: list[NonNegativeInt]
    data_offsets: tuple[NonNegativeInt, NonNegativeInt]


class _Header(RootModel[dict[str, _Entry | dict[str, str]]]):
    """Tensors by name, and `__metadata__`."""


def read_safetensors(path: Path) -> dict[str, TensorEntry]:
    """The tensors of a file by name. Raises `CheckpointError` unless they cover the file exactly."""
    data = map_file(path)
    entries, body = _parse(path, data)
    in_file_order = sorted(entries.items(), key=lambda item: item[1].data_offsets)
    _check_sizes(path, in_file_order)
    _check_cover(path, in_file_order, body.size)
    return {
        name: TensorEntry(name, entry.dtype, tuple(entry.shape), body[slice(*entry.data_offsets)])
        for name, entry in entries.items()
    }
