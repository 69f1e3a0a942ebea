"""For any graph at any places: passes keep the meaning, bit for bit, and what placement promises holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vxgraph as vx
from tests.program.interpret import interpret
from tests.strategies import PLACES, arrays, graphs
from vxgraph import ops
from vxgraph.errors import PlacementError
from vxgraph.ir.graph import Graph, Node
from vxgraph.ir.types import Array
from vxgraph.ir.verify import verify
from vxgraph.passes.canonicalise import canonicalise
from vxgraph.passes.fuse import fuse
from vxgraph.passes.infer_placement import infer_placement
from vxgraph.passes.insert_transfers import insert_transfers
from vxgraph.passes.rewrite import names_of
from vxgraph.passes.verify_placement import verify_placement
from vxgraph.program.compile import pipeline, place_graph

X3, X8 = vx.load_machine("cpu-x3"), vx.load_machine("cpu-x8")
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=SLOW)
MACHINES = st.sampled_from([X3, X8])
SOME_PLACES = st.lists(st.sampled_from(PLACES), min_size=1, max_size=3, unique=True)
ANYWHERE = SOME_PLACES.flatmap(lambda places: graphs(places=places))


def bits(x: Array) -> tuple[object, ...]:
    """Dtype, shape and bytes; every NaN is one NaN."""
    x = np.array(x)
    if x.dtype.kind not in "iub":
        x[np.isnan(x)] = np.nan
    return x.dtype, x.shape, x.tobytes()


def meaning(graph: Graph) -> dict[str, tuple[object, ...]]:
    """Results and emits, as the ops' references give them."""
    args, params = arrays(graph)
    with np.errstate(all="ignore"):
        return {name: bits(x) for name, x in interpret(graph, args, params).items()}


def levels(graph: Graph) -> Iterator[Graph]:
    """The graph and its loops' bodies."""
    yield graph
    for _, node in graph.walk():
        yield from node.op.bodies


@given(ANYWHERE, MACHINES)
@QUICK
def test_every_pass_keeps_every_bit_and_leaves_its_input_alone(graph: Graph, machine: vx.Machine):
    wanted = meaning(graph)
    for step in pipeline(machine).passes:
        before = graph.text()
        after = step.run(graph)
        assert graph.text() == before, step.name
        verify(after)
        assert meaning(after) == wanted, step.name
        graph = after


@given(ANYWHERE, MACHINES)
@QUICK
def test_a_placed_graph_is_local_and_keeps_its_outlets(graph: Graph, machine: vx.Machine):
    placed = place_graph(graph, machine)
    verify_placement(placed)
    assert [r.name for r in placed.results] == [r.name for r in graph.results]
    assert emits(placed) == emits(graph)
    assert [(i.name, i.type) for i in placed.inputs] == [(i.name, i.type) for i in graph.inputs]
    assert [node.name for _, node in placed.walk() if node.place is not None and not machine.has(node.place)] == []


def emits(graph: Graph) -> list[str]:
    return sorted(e.name for g in levels(graph) for e in g.emits)


def moves(graph: Graph) -> list[Node]:
    """The transfers that the compiler made."""
    found = [n for n in graph.nodes if isinstance(n.op, ops.Upload | ops.Download | ops.TransferPeer)]
    return [n for n in found if not getattr(n.op, "explicit", False)]


@given(ANYWHERE, MACHINES)
@QUICK
def test_a_value_is_moved_to_a_place_once(graph: Graph, machine: vx.Machine):
    local = insert_transfers(infer_placement(graph, machine))
    for stage in (local, place_graph(graph, machine)):
        for g in levels(stage):
            counts = Counter((n.inputs[0], n.place) for n in moves(g))
            assert {key: n for key, n in counts.items() if n > 1} == {}


@given(ANYWHERE, MACHINES)
@QUICK
def test_a_name_of_the_users_stays_and_a_new_one_is_free(graph: Graph, machine: vx.Machine):
    local = insert_transfers(infer_placement(graph, machine))
    assert names_of(graph) <= names_of(local)
    verify(local)


def without(graph: Graph, move: Node) -> Graph:
    """The graph whose readers of a transfer read its operand instead, where it is foreign."""
    (old,), (new,) = move.outputs, move.inputs

    def level(g: Graph) -> Graph:
        nodes = tuple(
            replace(
                n,
                inputs=tuple(new if i == old else i for i in n.inputs),
                op=replace(n.op, body=level(n.op.body)) if isinstance(n.op, ops.Loop) else n.op,
            )
            for n in g.nodes
            if n is not move
        )
        renamed = (
            tuple(replace(r, value=new if r.value == old else r.value) for r in rs) for rs in (g.results, g.emits)
        )
        results, emits = renamed
        return replace(g, nodes=nodes, results=results, emits=emits)

    return level(graph)


def is_read(graph: Graph, value: str) -> bool:
    return any(value in {i for n in g.nodes for i in n.inputs} | {r.value for r in g.outlets} for g in levels(graph))


@given(ANYWHERE, MACHINES, st.data())
@QUICK
def test_the_proof_refuses_a_graph_without_one_of_its_transfers(graph: Graph, machine: vx.Machine, data: st.DataObject):
    stage = data.draw(st.sampled_from([place_graph(graph, machine), insert_transfers(infer_placement(graph, machine))]))
    candidates = [n for g in levels(stage) for n in moves(g) if is_read(stage, n.name)]
    for move in candidates[:12]:
        with pytest.raises(PlacementError):
            verify_placement(without(stage, move))


@given(graphs())
@QUICK
def test_canonicalising_and_fusing_twice_changes_nothing(graph: Graph):
    once = canonicalise(graph)
    assert canonicalise(once).text() == once.text()
    placed = place_graph(graph, X3)
    assert fuse(placed).text() == placed.text()


@given(graphs(places=PLACES[:1]))
@QUICK
def test_a_graph_of_one_place_has_no_peer_transfer(graph: Graph):
    one = vx.load_machine("cpu")
    found = [n for _, n in place_graph(_no_to(graph), one).walk() if isinstance(n.op, ops.TransferPeer)]
    assert found == []


def _no_to(graph: Graph) -> Graph:
    """Explicit transfers as copies, so that nothing asks for another place."""
    nodes = []
    for n in graph.nodes:
        if isinstance(n.op, ops.Loop):
            n = replace(n, op=replace(n.op, body=_no_to(n.op.body)))
        nodes.append(replace(n, op=ops.Copy()) if isinstance(n.op, ops.To) else n)
    return replace(graph, nodes=tuple(nodes))
