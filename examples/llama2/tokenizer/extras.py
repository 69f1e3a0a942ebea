"""Packages that only some model files need, imported when one of those is opened."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from vxgraph.errors import VxError


@contextmanager
def extra(package: str, *, needed_by: str) -> Generator[None, None, None]:
    """Around an import: where `package` is missing, a `VxError` that says what needs it and how it is had."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise VxError(f"{needed_by} needs the package {package}: pip install 'vxgraph[llama]'") from None
