"""`vxgraph sanitize`: a program of any number of devices in many legal orders, on a machine with none of them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from vxgraph.runtime.backends.sanitizer.sanitize import sanitize as run_orders
from vxgraph.tools.commands.options import (
    InputsOption,
    MachineOption,
    ParamsOption,
    SeedOption,
    SetOption,
    SizeOption,
    TargetArgument,
    machine_of,
)
from vxgraph.tools.exits import guarded
from vxgraph.tools.feed import feed
from vxgraph.tools.progress import order_progress
from vxgraph.tools.target import open_target
from vxgraph.tools.terminal import show


@guarded
def sanitize(
    target: TargetArgument,
    machine: MachineOption = None,
    settings: SetOption = None,
    orders: Annotated[int, typer.Option(min=0, help="Random legal orders, besides the latest one.")] = 20,
    inputs: InputsOption = None,
    params: ParamsOption = None,
    size: SizeOption = None,
    seed: SeedOption = 0,
) -> None:
    """Run a program on NumPy's isolated spaces in many legal orders, and look for what no order makes sure of.

    A missing wait, a slot or a copy's source that is written over too early, bytes that nothing has written, an operand
    on another device, a transfer of another size, a deadlock: the run stops with both instructions, their queues, the
    value and the source line. --seed also seeds the random orders.

    Example: vxgraph sanitize mlp.py:mlp -m h200-x2 --orders 100
    """
    program = open_target(target, settings or ()).program(machine_of(machine))
    given = feed(program, inputs=inputs, params=params, sizes=size or (), seed=seed)
    with order_progress() as progress:
        found = run_orders(program, given.args, given.params, orders=orders, seed=seed, progress=progress)
    show(*([given.drawn] if given.drawn else []), Text(str(found), "green"))
