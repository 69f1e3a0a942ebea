"""The values that a step can read, and how it picks among them; rules of types that several steps share.

A cache whose rows are not all written is `hollow`: what was never written is unspecified, so that only appends,
transfers, loops, attention over the written rows and slices of them may read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import vxgraph as vx
from tests.generative.recipe import Spot, score
from vxgraph.ir.types import Dim, DimLike, TensorType, bound, unify_dim

Item = TypeVar("Item", bound="vx.Value | Hollow")
LARGEST = 256  # elements of a value at its bounds


@dataclass(frozen=True, slots=True)
class Hollow:
    """A cache of which the first `rows` rows are written."""

    value: vx.Value
    rows: DimLike


@dataclass
class Pool:
    """What a step can read, newest last."""

    full: list[vx.Value] = field(default_factory=list[vx.Value])
    hollow: list[Hollow] = field(default_factory=list[Hollow])

    def copy(self) -> Pool:
        return Pool(list(self.full), list(self.hollow))


def least(d: DimLike) -> int:
    """The smallest size that a dim can have in a run."""
    return d.min if isinstance(d, Dim) and d.symbolic else bound(d)


def elements(dims: Sequence[DimLike]) -> int:
    found = 1
    for d in dims:
        found *= bound(d)
    return found


def same(a: DimLike, b: DimLike) -> bool:
    return unify_dim(a, b) is not None


def symbolic(d: DimLike) -> bool:
    return isinstance(d, Dim) and d.symbolic


def broadcasts(a: TensorType, b: TensorType) -> bool:
    """Whether two types broadcast, and not to something large."""
    pairs = list(zip(reversed(a.dims), reversed(b.dims), strict=False))
    if not all(x == 1 or y == 1 or same(x, y) for x, y in pairs):
        return False
    longer = a if a.rank >= b.rank else b
    widest = [max(bound(x), bound(y)) for x, y in pairs]
    return elements((*longer.dims[: longer.rank - len(pairs)], *widest)) <= LARGEST


def fits_together(*types: TensorType) -> bool:
    """Whether all of the types broadcast pairwise."""
    return all(broadcasts(a, b) for a in types for b in types)


class Picker:
    """A graph under construction: its places, its values with their numbers, and what it hands out."""

    def __init__(self, places: Sequence[vx.Topology]) -> None:
        self.places = places
        self.pool = Pool()
        self.params: set[str] = set()
        self.numbers: dict[str, int] = {}  # of values, by name
        self.now = 0  # the number of the step that is being built
        self.symbols: list[Dim] = []
        self.depth = 0
        self.outlets = 0

    def at(self, spot: Spot) -> Any:
        if spot.where == "free":
            return nullcontext()
        return (vx.on if spot.where == "on" else vx.prefer)(self.place(spot.place))

    def place(self, k: int) -> vx.Topology:
        return self.places[k % len(self.places)]

    def among(self, found: Sequence[Item], k: int) -> Item:
        """The one that pick `k` of the current step settles on."""

        def far(item: Item) -> int:
            name = (item.value if isinstance(item, Hollow) else item).name
            return score(k, number=self.numbers[name], near=self.now)

        return min(found, key=far)

    def pick(self, k: int, fits: Callable[[vx.Value], bool]) -> vx.Value | None:
        """One of the values that fit."""
        found = [v for v in self.pool.full if fits(v)]
        return self.among(found, k) if found else None

    def partner(self, x: vx.Value, k: int) -> vx.Value:
        """A value that broadcasts with `x`; another one, unless there is none, or once in a while."""
        found = [v for v in self.pool.full if v.type.dtype == x.type.dtype and broadcasts(x.type, v.type)]
        others = [v for v in found if v is not x]
        found = others if others and k % 8 != 7 else found
        return self.among(found, k)

    def floats(self, k: int, rank: int = 0) -> vx.Value | None:
        return self.pick(k, lambda v: v.type.dtype.kind == "float" and v.type.rank >= rank)

    def any(self, k: int, rank: int = 0) -> vx.Value | None:
        return self.pick(k, lambda v: v.type.rank >= rank)

    def hand_out(self, value: vx.Value, *, emit: bool = False) -> None:
        """A result, or an emit; a param, which is on devices only, is sent to one first."""
        self.outlets += 1
        found = self.no_param(value)
        if self.depth or emit:
            vx.emit(f"e{self.outlets}", found)
        else:
            vx.output(f"r{self.outlets}", found)

    def no_param(self, value: vx.Value) -> vx.Value:
        return value.to(self.places[0]) if value.name in self.params else value
