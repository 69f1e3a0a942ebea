"""The tree of what folds in a sketch, and the sketch as it is while some of it is closed.

    gpu:0                     a place, always open
      32 x prefill.layers     a block: closed it is one box, and its edges those of all that is in it
      %slice

unfolded(sketch, tree)         what is open in a picture that people can take in
folded(sketch, tree, open)     the sketch with closed blocks as boxes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Literal

from vxgraph.tools.draw.sketch import Box, Edge, Sketch, merged

GroupKind = Literal["place", "loop", "repeat", "layer", "run"]
At = tuple[str, tuple[str, ...]]  # a cluster, and the loops around

NOTED_EDGES = 4  # a note of params with more readers than this is not shown
SMALL = 60  # boxes that a picture shows with nothing closed
BOXES = 24  # of a larger one, and
EDGES = 28  # its edges: what fits a screen in letters that can be read


@dataclass(eq=False)
class Group:
    """A block, or the frame of a place or of a loop's part there. `lines` is what it says when it is closed."""

    index: int
    parent: int  # -1 for a place
    kind: GroupKind
    title: str
    at: At
    lines: tuple[str, ...] = ()
    members: list[str | int] = field(default_factory=list[str | int])  # boxes by id, groups by index
    ops: int = 0  # in it and in the groups in it

    @property
    def id(self) -> str:
        """Its name among boxes; a value's has no blank."""
        return f"block {self.index}"

    @property
    def folds(self) -> bool:
        """Whether it can be closed."""
        return self.kind not in ("place", "loop")


@dataclass(frozen=True)
class Tree:
    """Every group, parents first, and the group that each box is in."""

    groups: tuple[Group, ...]
    home: Mapping[str, int]


def less_notes(sketch: Sketch) -> Sketch:
    """Without notes of params that many boxes read, and their edges: the place's title says how many there are."""
    notes = Counter({b.id: 0 for b in sketch.boxes if b.kind == "params"})
    notes.update(e.src for e in sketch.edges if e.src in notes)
    dropped = {id for id, readers in notes.items() if readers > NOTED_EDGES}
    boxes = tuple(b for b in sketch.boxes if b.id not in dropped)
    return replace(sketch, boxes=boxes, edges=tuple(e for e in sketch.edges if e.src not in dropped))


def folded(sketch: Sketch, tree: Tree, open: Collection[int]) -> Sketch:
    """The sketch with what is in closed groups as one box each, and edges between the same two ends as one."""
    shown = _shown(tree, open)
    boxes: dict[str, Box] = {}
    for box in sketch.boxes:
        end = shown[tree.home[box.id]]
        if end is None:
            boxes[box.id] = box
        elif end.id not in boxes:
            boxes[end.id] = Box(end.id, "folded", end.at[0], end.at[1], end.lines)
    at = {box.id: box.id if (end := shown[tree.home[box.id]]) is None else end.id for box in sketch.boxes}
    edges = merged(Edge(at[e.src], at[e.dst], e.later, e.moves) for e in sketch.edges)
    return Sketch(sketch.title, tuple(boxes.values()), edges, sketch.about)


def _shown(tree: Tree, open: Collection[int]) -> list[Group | None]:
    """For each group the outermost closed one that it is in, itself perhaps; None where all are open."""
    found: list[Group | None] = []
    for group in tree.groups:
        outer = found[group.parent] if group.parent >= 0 else None
        found.append(outer or (group if group.folds and group.index not in open else None))
    return found


def unfolded(sketch: Sketch, tree: Tree) -> frozenset[int]:
    """Groups to open: all of a small sketch, and of a larger one the smallest while there is room."""
    if len(sketch.boxes) <= SMALL:
        return frozenset(g.index for g in tree.groups)
    open = {g.index for g in tree.groups if not g.folds}
    visible = len(folded(sketch, tree, open).boxes)
    ready = [(len(g.members), g.index) for g in tree.groups if g.folds and g.parent in open]
    heapify(ready)
    while ready:
        size, index = heappop(ready)
        if visible + size - 1 > BOXES:
            break
        if len(folded(sketch, tree, {*open, index}).edges) > EDGES:
            continue
        open.add(index)
        visible += size - 1
        for m in tree.groups[index].members:
            if isinstance(m, int):
                heappush(ready, (len(tree.groups[m].members), m))
    return frozenset(open)
