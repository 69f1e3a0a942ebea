"""Programs and graphs as sketches: what is a box, what is an edge, what is left out.

A program shows its run: params are a note at their place, views are nothing, transfers are edges. A graph shows what
the user wrote: places are pins, and what has none is in the cluster `not placed`.
"""

from __future__ import annotations

from collections.abc import Iterable

from vxgraph import ops
from vxgraph.ir.graph import Graph, Node
from vxgraph.ir.types import TensorType
from vxgraph.program.admission import show_bytes
from vxgraph.program.instructions import Dispatch, Download, Emit, Instruction, Loop, TransferPeer, Upload, View
from vxgraph.program.model import Arena, Program
from vxgraph.tools.draw.sketch import HOST, UNPLACED, Move, MoveKind, Sketch, Sketcher

Loops = tuple[str, ...]


def sketch_program(program: Program) -> Sketch:
    """The drawing of a program's run."""
    s = Sketcher(f"{program.name} for {program.machine}")
    s.params = {p.name: (p.name, p.type) for p in program.params}
    s.params.update((i.dst, (i.src, i.type)) for i in program.load if isinstance(i, Upload))
    for arg in program.args:
        s.box(arg.name, "input", HOST, (f"%{arg.name}", str(arg.type)), makes=(arg.name,), source=arg)
    s.about = {str(a.topology): _about(program, a) for a in program.arenas}
    _walk(program.body, (), 1, s)
    for r in program.results:
        s.box(f"result {r.name}", "output", HOST, (f'result "{r.name}"',), reads=(r.value,))
    return s.sketch()


def _about(program: Program, arena: Arena) -> tuple[str, ...]:
    """`291 params 12.55 GiB, caches 2.00 GiB, activations 1.49 MiB`, `15.05 GiB of 140.40 GiB in hbm1`."""
    held = sum(isinstance(i, Upload) and i.topology == arena.topology for i in program.load)
    kinds = {f"{held} param{'s' * (held != 1)}": arena.params, "caches": arena.kv}
    kinds |= {"activations": arena.activations, "staging": arena.staging}
    (use,) = (m for m in program.memories if m.memory == arena.memory)
    return (
        ", ".join(f"{name} {show_bytes(n)}" for name, n in kinds.items() if n) or "no bytes",
        f"{show_bytes(use.peak)} of {show_bytes(use.capacity)} in {use.memory}",
    )


def _walk(instructions: Iterable[Instruction], loops: Loops, count: int, s: Sketcher) -> None:
    for i in instructions:
        match i:
            case Upload():
                s.arrival(i.dst, i.src, move_of(i, count), str(i.topology), loops)
            case Download():
                s.arrival(i.dst, i.src, move_of(i, count), HOST, loops)
            case TransferPeer():
                s.arrival(i.dst, i.src, move_of(i, count), str(i.dst_topology), loops)
            case Dispatch():
                _op(i, i.op.name, i.inputs, i.outputs, i.types, str(i.topology), loops, count, s)
            case View():
                s.same[i.dst] = [(i.src, False)]
            case Emit():
                id = f"emit {i.name_out} {i.value}"
                s.box(id, "output", HOST, (f'emit "{i.name_out}"',), loops=loops, reads=(i.value,))
            case Loop():
                _loop(i, loops, s)
                _walk(i.body, (*loops, i.name), count * i.max_steps, s)


def _op(
    source: Dispatch | Node,
    op: str,
    reads: Loops,
    makes: Loops,
    types: tuple[TensorType, ...],
    place: str,
    loops: Loops,
    count: int,
    s: Sketcher,
) -> None:
    name = makes[0]
    lines = (f"%{name}", op, ", ".join(map(str, types)))
    s.box(name, "op", place, lines, loops=loops, makes=makes, reads=reads, op=op, count=count, source=source)


def _loop(loop: Loop, loops: Loops, s: Sketcher) -> None:
    for c in loop.carried:
        s.same[c.arg] = [(c.init, False), (c.next, True)]
        s.same[c.out] = [(c.next, False)]
    limit = (loop.limit,) if loop.limit is not None else ()
    _loop_box(loop, loop.name, loop.max_steps, limit, loop.stop, loops, s)


def _loop_box(
    source: Loop | Node, name: str, max_steps: int, limit: Loops, stop: str | None, loops: Loops, s: Sketcher
) -> None:
    """The host's decision what runs next, inside the loop that it decides on."""
    lines = (f"loop %{name}", f"up to {max_steps} steps")
    s.box(name, "loop", HOST, lines, loops=(*loops, name), makes=(name,), reads=limit, source=source)
    if stop is not None:
        s.reads.append((stop, name, True))


def move_of(i: Upload | Download | TransferPeer, count: int) -> Move:
    """A transfer that runs `count` times."""
    match i:
        case Upload():
            return Move("upload", i.dst, "", i.type.max_bytes, count, i)
        case Download():
            return Move("download", i.dst, "", i.type.max_bytes, count, i)
        case TransferPeer():
            return Move("peer", i.dst, i.route, i.type.max_bytes, count, i)


# Graphs.


def sketch_graph(graph: Graph) -> Sketch:
    """The drawing of a graph, placed or not."""
    s = Sketcher(graph.name)
    s.params = {p.name: (p.name, p.type) for p in graph.params}
    for arg in graph.args:
        cluster = UNPLACED if arg.place is None else str(arg.place)
        s.box(arg.name, "input", cluster, (f"%{arg.name}", str(arg.type)), makes=(arg.name,), source=arg)
    _walk_graph(graph, (), 1, s)
    for r in graph.results:
        s.box(f"result {r.name}", "output", UNPLACED, (f'result "{r.name}"',), reads=(r.value,))
    return s.sketch()


def _cluster(node: Node) -> str:
    return UNPLACED if node.place is None else str(node.place)


def _walk_graph(graph: Graph, loops: Loops, count: int, s: Sketcher) -> None:
    for node in graph.nodes:
        match node.op:
            case ops.Loop():
                _graph_loop(node, node.op, loops, s)
                inner = (*loops, node.outputs[-1])
                _walk_graph(node.op.body, inner, count * node.op.max_steps, s)
            case ops.To(dst=dst) | ops.TransferPeer(dst=dst):
                s.arrival(node.name, node.inputs[0], _sent(node, count), str(dst), loops)
            case ops.Upload(dst=dst):
                s.arrival(node.name, node.inputs[0], _sent(node, count, "upload"), str(dst), loops)
            case ops.Download():
                s.arrival(node.name, node.inputs[0], _sent(node, count, "download"), HOST, loops)
            case _:
                _op(node, node.op.name, node.inputs, node.outputs, node.types, _cluster(node), loops, count, s)
    for r in graph.emits:
        id = f"emit {r.name} {r.value}"
        s.box(id, "output", UNPLACED, (f'emit "{r.name}"',), loops=loops, reads=(r.value,))


def _sent(node: Node, count: int, kind: MoveKind = "peer") -> Move:
    return Move(kind, node.name, "", node.types[0].max_bytes, count, node)


def _graph_loop(node: Node, loop: ops.Loop, loops: Loops, s: Sketcher) -> None:
    for arg, init, value, out in zip(loop.carried_args, node.inputs, loop.next_values, node.outputs, strict=False):
        s.same[arg.name] = [(init, False), (value, True)]
        s.same[out] = [(value, False)]
    s.same.update((arg.name, [(v, False)]) for arg, v in zip(loop.captures, node.inputs[loop.carried :], strict=False))
    limit = node.inputs[-1:] if loop.limited else ()
    _loop_box(node, node.outputs[-1], loop.max_steps, limit, loop.stop, loops, s)
