"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from vxgraph.errors import VxError
from vxgraph.ir.types import Array


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text; VxError where the folder does not take it."""
    _write(path, lambda file: file.write(text.encode()))


def write_bytes(path: Path, data: bytes) -> None:
    """Writes bytes; VxError where the folder does not take them."""
    _write(path, lambda file: file.write(data))


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an .npz file; VxError where the folder does not take it."""
    named: dict[str, Any] = dict(arrays)
    _write(path, lambda file: np.savez(file, **named))


def _write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    try:
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".part", delete=False) as file:
            try:
                fill(file)
                file.close()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise VxError(f"{path}: cannot write: {error.strerror}") from None
