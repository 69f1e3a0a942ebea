"""What a drawing shows, before it is DOT: boxes in clusters, and what flows between them.

    box %silu in gpu:0   --  1.00 KiB  ->   box %matmul.1 in gpu:1

Values are followed from their readers back to the boxes that make them: through views, through loops (a carried value
comes from before the loop and from the step before), and through transfers. What a transfer brings is a box of its own
only where several boxes read it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from vxgraph.ir.graph import Input, Node
from vxgraph.ir.types import TensorType
from vxgraph.program.admission import show_bytes
from vxgraph.program.instructions import Instruction
from vxgraph.program.model import HostInput

HOST = "host"
UNPLACED = "not placed"
NAMED_PARAMS = 4  # that a cluster's note spells out

BoxKind = Literal["op", "input", "output", "params", "arrival", "loop", "folded"]
MoveKind = Literal["upload", "download", "peer"]


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the drawing. `cluster` is a place or `host`; `loops` are those around it, outermost first."""

    id: str
    kind: BoxKind
    cluster: str
    loops: tuple[str, ...]
    lines: tuple[str, ...]
    op: str = ""
    count: int = 1  # per run, at most
    source: Instruction | Node | HostInput | Input | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Move:
    """A transfer: the value that it makes, and bytes of one execution at the symbols' bounds."""

    kind: MoveKind
    name: str
    route: str
    nbytes: int
    count: int  # per run, at most
    source: Instruction | Node | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """Values from one box to another; `later` in the next step of a loop."""

    src: str
    dst: str
    later: bool = False
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Sketch:
    """A whole drawing. Boxes and edges are in program order; `about` is what a cluster's title says besides."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    about: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


Param = tuple[str, TensorType]  # its own name and its type
Source = tuple[str, bool]  # a value or a box, and whether it is the next step's


@dataclass
class Sketcher:
    """Collects boxes and reads, then resolves them."""

    title: str
    about: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    boxes: dict[str, Box] = field(default_factory=dict[str, Box])
    made: dict[str, str] = field(default_factory=dict[str, str])  # value -> the box that makes it
    same: dict[str, list[Source]] = field(default_factory=dict[str, list[Source]])  # value -> what it is
    params: dict[str, Param] = field(default_factory=dict[str, Param])  # resident value -> the param
    moves: dict[str, Move] = field(default_factory=dict[str, Move])  # arrival -> how it came
    reads: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])  # value, box, later
    resident: dict[str, dict[str, TensorType]] = field(default_factory=dict[str, dict[str, TensorType]])

    def box(
        self,
        id: str,
        kind: BoxKind,
        cluster: str,
        lines: tuple[str, ...],
        *,
        loops: tuple[str, ...] = (),
        makes: tuple[str, ...] = (),
        reads: tuple[str, ...] = (),
        op: str = "",
        count: int = 1,
        source: Instruction | Node | HostInput | Input | None = None,
    ) -> None:
        """A box, and the values that it makes and reads."""
        self.boxes[id] = Box(id, kind, cluster, loops, lines, op, count, source)
        self.made.update((value, id) for value in makes)
        self.reads += [(value, id, False) for value in reads]

    def arrival(self, value: str, source: str, move: Move, cluster: str, loops: tuple[str, ...]) -> None:
        """What a transfer brings to a cluster."""
        self.moves[value] = move
        self.box(value, "arrival", cluster, (f"%{value}",), loops=loops, makes=(value,), reads=(source,))

    def sketch(self) -> Sketch:
        """The drawing, with single-reader arrivals made edges and parallel edges made one."""
        edges = [Edge(src, box, later) for value, box, on in self.reads for src, later in self._sources(value, box, on)]
        edges = self._dissolve(dict.fromkeys(edges))
        notes = [self._note(cluster, held) for cluster, held in self.resident.items()]
        kept = [box for box in self.boxes.values() if box.kind != "arrival" or box.id in self.moves]
        return Sketch(self.title, (*notes, *kept), merged(edges), self.about)

    def _sources(self, value: str, reader: str, later: bool) -> list[Source]:
        """The boxes that a value comes from."""
        found: dict[Source, None] = {}
        pending, seen = deque([(value, later)]), {value}
        while pending:
            name, on = pending.popleft()
            if name in self.params:
                cluster = self.boxes[reader].cluster
                shown, type = self.params[name]
                self.resident.setdefault(cluster, {})[shown] = type
                found[_note_id(cluster), on] = None
            elif name in self.made:
                found[self.made[name], on] = None
            for source, next_step in self.same.get(name, ()):
                if source not in seen:
                    seen.add(source)
                    pending.append((source, on or next_step))
        return list(found)

    def _dissolve(self, edges: dict[Edge, None]) -> list[Edge]:
        """Arrivals that one box reads become the edge to it; the others keep a box with one labelled edge into it."""
        readers: dict[str, set[str]] = defaultdict(set)
        for e in edges:
            readers[e.src].add(e.dst)
        single = {value for value in self.moves if len(readers[value]) == 1}
        onward = {e.src: e for e in edges if e.src in single}
        found: list[Edge] = []
        for e in edges:
            if e.src in single:
                continue
            moves, later, dst = list[Move](), e.later, e.dst
            while dst in self.moves:
                moves.append(self.moves[dst])
                if dst not in single:
                    break
                later, dst = later or onward[dst].later, onward[dst].dst
            found.append(Edge(e.src, dst, later, tuple(moves)))
        for value in single:
            del self.moves[value]
        return found

    def _note(self, cluster: str, held: dict[str, TensorType]) -> Box:
        total = show_bytes(sum(t.max_bytes for t in held.values()))
        named = [f"%{name}: {type}" for name, type in list(held.items())[:NAMED_PARAMS]]
        more = [f"and {len(held) - NAMED_PARAMS} more"] if len(held) > NAMED_PARAMS else []
        count = f"{len(held)} param{'s' * (len(held) > 1)}, {total}"
        return Box(_note_id(cluster), "params", cluster, (), (count, *named, *more))


def _note_id(cluster: str) -> str:
    return f"params at {cluster}".replace(":", "")  # graphviz reads a colon as a port


def merged(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """One edge per pair of boxes and kind of flow; none from a box to itself that moves nothing."""
    found: dict[tuple[str, str, bool, tuple[str, ...]], list[Move]] = {}
    for e in edges:
        if e.src != e.dst or e.moves:
            found.setdefault((e.src, e.dst, e.later, tuple(dict.fromkeys(m.kind for m in e.moves))), []).extend(e.moves)
    return tuple(Edge(src, dst, later, tuple(moves)) for (src, dst, later, _), moves in found.items())
