"""What hypothesis draws for property tests: the recipes of `tests.generative`, their graphs, and odd texts.

    @given(graphs(places=[CPU[0], CPU[1]]))       graphs that compile and can be run (see `arrays`)
    @given(texts())                               graphs with odd reasons, lines and names, for the text format

There is one generator, in `tests/generative`. Here its random numbers are hypothesis's own, which makes them smaller
where a test fails; that takes twenty times as long as `recipe_of(seed)`, and is for tests of tens of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import vxgraph as vx
from tests.generative import build
from tests.generative.recipe import Recipe, T, draw
from vxgraph import ops
from vxgraph.errors import Loc
from vxgraph.ir import graph as ir
from vxgraph.ir.types import Array

__all__ = ["PLACES", "T", "arrays", "graphs", "recipes", "texts"]

PLACES = tuple(vx.CPU[i] for i in range(3))
SIZES = (3, 2)  # of T and L in a run

Draw = Callable[[st.SearchStrategy[Any]], Any]


def recipes(*, max_steps: int = 9, loops: int = 2) -> st.SearchStrategy[Recipe]:
    """Recipes of up to `max_steps` steps, with loops in loops `loops` deep."""
    return st.randoms(use_true_random=False).map(lambda rng: draw(rng, max_steps=max_steps, loops=loops))


def graphs(
    *, places: Sequence[vx.Topology] = PLACES, max_steps: int = 9, loops: int = 2
) -> st.SearchStrategy[ir.Graph]:
    """Graphs whose steps are pinned to `places`, hinted to them, or free."""
    return recipes(max_steps=max_steps, loops=loops).map(lambda recipe: build.build(recipe, places))


def arrays(graph: ir.Graph, seed: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
    """Args and params for a run of a graph of this module."""
    return build.arrays(graph, SIZES, seed), build.params(graph, seed)


# Text: what graphs may hold besides.

ODD = st.text(st.characters(), max_size=12)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,4}(\.[A-Za-z0-9_]{1,3}){0,2}", fullmatch=True)


@st.composite
def texts(draw: Draw) -> ir.Graph:
    """Graphs with ops that only passes write, odd reasons and lines, any names, and places of every kind."""
    g = draw(graphs())
    g = _renamed(g, draw)
    nodes = tuple(_odd(n, draw) for n in g.nodes)
    args = (*(replace(i, loc=_loc(draw)) for i in g.args), ir.Input("arg.added", vx.f32[T, 3], None, _loc(draw)))
    source, x = args[-1].name, args[-1].type
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
