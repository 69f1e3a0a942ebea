"""Printing: in colour and to its width on a terminal; elsewhere plain, each row a line, and never cut."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import typer
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from vxgraph.tools.plain import plain
from vxgraph.tools.syntax import Words, coloured

WIDE = 100_000  # columns where nobody looks at a terminal


def show(*parts: RenderableType, stderr: bool = False, places: Iterable[object] = ()) -> None:
    """Prints parts to standard output (or error); `places` are those that a picture of the same would have."""
    console = console_for(stderr=stderr, places=places)
    with console.capture() as captured:
        for part in parts:
            console.print(_Plain(part))
    typer.echo("\n".join(line.rstrip() for line in captured.get().split("\n")[:-1]), err=stderr)


def show_source(source: str) -> None:
    """Prints a graph's or a program's text. Its lines are the terminal's to wrap: what is copied is the text."""
    system = COLOR_SYSTEMS.get(console_for().color_system or "")
    typer.echo(source if system is None else coloured(source, system), nl=False)


def console_for(*, stderr: bool = False, places: Iterable[object] = ()) -> Console:
    """The console of a stream: without colours where it is no terminal, TERM is dumb, or NO_COLOR is set."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")
    return Console(
        stderr=stderr,
        width=None if terminal else WIDE,
        force_terminal=terminal,
        color_system="auto" if colours else None,
        highlighter=Words(places),
        highlight=colours,
        markup=False,
        emoji=False,
    )


@dataclass(frozen=True, slots=True)
class Fitting:
    """The first of its layouts that is no wider than the terminal; where all are, the last one, wrapped."""

    layouts: tuple[RenderableType, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        free = options.update_width(WIDE)
        widths = (Measurement.get(console, free, layout).maximum for layout in self.layouts)
        fits = (layout for layout, width in zip(self.layouts, widths, strict=True) if width <= options.max_width)
        yield next(fits, self.layouts[-1])


@dataclass(frozen=True, slots=True)
class _Plain:
    """A part without what names in it would do to a terminal; the colours are ours."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.part, options):
            yield (
                segment if segment.control else Segment("\n".join(map(plain, segment.text.split("\n"))), segment.style)
            )
