"""The header of a GGUF file: metadata and where each tensor lies.

    metadata  {'general.architecture': 'llama', 'llama.block_count': 30, ...}
    tensors   token_embd.weight [49152, 576] Q8_0, blk.0.attn_norm.weight [576] F32, ...

`gguf.GGUFReader` reads the same, but takes 3 s and 160 MB for the 98,000 strings of one tokenizer, and where a file is
cut short it cannot say at which key or tensor. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.llama2.weights.checkpoint import Bytes, map_file
from vxgraph.errors import CheckpointError

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_DEFAULT_ALIGNMENT = 32
_MAX_DIMS = 4  # GGML_MAX_DIMS
_MAX_NESTING = 8  # arrays in arrays


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: `shape` row-major (the file has it reversed), `kind` ggml's type number, `start` from byte 0."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """A parsed header and the mapped bytes of the whole file."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: tuple[TensorInfo, ...]
    data: Bytes


def read_gguf_header(path: Path) -> GgufHeader:
    """Parse the header of a GGUF file of version 2 or 3. Raises `CheckpointError` where it is damaged or cut short."""
    data = map_file(path)
    cursor = _Cursor(path, data)
    if cursor.take(4, "the magic") != MAGIC:
        raise CheckpointError(f"{path}: not a GGUF file; it does not start with {MAGIC.decode()}")
    _check_version(path, cursor.scalar("I", "the version"))
    tensor_count = cursor.scalar("Q", "the tensor count")
    key_count = cursor.scalar("Q", "the key count")
    metadata = _read_metadata(cursor, key_count)
    tensors = _read_tensors(cursor, tensor_count)
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise CheckpointError(f"{path}: key 'general.alignment' is {alignment!r}; it must be a positive integer")
    base = -(-cursor.at // alignment) * alignment
    placed = tuple(TensorInfo(t.name, t.shape, t.kind, base + t.start) for t in tensors)
    return GgufHeader(path, metadata, placed, data)


def _check_version(path: Path, version: int) -> None:
    if version & 0xFFFF == 0:
        raise CheckpointError(f"{path}: big-endian GGUF is not supported; convert it with gguf-convert-endian")
    if version not in _VERSIONS:
        raise CheckpointError(f"{path}: GGUF version {version} is not supported; 2 and 3 are")


class _Cursor:
    """A position in the header. Whatever does not fit into the file is a `CheckpointError` that says what it was."""

    def __init__(self, path: Path, data: Bytes) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def take(self, nbytes: int, what: str) -> bytes:
        end = self.at + nbytes
        if end > self.data.size:
            raise CheckpointError(
                f"{self.path}: the header is cut short: {what} ends at byte {end}, but the file has {self.data.size}"
            )
        part = self.data[self.at : end].tobytes()
        self.at = end
        return part

    def scalars(self, code: str, count: int, what: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}"), what))

    def scalar(self, code: str, what: str) -> Any:
        return self.scalars(code, 1, what)[0]

    def text(self, what: str) -> str:
        raw = self.take(self.scalar("Q", what), what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(f"{self.path}: {what} is not UTF-8: {raw[:40]!r}") from None

    def value(self, kind: int, what: str, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.text(what)
        if kind == _ARRAY:
            return self.array(what, depth + 1)
        if kind not in _SCALARS:
            raise CheckpointError(f"{self.path}: {what} has value type {kind}, which GGUF does not have")
        return self.scalar(_SCALARS[kind], what)

    def array(self, what: str, depth: int) -> list[Any]:
        if depth > _MAX_NESTING:
            raise CheckpointError(f"{self.path}: {what} has arrays nested more than {_MAX_NESTING} deep")
        kind = self.scalar("I", what)
        count = self.scalar("Q", what)
        if kind in _SCALARS:
            return list(self.scalars(_SCALARS[kind], count, what))
        return [self.value(kind, what, depth) for _ in range(count)]


def _read_metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for i in range(count):
        key = cursor.text(f"key {i + 1} of {count}")
        if key in metadata:
            raise CheckpointError(f"{cursor.path}: key {key!r} stands twice")
        what = f"key {key!r}"
        metadata[key] = cursor.value(cursor.scalar("I", what), what)
    return metadata


def _read_tensors(cursor: _Cursor, count: int) -> list[TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for i in range(count):
        name = cursor.text(f"the name of tensor {i + 1} of {count}")
        if name in tensors:
            raise CheckpointError(f"{cursor.path}: tensor {name!r} stands twice")
        what = f"the entry of tensor {name!r}"
        rank = cursor.scalar("I", what)
        if rank > _MAX_DIMS:
            raise CheckpointError(f"{cursor.path}: tensor {name!r} has {rank} dims; GGUF has at most {_MAX_DIMS}")
        dims = cursor.scalars("Q", rank, what)
        kind, offset = cursor.scalar("I", what), cursor.scalar("Q", what)
        tensors[name] = TensorInfo(name, tuple(reversed(dims)), kind, offset)
    return list(tensors.values())
