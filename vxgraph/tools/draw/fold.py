"""What may be folded into one block, so that a drawing of thousands of operations can be read.

layers.0.q, ... layers.31.mul     one block `32 x layers`: layers of the same operations, wired in the same way
silu, exp, silu, exp, ...         one block `500 x (silu, exp)`, where names tell nothing
a, b, c, ... without a pattern    blocks of up to 40, in blocks of up to 40

fold(sketch)    the tree of all that can be folded
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vxgraph.tools.draw.sketch import Box, Sketch
from vxgraph.tools.draw.tree import At, Group, GroupKind, Tree

T = TypeVar("T")

MEMBERS = 40  # of a block, at most: what a layout draws at once
PERIOD = 64  # operations of a pattern without a name, at most
TIMES = 4  # that such a pattern is there, at least
COVERED = 12  # operations that it covers, at least
KINDS_SHOWN = 3


def fold(sketch: Sketch) -> Tree:
    """Places, the loops in them, and in those the blocks, everything in the order of the sketch."""
    folder = _Folder(sketch)
    frames: dict[At, list[Box]] = defaultdict(list)
    for box in sketch.boxes:
        frames[box.cluster, box.loops].append(box)
    for at, boxes in frames.items():
        frame = folder.frame(at)
        for kind in ("params", "loop"):
            folder.add(frame, (b.id for b in boxes if b.kind == kind))
        folder.ends_of_the_drawing(frame, [b for b in boxes if b.kind == "input"], "args")
        folder.operations(frame, [b for b in boxes if b.kind == "op"], "")
        folder.ends_of_the_drawing(frame, [b for b in boxes if b.kind == "output"], "results")
    folder.arrivals()
    return folder.tree()


@dataclass
class _Part:
    """Operations of one numbered scope, or some that follow one another and are in none."""

    prefix: str
    number: int  # -1: no scope
    ops: list[Box]

    @property
    def title(self) -> str:
        return f"{self.prefix}.{self.number}" if self.prefix else str(self.number)


class _Folder:
    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self.groups: list[Group] = []
        self.home: dict[str, int] = {}
        self.frames: dict[At, int] = {}
        self.sources: dict[str, list[str]] = defaultdict(list)
        for e in sketch.edges:
            self.sources[e.dst].append(e.src)

    # Making groups.

    def frame(self, at: At) -> int:
        """The frame of a place, or of a loop's part there, inside those around it."""
        if at not in self.frames:
            cluster, loops = at
            parent = self.frame((cluster, loops[:-1])) if loops else -1
            title = f"loop %{loops[-1]} at {cluster}" if loops else cluster
            self.frames[at] = self.group(parent, "loop" if loops else "place", title, at=at).index
        return self.frames[at]

    def group(
        self, parent: int, kind: GroupKind, title: str, *lines: str, at: At | None = None, ops: Sequence[Box] = ()
    ) -> Group:
        said = (title, *lines, *_kinds(ops)) if ops else (title, *lines)
        made = Group(len(self.groups), parent, kind, title, at or self.groups[parent].at, said)
        self.groups.append(made)
        if parent >= 0:
            self.groups[parent].members.append(made.index)
        return made

    def add(self, group: int, ids: Iterable[str]) -> None:
        for id in ids:
            self.groups[group].members.append(id)
            self.home[id] = group

    def spread(self, parent: int, items: Sequence[T], title: Callable[[T, T], str]) -> Iterator[tuple[int, T]]:
        """Where each item goes: into `parent`, or where they are many into blocks of it of about the same size."""
        if len(items) <= MEMBERS:
            yield from ((parent, item) for item in items)
            return
        size = MEMBERS
        while size * MEMBERS < len(items):
            size *= MEMBERS
        chunks = -(-len(items) // size)
        for k in range(chunks):
            part = items[len(items) * k // chunks : len(items) * (k + 1) // chunks]
            made = self.group(parent, "run", title(part[0], part[-1]), f"{len(part)} in it")
            yield from self.spread(made.index, part, title)

    # Operations.

    def operations(self, parent: int, ops: Sequence[Box], prefix: str) -> None:
        """Operations of a frame or a layer: those of numbered scopes as layers, in the order of their first ones."""
        parts = _parts(ops, prefix)
        if len(parts) == 1 and parts[0].number < 0 and len(ops) <= MEMBERS and not _has_pattern(ops):
            return self.add(parent, (b.id for b in ops))
        for family in self.families(parts):
            if family[0].number < 0:
                self.unnamed(parent, family[0].ops)
            elif len(family) == 1:
                self.layer(parent, family[0])
            else:
                self.repeat(parent, family)
        return None

    def families(self, parts: Iterable[_Part]) -> list[list[_Part]]:
        """Layers that are alike and whose numbers follow one another are one family; all else is alone."""
        found: list[list[_Part]] = []
        latest: dict[str, tuple[object, list[_Part]]] = {}
        for part in parts:
            shape = self.shape(part.ops) if part.number >= 0 else None
            known, family = latest.get(part.prefix, (None, []))
            if part.number >= 0 and family and shape == known and family[-1].number + 1 == part.number:
                family.append(part)
                continue
            found.append([part])
            if part.number >= 0:
                latest[part.prefix] = (shape, found[-1])
        return found

    def shape(self, ops: Sequence[Box]) -> tuple[object, ...]:
        """What a layer computes: its operations and types in order, and which of its own results each one reads."""
        at = {b.id: k for k, b in enumerate(ops)}
        return tuple((b.op, b.lines[2:], tuple(sorted(at[s] for s in self.sources[b.id] if s in at))) for b in ops)

    def layer(self, parent: int, part: _Part) -> None:
        if len(part.ops) == 1:
            return self.add(parent, [part.ops[0].id])
        made = self.group(parent, "layer", part.title, ops=part.ops)
        return self.operations(made.index, part.ops, part.title + ".")

    def repeat(self, parent: int, family: Sequence[_Part]) -> None:
        first, last = family[0], family[-1]
        each = f"{first.number} to {last.number}, {len(first.ops)} ops each"
        made = self.group(parent, "repeat", f"{len(family)} x {first.prefix or 'scope'}", each, *_kinds(first.ops)[1:])
        for inner, part in self.spread(made.index, family, lambda a, b: f"{a.title} to {b.number}"):
            self.layer(inner, part)

    def unnamed(self, parent: int, ops: Sequence[Box]) -> None:
        """Operations without a scope: patterns that are there again and again, and blocks of what is between them."""
        for first, end, period in _patterns([(b.op, b.lines[2:]) for b in ops]):
            if period:
                self.pattern(parent, ops[first:end], period)
            else:
                self.stretch(parent, ops[first:end])

    def pattern(self, parent: int, ops: Sequence[Box], period: int) -> None:
        times = [ops[k : k + period] for k in range(0, len(ops), period)]
        names = ", ".join([*(b.op for b in times[0][:KINDS_SHOWN]), *(["..."] if period > KINDS_SHOWN else [])])
        title = f"{len(times)} x {names}" if period == 1 else f"{len(times)} x ({names})"
        made = self.group(parent, "repeat", title, f"%{ops[0].id} to %{ops[-1].id}")
        for inner, part in self.spread(made.index, times, lambda a, b: f"%{a[0].id} to %{b[-1].id}"):
            self.stretch(inner, part)

    def stretch(self, parent: int, ops: Sequence[Box]) -> None:
        """Operations that follow one another; one alone is itself."""
        if len(ops) > 1:
            parent = self.group(parent, "run", f"%{ops[0].id} to %{ops[-1].id}", ops=ops).index
        for inner, box in self.spread(parent, ops, lambda a, b: f"%{a.id} to %{b.id}"):
            self.add(inner, [box.id])

    # The rest.

    def ends_of_the_drawing(self, frame: int, boxes: Sequence[Box], what: str) -> None:
        """Args or results: a few are themselves, several are a block."""
        if len(boxes) > KINDS_SHOWN:
            shown = ", ".join([*(b.lines[0] for b in boxes[:KINDS_SHOWN]), "..."])
            frame = self.group(frame, "run", f"{len(boxes)} {what}", shown).index
        for inner, box in self.spread(frame, boxes, lambda a, b: f"{a.lines[0]} to {b.lines[0]}"):
            self.add(inner, [box.id])

    def arrivals(self) -> None:
        """What a transfer brings is in the innermost group that has all its readers."""
        readers: dict[str, list[str]] = defaultdict(list)
        for e in self.sketch.edges:
            readers[e.src].append(e.dst)
        for box in self.sketch.boxes:
            if box.kind == "arrival":
                frame = self.frame((box.cluster, box.loops))
                self.add(self.common(frame, [self.home[r] for r in readers[box.id] if r in self.home]), [box.id])

    def common(self, frame: int, homes: Sequence[int]) -> int:
        paths = [list(self.path(home)) for home in homes]
        if not paths or any(frame not in path for path in paths):
            return frame
        shared = [level[0] for level in zip(*paths, strict=False) if len(set(level)) == 1]
        return shared[-1]

    def path(self, index: int) -> Sequence[int]:
        """A group and those around it, outermost first."""
        found: list[int] = []
        while index >= 0:
            found.append(index)
            index = self.groups[index].parent
        return found[::-1]

    def tree(self) -> Tree:
        kinds = {b.id: b.kind for b in self.sketch.boxes}
        for group in reversed(self.groups):
            group.ops += sum(isinstance(m, str) and kinds[m] == "op" for m in group.members)
            if group.parent >= 0:
                self.groups[group.parent].ops += group.ops
        return Tree(tuple(self.groups), self.home)


_NUMBER = re.compile(r"(?:(.*?)\.)?(\d+)\.[A-Za-z_]")


def _parts(ops: Iterable[Box], prefix: str) -> list[_Part]:
    """Operations by their numbered scope inside `prefix`: `layers` 3 of `layers.3.q`."""
    found: list[_Part] = []
    scopes: dict[tuple[str, int], _Part] = {}
    for box in ops:
        inside = _NUMBER.match(box.id, len(prefix)) if box.id.startswith(prefix) else None
        if inside is None:
            if not found or found[-1].number >= 0:
                found.append(_Part("", -1, []))
            found[-1].ops.append(box)
            continue
        scope = (prefix + (inside[1] or ""), int(inside[2]))
        if scope not in scopes:
            found.append(scopes.setdefault(scope, _Part(*scope, [])))
        scopes[scope].ops.append(box)
    return found


def _patterns(signs: Sequence[object]) -> Iterator[tuple[int, int, int]]:
    """(first, end, period) of stretches; the period is 0 where there is no pattern. Shortest periods come first."""
    numbers: dict[object, int] = {}
    row = [numbers.setdefault(sign, len(numbers)) for sign in signs]
    plain = k = 0
    while k < len(row):
        period, end = _pattern(row, k)
        if period:
            if plain < k:
                yield plain, k, 0
            yield k, end, period
            plain = end
        k = max(end, k + 1)
    if plain < len(row):
        yield plain, len(row), 0


def _pattern(row: Sequence[int], first: int) -> tuple[int, int]:
    """The shortest period that starts at `first` often enough, and its end; (0, first) where there is none."""
    for period in range(1, min(PERIOD, (len(row) - first) // TIMES) + 1):
        if row[first] != row[first + period]:
            continue
        end = first + period
        while end < len(row) and row[end] == row[end - period]:
            end += 1
        times = (end - first) // period
        if times >= TIMES and times * period >= COVERED:
            return period, first + times * period
    return 0, first


def _has_pattern(ops: Sequence[Box]) -> bool:
    return any(period for _, _, period in _patterns([(b.op, b.lines[2:]) for b in ops]))


def _kinds(ops: Sequence[Box]) -> tuple[str, ...]:
    """`15 ops`, `7 matmul, 2 rmsnorm, 2 rope, 4 more`."""
    kinds = Counter(b.op for b in ops).most_common()
    rest = sum(n for _, n in kinds[KINDS_SHOWN:])
    shown = [*(f"{n} {kind}" for kind, n in kinds[:KINDS_SHOWN]), *([f"{rest} more"] if rest else [])]
    return (f"{len(ops)} op{'s' * (len(ops) != 1)}", ", ".join(shown))
