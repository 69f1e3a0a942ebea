"""Files that are written whole or not at all."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from vxgraph.errors import VxError
from vxgraph.ir.types import Array
from vxgraph.program.files import whole_file

MAX_NAME = 2**15  # bytes: the .npz format, which is a zip file's, counts them in 16 bits


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text; VxError where the folder does not take it."""
    _write(path, lambda file: file.write(text.encode()))


def write_bytes(path: Path, data: bytes) -> None:
    """Writes bytes; VxError where the folder does not take them."""
    _write(path, lambda file: file.write(data))


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an .npz file; VxError where the folder does not take it."""
    _write(path, lambda file: _fill_npz(file, arrays))


def _fill_npz(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    # numpy.savez takes names as keywords, and so refuses an array called `file`.
    with zipfile.ZipFile(file, "w") as held:
        for name, array in arrays.items():
            if not name.isprintable() or len(name.encode()) > MAX_NAME:
                raise VxError(f"{name[:40]!r} is no name for an array in an .npz file; give the output another one")
            with held.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    try:
        with whole_file(path) as file:
            fill(file)
    except OSError as error:
        raise VxError(f"{path}: cannot write: {error.strerror}") from None
