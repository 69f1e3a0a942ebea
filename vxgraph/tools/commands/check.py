"""`vxgraph check`: does it fit, what moves and what that costs, per machine, before the machine is rented."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from vxgraph.program.admission import show_bytes
from vxgraph.program.model import Program
from vxgraph.tools.commands.options import PlaceOption, SetOption, TargetArgument
from vxgraph.tools.exits import REFUSED, guarded
from vxgraph.tools.plain import plain, plain_lines
from vxgraph.tools.prices import Priced, bill, largest, sections, show_seconds
from vxgraph.tools.tables import bill_table, edge_table, memory_table
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show
from vxgraph.tools.verdict import Verdict, judge
from vxgraph.topology.load import load_machine

SHOWN_EDGES = 5


@guarded
def check(
    target: TargetArgument,
    machines: Annotated[
        list[str], typer.Option("--machine", "-m", metavar="MACHINE", help="A machine; may be given several times.")
    ],
    settings: SetOption = None,
    place: PlaceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Everything, for programs to read.")] = False,
) -> None:
    """Say whether a graph or a program fits machines: verdict, memory table and transfer bill for each.

    Exit code 1 if one of them refuses. Sizes are those at the largest dims.

    Example: vxgraph check mlp.py:mlp -m h200-x2 -m rtx4090-x2 --json
    """
    opened = open_target(target, settings or ())
    verdicts = [judge(opened, machine, place) for machine in map(load_machine, machines)]
    if as_json:
        typer.echo(json.dumps({"target": target, "machines": [v.as_json() for v in verdicts]}, indent=2))
    else:
        for verdict in verdicts:
            show(*_parts(verdict), places=() if verdict.program is None else verdict.program.topologies)
    if any(v.refusal for v in verdicts):
        raise typer.Exit(REFUSED)


def _parts(verdict: Verdict) -> Iterator[RenderableType]:
    if verdict.refusal is not None:
        yield Text(f"{plain(verdict.machine.name)}: refused: {plain_lines(str(verdict.refusal))}", "bold red")
    elif verdict.program is not None:
        yield Text(
            f"{plain(verdict.machine.name)}: {plain(verdict.program.name)} fits{_bounds(verdict.program)}", "bold green"
        )
    if verdict.program is not None:
        yield memory_table(verdict.program.memories)
        yield from (Padding(plain(line), (0, 0, 0, 2)) for line in verdict.advice)
        yield ""
        yield from _bill(verdict.priced)
    yield ""


def _bounds(program: Program) -> str:
    shown = ", ".join(f"{d.name} = {d.bound}" for d in program.dims if d.symbolic)
    return f" at {shown}" if shown else ""


def _bill(priced: Sequence[Priced]) -> Iterator[RenderableType]:
    yield bill_table(bill(priced))
    yield ""
    if edges := largest(priced, SHOWN_EDGES):
        yield "the largest of a run:"
        yield edge_table(edges)
        yield ""
    total = {section: _total(priced) for section, priced in sections(priced).items()}
    yield f"once, to load: {total['load']}"
    yield f"per run, at most: {total['run']}; of that between devices: {total['between_devices']}"


def _total(priced: Sequence[Priced]) -> str:
    return f"{show_bytes(sum(p.nbytes for p in priced))} in {show_seconds(sum(p.seconds for p in priced))}"
