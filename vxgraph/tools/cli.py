"""The `vxgraph` command.

vxgraph compile | check | show | explain | predict | run | sanitize | devices
"""

from __future__ import annotations

from typing import Annotated

import typer

from vxgraph.tools.commands.check import check
from vxgraph.tools.commands.compile import compile
from vxgraph.tools.commands.devices import devices
from vxgraph.tools.commands.explain import explain
from vxgraph.tools.commands.predict import predict
from vxgraph.tools.commands.run import run
from vxgraph.tools.commands.sanitize import sanitize
from vxgraph.tools.commands.show import show
from vxgraph.tools.exits import EXIT_CODES, start
from vxgraph.tools.version import installed_version

app = typer.Typer(
    name="vxgraph",
    help="Place dataflow graphs on devices, price every transfer, prove the plan, run it and check the run.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (compile, check, show, explain, predict, run, sanitize, devices):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vxgraph {installed_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Place dataflow graphs on devices, price every transfer, prove the plan, run it and check the run."""


def main() -> None:
    """The console script."""
    start(app)
