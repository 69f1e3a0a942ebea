"""The order of passes, as data that is checked when the pipeline is built.

A pass says what it needs of a graph and what it gives; `verify` runs after each, and a graph that a pass broke is an
InternalError that names the pass and shows the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vxgraph.errors import GraphError, InternalError
from vxgraph.ir.graph import Graph
from vxgraph.ir.verify import Proved, verify


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step. `run` is pure; user errors that it raises are VxErrors."""

    name: str
    run: Callable[[Graph], Graph]
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Pipeline:
    """Passes in order; InternalError at once where one needs what none before it gives."""

    passes: tuple[Pass, ...]

    def __post_init__(self) -> None:
        given: frozenset[str] = frozenset()
        for p in self.passes:
            if missing := sorted(p.needs - given):
                raise InternalError(f"pass {p.name} needs {', '.join(missing)}, which no pass before it gives")
            given |= p.gives

    def run(self, graph: Graph, watch: Callable[[str, Graph], None] | None = None) -> Graph:
        """The graph after all passes; `watch` is shown the graph after each."""
        proved = Proved()
        for p in self.passes:
            graph = p.run(graph)
            try:
                verify(graph, proved)
            except GraphError as error:
                raise InternalError(f"pass {p.name} broke the graph: {error}\n{graph.text()}") from error
            if watch is not None:
                watch(p.name, graph)
        return graph
