"""Random graphs as data: a recipe is drawn once and built at any placement.

A recipe is a list of steps over pools of values of four types, so that every pick fits; picks are taken modulo the
pool, so that every recipe is a graph. `build(recipe, places)` runs step k at `places[step.place % len(places)]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import vxgraph as vx

SQUARE = vx.f32[4, 4]
ROW = vx.f32[1, 4]
CACHE = vx.f32[8, 4]
INDEX = vx.i32[()]

SQUARES = ("add", "mul", "matmul", "relu", "neg", "transpose", "reshape", "to", "read", "softmax")
KINDS = (*SQUARES, "row", "cache", "append", "append", "index", "emit", "output")


@dataclass(frozen=True)
class Step:
    """One thing to build; `a` and `b` pick operands, `place` a place."""

    kind: str
    a: int
    b: int
    place: int
    inner: Loop | None = None


@dataclass(frozen=True)
class Loop:
    """A loop's body: `carried` picks (pool, init, next) of what it carries."""

    carried: tuple[tuple[str, int, int], ...]
    steps: tuple[Step, ...]
    max_steps: int
    stop: bool
    limited: bool


@dataclass
class Pools:
    """Values by type, newest last."""

    s: list[vx.Value] = field(default_factory=list[vx.Value])
    r: list[vx.Value] = field(default_factory=list[vx.Value])
    c: list[vx.Value] = field(default_factory=list[vx.Value])
    i: list[vx.Value] = field(default_factory=list[vx.Value])

    def pick(self, pool: str, k: int) -> vx.Value:
        """The k-th newest value of a type."""
        values = getattr(self, pool)
        return values[-1 - k % len(values)]

    def copy(self) -> Pools:
        return Pools(list(self.s), list(self.r), list(self.c), list(self.i))


def recipes(*, loops: int = 1, max_steps: int = 10) -> st.SearchStrategy[tuple[Step, ...]]:
    """Recipes with up to `loops` levels of loops."""
    small = st.integers(0, 5)
    step = st.builds(Step, st.sampled_from(KINDS), small, small, st.integers(0, 3))
    if loops:
        step = st.one_of(step, step, step, st.builds(Step, st.just("loop"), small, small, small, _loops(loops - 1)))
    return st.lists(step, min_size=1, max_size=max_steps).map(tuple)


def _loops(deeper: int) -> st.SearchStrategy[Loop]:
    carried = st.tuples(st.sampled_from("ssci"), st.integers(0, 5), st.integers(0, 5))
    return st.builds(
        Loop,
        st.lists(carried, min_size=1, max_size=3).map(tuple),
        recipes(loops=deeper, max_steps=6),
        st.integers(1, 3),
        st.booleans(),
        st.booleans(),
    )


def build(recipe: Sequence[Step], places: Sequence[vx.Topology], *, pin_inputs: bool = False) -> vx.Graph:
    """The recipe's graph at these places."""
    with vx.Graph("random") as graph:
        with vx.on(places[-1]) if pin_inputs else nullcontext():
            pools = Pools(
                s=[vx.param("w", SQUARE), vx.input("x", SQUARE)],
                c=[vx.param("cache", CACHE)],
                r=[vx.input("row", ROW)],
                i=[vx.input("n", INDEX)],
            )
        _Builder(places).steps(recipe, pools, top=True)
        with vx.on(places[0]):
            vx.output("last", pools.s[-1] + 0.5)
            vx.output("last_cache", on_device(pools.c[-1], places[0]))
    return graph


def on_device(value: vx.Value, place: vx.Topology) -> vx.Value:
    """The value; a param, which cannot be an outlet, sent to a place first."""
    return value.to(place) if value.name in ("w", "cache") else value


def arrays(seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and params for a recipe's graph."""
    rng = np.random.default_rng(seed)
    inputs = {"x": _normal(rng, 4, 4), "row": _normal(rng, 1, 4), "n": np.int32(2)}
    return inputs, {"w": _normal(rng, 4, 4), "cache": _normal(rng, 8, 4)}


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(np.float32) / 2


class _Builder:
    def __init__(self, places: Sequence[vx.Topology]) -> None:
        self.places = places
        self.outlets = 0

    def steps(self, steps: Sequence[Step], pools: Pools, *, top: bool) -> None:
        for step in steps:
            with vx.on(self.places[step.place % len(self.places)]):
                self.step(step, pools, top=top)

    def step(self, step: Step, pools: Pools, *, top: bool) -> None:
        s, r, i = (pools.pick(p, step.a) for p in "sri")
        match step.kind:
            case "loop":
                assert step.inner is not None
                self.loop(step, step.inner, pools)
            case "row":
                pools.r.append(s[1:2] + r)
            case "cache":
                pools.c.append(vx.cache_init(CACHE, vx.concat([s, pools.pick("s", step.b)], axis=0)))
            case "append":
                pools.c.append(vx.cache_append(pools.pick("c", step.b), r, i))
            case "index":
                pools.i.append(vx.minimum(i + 1, 7))
            case "emit":
                self.outlets += 1
                vx.emit(f"e{self.outlets}", self.outlet(pools, "sc"[step.b % 2], step))
            case "output":
                self.outlets += 1
                (vx.output if top else vx.emit)(f"o{self.outlets}", self.outlet(pools, "sric"[step.b % 4], step))
            case _:
                pools.s.append(self.square(step, s, pools))

    def outlet(self, pools: Pools, pool: str, step: Step) -> vx.Value:
        return on_device(pools.pick(pool, step.a), self.places[step.place % len(self.places)])

    def square(self, step: Step, s: vx.Value, pools: Pools) -> vx.Value:
        t = pools.pick("s", step.b)
        match step.kind:
            case "add":
                return s + t
            case "mul":
                return s * t
            case "matmul":
                return (s @ t) * 0.25
            case "relu":
                return vx.relu(s)
            case "neg":
                return -s
            case "transpose":
                return vx.transpose(s, (1, 0))
            case "reshape":
                return (
                    vx.relu(s.reshape(2, 8)).reshape(16).reshape(4, 4) if step.b % 2 else s.reshape(8, 2).reshape(4, 4)
                )
            case "to":
                return s.to(self.places[step.b % len(self.places)])
            case "read":
                return pools.pick("c", step.a)[step.b % 4 : step.b % 4 + 4]
            case _:
                return vx.softmax(s)

    def loop(self, step: Step, loop: Loop, pools: Pools) -> None:
        inits = [pools.pick(pool, init) for pool, init, _ in loop.carried]

        def body(*carried: vx.Value) -> list[vx.Value]:
            inner = pools.copy()
            for (pool, _, _), value in zip(loop.carried, carried, strict=True):
                getattr(inner, pool).append(value)
            self.steps(loop.steps, inner, top=False)
            if loop.stop:
                vx.stop(vx.compare(inner.pick("i", step.b), 3, "ge"))
            return [inner.pick(pool, k) for pool, _, k in loop.carried]

        limit = pools.pick("i", step.a) if loop.limited else None
        outs, done = vx.loop(body, inits, max_steps=loop.max_steps, steps=limit)
        for (pool, _, _), value in zip(loop.carried, outs, strict=True):
            getattr(pools, pool).append(value)
        self.outlets += 1
        vx.emit(f"steps{self.outlets}", done)
