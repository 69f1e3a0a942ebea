"""`vxgraph compile`: a graph and a machine in, a proved program that fits out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vxgraph.program.admission import admit, show_bytes
from vxgraph.program.instructions import flatten
from vxgraph.tools.commands.options import PlaceOption, SetOption, TargetArgument
from vxgraph.tools.exits import guarded
from vxgraph.tools.plain import plain
from vxgraph.tools.prices import peer_bytes
from vxgraph.tools.tables import memory_table
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show
from vxgraph.topology.load import load_machine


@guarded
def compile(
    target: TargetArgument,
    machine: Annotated[str, typer.Option("--machine", "-m", metavar="MACHINE", help="What to compile for.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The program's file, like mlp.vxp.")] = None,
    settings: SetOption = None,
    place: PlaceOption = "auto",
) -> None:
    """Compile a graph for a machine, and save the program.

    Refuses, with exit code 1, what does not fit the machine.

    Example: vxgraph compile mlp.py:mlp -m h200-x2 --set hidden=1024 -o mlp.vxp
    """
    program = open_target(target, settings or ()).program(load_machine(machine), place=place)
    admit(program)
    if output is not None:
        program.save(output)
    count = sum(1 for _ in flatten((*program.load, *program.body)))
    show(
        f"{plain(program.name)} for {plain(program.machine)}: {count} instructions on {_places(program.topologies)}",
        f"between devices per run, at most: {show_bytes(peer_bytes(program))}",
        memory_table(program.memories),
        program.digest,
        *([] if output is None else [f"written: {output}"]),
        places=program.topologies,
    )


def _places(topologies: tuple[object, ...]) -> str:
    return ", ".join(map(str, topologies)) or "the host alone"
