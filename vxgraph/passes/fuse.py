"""Elementwise ops that feed one another become one, inside one place only.

    %s = silu(%gate) @gpu:0
    %a = mul(%s, %up) @gpu:0        ->        %a = fused(%gate, %up) {expr = "mul(silu(a), b)"} @gpu:0

A value is folded into its reader where that reader is its only one, at the same place and of the same type.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace

from vxgraph import ops
from vxgraph.ir.graph import Graph, Node
from vxgraph.ops.fused import MAX_DEPTH, Expr
from vxgraph.passes.rewrite import map_bodies

MAX_OPERANDS = 6


@dataclass(frozen=True, slots=True)
class _Chain:
    """A fusible value as an expression over `operands`; `depth` counts the ops on its longest path."""

    expr: Expr
    operands: tuple[str, ...]
    depth: int


def fuse(graph: Graph) -> Graph:
    """Chains of elementwise ops as `fused` nodes, in the graph and in its loops' bodies."""
    return _fuse(map_bodies(graph, _fuse))


def _fuse(graph: Graph) -> Graph:
    readers = Counter(i for node in graph.nodes for i in node.inputs)
    readers.update(r.value for r in graph.outlets)
    found: dict[str, _Chain] = {}
    swallowed: set[str] = set()
    for node in graph.nodes:
        if _fusible(node):
            found[node.name] = _chain(node, graph, found, readers, swallowed)
    nodes = (_emit(node, found) for node in graph.nodes if node.name not in swallowed)
    return replace(graph, nodes=tuple(nodes))


def _fusible(node: Node) -> bool:
    return node.op.elementwise and not fields(node.op)


def _chain(node: Node, graph: Graph, found: dict[str, _Chain], readers: Counter[str], swallowed: set[str]) -> _Chain:
    """The node over the deepest operands that fit, marking what it swallows."""
    operands: list[str] = []
    parts: list[Expr] = []
    depth = 0
    spare = MAX_OPERANDS - len(set(node.inputs))
    for name in node.inputs:
        inner = found.get(name)
        grows = len(inner.operands) - 1 if inner else 0
        if inner and readers[name] == 1 and grows <= spare and inner.depth < MAX_DEPTH and _same(node, name, graph):
            spare -= grows
            depth = max(depth, inner.depth)
            swallowed.add(name)
            parts.append(_rebased(inner, operands))
        else:
            parts.append(Expr(None, (), _index(name, operands)))
    return _Chain(Expr(node.op, tuple(parts)), tuple(operands), depth + 1)


def _same(node: Node, name: str, graph: Graph) -> bool:
    producer = graph.producers[name]
    return producer.place == node.place and producer.types[0] == node.types[0]


def _rebased(inner: _Chain, operands: list[str]) -> Expr:
    if not operands:
        operands.extend(inner.operands)
        return inner.expr
    return inner.expr.fold(
        lambda i: Expr(None, (), _index(inner.operands[i], operands)), lambda op, parts: Expr(op, tuple(parts))
    )


def _index(name: str, operands: list[str]) -> int:
    if name not in operands:
        operands.append(name)
    return operands.index(name)


def _emit(node: Node, found: dict[str, _Chain]) -> Node:
    chain = found.get(node.name)
    if chain is None or chain.depth < 2:
        return node
    return replace(node, op=ops.Fused(expr=str(chain.expr)), inputs=chain.operands)
