"""Programs and graphs as sketches: what is a box, what is an edge, what is left out.

A program shows its run: params are a note at their place, views are nothing, transfers are edges. A graph shows what
the user wrote: places are pins, and what has none is in the cluster `not placed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vxgraph import ops
from vxgraph.ir.graph import Graph, Node
from vxgraph.program.instructions import Dispatch, Download, Emit, Instruction, Loop, TransferPeer, Upload, View
from vxgraph.program.model import Program
from vxgraph.tools.draw.scopes import Boxing, Operation, boxing
from vxgraph.tools.draw.sketch import HOST, UNPLACED, Move, MoveKind, Sketch, Sketcher

Loops = tuple[str, ...]


def sketch_program(program: Program) -> Sketch:
    """The drawing of a program's run."""
    s = Sketcher(f"{program.name} for {program.machine}")
    s.params = {p.name: (p.name, p.type) for p in program.params}
    s.params.update((i.dst, (i.src, i.type)) for i in program.load if isinstance(i, Upload))
    for arg in program.args:
        s.box(arg.name, "input", HOST, (f"%{arg.name}", str(arg.type)), makes=(arg.name,))
    boxes = boxing(_operations(program.body, ()))
    _walk(program.body, (), 1, s, boxes)
    for r in program.results:
        s.box(f"result {r.name}", "output", HOST, (f'result "{r.name}"',), reads=(r.value,))
    return s.sketch()


def _operations(instructions: Iterable[Instruction], loops: Loops) -> Iterator[Operation]:
    for i in instructions:
        match i:
            case Dispatch():
                yield Operation(i.name, i.op.name, str(i.topology), loops, ", ".join(map(str, i.types)))
            case Loop():
                yield from _operations(i.body, (*loops, i.name))
            case _:
                pass


def _walk(instructions: Iterable[Instruction], loops: Loops, count: int, s: Sketcher, boxes: Boxing) -> None:
    for i in instructions:
        match i:
            case Upload():
                s.arrival(i.dst, i.src, _move(i, count), str(i.topology), loops)
            case Download():
                s.arrival(i.dst, i.src, _move(i, count), HOST, loops)
            case TransferPeer():
                s.arrival(i.dst, i.src, _move(i, count), str(i.dst_topology), loops)
            case Dispatch():
                id = boxes.box_of[i.name]
                place = str(i.topology)
                s.box(id, "op", place, boxes.lines[id], loops=loops, makes=i.outputs, reads=i.inputs)
            case View():
                s.same[i.dst] = [(i.src, False)]
            case Emit():
                id = f"emit {i.name_out} {i.value}"
                s.box(id, "output", HOST, (f'emit "{i.name_out}"',), loops=loops, reads=(i.value,))
            case Loop():
                _loop(i, loops, s)
                _walk(i.body, (*loops, i.name), count * i.max_steps, s, boxes)


def _loop(loop: Loop, loops: Loops, s: Sketcher) -> None:
    for c in loop.carried:
        s.same[c.arg] = [(c.init, False), (c.next, True)]
        s.same[c.out] = [(c.next, False)]
    limit = (loop.limit,) if loop.limit is not None else ()
    _loop_box(loop.name, loop.max_steps, limit, loop.stop, loops, s)


def _loop_box(name: str, max_steps: int, limit: Loops, stop: str | None, loops: Loops, s: Sketcher) -> None:
    """The host's decision what runs next, inside the loop that it decides on."""
    lines = (f"loop %{name}", f"up to {max_steps} steps")
    s.box(name, "loop", HOST, lines, loops=(*loops, name), makes=(name,), reads=limit)
    if stop is not None:
        s.reads.append((stop, name, True))


def _move(i: Upload | Download | TransferPeer, count: int) -> Move:
    match i:
        case Upload():
            return Move("upload", i.dst, "", i.type.max_bytes, count)
        case Download():
            return Move("download", i.dst, "", i.type.max_bytes, count)
        case TransferPeer():
            return Move("peer", i.dst, i.route, i.type.max_bytes, count)


# Graphs.


def sketch_graph(graph: Graph) -> Sketch:
    """The drawing of a graph, placed or not."""
    s = Sketcher(graph.name)
    s.params = {p.name: (p.name, p.type) for p in graph.params}
    for arg in graph.args:
        cluster = UNPLACED if arg.place is None else str(arg.place)
        s.box(arg.name, "input", cluster, (f"%{arg.name}", str(arg.type)), makes=(arg.name,))
    boxes = boxing(_graph_operations(graph, ()))
    _walk_graph(graph, (), 1, s, boxes)
    for r in graph.results:
        s.box(f"result {r.name}", "output", UNPLACED, (f'result "{r.name}"',), reads=(r.value,))
    return s.sketch()


def _graph_operations(graph: Graph, loops: Loops) -> Iterator[Operation]:
    for node in graph.nodes:
        match node.op:
            case ops.Loop(body=body):
                yield from _graph_operations(body, (*loops, node.outputs[-1]))
            case ops.To() | ops.Upload() | ops.Download() | ops.TransferPeer():
                pass
            case _:
                yield Operation(node.name, node.op.name, _cluster(node), loops, ", ".join(map(str, node.types)))


def _cluster(node: Node) -> str:
    return UNPLACED if node.place is None else str(node.place)


def _walk_graph(graph: Graph, loops: Loops, count: int, s: Sketcher, boxes: Boxing) -> None:
    for node in graph.nodes:
        match node.op:
            case ops.Loop():
                _graph_loop(node, node.op, loops, s)
                inner = (*loops, node.outputs[-1])
                _walk_graph(node.op.body, inner, count * node.op.max_steps, s, boxes)
            case ops.To(dst=dst) | ops.TransferPeer(dst=dst):
                s.arrival(node.name, node.inputs[0], _sent(node, count), str(dst), loops)
            case ops.Upload(dst=dst):
                s.arrival(node.name, node.inputs[0], _sent(node, count, "upload"), str(dst), loops)
            case ops.Download():
                s.arrival(node.name, node.inputs[0], _sent(node, count, "download"), HOST, loops)
            case _:
                id = boxes.box_of[node.name]
                place = _cluster(node)
                s.box(id, "op", place, boxes.lines[id], loops=loops, makes=node.outputs, reads=node.inputs)
    for r in graph.emits:
        id = f"emit {r.name} {r.value}"
        s.box(id, "output", UNPLACED, (f'emit "{r.name}"',), loops=loops, reads=(r.value,))


def _sent(node: Node, count: int, kind: MoveKind = "peer") -> Move:
    return Move(kind, node.name, "", node.types[0].max_bytes, count)


def _graph_loop(node: Node, loop: ops.Loop, loops: Loops, s: Sketcher) -> None:
    for arg, init, value, out in zip(loop.carried_args, node.inputs, loop.next_values, node.outputs, strict=False):
        s.same[arg.name] = [(init, False), (value, True)]
        s.same[out] = [(value, False)]
    s.same.update((arg.name, [(v, False)]) for arg, v in zip(loop.captures, node.inputs[loop.carried :], strict=False))
    limit = node.inputs[-1:] if loop.limited else ()
    _loop_box(node.outputs[-1], loop.max_steps, limit, loop.stop, loops, s)
