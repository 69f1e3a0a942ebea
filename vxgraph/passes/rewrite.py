"""What passes share: renaming operands, and going into loops' bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vxgraph.ir.graph import Graph, Node, Result
from vxgraph.ir.op import Effect, Op
from vxgraph.ops.cache import CacheInit
from vxgraph.ops.create import Constant
from vxgraph.ops.loop import Loop
from vxgraph.ops.transfer import Download, TransferPeer, Upload

Renames = Mapping[str, str]


def renamed(node: Node, names: Renames) -> Node:
    """The node reading the new names; the same object where nothing changes."""
    if not any(i in names for i in node.inputs):
        return node
    return replace(node, inputs=tuple(names.get(i, i) for i in node.inputs))


def renamed_outlets(outlets: tuple[Result, ...], names: Renames) -> tuple[Result, ...]:
    """Results or emits naming the new values."""
    return tuple(Result(r.name, names.get(r.value, r.value)) for r in outlets)


def map_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with every loop's body changed, inner ones first."""
    if not any(node.op.bodies for node in graph.nodes):
        return graph
    nodes = tuple(_with_body(node, change) if isinstance(node.op, Loop) else node for node in graph.nodes)
    return replace(graph, nodes=nodes)


def _with_body(node: Node, change: Callable[[Graph], Graph]) -> Node:
    assert isinstance(node.op, Loop)
    return replace(node, op=replace(node.op, body=change(map_bodies(node.op.body, change))))


def drop_unused_captures(node: Node) -> Node:
    """A loop node whose body takes only the captures that it reads."""
    loop = node.op
    assert isinstance(loop, Loop)
    body = loop.body
    read = {i for n in body.nodes for i in n.inputs} | {r.value for r in body.outlets}
    keep = [k < loop.carried or arg.name in read for k, arg in enumerate(body.args)]
    if all(keep):
        return node
    args = tuple(arg for arg, kept in zip(body.args, keep, strict=True) if kept)
    inputs = tuple(v for k, v in enumerate(node.inputs) if k >= len(keep) or keep[k])
    return replace(node, op=replace(loop, body=replace(body, args=args)), inputs=inputs)


def same_op(op: Op) -> object:
    """A key that equal ops share. repr tells a constant's 0.0 from -0.0, which compare equal."""
    return repr(op) if isinstance(op, Constant) else op


def is_shareable(op: Op) -> bool:
    """Whether one node can stand for two: pure and no buffer to write into (an empty cache), or no user's transfer."""
    match op:
        case Upload() | TransferPeer():
            return not op.explicit
        case Download():
            return True
        case _:
            return op.effect is Effect.PURE and not isinstance(op, CacheInit)


def names_of(graph: Graph) -> set[str]:
    """Every value name of a graph and its bodies."""
    found = {i.name for i in graph.inputs}
    for _, node in graph.walk():
        found.update(node.outputs)
        for body in node.op.bodies:
            found.update(i.name for i in body.inputs)
    return found


class FreshNames:
    """Names for values that passes make: `base`, or `base.1`, `base.2`, ... where that is taken."""

    def __init__(self, graph: Graph) -> None:
        self._taken = names_of(graph)
        self._counts: dict[str, int] = {}

    def __call__(self, base: str) -> str:
        """Takes and gives a name."""
        name = base
        while name in self._taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}.{self._counts[base]}"
        self._taken.add(name)
        return name
