"""`vxgraph predict`: how long a program takes on a machine that is not here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from vxgraph.program.chrome import chrome_trace
from vxgraph.program.model import Program
from vxgraph.program.predict import predict as predicted
from vxgraph.program.timeline import Timeline, summary
from vxgraph.tools.commands.options import (
    MachineOption,
    PlaceOption,
    SetOption,
    SizeOption,
    StepsOption,
    TargetArgument,
    machine_of,
    sizes_of,
)
from vxgraph.tools.exits import guarded
from vxgraph.tools.files import write_text
from vxgraph.tools.pictures import machine_for
from vxgraph.tools.plain import plain
from vxgraph.tools.prices import show_seconds
from vxgraph.tools.tables import queue_table
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show


@guarded
def predict(
    target: TargetArgument,
    machine: MachineOption = None,
    settings: SetOption = None,
    place: PlaceOption = "auto",
    size: SizeOption = None,
    steps: StepsOption = None,
    trace: Annotated[Path | None, typer.Option(help="Write the timeline for Perfetto or chrome://tracing.")] = None,
) -> None:
    """Predict how long a program takes, from its machine's file: the whole run, the first emitted value, a loop's step.

    Queues run on a virtual clock. A kernel takes its arithmetic or its traffic, whichever is longer; a transfer takes
    the links of its route. Symbolic dims and loops are at their bounds unless --size and --steps say otherwise.

    Example: vxgraph predict llama.vxp --size T=512 --steps 64 --trace llama.json
    """
    found = machine_of(machine)
    program = open_target(target, settings or ()).program(found, place=place)
    run = predicted(program, machine_for(program, found), sizes=sizes_of(size or ()), steps=steps)
    if trace is not None:
        write_text(trace, json.dumps(chrome_trace(run, program)))
    show(*_parts(run, program, trace), places=program.topologies)


def _parts(run: Timeline, program: Program, trace: Path | None) -> Iterator[RenderableType]:
    found = summary(run, program)
    sizes = "".join(f", {plain(name)} = {size}" for name, size in run.sizes.items())
    yield f"{plain(program.name)} on {plain(program.machine)}{sizes}: {show_seconds(found.seconds)}, predicted"
    if found.first_emit is not None:
        yield f"first emitted value after {show_seconds(found.first_emit)}"
    for loop, seconds in found.step.items():
        yield f"loop %{plain(loop)}: {found.steps[loop]} steps, {show_seconds(seconds)} each"
    yield ""
    yield queue_table(run, program)
    if run.left_out:
        yield f"of the slices that are kept; {run.left_out:,} more are of further steps"
    if trace is not None:
        yield f"written: {plain(str(trace))}"
