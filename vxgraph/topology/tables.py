"""What a machine file may say: pydantic models, and their complaints in our words.

    box.toml: [[memory]] 2: capacity: gib: found -16, wanted a number above 0

Each table is checked by itself here; what must hold between tables is `load`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from vxgraph.errors import MachineError
from vxgraph.topology.ids import Topology, declared, parse_topology
from vxgraph.topology.quantity import BANDWIDTH, COMPUTE, GRANULE, LATENCY, RESERVED, SIZE, Quantity, read_quantity
from vxgraph.topology.source import MachineFile

_Size = Annotated[Quantity, PlainValidator(partial(read_quantity, units=SIZE)), Field(examples=[SIZE.example])]
_Granule = Annotated[Quantity, PlainValidator(partial(read_quantity, units=GRANULE)), Field(examples=[GRANULE.example])]
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


class MemoryTable(_Table):
    """`[[memory]]`: one address space."""

    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$", examples=['a name of letters, digits and _, like "hbm0"'])
    capacity: _Size
    bandwidth: _Bandwidth
    granule: _Granule
    reserved: _Reserved


class DeviceTable(_Table):
    """`[[device]]`: something that computes."""

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


class LinkTable(_Table):
    """`[[link]]`: from `src` to `dst`, or from each to each `among` some."""

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


MAX_TABLES = 256  # links among memories are as many as their square


class MachineTables(_Table):
    """A whole file."""

    host: str = Field(examples=["the name of the memory that callers' arrays live in"])
    memory: list[MemoryTable] = Field(min_length=1, max_length=MAX_TABLES, examples=["at least one [[memory]] table"])
    device: list[DeviceTable] = Field(min_length=1, max_length=MAX_TABLES, examples=["at least one [[device]] table"])
    link: list[LinkTable] = Field(default_factory=list[LinkTable], examples=["[[link]] tables"])


MAX_MISTAKES = 20  # shown
LONGEST = 600  # characters of one of them: a file may say whatever it likes
_TABLES: dict[str | int, type[_Table]] = {"memory": MemoryTable, "device": DeviceTable, "link": LinkTable}


def read_tables(file: MachineFile) -> MachineTables:
    """The file's tables, each right by itself; MachineError names every key that is not."""
    try:
        return MachineTables.model_validate(file.tables)
    except ValidationError as error:
        raise mistakes_in(file, [_explain(found) for found in error.errors()]) from None


def mistakes_in(file: MachineFile, mistakes: list[str]) -> MachineError:
    """One error for one file: its first mistake is the message, further ones are details, up to MAX_MISTAKES."""
    first, *others = [what if len(what) <= LONGEST else f"{what[:LONGEST]}..." for what in mistakes[:MAX_MISTAKES]]
    more = ("and more",) if len(mistakes) > MAX_MISTAKES else ()
    return MachineError(f"{file.source}: {first}", details=(*others, *more))


def _explain(error: ErrorDetails) -> str:
    match error["loc"]:
        case (str() as table, int() as index, *keys):
            where, model = [f"[[{table}]] {index + 1}"], _TABLES[table]
        case keys:
            where, model = list[str](), MachineTables
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
        case "too_long":
            return f"more than {MAX_TABLES} tables"
        case "missing":
            return f"missing; wanted {_example(model, named)}"
        case _:
            return f"found {_shown(error['input'])}, wanted {_example(model, named)}"


def _shown(found: object) -> str:
    match found:
        case dict() if found:
            return "a table"
        case list() if found:
            return "an array"
        case _:
            return repr(found)


def _example(model: type[_Table], named: list[str]) -> str:
    examples = model.model_fields[named[0]].examples if named else None
    return str(examples[0]) if examples else f"a table with {', '.join(model.model_fields)}"
