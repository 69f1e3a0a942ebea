"""Random graphs for property tests, built with the DSL: every op, named and symbolic dims, loops, places and hints.

    @given(graphs(places=[CPU[0], CPU[1]]))       graphs that compile and can be interpreted (see `arrays`)
    @given(texts())                               graphs with odd reasons, lines and names, for the text format

A graph is drawn step by step; a step takes its operands by type from a pool of values, preferably new ones, so that
little of a graph is dead. The pool begins with inputs of every type that a step asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import vxgraph as vx
from vxgraph import ops
from vxgraph.errors import Loc
from vxgraph.ir import graph as ir
from vxgraph.ir.types import Array

T = vx.Dim("T", min=2, max=6)
HEAD = vx.Dim("Head", 2)
KV = vx.Dim("KV", 1)
ROWS = 3  # T in a run

FLAT, HEADS, KEYS, SQUARE = vx.f32[T, 4], vx.f32[T, HEAD, 4], vx.f32[T, KV, 4], vx.f32[4, 4]
CACHE, HALF, BRAIN, INDEX, MASK = vx.f32[8, KV, 4], vx.f16[2, 3], vx.bf16[3], vx.i32[()], vx.bool[T, 4]
COUNTS, WIDE, BYTES, ROW = vx.i32[T], vx.i64[()], vx.u8[3], vx.f32[4]
INPUTS = {
    "flat": FLAT,
    "heads": HEADS,
    "keys": KEYS,
    "index": INDEX,
    "mask": MASK,
    "half": HALF,
    "brain": BRAIN,
    "bytes": BYTES,
}
PARAMS = {"w": SQUARE, "row": ROW, "cache": CACHE}
PLACES = tuple(vx.CPU[i] for i in range(3))
NUMBERS = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, float("inf"), -float("inf"), float("nan")]))

Draw = Callable[[st.SearchStrategy[Any]], Any]
Pool = list[vx.Value]


def arrays(graph: ir.Graph, seed: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
    """Args and params for a graph of this module."""
    rng = np.random.default_rng(seed)

    def array(type: vx.TensorType) -> Array:
        values = rng.integers(0, 2, type.shape({"T": ROWS})) if type.dtype.kind != "float" else None
        drawn = rng.standard_normal(type.shape({"T": ROWS})) if values is None else values
        return drawn.astype(type.dtype.numpy)

    return {i.name: array(i.type) for i in graph.args}, {i.name: array(i.type) for i in graph.params}


def _newest(draw: Draw, values: Sequence[vx.Value]) -> vx.Value:
    """One of the last four values."""
    return draw(st.sampled_from(values[-1:-5:-1]))


class _Steps:
    """One step per method: it takes operands by type and gives a value."""

    def __init__(self, draw: Draw, pool: Pool) -> None:
        self.draw = draw
        self.pool = pool

    def of(self, type: vx.TensorType) -> vx.Value:
        return _newest(self.draw, [v for v in self.pool if v.type == type])

    def floats(self) -> vx.Value:
        return _newest(self.draw, [v for v in self.pool if v.type.dtype.kind == "float"])

    def any(self) -> vx.Value:
        return _newest(self.draw, self.pool)

    def unary(self) -> vx.Value:
        f = self.draw(st.sampled_from([vx.neg, vx.exp, vx.sqrt, vx.rsqrt, vx.silu, vx.gelu, vx.relu]))
        return f(self.floats())

    def binary(self) -> vx.Value:
        x = self.floats()
        f = self.draw(st.sampled_from([vx.add, vx.sub, vx.mul, vx.div, vx.maximum, vx.minimum]))
        if self.draw(st.booleans()):
            return f(x, self.of(x.type))
        number = self.draw(st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan")]))
        return f(x, number) if self.draw(st.booleans()) else f(number, x)

    def constant(self) -> vx.Value:
        return vx.constant(self.draw(st.lists(NUMBERS, min_size=4, max_size=4)), vx.f32)

    def count(self) -> vx.Value:
        return self.draw(
            st.sampled_from([lambda: vx.iota(T), lambda: vx.size(T), lambda: vx.constant(1), lambda: vx.constant(0)])
        )()

    def compare(self) -> vx.Value:
        x = self.of(FLAT)
        return vx.compare(x, self.of(FLAT), self.draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"])))

    def where(self) -> vx.Value:
        return vx.where(self.of(MASK), self.of(FLAT), self.draw(st.sampled_from([0.0, self.of(FLAT)])))

    def cast(self) -> vx.Value:
        return self.floats().cast(self.draw(st.sampled_from([vx.f32, vx.f16, vx.bf16])))

    def matmul(self) -> vx.Value:
        right = self.of(SQUARE)
        return self.of(FLAT) @ (right.T if self.draw(st.booleans()) else right)

    def transpose(self) -> vx.Value:
        return self.of(self.draw(st.sampled_from([SQUARE, HEADS, FLAT]))).transpose()

    def reshape(self) -> vx.Value:
        return self.draw(
            st.sampled_from(
                [
                    lambda: self.of(SQUARE).reshape(2, 8),
                    lambda: self.of(FLAT).reshape(T, KV, 4),
                    lambda: self.of(KEYS).reshape(T, 4),
                    lambda: self.of(HALF).reshape(6),
                    lambda: self.of(SQUARE).reshape(4, 4),
                ]
            )
        )()

    def slice(self) -> vx.Value:
        return self.draw(
            st.sampled_from(
                [
                    lambda: self.of(SQUARE)[1:3],
                    lambda: self.of(FLAT)[-2:],
                    lambda: self.of(SQUARE)[0],
                    lambda: self.of(FLAT)[:, ::-1],
                    lambda: self.of(HALF)[::-1, 1],
                ]
            )
        )()

    def concat(self) -> vx.Value:
        return vx.concat([self.of(HALF), self.of(HALF)], axis=self.draw(st.sampled_from([0, 1, -1])))

    def softmax(self) -> vx.Value:
        return vx.softmax(self.of(FLAT), axis=self.draw(st.sampled_from([0, -1])))

    def rmsnorm(self) -> vx.Value:
        return vx.rmsnorm(self.of(FLAT), self.of(ROW), eps=self.draw(st.sampled_from([1e-5, 1e-6])))

    def reduce(self) -> vx.Value:
        f = self.draw(st.sampled_from([vx.sum, vx.mean, vx.max]))
        return f(self.of(FLAT), axis=self.draw(st.sampled_from([0, 1])), keepdims=self.draw(st.booleans()))

    def argmax(self) -> vx.Value:
        return vx.argmax(self.of(self.draw(st.sampled_from([FLAT, ROW]))))

    def embed(self) -> vx.Value:
        return vx.embed(self.of(SQUARE), vx.argmax(self.of(FLAT)))

    def rope(self) -> vx.Value:
        scaling = self.draw(st.sampled_from([None, (8.0, 1.0, 4.0, 8192)]))
        return vx.rope(self.of(HEADS), vx.iota(T), theta=1e4, interleaved=self.draw(st.booleans()), scaling=scaling)

    def attention(self) -> vx.Value:
        length = self.draw(st.sampled_from([None, vx.size(T)]))
        return vx.attention(
            self.of(HEADS), self.of(KEYS), self.of(KEYS), length=length, causal=self.draw(st.booleans()), scale=0.5
        )

    def cache(self) -> vx.Value:
        if self.draw(st.booleans()):
            return vx.cache_init(CACHE, self.of(KEYS))
        return vx.cache_append(self.of(CACHE), self.of(KEYS), vx.constant(self.draw(st.integers(0, 2))))

    def empty(self) -> vx.Value:
        return vx.cache_append(vx.cache_init(CACHE), self.of(KEYS), vx.constant(0))

    def sample(self) -> vx.Value:
        heat = vx.constant(self.draw(st.sampled_from([0.0, 0.8])))
        seed = vx.constant(7, vx.i64)
        return vx.sample(self.of(ROW), temperature=heat, top_p=vx.constant(0.9), seed=seed, position=self.of(INDEX))

    def to(self) -> vx.Value:
        return self.any().to(self.draw(st.sampled_from(PLACES)))


STEPS = tuple(name for name in vars(_Steps) if not name.startswith("_") and name not in ("of", "floats", "any"))


def graphs(
    *, places: Sequence[vx.Topology] = PLACES, max_steps: int = 10, loops: int = 2
) -> st.SearchStrategy[ir.Graph]:
    """Graphs whose steps are pinned to `places`, hinted to them, or free; with loops in loops `loops` deep."""
    return _graphs(places, max_steps, loops)


@st.composite
def _graphs(draw: Draw, places: Sequence[vx.Topology], max_steps: int, loops: int) -> ir.Graph:
    with vx.Graph("random") as g:
        pool: Pool = []
        for make, types in ((vx.input, INPUTS), (vx.param, PARAMS)):
            for name, type in types.items():
                with _somewhere(draw, places):
                    pool.append(make(name, type))
        inputs = len(pool)
        _Builder(draw, places).steps(pool, max_steps, loops)
        made = [v for v in pool[inputs:] if draw(st.booleans())]
        for k, value in enumerate([*made, pool[-1], draw(st.sampled_from(pool))]):
            vx.output(f"out{k}", value)
    return g.build()


def _somewhere(draw: Draw, places: Sequence[vx.Topology]) -> Any:
    where = draw(st.sampled_from([vx.on, vx.on, vx.prefer, None]))
    return where(draw(st.sampled_from(places))) if where else nullcontext()


@dataclass
class _Builder:
    """Draws steps, and counts the names of emits."""

    draw: Draw
    places: Sequence[vx.Topology]
    emits: int = 0

    def steps(self, pool: Pool, most: int, loops: int) -> None:
        """Adds up to `most` steps to the open graph and their values to the pool."""
        names = (*STEPS, *("unary", "binary", "emit") * 3, *("loop",) * (4 if loops else 0))
        for name in self.draw(st.lists(st.sampled_from(names), min_size=min(most, 3), max_size=most)):
            with _somewhere(self.draw, self.places):
                if name == "loop":
                    pool.extend(self.loop(pool, loops - 1))
                elif name == "emit":
                    self.emits += 1
                    vx.emit(f"emit{self.emits}", _newest(self.draw, pool))
                else:
                    pool.append(getattr(_Steps(self.draw, pool), name)())

    def loop(self, pool: Pool, loops: int) -> list[vx.Value]:
        """A loop over some of the pool's values: its outputs."""
        inits = self.draw(st.lists(st.sampled_from(pool[::-1]), min_size=1, max_size=3))

        def body(*carried: vx.Value) -> list[vx.Value]:
            inner = [*pool, *carried]
            self.steps(inner, 5, loops)
            stop = self.draw(st.sampled_from([None, True, inner[-1]]))
            if stop is not None:
                vx.stop(vx.constant(True) if stop is True else _holds(stop))
            return [_newest(self.draw, [v for v in inner if v.type == c.type]) for c in carried]

        limit = self.draw(st.sampled_from([None, *(v for v in pool if v.type == INDEX)]))
        outs, done = vx.loop(body, inits, max_steps=self.draw(st.integers(1, 3)), steps=limit)
        return [*outs, done]


def _holds(x: vx.Value) -> vx.Value:
    """A predicate of a value of any type: its first element is its own equal."""
    while x.dims:
        x = vx.max(x, axis=0)
    return x == x


# Text: what graphs may hold besides.

ODD = st.text(st.characters(), max_size=12)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,4}(\.[A-Za-z0-9_]{1,3}){0,2}", fullmatch=True)


@st.composite
def texts(draw: Draw) -> ir.Graph:
    """Graphs with ops that only passes write, odd reasons and lines, any names, and places of every kind."""
    g = draw(graphs())
    g = _renamed(g, draw)
    nodes = tuple(_odd(n, draw) for n in g.nodes)
    args = tuple(replace(i, loc=_loc(draw)) for i in g.args)
    source, x = g.args[0].name, g.args[0].type
    moves = [ops.Copy(), ops.Upload(vx.GPU[0]), ops.Download(vx.NPU[3]), ops.TransferPeer(vx.GPU[0], vx.GPU[1])]
    added = ir.Node(draw(st.sampled_from(moves)), (source,), ("added",), (x,), loc=_loc(draw))
    fused = ir.Node(ops.Fused("mul(silu(a), b)"), (source, source), ("fused.0",), (x,), loc=_loc(draw))
    outlets = tuple(replace(r, name=draw(ODD) + str(k)) for k, r in enumerate(g.results))
    return replace(g, name=draw(ODD), args=args, nodes=(*nodes, added, fused), results=outlets)


def _odd(node: ir.Node, draw: Draw) -> ir.Node:
    place = draw(st.sampled_from([node.place, vx.GPU[99], vx.NPU[0], vx.parse_topology("dsp#1000")]))
    return replace(node, place=place, why=draw(ODD), loc=_loc(draw))


def _loc(draw: Draw) -> Loc:
    return Loc(draw(st.text(st.characters(), min_size=1, max_size=8)), draw(st.integers(0, 10**6)))


def _renamed(g: ir.Graph, draw: Draw) -> ir.Graph:
    """The top level's values under other names."""
    values = [*(i.name for i in g.inputs), *(o for n in g.nodes for o in n.outputs)]
    fresh = draw(st.lists(NAMES.map(lambda n: n + ".z"), min_size=len(values), max_size=len(values), unique=True))
    to = dict(zip(values, fresh, strict=True))

    def node(n: ir.Node) -> ir.Node:
        return replace(n, inputs=tuple(to[i] for i in n.inputs), outputs=tuple(to[o] for o in n.outputs))

    return replace(
        g,
        args=tuple(replace(i, name=to[i.name]) for i in g.args),
        params=tuple(replace(i, name=to[i.name]) for i in g.params),
        nodes=tuple(map(node, g.nodes)),
        results=tuple(replace(r, value=to[r.value]) for r in g.results),
        emits=tuple(replace(r, value=to[r.value]) for r in g.emits),
    )
