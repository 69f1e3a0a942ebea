"""The graph: flat, immutable, named SSA.

    graph "mlp" {
      arg %x : f32[1, 64]
      param %w : f32[64, 256]
      %matmul = matmul(%x, %w) : f32[1, 256] @gpu:0
      result "y" = %matmul
    }

Values are named; a name in text is the name in errors, drawings, traces and memory maps. Results and emits have
external names, apart from values. Place `None` is "not placed yet" before placement, and the host afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from vxgraph.display import Displayed
from vxgraph.errors import GraphError, Loc
from vxgraph.ir.op import Op
from vxgraph.ir.types import Dim, TensorType, dims_in
from vxgraph.topology.ids import Topology


@dataclass(frozen=True, slots=True)
class Input:
    """A value that comes from outside: an arg (per call) or a param (resident)."""

    name: str
    type: TensorType
    place: Topology | None = None
    loc: Loc | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Node:
    """One op applied. `place` is a pin (or, later, the decision), `hint` a wish, `why` the reason of the decision."""

    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: tuple[TensorType, ...]
    place: Topology | None = None
    hint: Topology | None = None
    why: str = field(default="", compare=False)
    loc: Loc | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The node's name: that of its first output."""
        return self.outputs[0]

    def at(self, place: Topology, why: str) -> Node:
        """The same node, placed."""
        return replace(self, place=place, why=why)


@dataclass(frozen=True, slots=True)
class Result:
    """A value under its external name."""

    name: str
    value: str


@dataclass(frozen=True)
class Graph(Displayed):
    """Args, params, nodes in an order in which every operand comes first, results, and values emitted as they come."""

    name: str
    args: tuple[Input, ...] = ()
    params: tuple[Input, ...] = ()
    nodes: tuple[Node, ...] = ()
    results: tuple[Result, ...] = ()
    emits: tuple[Result, ...] = ()

    @cached_property
    def types(self) -> dict[str, TensorType]:
        """The type of every value of this graph (not of its loops' bodies)."""
        types = {i.name: i.type for i in self.inputs}
        for node in self.nodes:
            types.update(zip(node.outputs, node.types, strict=True))
        return types

    @cached_property
    def producers(self) -> dict[str, Node]:
        """The node that defines each value that is no input."""
        return {out: node for node in self.nodes for out in node.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read each value, in order, once each."""
        found: dict[str, dict[int, Node]] = {name: {} for name in self.types}
        for i, node in enumerate(self.nodes):
            for name in node.inputs:
                found[name][i] = node
        return {name: tuple(nodes.values()) for name, nodes in found.items()}

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Args, then params."""
        return self.args + self.params

    @property
    def outlets(self) -> tuple[Result, ...]:
        """Results, then emits: all that leaves the graph."""
        return self.results + self.emits

    def node(self, name: str) -> Node:
        """The node that defines value `name`; GraphError where there is none."""
        if name not in self.producers:
            raise GraphError(f"graph {self.name!r} has no node that defines %{name}")
        return self.producers[name]

    def walk(self) -> Iterator[tuple[Graph, Node]]:
        """Every node with the graph that holds it, loops' bodies after their loop."""
        pending: list[tuple[Graph, Iterator[Node]]] = [(self, iter(self.nodes))]
        while pending:
            graph, nodes = pending[-1]
            node = next(nodes, None)
            if node is None:
                pending.pop()
                continue
            yield graph, node
            pending.extend((body, iter(body.nodes)) for body in node.op.bodies)

    def text(self) -> str:
        """The graph as text; `vxgraph.parse_graph` reads it back."""
        from vxgraph.ir.text import print_graph  # ir/text prints graphs, so it comes after this module

        return print_graph(self)


def dims_of(graph: Graph) -> list[Dim]:
    """Every named dim of a graph and its loops' bodies, by first appearance."""
    found: dict[Dim, None] = {}
    for g in (graph, *(body for _, node in graph.walk() for body in node.op.bodies)):
        for i in g.inputs:
            found.update(dict.fromkeys(dims_in(i.type)))
    for _, node in graph.walk():
        for value in (*vars(node.op).values(), *node.types):
            if named := dims_in(value):
                found.update(dict.fromkeys(named))
    return list(found)
