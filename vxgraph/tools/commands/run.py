"""`vxgraph run`: a program on what is here, with what it computed and whether the run was the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vxgraph.ir.types import Array
from vxgraph.program.admission import admit
from vxgraph.runtime.inputs import describe
from vxgraph.runtime.session import Session
from vxgraph.tools.commands.options import (
    InputsOption,
    MachineOption,
    ParamsOption,
    SeedOption,
    SetOption,
    SizeOption,
    TargetArgument,
    bindings_of,
    machine_of,
)
from vxgraph.tools.exits import guarded
from vxgraph.tools.feed import Feed, feed
from vxgraph.tools.files import write_arrays, write_text
from vxgraph.tools.plain import plain
from vxgraph.tools.progress import upload_progress
from vxgraph.tools.tables import placement_summary, plain_table
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show

SHOWN_ELEMENTS = 6


@guarded
def run(
    target: TargetArgument,
    machine: MachineOption = None,
    settings: SetOption = None,
    bind: Annotated[
        list[str] | None,
        typer.Option("--bind", metavar="PLACE=DEVICE", help="gpu:0=cuda:0, gpu:0=numpy, or numpy for every place."),
    ] = None,
    require_gpu: Annotated[bool, typer.Option("--require-gpu", help="Fail where a gpu place is not on a GPU.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the run as a Chrome trace (chrome://tracing).")] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Observe every execution, not only each first one.")] = False,
    inputs: InputsOption = None,
    params: ParamsOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the results to an .npz file.")] = None,
    size: SizeOption = None,
    seed: SeedOption = 0,
) -> None:
    """Run a program, and check that the run was the plan.

    Without a GPU it runs on NumPy, and says so. Without files, args and params are drawn: floats are small normal
    numbers, integers are zero, and a symbolic dim is 16 at most.

    Example: vxgraph run mlp.vxp --bind gpu:0=numpy --bind gpu:1=numpy --trace mlp.json

    Example: vxgraph run mlp.py:mlp -m h200-x2 --set hidden=1024 --params weights.npz -o y.npz
    """
    program = open_target(target, settings or ()).program(machine_of(machine))
    admit(program)
    given = feed(program, inputs=inputs, params=params, sizes=size or (), seed=seed)
    bound = bindings_of(bind or ())
    with upload_progress() as progress:
        session = Session(
            program,
            given.params,
            bound,
            require_gpu=require_gpu,
            audit=audit,
            trace=trace is not None,
            progress=progress,
        )
    with session:
        results = session.run(given.args)
        session.report.conforms()
        if trace is not None:
            write_text(trace, json.dumps(session.report.chrome_trace()))
        if output is not None:
            write_arrays(output, results)
        show(*_parts(session, results, given), *_written(trace, output), places=program.topologies)


def _parts(session: Session, results: Mapping[str, Array], given: Feed) -> Iterator[RenderableType]:
    if session.note:
        yield session.note
    if given.drawn:
        yield given.drawn
    yield _results(results)
    yield from (f"loop %{loop}: {steps} steps" for loop, steps in session.report.steps.items())
    yield ""
    yield placement_summary(session.report)
    yield ""
    yield Text("the run is the plan: places, counts and bytes were observed, and are as planned", "green")


def _results(results: Mapping[str, Array]) -> Table:
    table = plain_table("result", "type", "first values")
    for name, array in results.items():
        table.add_row(plain(name), describe(array), _first(array))
    return table


def _first(array: Array) -> str:
    values = array.reshape(-1)[:SHOWN_ELEMENTS]
    shown = [f"{float(v):.6g}" if array.dtype.kind in "fV" else str(v) for v in values]
    return ", ".join(shown) + (", ..." if array.size > SHOWN_ELEMENTS else "")


def _written(*paths: Path | None) -> Iterator[str]:
    yield from (f"written: {path}" for path in paths if path is not None)
