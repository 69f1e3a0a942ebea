"""The page's diagram: what `vxgraph.tools.draw` knows of a graph or a program, with everything still in it.

groups   a forest: places, loops in them, blocks that fold
boxes    operations, args, results, loops, arrivals; each in one group
edges    from box to box, with the transfers that are on the way
moves    transfers, those of the load section too
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vxgraph.errors import Loc
from vxgraph.ir.graph import Graph, Input, Node
from vxgraph.ir.text import print_node
from vxgraph.program.instructions import Dispatch, Download, Instruction, Loop, TransferPeer, Upload
from vxgraph.program.model import HostInput, Program
from vxgraph.program.text import print_instruction
from vxgraph.tools.draw.fold import fold
from vxgraph.tools.draw.palette import colours
from vxgraph.tools.draw.sketch import HOST, Box, Move, Sketch
from vxgraph.tools.draw.tree import Tree, less_notes, unfolded
from vxgraph.tools.draw.walk import move_of, sketch_graph, sketch_program

Json = dict[str, Any]
Source = Instruction | Node | HostInput | Input
Seconds = Mapping[str, float]  # of one execution, by the first value that an instruction defines


@dataclass(frozen=True)
class Diagram:
    """A drawing with the numbers of its places, boxes and moves, by which the page's other parts name them."""

    sketch: Sketch
    tree: Tree
    load: tuple[Move, ...] = ()

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Places in the order of their ids, then the host and what has no place."""
        names = [*(b.cluster for b in self.sketch.boxes), *(_ends(m)[k] for m in self.moves for k in (0, 1))]
        found = colours(n for n in names if n)
        return (*(n for n in found if ":" in n or "#" in n), *(n for n in found if ":" not in n and "#" not in n))

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The load section's, then those of a run."""
        run = {m.name: m for e in self.sketch.edges for m in e.moves}
        return (*self.load, *run.values())

    @cached_property
    def place_index(self) -> dict[str, int]:
        """The number of a place."""
        return {name: k for k, name in enumerate(self.places)}

    @cached_property
    def box_index(self) -> dict[str, int]:
        """The number of a box."""
        return {box.id: k for k, box in enumerate(self.sketch.boxes)}

    @cached_property
    def move_index(self) -> dict[str, int]:
        """The number of a move, by the value that it makes."""
        return {move.name: k for k, move in enumerate(self.moves)}


def diagram(shown: Graph | Program) -> Diagram:
    """The drawing of a graph or a program."""
    sketch = less_notes(sketch_program(shown) if isinstance(shown, Program) else sketch_graph(shown))
    load = [i for i in shown.load if isinstance(i, Upload)] if isinstance(shown, Program) else []
    return Diagram(sketch, fold(sketch), tuple(move_of(i, 1) for i in load))


def groups(d: Diagram) -> list[Json]:
    """The tree's groups, parents first."""
    open = unfolded(d.sketch, d.tree)
    return [
        {
            "title": g.title,
            "kind": g.kind,
            "parent": g.parent,
            "place": d.place_index[g.at[0]],
            "lines": list(g.lines[1:]),
            "open": g.index in open,
        }
        for g in d.tree.groups
    ]


def boxes(d: Diagram, predicted: Seconds, observed: Seconds) -> list[Json]:
    """Everything that has a box of its own when nothing is folded."""
    return [_box(b, d, predicted, observed) for b in d.sketch.boxes]


def _box(box: Box, d: Diagram, predicted: Seconds, observed: Seconds) -> Json:
    source = box.source
    types = source.types if isinstance(source, Dispatch | Node) else ()
    types = (source.type,) if isinstance(source, HostInput | Input) else types
    return {
        "name": _title(box),
        "kind": box.kind,
        "parent": d.tree.home[box.id],
        "place": d.place_index[box.cluster],
        "lines": list(box.lines),
        "op": box.op,
        "types": ", ".join(map(str, types)),
        "nbytes": sum(t.max_bytes for t in types),
        "count": box.count,
        "predicted": predicted.get(box.id),
        "observed": observed.get(box.id),
        "reads": [f"%{v}" for v in _reads(source)],
        "made": [f"%{v}" for v in (source.outputs if isinstance(source, Dispatch | Node) else ())],
        **_about(source),
    }


def _title(box: Box) -> str:
    """`%h` for what defines a value, else what the box says first."""
    return f"%{box.id}" if box.kind in ("op", "input", "arrival") else box.lines[0]


def edges(d: Diagram) -> list[Json]:
    """Edges between boxes."""
    return [
        {
            "src": d.box_index[e.src],
            "dst": d.box_index[e.dst],
            "later": e.later,
            "moves": [d.move_index[m.name] for m in e.moves],
        }
        for e in d.sketch.edges
    ]


def moves(d: Diagram, predicted: Seconds, observed: Seconds) -> list[Json]:
    """Transfers with where they go and why."""
    return [_move(m, d, predicted, observed) for m in d.moves]


def _move(move: Move, d: Diagram, predicted: Seconds, observed: Seconds) -> Json:
    src, dst = _ends(move)
    source = move.source
    types = source.types if isinstance(source, Node) else (source.type,) if isinstance(source, _MOVES) else ()
    return {
        "name": f"%{move.name}",
        "value": f"%{_reads(source)[0]}",
        "kind": move.kind,
        "route": move.route,
        "nbytes": move.nbytes,
        "count": move.count,
        "src": d.place_index.get(src),
        "dst": d.place_index.get(dst),
        "type": ", ".join(map(str, types)),
        "predicted": predicted.get(move.name),
        "observed": observed.get(move.name),
        **_about(source),
    }


_MOVES = Upload | Download | TransferPeer


def _ends(move: Move) -> tuple[str, str]:
    """From and to; the source of a graph's own move is where its operand is made, which a graph need not say."""
    match move.source:
        case Upload(topology=to):
            return HOST, str(to)
        case Download(topology=at):
            return str(at), HOST
        case TransferPeer(topology=at, dst_topology=to):
            return str(at), str(to)
        case Node(op=op):
            src, dst = getattr(op, "src", None), getattr(op, "dst", None)
            return ("" if src is None else str(src)), (HOST if dst is None else str(dst))
        case _:
            return "", ""


def _reads(source: Source | None) -> Sequence[str]:
    match source:
        case Dispatch(inputs=inputs) | Node(inputs=inputs):
            return inputs
        case Upload(src=src) | Download(src=src) | TransferPeer(src=src):
            return (src,)
        case Loop(limit=limit, stop=stop):
            return [v for v in (limit, stop) if v is not None]
        case _:
            return ()


def _about(source: Source | None) -> Json:
    """The reason, the user's line, the queue, what is waited for, and the line of the text."""
    queued = isinstance(source, Upload | Download | TransferPeer | Dispatch)
    return {
        "why": source.why if queued or isinstance(source, Node) else "",
        "loc": _loc(source),
        "queue": str(source.queue) if queued else "",
        "after": [f"%{v}" for v in source.after] if queued else [],
        "text": _line(source),
    }


def _line(source: Source | None) -> str:
    match source:
        case None:
            return ""
        case Node():
            return print_node(source)
        case HostInput() | Input():
            return f"arg %{source.name} : {source.type}"
        case _:
            return print_instruction(source)


def _loc(source: Source | None) -> str:
    loc: Loc | None = getattr(source, "loc", None)
    return str(loc) if loc else ""


def mean_seconds(slices: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The mean of each name's seconds."""
    total: dict[str, list[float]] = {}
    for name, seconds in slices:
        total.setdefault(name, []).append(seconds)
    return {name: sum(times) / len(times) for name, times in total.items()}
