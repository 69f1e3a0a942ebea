"""Elementwise ops that feed one another become one, inside one place only.

    %s = silu(%gate) @gpu:0
    %a = mul(%s, %up) @gpu:0        ->        %a = fused(%gate, %up) {expr = "mul(silu(a), b)"} @gpu:0

A value is folded into its reader where that reader is its only one, at the same place and of the same type.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

from vxgraph import ops
from vxgraph.ir.graph import Graph, Node
from vxgraph.ops.fused import Expr
from vxgraph.passes.rewrite import map_bodies

MAX_OPERANDS = 6


def fuse(graph: Graph) -> Graph:
    """Chains of elementwise ops as `fused` nodes, in the graph and in its loops' bodies."""
    return _fuse(map_bodies(graph, _fuse))


def _fuse(graph: Graph) -> Graph:
    readers = Counter(i for node in graph.nodes for i in node.inputs)
    readers.update(r.value for r in graph.outlets)
    found: dict[str, tuple[Expr, tuple[str, ...]]] = {}  # fusible value -> its expression and the operands of that
    swallowed: set[str] = set()
    for node in graph.nodes:
        if _fusible(node):
            found[node.name] = _expression(node, graph, found, readers, swallowed)
    nodes = (_emit(node, found) for node in graph.nodes if node.name not in swallowed)
    return replace(graph, nodes=tuple(nodes))


def _fusible(node: Node) -> bool:
    return node.op.elementwise and not fields(node.op)


def _expression(
    node: Node,
    graph: Graph,
    found: dict[str, tuple[Expr, tuple[str, ...]]],
    readers: Counter[str],
    swallowed: set[str],
) -> tuple[Expr, tuple[str, ...]]:
    """The node over the deepest operands that fit, marking what it swallows."""
    operands: list[str] = []
    parts: list[Expr] = []
    spare = MAX_OPERANDS - len(set(node.inputs))
    for name in node.inputs:
        inner = found.get(name)
        grows = len(set(inner[1])) - 1 if inner else 0
        if inner and readers[name] == 1 and grows <= spare and _same(node, name, graph):
            spare -= grows
            swallowed.add(name)
            parts.append(_rebased(inner[0], inner[1], operands))
        else:
            parts.append(Expr(None, (), _index(name, operands)))
    return Expr(node.op, tuple(parts)), tuple(operands)


def _same(node: Node, name: str, graph: Graph) -> bool:
    producer = graph.producers[name]
    return producer.place == node.place and producer.types[0] == node.types[0]


def _rebased(expr: Expr, names: tuple[str, ...], operands: list[str]) -> Expr:
    return expr.fold(lambda i: Expr(None, (), _index(names[i], operands)), lambda op, parts: Expr(op, tuple(parts)))


def _index(name: str, operands: list[str]) -> int:
    if name not in operands:
        operands.append(name)
    return operands.index(name)


def _emit(node: Node, found: dict[str, tuple[Expr, tuple[str, ...]]]) -> Node:
    if node.name not in found or found[node.name][0].size < 2:
        return node
    expr, operands = found[node.name]
    return replace(node, op=ops.Fused(expr=str(expr)), inputs=operands)
