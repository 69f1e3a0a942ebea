"""`vxgraph devices`: what is here to run on, and the machines that programs can be compiled for."""

from __future__ import annotations

from rich.table import Table

from vxgraph.program.admission import show_bytes
from vxgraph.runtime.abi import Backend
from vxgraph.runtime.binding import find_backends
from vxgraph.tools.exits import guarded
from vxgraph.tools.tables import plain_table, show
from vxgraph.topology.load import load_machine, shipped_machines


@guarded
def devices() -> None:
    """List the backends and devices found here, and the machines shipped.

    Example: vxgraph devices
    """
    show(_devices(find_backends()), "", _machines())


def _devices(backends: dict[str, Backend]) -> Table:
    table = plain_table("backend", "bind to", "kind", "memory", "device", right=("memory",))
    for name, backend in backends.items():
        found = backend.devices()
        for device in found:
            table.add_row(name, device.target, device.kind, show_bytes(device.memory), device.name)
        if not found:
            table.add_row(name, "-", "-", "-", "installed, but nothing here that it drives")
    return table


def _machines() -> Table:
    table = plain_table("machine", "places", "memories")
    for name in shipped_machines():
        machine = load_machine(name)
        memories = ", ".join(f"{m.name} {show_bytes(m.capacity)}" for m in machine.memories)
        table.add_row(name, ", ".join(map(str, machine.topologies)), memories)
    return table
