"""Machine files: TOML in, a checked `Machine` out.

    host = "host"

    [[memory]]
    name = "hbm0"
    capacity = { gib = 80, from = "spec" }
    ...

A mistake is one MachineError that names the file, the table (counted from 1) and the key; further ones are its details:

    box.toml: [[link]] 2: dst: memory 'hbm9' is not declared; declared: host, hbm0
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vxgraph.errors import MachineError
from vxgraph.topology.model import Device, Link, Machine, Memory, Origin
from vxgraph.topology.source import MachineFile, read_machine_file, shipped_machines
from vxgraph.topology.tables import (
    MAX_MISTAKES,
    DeviceTable,
    LinkTable,
    MachineTables,
    MemoryTable,
    mistakes_in,
    read_tables,
)

__all__ = ["load_machine", "shipped_machines"]


def load_machine(name_or_path: str | Path) -> Machine:
    """The machine shipped under a name, or the one in a file: a path has a suffix or a separator (`./box.toml`).

    MachineError where the name is unknown, the file cannot be read, or its contents do not make sense.
    """
    file = read_machine_file(name_or_path)
    tables = read_tables(file)
    if mistakes := list(islice(_mistakes(tables), MAX_MISTAKES + 1)):
        raise mistakes_in(file, mistakes)
    return _machine(file, tables)


# What must hold between the tables


def _mistakes(tables: MachineTables) -> Iterator[str]:
    names = list(dict.fromkeys(memory.name for memory in tables.memory))
    if tables.host not in names:
        yield f"host: {_undeclared(tables.host, names)}"
    yield from _memory_mistakes(tables.memory)
    for index, device in enumerate(tables.device, 1):
        yield from (f"[[device]] {index}: {what}" for what in _device_mistakes(device, names))
    yield from _repeated_places(tables.device)
    yield from _link_mistakes(tables.link, names)


def _undeclared(name: str, names: list[str]) -> str:
    return f"memory {name!r} is not declared; declared: {', '.join(names)}"


def _memory_mistakes(memories: list[MemoryTable]) -> Iterator[str]:
    first: dict[str, int] = {}
    for index, memory in enumerate(memories, 1):
        if first.setdefault(memory.name, index) != index:
            yield f"[[memory]] {index}: name: {memory.name!r} is already [[memory]] {first[memory.name]}"
        if memory.reserved.value >= memory.capacity.value:
            yield (
                f"[[memory]] {index}: reserved: {memory.reserved.value} bytes leave nothing of a capacity of "
                f"{memory.capacity.value} bytes"
            )


def _device_mistakes(device: DeviceTable, names: list[str]) -> Iterator[str]:
    try:
        device.place()
    except MachineError as error:
        yield f"topology: {error}"
    if device.memory not in names:
        yield f"memory: {_undeclared(device.memory, names)}"
    yield from (f"reads: {_undeclared(name, names)}" for name in device.reads if name not in names)
    if device.memory not in device.reads:
        yield f"reads: {device.memory!r}, the device's own memory, is not among {', '.join(device.reads) or 'none'}"


def _repeated_places(devices: list[DeviceTable]) -> Iterator[str]:
    first: dict[int, int] = {}
    for index, device in enumerate(devices, 1):
        try:
            place = device.place()
        except MachineError:
            continue  # `_device_mistakes` has said so
        if first.setdefault(place, index) != index:
            yield f"[[device]] {index}: topology: {place} has the id of [[device]] {first[place]}"


def _link_mistakes(links: list[LinkTable], names: list[str]) -> Iterator[str]:
    first: dict[tuple[str, str], int] = {}
    for index, link in enumerate(links, 1):
        wrong = list(_end_mistakes(link, names))
        yield from (f"[[link]] {index}: {what}" for what in wrong)
        if wrong:
            continue  # of names given thousands of times there are millions of pairs
        for src, dst in link.ends():
            if first.setdefault((src, dst), index) != index:
                yield f"[[link]] {index}: {src} to {dst} is already [[link]] {first[src, dst]}"


def _end_mistakes(link: LinkTable, names: list[str]) -> Iterator[str]:
    ends = {"src": link.src, "dst": link.dst}
    given = [key for key in ("src", "dst", "both_ways") if key in link.model_fields_set]
    if link.among is not None:
        if given:
            yield f"among: links each memory to each other, both ways; leave out {', '.join(given)}"
        yield from (f"among: {_undeclared(name, names)}" for name in link.among if name not in names)
        if len(set(link.among)) != len(link.among) or len(link.among) < 2:
            yield f"among: found {link.among}, wanted two or more different memories"
        return
    for key, name in ends.items():
        if name is None:
            yield f"{key}: missing; wanted the name of a memory (or `among` in place of src and dst)"
        elif name not in names:
            yield f"{key}: {_undeclared(name, names)}"
    if link.src == link.dst is not None:
        yield f"dst: {link.dst!r} is src as well; a link joins two memories"


# Building


def _machine(file: MachineFile, tables: MachineTables) -> Machine:
    return Machine(
        name=file.name,
        source=file.source,
        host=tables.host,
        devices=tuple(_device(device) for device in tables.device),
        memories=tuple(_memory(memory) for memory in tables.memory),
        links=tuple(
            Link(src, dst, link.bandwidth.value, link.latency.value) for link in tables.link for src, dst in link.ends()
        ),
        origins=dict(_origins(tables)),
    )


def _memory(memory: MemoryTable) -> Memory:
    return Memory(
        name=memory.name,
        capacity=int(memory.capacity.value),
        bandwidth=memory.bandwidth.value,
        granule=int(memory.granule.value),
        reserved=int(memory.reserved.value),
    )


def _device(device: DeviceTable) -> Device:
    flops: dict[str, float] = {dtype: rate.value for dtype, rate in device.flops.items()}
    return Device(topology=device.place(), memory=device.memory, reads=tuple(device.reads), flops=flops)


def _origins(tables: MachineTables) -> Iterator[tuple[str, Origin]]:
    for memory in tables.memory:
        for key in ("capacity", "bandwidth", "granule", "reserved"):
            yield f"memory.{memory.name}.{key}", getattr(memory, key).origin
    for device in tables.device:
        for dtype, rate in device.flops.items():
            yield f"device.{device.place()}.flops.{dtype}", rate.origin
    for link in tables.link:
        for src, dst in link.ends():
            yield f"link.{src}>{dst}.bandwidth", link.bandwidth.origin
            yield f"link.{src}>{dst}.latency", link.latency.origin
