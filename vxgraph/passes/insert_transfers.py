"""Makes every operand local: one transfer per (value, destination), put right after the value is made.

    %h = silu(%mm) @gpu:0                          %h = silu(%mm) @gpu:0
    %y = matmul(%h, %w) @gpu:1           ->        %h.gpu1 = transfer_peer(%h) {src = gpu:0, dst = gpu:1} @gpu:1
                                                   %w.gpu1 = upload(%w) {dst = gpu:1} @gpu:1
                                                   %y = matmul(%h.gpu1, %w.gpu1) @gpu:1

Args and params live on the host until they are uploaded where they are read; an arg that is pinned is uploaded to its
pin and moved on from there. Results, emits, a loop's limit and its stop predicate are downloaded. What has no operands
(a constant, an iota) is made again at each place instead of being moved. Carried values are brought to where the body
wants them; captures are moved inside the body, and `hoist` lifts that out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vxgraph import ops
from vxgraph.ir.graph import Graph, Input, Node, Result
from vxgraph.ir.op import Effect, Op
from vxgraph.passes.rewrite import FreshNames, renamed_outlets
from vxgraph.topology.ids import Topology

Place = Topology | None  # None is the host


def insert_transfers(graph: Graph) -> Graph:
    """A placed graph in, a local graph out. Its inputs lose their places: they are on the host."""
    unplaced = replace(
        graph,
        args=tuple(replace(i, place=None) for i in graph.args),
        params=tuple(replace(i, place=None) for i in graph.params),
    )
    inserter = _Inserter(unplaced, FreshNames(graph), homes={}, result_places=[None] * len(graph.results))
    return inserter.run(pinned=graph.inputs)


class _Inserter:
    """One graph or body. `homes` says where inputs are (else: the host), `result_places` where results are wanted."""

    def __init__(
        self, graph: Graph, fresh: FreshNames, *, homes: Mapping[str, Place], result_places: Sequence[Place]
    ) -> None:
        self.graph = graph
        self.fresh = fresh
        self.result_places = result_places
        self.home: dict[str, Place] = {i.name: homes.get(i.name) for i in graph.inputs}
        self.needs: dict[str, dict[Place, str]] = {}  # value -> place -> why
        self.local: dict[tuple[str, Place], str] = {}  # (value, place) -> its name there

    def run(self, pinned: Sequence[Input]) -> Graph:
        """The graph with every need met."""
        for i in pinned:
            if i.place is not None:
                self._need(i.name, i.place, "pinned by vx.on")
        for node in self.graph.nodes:
            self._see(node)
        for r in self.graph.emits:
            self._need(r.value, None, f"emitted as {r.name!r}")
        for r, place in zip(self.graph.results, self.result_places, strict=True):
            self._need(r.value, place, f"result {r.name!r}" if place is None else f"next step's {r.name!r} is there")
        args = {i.name for i in self.graph.args}
        hubs = {i.name: i.place for i in pinned if i.place is not None and i.name in args}
        nodes = tuple(self._build(hubs))
        on_host = {value: self.local[value, None] for value in self.home if (value, None) in self.local}
        results = tuple(
            Result(r.name, self._name(r.value, place))
            for r, place in zip(self.graph.results, self.result_places, strict=True)
        )
        return replace(self.graph, nodes=nodes, results=results, emits=renamed_outlets(self.graph.emits, on_host))

    def _name(self, value: str, place: Place) -> str:
        return value if self.home[value] == place else self.local[value, place]

    # What is needed where, in program order.

    def _need(self, value: str, place: Place, why: str) -> None:
        if self.home[value] != place:
            self.needs.setdefault(value, {}).setdefault(place, why)

    def _see(self, node: Node) -> None:
        match node.op:
            case ops.Loop():
                self._see_loop(node, node.op)
            case ops.To(dst=dst):
                self.home.update((out, dst) for out in node.outputs)
            case ops.Download():
                self.home[node.name] = None
            case _:
                for i in node.inputs:
                    self._need(i, node.place, f"read by %{node.name}")
                self.home.update((out, node.place) for out in node.outputs)

    def _see_loop(self, node: Node, loop: ops.Loop) -> None:
        for value, arg in zip(node.inputs, loop.carried_args, strict=False):
            self._need(value, arg.place, f"carried into loop %{node.outputs[-1]} as %{arg.name}")
        if loop.limited:
            self._need(node.inputs[-1], None, f"bounds the steps of loop %{node.outputs[-1]}")
        self.home.update((out, arg.place) for out, arg in zip(node.outputs, loop.carried_args, strict=False))
        self.home[node.outputs[-1]] = None

    # The nodes again, each followed by the copies of its values.

    def _build(self, hubs: Mapping[str, Place]) -> Iterator[Node]:
        for i in self.graph.inputs:
            yield from self._copies_of_input(i, hubs.get(i.name))
        for node in self.graph.nodes:
            match node.op:
                case ops.To(dst=dst):
                    yield from self._explicit(node, dst)
                case ops.Loop():
                    yield self._loop(node, node.op)
                case _:
                    yield replace(node, inputs=tuple(self._name(i, node.place) for i in node.inputs))
            for out in node.outputs:
                yield from self._copies(out, node)

    def _copies_of_input(self, i: Input, hub: Place) -> Iterator[Node]:
        """Uploads of an input; a pinned arg is uploaded to its pin alone, and moved on from there."""
        wanted = self.needs.get(i.name, {})
        source, home = i.name, self.home[i.name]
        if hub is not None:
            yield self._move(i.name, i.name, home, hub, wanted[hub], i)
            source, home = self.local[i.name, hub], hub
        for place, why in wanted.items():
            if place is None or place != hub:  # the host is a place too: a body's carried value that is emitted
                yield self._move(i.name, source, home, place, why, i)

    def _copies(self, value: str, node: Node) -> Iterator[Node]:
        nullary = not node.inputs and node.op.effect is Effect.PURE
        for place, why in self.needs.get(value, {}).items():
            if nullary and place is not None:
                name = self.local[value, place] = self.fresh(f"{value}.{_tag(place)}")
                yield replace(node, outputs=(name,), place=place, why=f"made again: {why}")
            else:
                yield self._move(value, value, self.home[value], place, why, node)

    def _move(self, value: str, source: str, src: Place, dst: Place, why: str, near: Input | Node) -> Node:
        name = self.local[value, dst] = self.fresh(f"{value}.{_tag(dst)}")
        type = self.graph.types[value]
        return Node(_move_op(src, dst), (source,), (name,), (type,), dst, None, why, near.loc)

    def _explicit(self, node: Node, dst: Topology) -> Iterator[Node]:
        """`.to()` as the transfer that its operand's home asks for; later readers at `dst` use it."""
        home = self.home[node.inputs[0]]
        if home == dst:
            yield replace(node, op=ops.Copy(), place=dst, why="sent by .to() to where it is")
            return
        op = ops.TransferPeer(src=home, dst=dst, explicit=True) if home is not None else ops.Upload(dst, explicit=True)
        yield replace(node, op=op, place=dst)

    def _loop(self, node: Node, loop: ops.Loop) -> Node:
        homes: dict[str, Place] = {arg.name: arg.place for arg in loop.carried_args}
        captured = node.inputs[loop.carried : len(loop.body.args)]
        homes.update((arg.name, self.home[v]) for arg, v in zip(loop.captures, captured, strict=True))
        wanted: list[Place] = [arg.place for arg in loop.carried_args]
        wanted += [None] * (len(loop.body.results) - loop.carried)
        body = _Inserter(loop.body, self.fresh, homes=homes, result_places=wanted).run(pinned=())
        args = tuple(replace(arg, place=homes[arg.name]) for arg in body.args)
        carried = [self._name(v, arg.place) for v, arg in zip(node.inputs, loop.carried_args, strict=False)]
        limit = [self._name(node.inputs[-1], None)] if loop.limited else []
        op = replace(loop, body=replace(body, args=args))
        return replace(node, op=op, inputs=(*carried, *captured, *limit))


def _move_op(src: Place, dst: Place) -> Op:
    if dst is None:
        assert src is not None
        return ops.Download(src=src)
    return ops.Upload(dst=dst) if src is None else ops.TransferPeer(src=src, dst=dst)


def _tag(place: Place) -> str:
    """`gpu:1` in a name."""
    return "host" if place is None else str(place).replace(":", "").replace("#", "_")
