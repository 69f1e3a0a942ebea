"""The id table: small integers that name a place to run.

    cpu:i = i      npu:i = 100 + i      gpu:i = 500 + i      (i in 0..99)      declared by a machine file: 1000 and up

A `Topology` is an `int`, so that it can cross any ABI as it is; it prints as `gpu:1`, or as `dsp#1000` where a machine
file gave id 1000 the name `dsp`. An id outside every band is an error; nothing ever falls through to device 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from vxgraph.errors import MachineError, user_loc

BAND_SIZE = 100
FIRST_DECLARED = 1000
LAST_DECLARED = 999_999_999  # nine digits keep every id within a C int


class Topology(int):
    """A place to run: its id as an integer, its name as text."""

    name: str

    def __new__(cls, number: int, name: str) -> Self:
        """`gpu:1` is `Topology(501, "gpu:1")`; get one from a band, `declared` or `parse_topology`, which check."""
        """Made by the bands, `declared` and `parse_topology`; not meant to be called with made-up names."""
        self = super().__new__(cls, number)
        self.name = name
        return self

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # int's takes one; pickle and copy need both
        return int(self), self.name

    def __bool__(self) -> bool:
        return True  # cpu:0 is a place like any other: `if topology` must not mean `unless it is cpu:0`

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


@dataclass(frozen=True, slots=True)
class Band:
    """A hundred consecutive ids of one kind of device: `GPU[1]` is id 501, `gpu:1`."""

    kind: str
    base: int

    def __getitem__(self, index: int) -> Topology:
        if type(index) is not int:
            raise MachineError(
                f"{self.kind}[{index!r}]: the index is {type(index).__name__}, wanted a Python int known when the "
                f"graph is built; write {self.kind.upper()}[0]",
                loc=user_loc(),
            )
        try:
            return self.place(index)
        except MachineError as error:
            raise MachineError(error.message, loc=user_loc()) from None

    def place(self, index: int) -> Topology:
        """The same for an index that was read from a text: its error names no line of the caller's."""
        if not 0 <= index < BAND_SIZE:
            raise MachineError(f"{self.kind}:{index} is outside its band; indices run from 0 to {BAND_SIZE - 1}")
        return Topology(self.base + index, f"{self.kind}:{index}")

    def __contains__(self, number: int) -> bool:
        return self.base <= number < self.base + BAND_SIZE


CPU = Band("cpu", 0)
NPU = Band("npu", 100)
GPU = Band("gpu", 500)
BANDS = (CPU, NPU, GPU)

# One text for one place: no leading zeros; no more digits than an id can have.
_NUMBER = r"(0|[1-9][0-9]{0,8})"
_BANDED = re.compile(rf"(cpu|npu|gpu):{_NUMBER}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECLARED = re.compile(rf"({_NAME.pattern})#{_NUMBER}")


def declared(name: str, number: int) -> Topology:
    """The topology that a machine file declares by name, with an id from 1000 up; it reads back from its text."""
    if not _NAME.fullmatch(name):
        raise MachineError(f"{name!r} is no name for a place; wanted letters, digits and underscores, like dsp")
    if not FIRST_DECLARED <= number <= LAST_DECLARED:
        raise MachineError(
            f"{name}: id {number} is out of range; declared places take ids from {FIRST_DECLARED} to {LAST_DECLARED}"
        )
    return Topology(number, f"{name}#{number}")


def topology_of(number: int) -> Topology:
    """The topology with this id in the bands; a declared id (1000 and up) is found through its machine only."""
    for band in BANDS:
        if number in band:
            return band[number - band.base]
    raise MachineError(
        f"topology id {number} is in no band (cpu 0-99, npu 100-199, gpu 500-599); "
        f"ids from {FIRST_DECLARED} up are declared by a machine file"
    )


def parse_topology(text: str) -> Topology:
    """Reads `gpu:1` or `dsp#1000`."""
    if match := _BANDED.fullmatch(text):
        band = next(band for band in BANDS if band.kind == match[1])
        return band.place(int(match[2]))
    if match := _DECLARED.fullmatch(text):
        return declared(match[1], int(match[2]))
    raise MachineError(f"{text!r} is no topology; wanted cpu:0, npu:0, gpu:0 or a declared place like dsp#1000")
