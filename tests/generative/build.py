"""From a recipe to its graph, with the DSL as a user writes it, and to the arrays of its runs.

A cache whose rows are not all written is `hollow`: what was never written is unspecified, so that only appends,
transfers, loops, attention over the written rows and slices of them may read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

import vxgraph as vx
from tests.generative.recipe import HEAD, TYPES, Body, Given, L, Recipe, Spot, Step, T, score
from vxgraph.ir.graph import Graph
from vxgraph.ir.types import Array, Dim, DimLike, TensorType, bound, unify_dim

Item = TypeVar("Item", bound="vx.Value | Hollow")
LARGEST = 256  # elements of a value at its bounds
FLOATS = (vx.f32, vx.f16, vx.bf16)
DTYPES = (*FLOATS, vx.i32, vx.i64, vx.u8, vx.bool)


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


class _Builder:
    def __init__(self, places: Sequence[vx.Topology]) -> None:
        self.places = places
        self.pool = Pool()
        self.params: set[str] = set()
        self.numbers: dict[str, int] = {}  # of values, by name
        self.now = 0  # the number of the step that is being built
        self.symbols: list[Dim] = []
        self.depth = 0
        self.outlets = 0

    # Places, inputs, outlets.

    def at(self, spot: Spot) -> Any:
        if spot.where == "free":
            return nullcontext()
        return (vx.on if spot.where == "on" else vx.prefer)(self.place(spot.place))

    def place(self, k: int) -> vx.Topology:
        return self.places[k % len(self.places)]

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

    # Steps.

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

    def emit(self, step: Step) -> None:
        value = self.any(step.picks[0])
        if value is not None:
            self.hand_out(value, emit=True)

    def to(self, step: Step) -> vx.Value | Hollow | None:
        if self.pool.hollow and step.picks[2] % 4 == 0:
            hollow = self.among(self.pool.hollow, step.picks[0])
            return Hollow(hollow.value.to(self.place(step.picks[1])), hollow.rows)
        value = self.any(step.picks[0])
        return None if value is None else value.to(self.place(step.picks[1]))

    # Arithmetic.

    def unary(self, step: Step) -> vx.Value | None:
        a, _, _, which = step.picks
        if which % 4 == 0:
            value = self.pick(a, lambda v: v.type.dtype.kind != "bool")
            return None if value is None else (vx.neg, vx.relu)[which // 4 % 2](value)
        value = self.floats(a)
        f = (vx.neg, vx.exp, vx.sqrt, vx.rsqrt, vx.silu, vx.gelu, vx.relu)[which % 7]
        return None if value is None else f(value)

    def binary(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        y = self.partner(x, b)
        return self.arithmetic(x, y, which)

    def arithmetic(self, x: vx.Operand, y: vx.Operand, which: int) -> vx.Value:
        kind = next(v.type.dtype.kind for v in (x, y) if isinstance(v, vx.Value))
        every = (vx.maximum, vx.minimum, vx.add, vx.sub, vx.mul, vx.div)
        return every[which % {"bool": 2, "int": 5, "float": 6}[kind]](x, y)

    def number(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        number = _number(x.type.dtype, b)
        return self.arithmetic(number, x, which) if c % 2 else self.arithmetic(x, number, which)

    def compare(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        y = self.partner(x, b)
        return vx.compare(x, y, ("eq", "ne", "lt", "le", "gt", "ge")[which % 6])

    def where(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        y = self.partner(x, b)
        cond = self.pick(c, lambda v: v.type.dtype == vx.bool and all(broadcasts(v.type, u.type) for u in (x, y)))
        if cond is None:
            cond = vx.compare(x, x, "eq")
        if not fits_together(cond.type, x.type, y.type):
            y = x
        return vx.where(cond, x, _number(x.type.dtype, b) if which % 3 == 0 else y)

    def cast(self, step: Step) -> vx.Value | None:
        a, _, _, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        dtype = DTYPES[which % len(DTYPES)]
        if x.type.dtype.kind == "float" and dtype.kind == "int":
            x = vx.where(vx.compare(x, x, "eq"), vx.minimum(vx.maximum(x, 0.0), 100.0), 0.0)  # else it is unspecified
        return x.cast(dtype)

    def reduce(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        f = (vx.max, vx.sum, vx.mean)[which % 3]
        wanted = {vx.max: ("float", "int", "bool"), vx.sum: ("float", "int"), vx.mean: ("float",)}[f]
        x = self.pick(a, lambda v: v.type.rank > 0 and v.type.dtype.kind in wanted)
        if x is None:
            return None
        axis = b % x.type.rank
        if f is vx.max and not least(x.dims[axis]):
            return None
        return f(x, axis=axis - x.type.rank if c % 2 else axis, keepdims=which % 2 == 0)

    def softmax(self, step: Step) -> vx.Value | None:
        x = self.floats(step.picks[0], rank=1)
        return (
            None if x is None else vx.softmax(x, axis=step.picks[1] % x.type.rank - (step.picks[2] % 2) * x.type.rank)
        )

    # Movement.

    def reshape(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        symbols = [d for d in x.dims if isinstance(d, Dim) and d.symbolic]
        rest = elements([d for d in x.dims if d not in symbols])
        match which % 4:
            case 0:
                return x.reshape(*x.dims[: b % (x.type.rank + 1)], 1, *x.dims[b % (x.type.rank + 1) :])
            case 1 if rest % 2 == 0:
                return x.reshape(*symbols, rest // 2, 2)
            case 2 if rest == 8 and c % 2:
                return x.reshape(*symbols, HEAD, 4)
            case _:
                return x.reshape(*symbols, rest) if len(symbols) < 2 else None

    def transpose(self, step: Step) -> vx.Value | None:
        x = self.any(step.picks[0], rank=1)
        if x is None:
            return None
        turn = step.picks[1] % x.type.rank
        axes = list(range(x.type.rank))
        return x.transpose(*(reversed(axes) if turn == 0 else axes[turn:] + axes[:turn]))

    def slice(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a, rank=1)
        if x is None:
            return None
        axis = b % x.type.rank
        start, stop, stride = _span(x.dims[axis], c, which)
        return vx.slice(x, axis=axis, start=start, stop=stop, step=stride)

    def concat(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a, rank=1)
        if x is None:
            return None
        axis = c % x.type.rank
        if _symbolic(x.dims[axis]) or 3 * elements(x.dims) > LARGEST:
            return None
        y = self.pick(b, lambda v: v.type == x.type)
        assert y is not None
        return vx.concat([(x,), (x, y), (y, x, y)][which % 3], axis=axis)

    # From nothing.

    def constant(self, step: Step) -> vx.Value:
        a, b, c, which = step.picks
        dtype = DTYPES[which % len(DTYPES)]
        values = [_number(dtype, a + k * (b + 1)) for k in range(4)]
        return vx.constant([values[0], values[:3], [values, values[::-1]], []][c % 4], dtype)

    def iota(self, step: Step) -> vx.Value:
        dims = (*self.symbols, 4, 0, 3)
        return vx.iota(dims[step.picks[0] % len(dims)], (vx.i32, vx.i32, vx.f32, vx.u8, vx.f16)[step.picks[3] % 5])

    def size(self, step: Step) -> vx.Value | None:
        return vx.size(self.symbols[step.picks[0] % len(self.symbols)]) if self.symbols else None

    # Models.

    def matmul(self, step: Step) -> vx.Value | None:
        a, b, _, _ = step.picks
        x = self.pick(a, lambda v: v.type.rank >= 1 and v.type.dtype.kind != "bool")
        if x is None:
            return None

        def fits(w: vx.Value, inner: int) -> bool:
            if w.type.dtype != x.type.dtype or w.type.rank < 2 or not same(x.dims[-1], w.dims[inner]):
                return False
            return (w.type.rank == 2 or w.dims[:-2] == x.dims[:-2]) and elements(
                (*x.dims[:-1], w.dims[-3 - inner])
            ) <= LARGEST

        right = self.pick(b, lambda w: fits(w, -2))
        turned = self.pick(b, lambda w: fits(w, -1))
        if turned is not None and (right is None or b % 2):
            *batch, m, n = range(turned.type.rank)
            return x @ turned.transpose(*batch, n, m)
        return None if right is None else x @ right

    def rmsnorm(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.floats(a, rank=1)
        if x is None:
            return None
        w = self.pick(b, lambda v: v.type.rank == 1 and v.type.dtype == x.type.dtype and same(x.dims[-1], v.dims[0]))
        if w is None and _symbolic(x.dims[-1]):
            return None
        weight = vx.constant([0.5 + k for k in range(bound(x.dims[-1]))], x.type.dtype) if w is None else w
        return vx.rmsnorm(x, weight, eps=(1e-5, 1e-6, 0.5)[which % 3])

    def clamped(self, k: int, top: int, fits: Callable[[vx.Value], bool] = lambda _: True) -> vx.Value | None:
        """An integer between 0 and `top`."""
        x = self.pick(k, lambda v: v.type.dtype == vx.i32 and fits(v))
        return None if x is None else vx.minimum(vx.maximum(x, 0), top)

    def embed(self, step: Step) -> vx.Value | None:
        a, b, _, _ = step.picks
        table = self.pick(a, lambda v: v.type.rank >= 1 and least(v.dims[0]) > 0)
        if table is None:
            return None
        row = elements(table.dims[1:])
        ids = self.clamped(b, least(table.dims[0]) - 1, lambda v: elements(v.dims) * row <= LARGEST)
        return None if ids is None else vx.embed(table, ids)

    def argmax(self, step: Step) -> vx.Value | None:
        a, b, _, _ = step.picks
        x = self.any(a, rank=1)
        if x is None or not least(x.dims[b % x.type.rank]):
            return None
        return vx.argmax(x, axis=b % x.type.rank)

    def sample(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        logits = self.pick(a, lambda v: v.type.dtype.kind == "float" and v.type.rank == 1 and least(v.dims[0]) > 0)
        if logits is None:
            return None
        position = self.pick(b, lambda v: v.type == vx.i32[()])
        return vx.sample(
            logits,
            temperature=vx.constant((0.0, 0.7, 1.5)[which % 3]),
            top_p=vx.constant((0.4, 0.9, 1.0)[c % 3]),
            seed=vx.constant(which, vx.i64),
            position=vx.constant(3) if position is None else position,
        )

    def rope(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.pick(a, lambda v: _is_heads(v) and bound(v.dims[2]) % 2 == 0 and not _symbolic(v.dims[2]))
        if x is None:
            return None
        positions = self.pick(b, lambda v: v.type == vx.i32[x.dims[0]])
        return vx.rope(
            x,
            vx.iota(x.dims[0]) if positions is None else positions,
            theta=1e4,
            interleaved=which % 2 == 0,
            scaling=(8.0, 1.0, 4.0, 8192) if which % 3 == 0 else None,
        )

    def attention(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        q = self.pick(a, _is_heads)
        if q is None:
            return None
        hollow = [h for h in self.pool.hollow if _attends(q, h.value) and _sees(q.dims[0], h.rows)]
        keys = [v for v in self.pool.full if _attends(q, v) and _sees(q.dims[0], v.dims[0])]
        how = {"causal": which % 2 == 0, "scale": 0.5 if which % 3 == 0 else None}
        if hollow and (which % 4 or not keys):
            cache = self.among(hollow, b)
            length = (
                vx.size(cache.rows)
                if isinstance(cache.rows, Dim) and cache.rows.symbolic
                else vx.constant(bound(cache.rows))
            )
            return vx.attention(q, cache.value, cache.value, length=length, **how)
        if not keys:
            return None
        k = self.among(keys, b)
        values = [v for v in keys if v.type == k.type]
        return vx.attention(q, k, self.among(values, c), length=self.length(q, k, step), **how)

    def length(self, q: vx.Value, k: vx.Value, step: Step) -> vx.Value | None:
        """How many keys there are, where that can be said: all of them, or as many as an i32[] says."""
        least_keys = max(bound(q.dims[0]), 1)
        if step.picks[3] % 2 or _symbolic(k.dims[0]) or least_keys > bound(k.dims[0]):
            return None
        n = self.pick(step.picks[2], lambda v: v.type == vx.i32[()])
        return None if n is None else vx.maximum(vx.minimum(n, bound(k.dims[0])), least_keys)

    # Caches.

    def cache_init(self, step: Step) -> Hollow | vx.Value | None:
        a, _, _, which = step.picks
        rows = self.pick(a, lambda v: _is_rows(v.type))
        if rows is None:
            return None
        type = rows.type.with_dims((8, *rows.dims[1:]))
        if which % 4 == 0:
            return Hollow(vx.cache_init(type), 0)
        cache = vx.cache_init(type, rows)
        return cache if rows.dims[0] == 8 else Hollow(cache, rows.dims[0])

    def cache_append(self, step: Step) -> Hollow | vx.Value | None:
        a, b, c, which = step.picks
        hollow = self.pool.hollow
        target = self.among(hollow, a) if hollow and which % 4 else None
        cache = target.value if target else self.pick(a, lambda v: v.type.rank >= 1 and not _symbolic(v.dims[0]))
        if cache is None:
            return None
        rows = self.pick(b, lambda v: _fits_rows(cache.type, v.type))
        if rows is None:
            return None
        last = bound(cache.dims[0]) - bound(rows.dims[0])
        at = None if which % 3 == 0 else self.clamped(c, last, lambda v: v.type == vx.i32[()])
        found = vx.cache_append(cache, rows, vx.constant(c % (last + 1) if which % 2 else 0) if at is None else at)
        if target is None:
            return found
        first = at is None and (not which % 2 or c % (last + 1) == 0)
        return Hollow(found, rows.dims[0] if first and least(rows.dims[0]) >= bound(target.rows) else target.rows)

    def cache_rows(self, step: Step) -> vx.Value | None:
        """The first rows of a hollow cache, all of them written."""
        found = [h for h in self.pool.hollow if least(h.rows)]
        if not found:
            return None
        hollow = self.among(found, step.picks[0])
        return vx.slice(hollow.value, axis=0, stop=1 + step.picks[1] % least(hollow.rows))

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


def _symbolic(d: DimLike) -> bool:
    return isinstance(d, Dim) and d.symbolic


def _is_heads(v: vx.Value) -> bool:
    return v.type.dtype.kind == "float" and v.type.rank == 3 and not any(map(_symbolic, v.dims[1:]))


def _attends(q: vx.Value, k: vx.Value) -> bool:
    if not _is_heads(k) or k.type.dtype != q.type.dtype or not same(q.dims[2], k.dims[2]):
        return False
    if not bound(k.dims[1]) or bound(q.dims[1]) % bound(k.dims[1]):
        return False
    named = [d for d in q.dims if isinstance(d, Dim)]
    return all(d not in k.dims or k.dims.index(d) == q.dims.index(d) for d in named)


def _sees(queries: DimLike, keys: DimLike) -> bool:
    """Whether every query row sees a key in every run, causal or not."""
    return queries == keys or (least(keys) >= max(bound(queries), 1) and not (_symbolic(keys) and _symbolic(queries)))


def _is_rows(t: TensorType) -> bool:
    if t.rank < 1 or bound(t.dims[0]) > 8 or any(map(_symbolic, t.dims[1:])):
        return False
    return 8 * elements(t.dims[1:]) <= LARGEST


def _fits_rows(cache: TensorType, rows: TensorType) -> bool:
    if cache.dtype != rows.dtype or cache.rank != rows.rank or bound(rows.dims[0]) > bound(cache.dims[0]):
        return False
    if not all(same(a, b) for a, b in zip(cache.dims[1:], rows.dims[1:], strict=True)):
        return False
    return not any(isinstance(d, Dim) and d in rows.dims and rows.dims.index(d) != k for k, d in enumerate(cache.dims))


def _span(d: DimLike, a: int, which: int) -> tuple[int, int | None, int]:
    """Start, stop and stride of a slice that is legal for the dim."""
    n = least(d)
    if _symbolic(d):
        k = 1 + a % n if n else 0
        return ((-1, None, -1), (0, k, 1), (-k, None, 1) if k else (0, None, 1))[which % 3]
    if not n:
        return 0, None, 1
    first, second = a % n, which % n
    match which // 8 % 4:
        case 0:
            return -1, None, -1
        case 1:
            return first, None, 1 + which % 2
        case 2:
            return n - 1 - first, None, -1 - which % 3
        case _:
            return min(first, second), max(first, second), 1


NUMBERS = (0.0, 1.0, -0.5, 2.0, -0.0, 0.25, -3.0, 1.0, float("inf"), float("nan"), -1e-3, 1e4)


def _number(dtype: vx.DType, k: int) -> bool | int | float:
    if dtype.kind == "bool":
        return k % 2 == 0
    if dtype.kind == "int":
        return (0, 1, 3, 2, 250, 7)[k % 6]
    return NUMBERS[k % len(NUMBERS)]


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
