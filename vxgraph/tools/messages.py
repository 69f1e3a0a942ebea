"""A user's mistake on standard error: the message as it is, laid out where that is a terminal.

error: mlp does not fit small
  memory     vram0     vram1
  ...
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from vxgraph.errors import AdmissionError, VxError
from vxgraph.tools.plain import plain_lines
from vxgraph.tools.tables import admission_table
from vxgraph.tools.terminal import show

INDENT = (0, 0, 0, 2)


def show_error(error: VxError) -> None:
    """One message, all of it."""
    if sys.stderr.isatty():
        show(*_parts(error), stderr=True)
    else:
        typer.echo(f"error: {plain_lines(str(error))}", err=True)


def _parts(error: VxError) -> Iterator[RenderableType]:
    head = f"{error.loc}: {error.message}" if error.loc else error.message
    yield Text.assemble(("error: ", "bold red"), plain_lines(head))
    rows = error.rows if isinstance(error, AdmissionError) else ()
    if rows:
        yield Padding(admission_table(rows), INDENT)
    yield from (Padding(plain_lines(line), INDENT) for line in error.details[len(rows) :])
