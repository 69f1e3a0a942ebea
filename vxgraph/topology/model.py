"""A machine: devices that compute, memories that hold, links that carry.

    cpu:0 -- host <--64 GB/s--> hbm0 -- gpu:0        h200.toml

Sizes are bytes, bandwidths bytes per second, latencies seconds, compute FLOP per second. The names that devices and
links use are names of memories of the same machine: `load_machine` has checked that before it builds one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vxgraph.display import Displayed
from vxgraph.errors import MachineError
from vxgraph.topology.ids import CPU, Topology

Origin = Literal["spec", "measured", "policy"]
"""Where a number is from: a vendor's sheet, a measurement, or somebody's choice or guess."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One address space."""

    name: str
    capacity: int  # bytes
    bandwidth: float  # bytes per second, reads and writes together
    granule: int  # bytes; the size of an allocation (a whole arena, not a value in it) is a multiple of this
    reserved: int  # bytes that the driver and libraries take

    @property
    def usable(self) -> int:
        """Bytes left for programs."""
        return self.capacity - self.reserved


@dataclass(frozen=True, slots=True)
class Device:
    """Something that computes."""

    topology: Topology
    memory: str  # where its values are allocated
    reads: tuple[str, ...]  # the memories that it can address, its own among them
    flops: Mapping[str, float] = field(
        hash=False
    )  # floating dtype -> FLOP per second, matrix product; absent: has none


@dataclass(frozen=True, slots=True)
class Link:
    """A one-way path between two memories."""

    src: str
    dst: str
    bandwidth: float  # bytes per second
    latency: float  # seconds

    def seconds(self, nbytes: int) -> float:
        """Time from the start of a copy of `nbytes` to its last byte's arrival."""
        return self.latency + nbytes / self.bandwidth


@dataclass(frozen=True, slots=True)
class Machine(Displayed):
    """What a program is compiled for, and refused by when it does not fit."""

    name: str
    source: str  # the file that it came from
    host: str  # the memory that callers' arrays live in
    devices: tuple[Device, ...]
    memories: tuple[Memory, ...]
    links: tuple[Link, ...]
    origins: Mapping[str, Origin] = field(hash=False, repr=False)  # "memory.hbm0.capacity" -> "spec"
    _devices: dict[Topology, Device] = field(init=False, repr=False, compare=False)
    _memories: dict[str, Memory] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id = sorted(self.devices, key=lambda device: device.topology)
        object.__setattr__(self, "_devices", {device.topology: device for device in by_id})
        object.__setattr__(self, "_memories", {memory.name: memory for memory in self.memories})

    @property
    def topologies(self) -> tuple[Topology, ...]:
        """Every place to run, ordered by id."""
        return tuple(self._devices)

    @property
    def accelerators(self) -> tuple[Device, ...]:
        """The devices other than CPUs, ordered by id."""
        return tuple(device for device in self._devices.values() if device.topology not in CPU)

    def has(self, topology: Topology) -> bool:
        """Whether a device stands at `topology`."""
        return topology in self._devices

    def device(self, topology: Topology) -> Device:
        """The device at `topology`; MachineError where there is none."""
        if topology not in self._devices:
            places = ", ".join(map(str, self.topologies))
            raise MachineError(f"{self.name} has no {topology}; it has {places} ({self.source})")
        return self._devices[topology]

    def memory(self, name: str) -> Memory:
        """The memory called `name`; MachineError where there is none."""
        if name not in self._memories:
            raise MachineError(
                f"{self.name} has no memory {name!r}; it has {', '.join(self._memories)} ({self.source})"
            )
        return self._memories[name]

    def memory_of(self, topology: Topology | None) -> Memory:
        """The memory that the device at `topology` allocates in; the caller's for None."""
        return self.memory(self.host if topology is None else self.device(topology).memory)
