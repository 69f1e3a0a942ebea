"""Exit codes, and what is printed on the way out.

0  done
1  a mistake in the graph, a file or an option's value, or a machine that refuses: one message on stderr
2  a command line that does not parse
3  a defect of vxgraph itself: a traceback, and a line that asks to report it
130  Ctrl-C: the line "interrupted" on stderr, and no file half-written
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from vxgraph.errors import VxError
from vxgraph.tools.messages import show_error

REFUSED = 1
INTERNAL = 3
INTERRUPTED = 130  # what a shell expects after Ctrl-C: 128 + SIGINT
EXIT_CODES = (
    "Exit codes: 0 done; 1 a mistake in the graph, a file or a value, or a machine that refuses (one message on "
    "stderr); 2 a command line that does not parse; 3 a defect of vxgraph; 130 after Ctrl-C."
)

P = ParamSpec("P")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """The command with errors turned into messages and exit codes."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except VxError as error:
            show_error(error)
            raise typer.Exit(REFUSED) from None
        except MemoryError:
            typer.echo("error: this host has not the memory for what is asked; make it smaller", err=True)
            raise typer.Exit(REFUSED) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            typer.echo("This is a defect of vxgraph: please report it, with the lines above.", err=True)
            raise typer.Exit(INTERNAL) from None

    return run


def start(app: Callable[[], object]) -> None:
    """Runs a command line. Ctrl-C may come before its command has begun, or after it has ended."""
    try:
        app()
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
