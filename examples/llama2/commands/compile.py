"""`python -m examples.llama2 compile`: a model at a placement as a saved program; presets need no weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import vxgraph as vx
from examples.llama2.commands.options import (
    MACHINE,
    PLACE,
    DTypeOption,
    MachineOption,
    MaxLenOption,
    ModelOption,
    PlaceOption,
    WeightsOption,
)
from examples.llama2.generate import max_len_of, max_prompt_of, plan
from examples.llama2.models import config_of
from vxgraph.tools.exits import guarded
from vxgraph.tools.tables import memory_table
from vxgraph.tools.terminal import show


@guarded
def compile(
    output: Annotated[Path, typer.Option("--output", "-o", help="The program's file, like llama.vxp.")],
    model: ModelOption = "smollm2-135m",
    place: PlaceOption = None,
    machine: MachineOption = None,
    max_len: MaxLenOption = None,
    max_prompt: Annotated[
        int | None,
        typer.Option("--max-prompt", help="Room for the prompt, in tokens.", show_default="as --max-len"),
    ] = None,
    dtype: DTypeOption = None,
    weights: WeightsOption = None,
) -> None:
    """Compile a model for a machine at a placement, and save the program.

    Needs no weights for a preset. What does not fit the machine is refused with the memory table, and exit code 1.

    Example: python -m examples.llama2 compile --model llama2-7b --place disaggregated -m h200-x2 -o llama.vxp
    """
    target = vx.load_machine(machine or MACHINE)
    program = plan(config_of(model, dtype, weights), place or PLACE, target, max_len=max_len, max_prompt=max_prompt)
    program.save(output)
    show(
        f"{program.name} for {program.machine}: {max_len_of(program)} tokens, "
        f"of which the prompt has at most {max_prompt_of(program)}",
        memory_table(program.memories),
        program.digest,
        f"written: {output}",
        places=program.topologies,
    )
