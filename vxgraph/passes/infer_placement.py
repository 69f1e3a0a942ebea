"""Where each node runs, with the reason.

    1. its pin (vx.on), which is hard
    2. its hint (vx.prefer)
    3. where most of its input bytes are (ties: the lowest id)
    4. where its first reader runs
    5. the machine's first device

A loop's body is placed on its own; a carried value lives where the step that makes it runs, so that handing it to the
next step moves nothing. Only a body without pins or hints of its own follows the values that it is given.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from vxgraph import ops
from vxgraph.errors import PlacementError
from vxgraph.ir.graph import Graph, Input, Node
from vxgraph.topology.ids import Topology
from vxgraph.topology.model import Machine

Places = dict[str, Topology]


def infer_placement(graph: Graph, machine: Machine, *, strict: bool = False) -> Graph:
    """Every node placed. PlacementError for a place that the machine lacks, or (strict) a node without a pin."""
    check_places(graph, machine)
    if strict:
        _check_strict(graph)
    return _Placer(_first_device(machine)).place(graph, {i.name: i.place for i in graph.inputs if i.place is not None})


def _first_device(machine: Machine) -> Topology:
    devices = machine.accelerators
    return devices[0].topology if devices else machine.topologies[0]


def check_places(graph: Graph, machine: Machine) -> None:
    """PlacementError where a pin, a hint or an explicit transfer names a place that the machine lacks."""
    available = ", ".join(map(str, machine.topologies))

    def check(name: str, verb: str, place: Topology | None, loc: object) -> None:
        if place is not None and not machine.has(place):
            raise PlacementError(
                f"%{name} is {verb} {place}, but machine {machine.name} has {available}; "
                "pin it to one of these, or compile for a machine that has it",
                loc=loc,  # type: ignore[arg-type]  # a Loc or None
            )

    for i in graph.inputs:
        check(i.name, "pinned to", i.place, i.loc)
    for _, node in graph.walk():
        check(node.name, "pinned to", node.place, node.loc)
        check(node.name, "hinted to", node.hint, node.loc)
        if isinstance(node.op, ops.To):
            check(node.name, "sent to", node.op.dst, node.loc)


def _check_strict(graph: Graph) -> None:
    free = [n for _, n in graph.walk() if n.place is None and n.inputs and not isinstance(n.op, ops.Loop | ops.To)]
    if free:
        shown = tuple(f"{n.loc}: %{n.name} = {n.op.name}" for n in free[:8])
        more = (f"and {len(free) - 8} more",) if len(free) > 8 else ()
        raise PlacementError(
            f"strict placement: {len(free)} node(s) of graph {graph.name!r} have no pin; "
            "put them under vx.on(...), or compile with place='auto'",
            details=shown + more,
        )


class _Placer:
    """Places one graph at a time; holds the device of last resort."""

    def __init__(self, default: Topology) -> None:
        self.default = default

    def place(self, graph: Graph, known: Places) -> Graph:
        """`known` are places of inputs; carried and captured values of loops follow from it."""
        places = dict(known)
        nodes = [self._forward(node, graph, places) for node in graph.nodes]
        wanted = _Wanted()
        for k in range(len(nodes) - 1, -1, -1):
            nodes[k] = self._backward(nodes[k], wanted)
        return replace(graph, nodes=tuple(nodes))

    def _forward(self, node: Node, graph: Graph, places: Places) -> Node:
        if isinstance(node.op, ops.Loop):
            node = self._loop(node, node.op, places)
            assert isinstance(node.op, ops.Loop)
            outs = zip(node.outputs, node.op.carried_args, strict=False)
            places.update((out, arg.place) for out, arg in outs if arg.place is not None)
            return node
        place, why = _decide(node, graph, places)
        if place is None:
            return node
        places.update((out, place) for out in node.outputs)
        return node.at(place, why)

    def _backward(self, node: Node, wanted: _Wanted) -> Node:
        if isinstance(node.op, ops.Loop):
            wanted.see_loop(node, node.op)
            return node
        if node.place is None:
            reader = wanted.first_reader(node)
            if reader is None:
                node = node.at(self.default, "nothing says otherwise: the machine's first device")
            else:
                node = node.at(reader[1], f"its first reader %{reader[0]} runs there")
        wanted.see(node)
        return node

    def _loop(self, node: Node, loop: ops.Loop, places: Places) -> Node:
        operands = zip(loop.body.args, node.inputs, strict=False)
        guided = _has_wishes(loop.body)
        known = {} if guided else {arg.name: places[v] for arg, v in operands if v in places}
        body = self.place(loop.body, known)
        made = {out: n.place for n in body.nodes for out in n.outputs if not isinstance(n.op, ops.Loop)}
        for n in body.nodes:
            if isinstance(n.op, ops.Loop):
                made.update(zip(n.outputs, (a.place for a in n.op.carried_args), strict=False))
        args = [
            replace(arg, place=self._carried_place(arg, init, value, body, made, places))
            for arg, init, value in zip(loop.carried_args, node.inputs, loop.next_values, strict=False)
        ]
        body = replace(body, args=(*args, *loop.captures))
        return replace(node, op=replace(loop, body=body))

    def _carried_place(
        self, arg: Input, init: str, value: str, body: Graph, made: dict[str, Topology | None], places: Places
    ) -> Topology:
        """Where the next value is made; for one that is only handed through, where it is read, or was."""
        place = made.get(value)
        if place is None:
            readers = (n.place for n in body.consumers[arg.name] if n.place is not None)
            place = next(readers, places.get(init))
        return self.default if place is None else place


def _decide(node: Node, graph: Graph, places: Places) -> tuple[Topology | None, str]:
    if isinstance(node.op, ops.To):
        return node.op.dst, "sent there by .to()"
    if node.place is not None:
        return node.place, "pinned by vx.on"
    if node.hint is not None:
        return node.hint, "preferred by vx.prefer"
    weights: dict[Topology, int] = defaultdict(int)
    for name in dict.fromkeys(node.inputs):
        if name in places:
            weights[places[name]] += graph.types[name].max_bytes
    if not weights:
        return None, ""
    place = min(weights, key=lambda p: (-weights[p], p))
    return place, f"{weights[place]} of its {sum(weights.values())} placed input bytes are there"


def _has_wishes(body: Graph) -> bool:
    return any(n.place is not None or n.hint is not None or isinstance(n.op, ops.To) for _, n in body.walk())


class _Wanted:
    """Where values are read first, learnt by walking backwards: the last word is the earliest reader's."""

    def __init__(self) -> None:
        self._at: dict[str, tuple[str, Topology]] = {}

    def first_reader(self, node: Node) -> tuple[str, Topology] | None:
        return next((self._at[out] for out in node.outputs if out in self._at), None)

    def see(self, node: Node) -> None:
        place = None if isinstance(node.op, ops.To) else node.place
        if place is not None:
            self._at.update((i, (node.name, place)) for i in node.inputs)

    def see_loop(self, node: Node, loop: ops.Loop) -> None:
        for arg, value in zip(loop.body.args, node.inputs, strict=False):
            place = arg.place
            if place is None:
                place = next((n.place for n in loop.body.consumers[arg.name] if n.place is not None), None)
            if place is not None:
                self._at[value] = (node.name, place)
