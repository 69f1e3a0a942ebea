"""A number as a machine file writes it: one unit, and where it is from.

capacity  = { gib = 80, from = "spec" }              -> 85899345920 bytes
bandwidth = { gb_per_s = 2039, from = "spec" }       -> 2.039e12 bytes per second
latency   = { us = 3, from = "policy" }              -> 3e-6 seconds
bf16      = { tflop_per_s = 312, from = "spec" }     -> 3.12e14 FLOP per second
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, get_args

from vxgraph.topology.model import Origin

ORIGINS: tuple[Origin, ...] = get_args(Origin)
# What a signed 64-bit integer holds: larger sizes would not cross the C interfaces below us.
TOO_LARGE = 2**63


@dataclass(frozen=True, slots=True)
class Quantity:
    """A positive number in base units (bytes, bytes/s, s or FLOP/s) and where it is from."""

    value: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Units:
    """The units that one kind of number may be written in, each with its factor."""

    factors: Mapping[str, float]
    example: str
    whole: bool = False  # bytes cannot be split
    zero: bool = False  # nothing may be reserved, but nothing has no bandwidth


_SIZES = {"bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
SIZE = Units(_SIZES, '{ gib = 16, from = "spec" }', whole=True)
GRANULE = Units(_SIZES, '{ mib = 2, from = "spec" }', whole=True)
RESERVED = Units(_SIZES, '{ mib = 512, from = "policy" }', whole=True, zero=True)
BANDWIDTH = Units({"mb_per_s": 1e6, "gb_per_s": 1e9, "tb_per_s": 1e12}, '{ gb_per_s = 900, from = "spec" }')
LATENCY = Units({"ns": 1e-9, "us": 1e-6, "ms": 1e-3}, '{ us = 3, from = "policy" }')
COMPUTE = Units({"gflop_per_s": 1e9, "tflop_per_s": 1e12}, '{ tflop_per_s = 125, from = "spec" }')


def read_quantity(raw: object, units: Units) -> Quantity:
    """Reads `{ UNIT = NUMBER, from = ORIGIN }`; ValueError says what was found and what was wanted."""
    if not isinstance(raw, dict):
        raise ValueError(f"found {raw!r}, wanted a number with its unit and origin, like {units.example}")
    table = cast(dict[str, object], raw)
    unit = _unit(table, units)
    return Quantity(_scaled(unit, table[unit], units), _origin(table, units))


def _unit(table: dict[str, object], units: Units) -> str:
    match [key for key in table if key != "from"]:
        case [unit] if unit in units.factors:
            return unit
        case found:
            wanted = ", ".join(units.factors)
            raise ValueError(f"found {', '.join(found) or 'no unit'}; wanted exactly one of {wanted}")


def _scaled(unit: str, number: object, units: Units) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{unit}: found {number!r}, wanted a number")
    # Comparisons with NaN are false, so that this turns it away as well.
    if not (number > 0 or (units.zero and number == 0)):
        raise ValueError(f"{unit}: found {number!r}, wanted a number {'of 0 or more' if units.zero else 'above 0'}")
    if number >= TOO_LARGE or number * units.factors[unit] >= TOO_LARGE:
        raise ValueError(f"{unit}: found {number!r}, which is too large")
    value = number * units.factors[unit]
    if units.whole and value != int(value):
        raise ValueError(f"{unit}: found {number!r}, which is not a whole number of bytes")
    return int(value) if units.whole else value


def _origin(table: dict[str, object], units: Units) -> Origin:
    if "from" not in table:
        raise ValueError(f"`from` is missing; wanted one of {', '.join(ORIGINS)}, as in {units.example}")
    for origin in ORIGINS:
        if table["from"] == origin:
            return origin
    raise ValueError(f"from: found {table['from']!r}, wanted one of {', '.join(ORIGINS)}")
