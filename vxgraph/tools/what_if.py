"""What a pin would change, found by compiling with it: nothing is claimed that was not compiled.

pin %matmul.1 (mlp.py:12) to gpu:0: 1.00 KiB less between devices per run
  then %w2 (64.00 KiB) is resident on gpu:0, not on gpu:1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vxgraph.errors import AdmissionError, VxError
from vxgraph.ir.graph import Graph, Node
from vxgraph.passes.rewrite import map_bodies
from vxgraph.program.admission import admit, show_bytes
from vxgraph.program.compile import Mode, plan
from vxgraph.program.instructions import Upload
from vxgraph.program.model import Program
from vxgraph.tools.prices import peer_bytes
from vxgraph.topology.ids import Topology
from vxgraph.topology.model import Machine


@dataclass(frozen=True)
class Pinned:
    """A program compiled with some nodes pinned elsewhere."""

    names: tuple[str, ...]
    place: Topology
    before: Program
    after: Program

    @property
    def saved(self) -> int:
        """Bytes between devices per run that are no longer moved; negative where more are."""
        return peer_bytes(self.before) - peer_bytes(self.after)

    def effects(self) -> Iterator[str]:
        """What else changes: where params are resident, and whether it fits."""
        before, after = _resident(self.before), _resident(self.after)
        for param in before:
            gained, lost = after[param] - before[param], before[param] - after[param]
            if gained or lost:
                size = next(p.type.max_bytes for p in self.before.params if p.name == param)
                yield f"then %{param} ({show_bytes(size)}) is resident on {_where(gained, lost)}"
        try:
            admit(self.after)
        except AdmissionError:
            full = ", ".join(
                f"{u.memory} lacks {show_bytes(-u.headroom)}" for u in self.after.memories if u.headroom < 0
            )
            yield f"but then it does not fit: {full}"


def pinned(
    graph: Graph, program: Program, names: tuple[str, ...], place: Topology, machine: Machine, mode: Mode
) -> Pinned | None:
    """The graph with the nodes `names` pinned to `place`, compiled; None where that does not compile."""
    wanted = set(names)

    def pin(node: Node) -> Node:
        return replace(node, place=place, hint=None) if node.name in wanted else node

    def pin_all(g: Graph) -> Graph:
        return replace(g, nodes=tuple(map(pin, g.nodes)))

    try:
        return Pinned(names, place, program, plan(pin_all(map_bodies(graph, pin_all)), machine, place=mode))
    except VxError:
        return None


def _resident(program: Program) -> dict[str, set[Topology]]:
    """Where each param is."""
    found: dict[str, set[Topology]] = {p.name: set() for p in program.params}
    for i in program.load:
        if isinstance(i, Upload):
            found[i.src].add(i.topology)
    return found


def _where(gained: set[Topology], lost: set[Topology]) -> str:
    at, gone = (" and ".join(map(str, sorted(places))) for places in (gained, lost))
    if gained and lost:
        return f"{at}, not on {gone}"
    return f"{at} as well" if gained else f"one place less: not on {gone}"
