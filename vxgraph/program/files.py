"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes]]:
    """A file to write to, which takes `path`'s place at the end; a device or a pipe is written to as it is.

    OSError where the folder does not take it.
    """
    if "\0" in str(path):
        raise OSError(0, "a path has no NUL in it")
    if path.exists() and not path.is_file():
        # Replaced, it would be a file for everyone: /dev/null is one place to write to.
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
