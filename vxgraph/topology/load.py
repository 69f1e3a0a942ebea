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

import re
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from vxgraph.errors import MachineError
from vxgraph.topology.ids import Topology, declared, parse_topology
from vxgraph.topology.model import Device, Link, Machine, Memory, Origin
from vxgraph.topology.quantity import BANDWIDTH, COMPUTE, LATENCY, RESERVED, SIZE, Quantity, read_quantity
from vxgraph.topology.source import MachineFile, read_machine_file, shipped_machines

__all__ = ["load_machine", "shipped_machines"]


def load_machine(name_or_path: str | Path) -> Machine:
    """The machine shipped under a name, or the one in a file: a path has a suffix or a separator (`./box.toml`).

    MachineError where the name is unknown, the file cannot be read, or its contents do not make sense.
    """
    file = read_machine_file(name_or_path)
    tables = _validate(file)
    if mistakes := list(_mistakes(tables)):
        raise _error(file, mistakes)
    return _machine(file, tables)


# What the tables hold

_Size = Annotated[Quantity, PlainValidator(partial(read_quantity, units=SIZE)), Field(examples=[SIZE.example])]
_Reserved = Annotated[
    Quantity, PlainValidator(partial(read_quantity, units=RESERVED)), Field(examples=[RESERVED.example])
]
_Bandwidth = Annotated[
    Quantity, PlainValidator(partial(read_quantity, units=BANDWIDTH)), Field(examples=[BANDWIDTH.example])
]
_Latency = Annotated[Quantity, PlainValidator(partial(read_quantity, units=LATENCY)), Field(examples=[LATENCY.example])]
_Compute = Annotated[Quantity, PlainValidator(partial(read_quantity, units=COMPUTE))]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _MemoryTable(_Table):
    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$", examples=['a name of letters, digits and _, like "hbm0"'])
    capacity: _Size
    bandwidth: _Bandwidth
    granule: _Size
    reserved: _Reserved


class _DeviceTable(_Table):
    topology: str = Field(examples=['a place like "gpu:0", or a name of your own with an id'])
    id: int | None = Field(None, examples=["an integer from 1000 up"])
    memory: str = Field(examples=["the name of a memory"])
    reads: list[str] = Field(examples=['the names of memories, like ["hbm0"]'])
    flops: dict[Literal["f32", "f16", "bf16"], _Compute] = Field(
        min_length=1, examples=[f"one entry per floating dtype, like f32 = {COMPUTE.example}"]
    )

    def place(self) -> Topology:
        """The topology that this table declares; MachineError where it is none."""
        if self.id is not None:
            return declared(self.topology, self.id)
        if not re.fullmatch("(cpu|npu|gpu):.*", self.topology):
            raise MachineError(
                f"{self.topology!r} is no topology; wanted cpu:0, npu:0, gpu:0, or a name of your own with id = 1000"
            )
        return parse_topology(self.topology)


class _LinkTable(_Table):
    src: str | None = Field(None, examples=["the name of a memory"])
    dst: str | None = Field(None, examples=["the name of a memory"])
    both_ways: bool = Field(False, examples=["true or false"])
    among: list[str] | None = Field(None, examples=["the names of memories, each linked to each other"])
    bandwidth: _Bandwidth
    latency: _Latency

    def ends(self) -> Iterator[tuple[str, str]]:
        """The (src, dst) pairs that this table links; none where it names no ends."""
        if self.among is not None:
            yield from permutations(self.among, 2)
        elif self.src is not None and self.dst is not None:
            yield self.src, self.dst
            if self.both_ways:
                yield self.dst, self.src


class _MachineTables(_Table):
    host: str = Field(examples=["the name of the memory that callers' arrays live in"])
    memory: list[_MemoryTable] = Field(min_length=1, examples=["at least one [[memory]] table"])
    device: list[_DeviceTable] = Field(min_length=1, examples=["at least one [[device]] table"])
    link: list[_LinkTable] = Field(default_factory=list[_LinkTable], examples=["[[link]] tables"])


_TABLES: dict[str | int, type[_Table]] = {"memory": _MemoryTable, "device": _DeviceTable, "link": _LinkTable}


def _validate(file: MachineFile) -> _MachineTables:
    try:
        return _MachineTables.model_validate(file.tables)
    except ValidationError as error:
        raise _error(file, [_explain(found) for found in error.errors()]) from None


def _error(file: MachineFile, mistakes: list[str]) -> MachineError:
    return MachineError(f"{file.source}: {mistakes[0]}", details=tuple(mistakes[1:]))


def _explain(error: ErrorDetails) -> str:
    match error["loc"]:
        case (str() as table, int() as index, *keys):
            where, model = [f"[[{table}]] {index + 1}"], _TABLES[table]
        case keys:
            where, model = list[str](), _MachineTables
    named = [str(key) for key in keys if isinstance(key, str) and key != "[key]"]
    where += [".".join(named)] if named else []
    return ": ".join((*where, _complaint(error, model, named)))


def _complaint(error: ErrorDetails, model: type[_Table], named: list[str]) -> str:
    match error["type"]:
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "extra_forbidden":
            return f"unknown key; wanted one of {', '.join(model.model_fields)}"
        case "literal_error":
            return f"no dtype that a device computes in; wanted {error['ctx']['expected']}"  # pyright: ignore[reportTypedDictNotRequiredAccess]
        case "missing":
            return f"missing; wanted {_example(model, named)}"
        case _:
            return f"found {error['input']!r}, wanted {_example(model, named)}"


def _example(model: type[_Table], named: list[str]) -> str:
    examples = model.model_fields[named[0]].examples if named else None
    return str(examples[0]) if examples else f"a table with {', '.join(model.model_fields)}"


# What must hold between the tables


def _mistakes(tables: _MachineTables) -> Iterator[str]:
    names = [memory.name for memory in tables.memory]
    if tables.host not in names:
        yield f"host: {_undeclared(tables.host, names)}"
    yield from _memory_mistakes(tables.memory)
    for index, device in enumerate(tables.device, 1):
        yield from (f"[[device]] {index}: {what}" for what in _device_mistakes(device, names))
    yield from _repeated_places(tables.device)
    yield from _link_mistakes(tables.link, names)


def _undeclared(name: str, names: list[str]) -> str:
    return f"memory {name!r} is not declared; declared: {', '.join(names)}"


def _memory_mistakes(memories: list[_MemoryTable]) -> Iterator[str]:
    first: dict[str, int] = {}
    for index, memory in enumerate(memories, 1):
        if first.setdefault(memory.name, index) != index:
            yield f"[[memory]] {index}: name: {memory.name!r} is already [[memory]] {first[memory.name]}"
        if memory.reserved.value >= memory.capacity.value:
            yield (
                f"[[memory]] {index}: reserved: {memory.reserved.value} bytes leave nothing of a capacity of "
                f"{memory.capacity.value} bytes"
            )


def _device_mistakes(device: _DeviceTable, names: list[str]) -> Iterator[str]:
    try:
        device.place()
    except MachineError as error:
        yield f"{'topology' if device.id is None else 'id'}: {error}"
    if device.memory not in names:
        yield f"memory: {_undeclared(device.memory, names)}"
    yield from (f"reads: {_undeclared(name, names)}" for name in device.reads if name not in names)
    if device.memory not in device.reads:
        yield f"reads: {device.memory!r}, the device's own memory, is not among {', '.join(device.reads) or 'none'}"


def _repeated_places(devices: list[_DeviceTable]) -> Iterator[str]:
    first: dict[int, int] = {}
    for index, device in enumerate(devices, 1):
        try:
            place = device.place()
        except MachineError:
            continue  # `_device_mistakes` has said so
        if first.setdefault(place, index) != index:
            yield f"[[device]] {index}: topology: {place} has the id of [[device]] {first[place]}"


def _link_mistakes(links: list[_LinkTable], names: list[str]) -> Iterator[str]:
    first: dict[tuple[str, str], int] = {}
    for index, link in enumerate(links, 1):
        yield from (f"[[link]] {index}: {what}" for what in _end_mistakes(link, names))
        for src, dst in link.ends():
            if first.setdefault((src, dst), index) != index:
                yield f"[[link]] {index}: {src} to {dst} is already [[link]] {first[src, dst]}"


def _end_mistakes(link: _LinkTable, names: list[str]) -> Iterator[str]:
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


def _machine(file: MachineFile, tables: _MachineTables) -> Machine:
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


def _memory(memory: _MemoryTable) -> Memory:
    return Memory(
        name=memory.name,
        capacity=int(memory.capacity.value),
        bandwidth=memory.bandwidth.value,
        granule=int(memory.granule.value),
        reserved=int(memory.reserved.value),
    )


def _device(device: _DeviceTable) -> Device:
    flops: dict[str, float] = {dtype: rate.value for dtype, rate in device.flops.items()}
    return Device(topology=device.place(), memory=device.memory, reads=tuple(device.reads), flops=flops)


def _origins(tables: _MachineTables) -> Iterator[tuple[str, Origin]]:
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
