"""From a recipe to its graph, with the DSL as a user writes it, and to the arrays of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

import vxgraph as vx
from tests.generative.arithmetic import Arithmetic
from tests.generative.models import Models
from tests.generative.movement import Movement
from tests.generative.pool import Hollow, least
from tests.generative.recipe import TYPES, Body, Given, L, Recipe, Spot, Step, T
from vxgraph.ir.graph import Graph
from vxgraph.ir.types import Array, TensorType


@lru_cache
def machine_of(name: str) -> vx.Machine:
    """A machine that is shipped, read once."""
    return vx.load_machine(name)


def places_of(recipe: Recipe) -> list[vx.Topology]:
    """The recipe's places on its machine."""
    topologies = machine_of(recipe.machine).topologies
    return [topologies[p % len(topologies)] for p in recipe.places]


def build(recipe: Recipe, places: Sequence[vx.Topology] = ()) -> Graph:
    """The recipe's graph, at other places than its own if there are `places`."""
    builder = _Builder(places or places_of(recipe))
    with vx.Graph("random") as graph:
        builder.inputs(recipe.given)
        builder.steps(recipe.steps)
        if builder.pool.full:
            with builder.at(recipe.steps[-1].spot if recipe.steps else Spot("free", 0)):
                builder.hand_out(builder.pool.full[-1])
    return graph.build()


class _Builder(Arithmetic, Movement, Models):
    """Walks a recipe; a step's kind is the name of its method."""

    def inputs(self, given: Sequence[Given]) -> None:
        for g in given:
            type = TYPES[g.type]
            with self.at(g.spot):
                value = (vx.param if g.param else vx.input)(f"{'p' if g.param else 'x'}{g.number}", type)
            self.numbers[value.name] = g.number
            if g.param:
                self.params.add(value.name)
            self.symbols += [d for d in type.symbols if d not in self.symbols]
            self.pool.full.append(value)

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            with self.at(step.spot):
                self.step(step)

    def step(self, step: Step) -> None:
        self.now = step.number
        if step.kind == "loop":
            assert step.body is not None
            self.loop(step, step.body)
            return
        found: vx.Value | Hollow | None = getattr(self, step.kind)(step)
        if found is not None:
            self.numbers[(found.value if isinstance(found, Hollow) else found).name] = step.number
        if isinstance(found, Hollow):
            self.pool.hollow.append(found)
        elif found is not None:
            self.pool.full.append(found)
            if step.out:
                self.hand_out(found)

    def emit(self, step: Step) -> None:
        value = self.any(step.picks[0])
        if value is not None:
            self.hand_out(value, emit=True)

    # Loops.

    def loop(self, step: Step, loop: Body) -> None:
        inits = [self.init(init) for init, _ in loop.carried]
        chosen = [(init, pick) for init, (_, pick) in zip(inits, loop.carried, strict=True) if init is not None]
        outer = self.pool

        def body(*carried: vx.Value) -> list[vx.Value]:
            self.pool = outer.copy()
            self.depth += 1
            for k, ((init, _), value) in enumerate(zip(chosen, carried, strict=True)):
                self.add(init, value, step.number - k)
            self.steps(loop.steps)
            self.now = step.number + len(loop.steps)
            if loop.stop is not None:
                vx.stop(self.stop(loop.stop))
            nexts = [self.next(init, value, pick) for (init, pick), value in zip(chosen, carried, strict=True)]
            self.depth -= 1
            return nexts

        limit = None if loop.limit is None else self.pick(loop.limit, lambda v: v.type == vx.i32[()])
        values = [init.value if isinstance(init, Hollow) else init for init, _ in chosen]
        steps = None if limit is None else self.no_param(limit)
        outs, done = vx.loop(body, values, max_steps=loop.max_steps, steps=steps)
        self.pool = outer
        for k, ((init, _), value) in enumerate(zip(chosen, outs, strict=True)):
            self.add(init, value, self.now + k)
        self.add(done, done, self.now)
        if step.out:
            self.hand_out(done)
            for (init, _), value in zip(chosen, outs, strict=True):
                if not isinstance(init, Hollow):
                    self.hand_out(value)

    def init(self, k: int) -> vx.Value | Hollow | None:
        every: list[vx.Value | Hollow] = [*self.pool.full, *self.pool.hollow]
        return self.among(every, k) if every else None

    def add(self, like: vx.Value | Hollow, value: vx.Value, number: int) -> None:
        self.numbers[value.name] = number
        if isinstance(like, Hollow):
            self.pool.hollow.append(Hollow(value, like.rows))
        else:
            self.pool.full.append(value)

    def next(self, init: vx.Value | Hollow, value: vx.Value, k: int) -> vx.Value:
        """What the next step starts from: of the same type, and with the same rows written."""
        if isinstance(init, Hollow):
            found = [h.value for h in self.pool.hollow if h.value.type == value.type and h.rows == init.rows]
        else:
            found = [v for v in self.pool.full if v.type == value.type]
        return self.among(found, k)

    def stop(self, k: int) -> vx.Value:
        """A predicate of any value: whether its first element is more than 0.5, as it were."""
        x = self.pick(k, lambda v: all(least(d) for d in v.dims))
        if x is None:
            return vx.constant(k % 2 == 0)
        while x.dims:
            x = vx.max(x, axis=0)
        return self.no_param(x) if x.type.dtype == vx.bool else x > 0


# Arrays.


def arrays(graph: Graph, sizes: tuple[int, int], data: int) -> dict[str, Array]:
    """Args of a run where (T, L) are `sizes`."""
    rng = np.random.default_rng(data)
    named = {T.name: sizes[0], L.name: sizes[1]}
    return {i.name: _array(rng, i.type, i.type.shape(named)) for i in graph.args}


def params(graph: Graph, data: int) -> dict[str, Array]:
    """Params; some of one type are one array, as tied weights are."""
    rng = np.random.default_rng(data + 1)
    found: dict[str, Array] = {}
    tied: dict[TensorType, Array] = {}
    for i in graph.params:
        array = _array(rng, i.type, i.type.shape())
        found[i.name] = tied.setdefault(i.type, array) if data % 2 else array
    return found


def _array(rng: np.random.Generator, type: TensorType, shape: tuple[int, ...]) -> Array:
    if type.dtype.kind != "float":
        return rng.integers(0, 2 if type.dtype.kind == "bool" else 5, shape).astype(type.dtype.numpy)
    return (rng.standard_normal(shape, np.float32) / 2).astype(type.dtype.numpy)
