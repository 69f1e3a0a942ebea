"""A compiled program: what the executor walks, what `check` prices, what a file holds.

Every device value has a slot: a topology, a byte offset in that topology's one arena, and a size at the symbols'
bounds. Values that share bytes on purpose (a reshape, a donated cache, what a loop carries) have the same offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from vxgraph.display import Displayed
from vxgraph.errors import Loc
from vxgraph.ir.graph import Result
from vxgraph.ir.types import Dim, TensorType
from vxgraph.program.instructions import Instruction
from vxgraph.topology.ids import Topology

SlotKind = Literal["param", "kv", "activation", "staging"]
When = Literal["load", "run", "step"]
ALIGNMENT = 256  # bytes; every slot's offset is a multiple: what CUDA's allocator gives and vector loads want


@dataclass(frozen=True, slots=True)
class HostInput:
    """An arg or a param: what the caller gives, in the caller's memory."""

    name: str
    type: TensorType
    loc: Loc | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a device value lives: bytes [offset, offset + nbytes) of its topology's arena."""

    value: str
    type: TensorType
    topology: Topology
    offset: int
    nbytes: int  # at the symbols' bounds
    kind: SlotKind
    loc: Loc | None = field(default=None, compare=False)

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True)
class Arena:
    """One topology's memory as the plan uses it: the total, and what is live by kind where the total peaks (bytes)."""

    topology: Topology
    memory: str  # the machine's name of it
    nbytes: int
    params: int
    kv: int
    activations: int
    staging: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """A row of the admission table, in bytes; `peak` is all of it, `capacity` what the memory has."""

    memory: str
    topologies: tuple[Topology, ...]
    params: int
    kv: int
    activations: int
    staging: int
    reserved: int
    capacity: int

    @property
    def peak(self) -> int:
        """What the program and the reservation take together."""
        return self.params + self.kv + self.activations + self.staging + self.reserved

    @property
    def headroom(self) -> int:
        """What is left; negative where it does not fit."""
        return self.capacity - self.peak


@dataclass(frozen=True, slots=True)
class Transfer:
    """A row of the transfer bill; `src` or `dst` is None for the host."""

    value: str
    src: Topology | None
    dst: Topology | None
    type: TensorType
    kind: Literal["upload", "download", "local", "direct", "staged"]
    reason: str
    when: When
    count: int  # at most, per load (load) or per run (run, step)
    loc: Loc | None = field(default=None, compare=False)

    @property
    def nbytes(self) -> int:
        """Bytes of one transfer at the symbols' bounds."""
        return self.type.max_bytes


@dataclass(frozen=True, slots=True)
class Donation:
    """A result that could take over an operand's bytes: it did, or `why` it had to be copied."""

    value: str
    operand: str
    donated: bool
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Program(Displayed):
    """`load` runs once and makes params resident; `body` runs once per call."""

    name: str
    machine: str
    dims: tuple[Dim, ...]
    args: tuple[HostInput, ...]
    params: tuple[HostInput, ...]
    arenas: tuple[Arena, ...]
    memories: tuple[MemoryUse, ...]
    slots: tuple[Slot, ...]
    load: tuple[Instruction, ...]
    body: tuple[Instruction, ...]
    results: tuple[Result, ...]  # external name -> host value
    donations: tuple[Donation, ...] = ()

    @property
    def topologies(self) -> tuple[Topology, ...]:
        """The places that it uses, by id."""
        return tuple(a.topology for a in self.arenas)

    @cached_property
    def slot_of(self) -> dict[str, Slot]:
        """The slot of each device value."""
        return {slot.value: slot for slot in self.slots}

    @property
    def memory(self) -> tuple[MemoryUse, ...]:
        """Per memory: params, kv, activations, staging, reserved, peak, capacity (bytes)."""
        return self.memories

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """The transfer bill: every upload, download and peer transfer, in program order."""
        from vxgraph.program.bill import transfers_of  # the bill reads programs, so it comes after this module

        return transfers_of(self)

    @cached_property
    def digest(self) -> str:
        """sha256 of all that the program does: its text without reasons and source lines."""
        from vxgraph.program.text import digest_of

        return digest_of(self)

    def text(self) -> str:
        """The program as text; `vxgraph.parse_program` reads it back."""
        from vxgraph.program.text import print_program

        return print_program(self)

    def save(self, path: str | Path) -> None:
        """Writes the text to a file, whole or not at all."""
        from vxgraph.program.text import save_program

        save_program(self, Path(path))
