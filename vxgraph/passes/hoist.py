"""What is the same in every step leaves the loop.

    loop body:  %w.gpu1 = upload(%w.in)      ->      %w.gpu1 = upload(%w)
                                                     loop body captures %w.gpu1

Moves of captured values, and what has no operands (constants, iotas), run once before the loop. A move that the graph
around the loop makes already is used instead of a second one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from vxgraph import ops
from vxgraph.errors import Loc
from vxgraph.ir.graph import Graph, Input, Node
from vxgraph.ir.op import Effect
from vxgraph.passes.rewrite import FreshNames, drop_unused_captures, is_shareable, renamed, renamed_outlets, same_op

Key = tuple[object, tuple[str, ...], object]


def hoist(graph: Graph) -> Graph:
    """Loop-invariant transfers leave the loop, from the innermost loop outwards."""
    return _hoist(graph, FreshNames(graph))


def _hoist(graph: Graph, fresh: FreshNames) -> Graph:
    if not any(isinstance(node.op, ops.Loop) for node in graph.nodes):
        return graph
    made: dict[Key, str] = {}
    locs: dict[str, Loc | None] = {i.name: i.loc for i in graph.inputs}
    nodes: list[Node] = []
    for node in graph.nodes:
        locs.update((out, node.loc) for out in node.outputs)
        if isinstance(node.op, ops.Loop):
            lifted = _Lift(node, made, locs, fresh)
            nodes += lifted.before
            node = lifted.loop_node
        elif _movable(node):
            made.setdefault(_key(node), node.name)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _key(node: Node) -> Key:
    return same_op(node.op), node.inputs, node.place


def _movable(node: Node) -> bool:
    return node.op.effect is Effect.MOVES or (not node.inputs and is_shareable(node.op))


@dataclass
class _Lift:
    """One loop: the nodes that go before it, and the loop without them."""

    node: Node
    made: dict[Key, str]
    locs: dict[str, Loc | None]  # of the values around the loop
    fresh: FreshNames
    before: list[Node] = field(default_factory=list[Node])

    def __post_init__(self) -> None:
        loop = self.node.op
        assert isinstance(loop, ops.Loop)
        body = _hoist(loop.body, self.fresh)
        outer = dict(zip((a.name for a in loop.captures), self.node.inputs[loop.carried :], strict=False))
        captures: dict[str, tuple[Input, str]] = {}  # outer value -> the body's new arg, for one new arg each
        names: dict[str, str] = {}
        kept: list[Node] = []
        for n in body.nodes:
            if _movable(n) and all(i in outer for i in n.inputs):
                value = self._lift(n, outer)
                arg, _ = captures.setdefault(value, (Input(n.name, n.types[0], n.place, n.loc), value))
                names[n.name] = arg.name
                outer[arg.name] = value
            else:
                kept.append(renamed(n, names))
        new = [arg for arg, _ in captures.values()]
        body = replace(
            body,
            args=(*body.args, *new),
            nodes=tuple(kept),
            results=renamed_outlets(body.results, names),
            emits=renamed_outlets(body.emits, names),
        )
        limit = self.node.inputs[len(loop.body.args) :]
        inputs = (*self.node.inputs[: len(loop.body.args)], *captures, *limit)
        self.loop_node = drop_unused_captures(replace(self.node, op=replace(loop, body=body), inputs=inputs))

    def _lift(self, n: Node, outer: dict[str, str]) -> str:
        """The name outside of what `n` makes inside; a move is named after what it moves, and has its line."""
        lifted = replace(n, inputs=tuple(outer[i] for i in n.inputs))
        key = _key(lifted)
        if key not in self.made:
            name, loc = f"{n.name}.pre", n.loc
            if n.inputs and n.name.startswith(f"{n.inputs[0]}."):
                name = outer[n.inputs[0]] + n.name.removeprefix(n.inputs[0])
                loc = self.locs.get(outer[n.inputs[0]], loc)
            self.made[key] = self.fresh(name)
            self.before.append(replace(lifted, outputs=(self.made[key],), loc=loc))
        return self.made[key]
