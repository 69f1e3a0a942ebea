"""Which operations share a box, so that a program of thousands can be read.

layers.3.q, layers.3.matmul.2, ...       one box "layers.3" per place and loop
layers.0 to layers.31                    boxes of eight layers each, where there are many alike
a, b, c without a numbered scope         one box for each run of them at one place
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

COLLAPSE_ABOVE = 60  # operations
LAYERS_ABOVE = 8  # layers that have a box each
LAYER_BOXES = 4  # boxes that more layers are spread over
KINDS_SHOWN = 3

_NUMBERED = re.compile(r"(.*?)\.(\d+)\.[A-Za-z_]")

At = tuple[str, tuple[str, ...]]  # a cluster, and the loops around
Scope = tuple[str, str]  # ("prefill.layers", "3")


@dataclass(frozen=True, slots=True)
class Operation:
    """What a box may hold: an operation by its first value, where it runs, and its types."""

    name: str
    op: str
    cluster: str
    loops: tuple[str, ...]
    types: str

    @property
    def scope(self) -> Scope | None:
        """The numbered part of the model that it belongs to: `prefill.layers` 3 of `prefill.layers.3.q`."""
        found = _NUMBERED.match(self.name)
        return (found[1], found[2]) if found else None


@dataclass(eq=False)
class _Group:
    at: At
    scope: Scope | None
    last: Scope | None
    ops: list[Operation] = field(default_factory=list[Operation])


@dataclass(frozen=True)
class Boxing:
    """The box of each operation, and what stands in each box."""

    box_of: dict[str, str]
    lines: dict[str, tuple[str, ...]]


def boxing(operations: Iterable[Operation]) -> Boxing:
    """One box each, or one per scope where there are many."""
    operations = list(operations)
    if len(operations) <= COLLAPSE_ABOVE:
        groups = [_Group((o.cluster, o.loops), o.scope, o.scope, [o]) for o in operations]
    else:
        groups = list(_spread(_grouped(operations)))
    ids = {id(g): g.ops[0].name for g in groups}
    return Boxing({o.name: ids[id(g)] for g in groups for o in g.ops}, {ids[id(g)]: _lines(g) for g in groups})


def _grouped(operations: list[Operation]) -> list[_Group]:
    """A group for each scope at each place, and for each run of what has none."""
    scoped: dict[tuple[At, Scope], _Group] = {}
    runs: dict[At, _Group] = {}
    groups: list[_Group] = []
    for o in operations:
        at, scope = (o.cluster, o.loops), o.scope
        group = scoped.get((at, scope)) if scope else runs.get(at)
        if group is None:
            group = _Group(at, scope, scope)
            groups.append(group)
        if scope:
            scoped[at, scope] = group
            runs.pop(at, None)
        else:
            runs[at] = group
        group.ops.append(o)
    return groups


def _spread(groups: list[_Group]) -> Iterator[_Group]:
    """Many layers of one kind at one place become a few groups of consecutive ones."""
    kinds: dict[tuple[At, str], list[_Group]] = {}
    for g in groups:
        if g.scope:
            kinds.setdefault((g.at, g.scope[0]), []).append(g)
    for g in groups:
        layers = kinds[g.at, g.scope[0]] if g.scope else []
        if len(layers) <= LAYERS_ABOVE:
            yield g
            continue
        size = -(-len(layers) // LAYER_BOXES)
        if layers.index(g) % size == 0:
            together = layers[layers.index(g) :][:size]
            yield _Group(g.at, g.scope, together[-1].scope, [o for part in together for o in part.ops])


def _lines(group: _Group) -> tuple[str, ...]:
    if len(group.ops) == 1:
        (o,) = group.ops
        return (f"%{o.name}", o.op, o.types)
    kinds = Counter(o.op for o in group.ops).most_common()
    shown = [f"{n} {kind}" for kind, n in kinds[:KINDS_SHOWN]]
    rest = sum(n for _, n in kinds[KINDS_SHOWN:])
    counts = ", ".join([*shown, *([f"{rest} more"] if rest else [])])
    return (f"{_title(group)}: {len(group.ops)} ops", counts)


def _title(group: _Group) -> str:
    if group.scope is None or group.last is None:
        return f"%{group.ops[0].name} to %{group.ops[-1].name}"
    through = "" if group.last == group.scope else f" to {group.last[1]}"
    return ".".join(group.scope) + through
