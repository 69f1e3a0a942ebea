"""A random graph, its places, its runs and a schedule, as data.

    Recipe(machine="cpu-x8", places=(2, 0), given=(...), steps=(...), runs=((3, 1),), data=7, order=(2, 0, 1))

A step picks its operands among the values that fit it, and is left out where none fits. So every subset of a recipe's
steps is a recipe, which is what makes shrinking simple. Inputs and steps have numbers that they keep, and a pick is
settled between numbers (`score`): leaving out a value that was not picked changes no pick.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import vxgraph as vx

T = vx.Dim("T", max=6)  # 0 where an op allows it
L = vx.Dim("L", min=1, max=5)
HEAD = vx.Dim("Head", 2)
KV = vx.Dim("KV", 1)
NONE = vx.Dim("None_", 0)

# Params have no symbols. Types of the same dtype meet in most ops.
TYPES: tuple[vx.TensorType, ...] = (
    vx.f32[T, 4],
    vx.f32[L, 4],
    vx.f32[4, 4],
    vx.f32[4],
    vx.f32[T, HEAD, 4],
    vx.f32[L, HEAD, 4],
    vx.f32[T, KV, 4],
    vx.f32[L, KV, 4],
    vx.f32[8, KV, 4],
    vx.f32[3, HEAD, 4],
    vx.f32[()],
    vx.f32[L],
    vx.f32[0, 4],
    vx.f32[NONE, 3],
    vx.f16[L, 4],
    vx.f16[2, 3],
    vx.bf16[T, 4],
    vx.bf16[3, 1],
    vx.i32[()],
    vx.i32[T],
    vx.i32[L, 2],
    vx.i64[3],
    vx.u8[L, 4],
    vx.bool[T, 4],
    vx.bool[()],
)
BY_NAME = {str(t): k for k, t in enumerate(TYPES)}

Where = Literal["on", "prefer", "free"]


@dataclass(frozen=True, slots=True)
class Spot:
    """Pinned to, hinted to, or free of the recipe's place number `place`."""

    where: Where
    place: int


@dataclass(frozen=True, slots=True)
class Given:
    """An arg or a param of TYPES[type]."""

    number: int
    type: int
    param: bool
    spot: Spot


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to build; `picks` choose operands and attributes; `out` hands the value to the caller."""

    number: int
    kind: str
    picks: tuple[int, int, int, int]
    spot: Spot
    out: bool = False
    body: Body | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """A loop's body. `carried` picks (init, next); `limit` and `stop` pick an i32[] and a value, or are None."""

    carried: tuple[tuple[int, int], ...]
    steps: tuple[Step, ...]
    max_steps: int
    limit: int | None
    stop: int | None


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that a check needs: `runs` are sizes of (T, L), `order` the schedule's choices, used in turn."""

    machine: str
    places: tuple[int, ...]  # indices of the machine's topologies
    given: tuple[Given, ...]
    steps: tuple[Step, ...]
    runs: tuple[tuple[int, int], ...]
    data: int
    order: tuple[int, ...]


ARITHMETIC = ("unary", "unary", "binary", "binary", "number", "compare", "where", "cast", "reduce", "softmax")
MOVEMENT = ("reshape", "transpose", "slice", "slice", "concat", "to", "to")
NULLARY = ("constant", "iota", "size")
MODEL = ("matmul", "matmul", "rmsnorm", "embed", "rope", "attention", "argmax", "sample")
CACHES = ("cache_init", "cache_append", "cache_append", "attention", "cache_rows")
ALL = (*ARITHMETIC, *MOVEMENT, *NULLARY, *MODEL, *CACHES, "emit")

# What a recipe is about: the kinds of its steps, and the types that it always has.
THEMES: tuple[tuple[tuple[str, ...], tuple[vx.TensorType, ...]], ...] = (
    (ALL, ()),
    (ALL, ()),
    ((*ARITHMETIC, *ARITHMETIC, "to", "slice", "emit"), ()),
    (("unary", "binary", "binary", "binary", "number"), (vx.f32[L, 4], vx.f32[L, 4])),
    ((*CACHES, *CACHES, *MODEL, "unary", "to", "emit"), (vx.f32[T, HEAD, 4], vx.f32[T, KV, 4], vx.f32[8, KV, 4])),
    ((*MOVEMENT, *NULLARY, "unary", "binary", "matmul"), (vx.f32[4, 4], vx.f32[L, 4])),
)
MACHINES = (*("cpu-x8", "h200-x4") * 4, *("cpu-x3", "rtx4090-x2") * 2, "cpu")


def score(pick: int, *, number: int, near: int) -> int:
    """How far a value is from being picked by a step whose number is `near`: at random, and the older the farther."""
    x = (pick * 0x9E3779B1 + number * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ x >> 15) * 0x2C1B3C6D) & 0xFFFFFFFF
    return (1 + (x ^ x >> 12)) * (1 + abs(near - number))


def recipe_of(seed: int) -> Recipe:
    """The recipe that a seed stands for."""
    return draw(random.Random(seed))


def draw(rng: random.Random, *, max_steps: int = 9, loops: int = 2) -> Recipe:
    """A recipe with loops in loops `loops` deep; all of its randomness comes from `rng`."""
    kinds, types = rng.choice(THEMES)
    machine = rng.choice(MACHINES)
    places = tuple(rng.sample(range(8), rng.choice((1, 2, 3, 4, 4, 4))))
    drawer = _Drawer(rng, kinds)
    given = [
        Given(k, BY_NAME[str(t)], not t.symbols and rng.random() < 0.7, drawer.spot()) for k, t in enumerate(types)
    ]
    given += [drawer.given(len(types) + k) for k in range(rng.randint(1, 4))]
    steps = drawer.steps(rng.randint(1, max_steps), loops=loops)
    runs = tuple((rng.randint(0, T.bound), rng.randint(L.min, L.bound)) for _ in range(rng.choice((1, 1, 2))))
    order = tuple(rng.randrange(4) for _ in range(16))
    return Recipe(machine, places, tuple(given), steps, runs, rng.getrandbits(30), order)


class _Drawer:
    """Draws steps; a spot is often the one before it, so that there is something to fuse and to keep in place."""

    def __init__(self, rng: random.Random, kinds: Sequence[str]) -> None:
        self.rng = rng
        self.kinds = kinds
        self.out = rng.choice((0.1, 0.3, 0.5))
        self.made = 15  # numbers up to 15 are the inputs'
        self.last = Spot("free", 0)
        self.last = self.spot()

    def spot(self) -> Spot:
        if self.rng.random() < 0.65:
            where: Where = self.rng.choice(("on", "on", "on", "on", "prefer", "free"))
            self.last = Spot(where, self.rng.randrange(4))
        return self.last

    def given(self, number: int) -> Given:
        type = self.rng.randrange(len(TYPES))
        return Given(number, type, not TYPES[type].symbols and self.rng.random() < 0.5, self.spot())

    def pick(self) -> int:
        return self.rng.randrange(64)

    def number(self) -> int:
        self.made += 1
        return self.made

    def steps(self, count: int, *, loops: int) -> tuple[Step, ...]:
        found: list[Step] = []
        for _ in range(count):
            if found and found[-1].body is None and self.rng.random() < 0.15:
                found.append(self.twin(found[-1]))
                continue
            body = self.body(loops - 1) if loops and self.rng.random() < 0.06 else None
            kind = "loop" if body else self.rng.choice(self.kinds)
            picks = (self.pick(), self.pick(), self.pick(), self.pick())
            found.append(Step(self.number(), kind, picks, self.spot(), self.rng.random() < self.out, body))
        return tuple(found)

    def twin(self, step: Step) -> Step:
        """Nearly the same step once more."""
        picks = list(step.picks)
        picks[self.rng.randrange(4)] = self.pick()
        a, b, c, d = picks
        return replace(step, number=self.number(), picks=(a, b, c, d), body=None)

    def body(self, loops: int) -> Body:
        rng = self.rng
        carried = tuple((self.pick(), self.pick()) for _ in range(rng.randint(1, 3)))
        steps = self.steps(rng.randint(1, 5), loops=loops)
        limit = self.pick() if rng.random() < 0.3 else None
        stop = self.pick() if rng.random() < 0.3 else None
        return Body(carried, steps, rng.randint(1, 3), limit, stop)
