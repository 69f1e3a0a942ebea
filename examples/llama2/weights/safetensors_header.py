"""The header of a safetensors file: 8 bytes of length, then JSON.

    {"model.norm.weight": {"dtype": "BF16", "shape": [2048], "data_offsets": [0, 4096]}, "__metadata__": {...}}

Parsed here because the `safetensors` package cannot read BF16 into NumPy, and does not say which tensor of a damaged
file is at fault. Format: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

from examples.llama2.weights.checkpoint import Bytes, map_file
from vxgraph.errors import CheckpointError

MAX_DIMS = 8  # the product of a hundred thousand large ones takes minutes
_DTYPE_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of a file and its bytes, mapped."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Bytes


class _Entry(BaseModel):
    dtype: str
    shape: list[NonNegativeInt] = Field(max_length=MAX_DIMS)
    data_offsets: tuple[NonNegativeInt, NonNegativeInt]


_Header = TypeAdapter(dict[str, Any])


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


def _parse(path: Path, data: Bytes) -> tuple[dict[str, _Entry], Bytes]:
    """The entries of the header, and the bytes after it."""
    if data.size < 8:
        raise CheckpointError(f"{path}: the header is cut short: the file has {data.size} bytes; download it again")
    end = 8 + int(data[:8].view("<u8")[0])
    if end > data.size:
        raise CheckpointError(
            f"{path}: the header ends at byte {end}, but the file has {data.size} bytes; it is cut short, or it is not "
            "a safetensors file"
        )
    try:
        header = _Header.validate_json(data[8:end].tobytes())
    except ValidationError as error:
        raise CheckpointError(f"{path}: the header is damaged: {error.errors()[0]['msg']}") from None
    header.pop("__metadata__", None)
    return {name: _entry(path, name, raw) for name, raw in header.items()}, data[end:]


def _entry(path: Path, name: str, raw: Any) -> _Entry:
    try:
        return _Entry.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its entry"
        raise CheckpointError(f"{path}: tensor {name!r}: {where}: {first['msg']}") from None


def _check_sizes(path: Path, entries: list[tuple[str, _Entry]]) -> None:
    for name, entry in entries:
        if entry.dtype not in _DTYPE_BYTES:
            raise CheckpointError(f"{path}: tensor {name!r} has dtype {entry.dtype!r}, which is not known")
        start, end = entry.data_offsets
        nbytes = prod(entry.shape) * _DTYPE_BYTES[entry.dtype]
        if end - start != nbytes:
            raise CheckpointError(
                f"{path}: tensor {name!r} spans {end - start} bytes, but {entry.dtype} {entry.shape} takes {nbytes}"
            )


def _check_cover(path: Path, entries: list[tuple[str, _Entry]], size: int) -> None:
    """Tensors follow each other without a gap or an overlap, from the end of the header to the end of the file."""
    last, at = "the header", 0
    for name, entry in entries:
        start, end = entry.data_offsets
        if start != at:
            raise CheckpointError(
                f"{path}: tensor {name!r} starts at byte {start} of the data, but {last} ends at byte {at}"
            )
        if end > size:
            raise CheckpointError(
                f"{path}: tensor {name!r} ends at byte {end} of the data, but the file has {size} bytes of it",
                details=("the file is cut short; download it again",),
            )
        last, at = repr(name), end
    if at != size:
        raise CheckpointError(f"{path}: {size - at} bytes follow {last}, which should be the last in the file")
