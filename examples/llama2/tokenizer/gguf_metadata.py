"""The key-value part of a GGUF file, as a dictionary; tensors are not looked at.

    >>> read_metadata(Path("SmolLM2-135M-Instruct.Q4_1.gguf"))["tokenizer.ggml.pre"]
    'smollm'

`gguf.GGUFReader` makes several arrays per string and takes seconds for a vocabulary of 49,152; this takes a fiftieth.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from vxgraph.errors import CheckpointError

Scalar = int | float | bool | str
Value = Scalar | list[int] | list[float] | list[bool] | list[str]

# GGUF's type numbers; 8 is a string and 9 an array.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def read_metadata(path: Path) -> dict[str, Value]:
    """All keys and values of the GGUF file `path`.

    Raises `CheckpointError` where it is no GGUF file, is cut off, or holds what the format does not allow.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _metadata(_Cursor(data, str(path)))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:  # an empty file cannot be mapped
        raise CheckpointError(f"{path}: the file is empty") from None


@dataclass(slots=True)
class _Cursor:
    data: mmap.mmap
    path: str
    key: str = "the header"
    at: int = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise CheckpointError(
                f"{self.path}: the file is cut off: {self.key} goes on to byte {self.at + size},"
                f" but the file has {len(self.data)} bytes; fetch it again"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, code: str, count: int) -> tuple[int | float | bool, ...]:
        return struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}")))

    def integer(self, code: str) -> int:
        return int(self.numbers(code, 1)[0])

    def string(self) -> str:
        raw = self.take(self.integer("Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise CheckpointError(f"{self.path}: {self.key} holds {raw[:40]!r}, which is not UTF-8") from None


def _metadata(cursor: _Cursor) -> dict[str, Value]:
    magic = cursor.take(4)
    if magic != b"GGUF":
        raise CheckpointError(f"{cursor.path}: not a GGUF file: it begins with {magic!r}, not b'GGUF'")
    version = cursor.integer("I")
    if version not in (2, 3):
        raise CheckpointError(f"{cursor.path}: GGUF version {version}; versions 2 and 3, little-endian, can be read")
    _tensors, count = cursor.integer("Q"), cursor.integer("Q")
    found: dict[str, Value] = {}
    for nth in range(count):
        cursor.key = f"key {nth + 1} of {count}"
        cursor.key = cursor.string()
        found[cursor.key] = _value(cursor)
    return found


def _value(cursor: _Cursor) -> Value:
    match cursor.integer("I"):
        case 8:
            return cursor.string()
        case 9:
            return _array(cursor)
        case kind:
            return cursor.numbers(_code(cursor, kind), 1)[0]


def _array(cursor: _Cursor) -> Value:
    kind, count = cursor.integer("I"), cursor.integer("Q")
    if kind == STRING:
        return [cursor.string() for _ in range(count)]
    return list(cursor.numbers(_code(cursor, kind), count))


def _code(cursor: _Cursor, kind: int) -> str:
    if kind not in NUMBERS:
        raise CheckpointError(f"{cursor.path}: {cursor.key} has the value type {kind}, which is not one that is read here")
    return NUMBERS[kind]
