"""The cheapest way for bytes between two memories.

    h200-x2     gpu:0 to gpu:1   direct  hbm0 > hbm1           1 GiB in 2.389 ms
    rtx4090-x2  gpu:0 to gpu:1   staged  vram0 > host > vram1  1 GiB in 67.12 ms

No pair is refused for want of a direct link while a way round exists: it is routed, priced and called `staged`.
networkx is imported when the first route is asked for, because programs that stay in one place never need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from vxgraph.errors import MachineError
from vxgraph.topology.ids import Topology
from vxgraph.topology.model import Link, Machine, Memory

if TYPE_CHECKING:
    import networkx as nx

REFERENCE_BYTES = 1 << 20
"""Routes are compared at this size, so that a pair has one route whatever it moves."""

Kind = Literal["local", "direct", "staged"]


@dataclass(frozen=True, slots=True)
class Route:
    """A way from a memory to another, or to itself. `str()` is its path: `vram0 > host > vram1`."""

    src: Memory
    hops: tuple[Link, ...]

    @property
    def kind(self) -> Kind:
        """local: a copy within one memory; direct: one link; staged: through the memories in between."""
        match len(self.hops):
            case 0:
                return "local"
            case 1:
                return "direct"
            case _:
                return "staged"

    @property
    def memories(self) -> tuple[str, ...]:
        """The names of the memories on the way, both ends included."""
        return (self.src.name, *(hop.dst for hop in self.hops))

    def seconds(self, nbytes: int) -> float:
        """Time that `nbytes` take; hops follow one another, and a local copy reads and writes each byte."""
        if not self.hops:
            return 2 * nbytes / self.src.bandwidth
        return sum(hop.seconds(nbytes) for hop in self.hops)

    def __str__(self) -> str:
        return " > ".join(self.memories)


class Router:
    """The routes of one machine, each found once.

    >>> Router(load_machine("h200-x2")).route(GPU[0], GPU[1]).kind
    'direct'
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._links = {(link.src, link.dst): link for link in machine.links}
        self._routes: dict[tuple[Topology | None, Topology | None], Route] = {}

    def route(self, src: Topology | None, dst: Topology | None) -> Route:
        """The cheapest route from the memory of `src` to that of `dst`; None is the caller's (`machine.host`).

        Equally cheap routes: the one of fewer hops, then the first by names. MachineError where there is no path.
        """
        if (src, dst) not in self._routes:
            self._routes[src, dst] = self._find(src, dst)
        return self._routes[src, dst]

    @cached_property
    def _graph(self) -> nx.DiGraph[str]:
        return _graph_of(self._machine)

    def _find(self, src: Topology | None, dst: Topology | None) -> Route:
        import networkx as nx

        start, end = self._machine.memory_of(src), self._machine.memory_of(dst)
        try:
            paths: list[list[str]] = list(nx.all_shortest_paths(self._graph, start.name, end.name, weight="seconds"))
        except nx.NetworkXNoPath:
            raise self._no_path(src, dst) from None
        path = min(paths, key=lambda names: (len(names), names))
        return Route(start, tuple(self._links[hop] for hop in pairwise(path)))

    def _no_path(self, src: Topology | None, dst: Topology | None) -> MachineError:
        start, end = self._machine.memory_of(src).name, self._machine.memory_of(dst).name
        leaving = ", ".join(sorted(link.dst for link in self._machine.links if link.src == start))
        arriving = ", ".join(sorted(link.src for link in self._machine.links if link.dst == end))
        return MachineError(
            f"{self._machine.name}: no path from {_called(src)} to {_called(dst)}: "
            f"{self._machine.source} has no [[link]] from {start} to {end}, nor a way round",
            details=(
                f"links from {start} lead to: {leaving or 'nothing'}",
                f"links to {end} come from: {arriving or 'nothing'}",
            ),
        )


def _called(place: Topology | None) -> str:
    return "the caller" if place is None else str(place)


def _graph_of(machine: Machine) -> nx.DiGraph[str]:
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(memory.name for memory in machine.memories)
    for link in machine.links:
        graph.add_edge(link.src, link.dst, seconds=link.seconds(REFERENCE_BYTES))
    return graph
