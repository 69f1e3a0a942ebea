"""The proof that every operand is local, by another road than the inserter's.

Where a value is follows from its definition alone: inputs are on the host, a body's args where the body says, a
download's result on the host, everything else where its node runs. Then every reader is asked where it wants it.
"""

from __future__ import annotations

from vxgraph import ops
from vxgraph.errors import PlacementError
from vxgraph.ir.graph import Graph, Node
from vxgraph.topology.ids import Topology

Place = Topology | None


def verify_placement(graph: Graph) -> Graph:
    """The same graph; PlacementError that names the reader, the operand and both places where one is foreign."""
    _verify(graph, {i.name: None for i in graph.inputs})
    for r in graph.results:
        _on_host(graph, r.value, f"result {r.name!r}")
    return graph


def _verify(graph: Graph, at: dict[str, Place]) -> None:
    for node in graph.nodes:
        for name, wanted in _wanted(node):
            if at[name] != wanted:
                raise PlacementError(
                    f"%{node.name} = {node.op.name} reads %{name} at {_show(wanted)}, but it is at {_show(at[name])}",
                    loc=node.loc,
                )
        _define(node, at)
        if isinstance(node.op, ops.Loop):
            _verify_body(node, node.op)
    for r in graph.emits:
        if at[r.value] is not None:
            raise PlacementError(f"emit {r.name!r} wants %{r.value} on the host, but it is at {at[r.value]}")


def _wanted(node: Node) -> list[tuple[str, Place]]:
    match node.op:
        case ops.Upload():
            return [(node.inputs[0], None)]
        case ops.Download(src=src) | ops.TransferPeer(src=src):
            return [(node.inputs[0], src)]
        case ops.Loop():
            places: list[Place] = [arg.place for arg in node.op.body.args]
            return list(zip(node.inputs, places + [None] * node.op.limited, strict=True))
        case _:
            return [(i, node.place) for i in node.inputs]


def _define(node: Node, at: dict[str, Place]) -> None:
    match node.op:
        case ops.Upload(dst=dst) | ops.TransferPeer(dst=dst):
            if node.place != dst:
                raise PlacementError(f"%{node.name} goes to {dst}, but stands at {_show(node.place)}", loc=node.loc)
            at[node.name] = dst
        case ops.Download():
            at[node.name] = None
        case ops.Loop():
            at.update((out, arg.place) for out, arg in zip(node.outputs, node.op.carried_args, strict=False))
            at[node.outputs[-1]] = None
        case _:
            if node.place is None:
                raise PlacementError(f"%{node.name} = {node.op.name} has no place", loc=node.loc)
            at.update((out, node.place) for out in node.outputs)


def _verify_body(node: Node, loop: ops.Loop) -> None:
    at: dict[str, Place] = {arg.name: arg.place for arg in loop.body.args}
    _verify(loop.body, at)
    for arg, value in zip(loop.carried_args, loop.next_values, strict=True):
        if at[value] != arg.place:
            raise PlacementError(
                f"the next step of loop %{node.outputs[-1]} reads %{arg.name} at {_show(arg.place)}, "
                f"but %{value} is at {_show(at[value])}",
                loc=node.loc,
            )
    if loop.stop is not None and at[loop.stop] is not None:
        raise PlacementError(f"the stop predicate %{loop.stop} is at {at[loop.stop]}, not on the host", loc=node.loc)


def _on_host(graph: Graph, value: str, what: str) -> None:
    node = graph.producers.get(value)
    if node is None or isinstance(node.op, ops.Download):
        return
    if isinstance(node.op, ops.Loop) and value == node.outputs[-1]:
        return
    raise PlacementError(f"{what} wants %{value} on the host, but it is at {_show(node.place)}", loc=node.loc)


def _show(place: Place) -> str:
    return "the host" if place is None else str(place)
