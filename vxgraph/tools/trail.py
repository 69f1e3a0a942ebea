"""What became of the values that the user wrote: which pass took one away, and what stands for it.

%silu    fuse    is part of %mul
%t       canonicalise    %matmul reads %w instead
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from vxgraph.ir.graph import Graph
from vxgraph.ir.verify import verify
from vxgraph.passes.rewrite import names_of
from vxgraph.program.compile import Mode, pipeline
from vxgraph.topology.model import Machine


@dataclass(frozen=True, slots=True)
class Gone:
    """A value that a pass took away; `within` is the value that it is computed as a part of, if there is one."""

    by: str
    within: str | None


@dataclass(frozen=True)
class Trail:
    """A graph through the passes."""

    graph: Graph  # as the user wrote it
    placed: Graph
    gone: dict[str, Gone] = field(repr=False)

    def parts_of(self, name: str) -> tuple[str, ...]:
        """The user's nodes that are computed as `name`, itself included."""
        return (name, *(n for n, gone in self.gone.items() if gone.within == name))


def trail_of(graph: Graph, machine: Machine, place: Mode) -> Trail:
    """Runs the passes, watching names. Raises what `place_graph` raises."""
    stages: list[tuple[str, Graph]] = [("", graph)]
    verify(graph)
    placed = pipeline(machine, place=place).run(graph, watch=lambda name, g: stages.append((name, g)))
    gone: dict[str, Gone] = {}
    for (_, before), (name, after) in pairwise(stages):
        left = names_of(after)
        for value in names_of(before) - left:
            gone.setdefault(value, Gone(name, _within(value, before, left) if name == "fuse" else None))
    return Trail(graph, placed, dict(sorted(gone.items())))


def _within(value: str, before: Graph, left: set[str]) -> str | None:
    """The surviving value whose node a fused value went into: its only reader, or that one's."""
    readers = {i: node.name for _, node in before.walk() for i in node.inputs}
    name: str | None = value
    while name is not None and name not in left:
        name = readers.get(name)
    return name
