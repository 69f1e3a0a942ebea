"""`vxgraph devices`: what is here to run on, what runs ops on the host, and the machines to compile programs for."""

from __future__ import annotations

from itertools import groupby
from textwrap import wrap

from rich.table import Table

from vxgraph.program.admission import show_bytes
from vxgraph.runtime.abi import Backend
from vxgraph.runtime.backends.numpy.about import about_kernels
from vxgraph.runtime.binding import find_backends
from vxgraph.tools.exits import guarded
from vxgraph.tools.tables import plain_table
from vxgraph.tools.terminal import Fitting, show
from vxgraph.topology.load import load_machine, shipped_machines

SAID = 80  # columns of what is said of the host; a path may be longer


@guarded
def devices() -> None:
    """List the backends and devices found here, what runs ops on the host, and the machines shipped.

    Example: vxgraph devices
    """
    show(_devices(find_backends()), "", _kernels(), "", Fitting((_machines(", "), _machines(",\n"))))


def _devices(backends: dict[str, Backend]) -> Table:
    table = plain_table("backend", "bind to", "kind", "memory", "device", right=("memory",))
    for name, backend in backends.items():
        found = backend.devices()
        for device in found:
            table.add_row(name, device.target, device.kind, show_bytes(device.memory), device.name)
        if not found:
            table.add_row(name, "-", "-", "-", "installed, but nothing here that it drives")
    return table


def _kernels() -> Table:
    table = plain_table("on the host", "")
    for name, said in about_kernels():
        table.add_row(name, "\n".join(wrap(said, SAID, break_long_words=False, break_on_hyphens=False)))
    return table


def _machines(between: str) -> Table:
    table = plain_table("machine", "places", "memories")
    for name in shipped_machines():
        machine = load_machine(name)
        kinds = groupby(machine.topologies, lambda t: str(t).partition(":")[0])
        alike = groupby(machine.memories, lambda m: m.capacity)
        memories = between.join(_memories(capacity, [m.name for m in held]) for capacity, held in alike)
        table.add_row(name, ", ".join(_range([str(t) for t in held]) for _, held in kinds), memories)
    return table


def _memories(capacity: int, names: list[str]) -> str:
    return f"{_range(names)} {show_bytes(capacity)}{' each' if len(names) > 1 else ''}"


def _range(names: list[str]) -> str:
    """`gpu:0 and gpu:1`, and `gpu:0 to gpu:7` where three and more are numbered in a row."""
    stem = names[0].rstrip("0123456789")
    in_a_row = names == [f"{stem}{k}" for k in range(len(names))]
    return f"{names[0]} to {names[-1]}" if in_a_row and len(names) > 2 else " and ".join(names)
