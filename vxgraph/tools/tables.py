"""Tables for people, shared by the command line and the examples. Piped output has no colours and is never cut."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import typer
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table

from vxgraph.program.admission import HEADER, cells, show_bytes
from vxgraph.program.model import MemoryUse
from vxgraph.runtime.report import Moved
from vxgraph.runtime.session import Session
from vxgraph.tools.plain import plain, plain_lines
from vxgraph.tools.prices import BillRow, Priced, show_place, show_seconds
from vxgraph.topology.ids import Topology

WIDE = 1000  # columns where nobody looks at a terminal


def show(*parts: RenderableType, stderr: bool = False) -> None:
    """Prints parts to standard output (or error), in colour and to its width where that is a terminal."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    console = Console(stderr=stderr, width=None if terminal else WIDE, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for part in parts:
            console.print(_Plain(part))
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()), err=stderr)


@dataclass(frozen=True, slots=True)
class _Plain:
    """A part without what names in it would do to a terminal; the colours are ours."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.part, options):
            yield segment if segment.control else Segment(plain_lines(segment.text), segment.style)


def plain_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A table of aligned columns, with a rule under its head; those in `right` are numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in right)
    return table


def memory_table(uses: Iterable[MemoryUse]) -> Table:
    """The admission table."""
    table = plain_table(*HEADER, right=HEADER[2:])
    for use in uses:
        table.add_row(*map(plain, cells(use)), style="red" if use.headroom < 0 else None)
    return table


def bill_table(rows: Iterable[BillRow]) -> Table:
    """The transfer bill: per load, per run, and per step times the largest number of steps."""
    table = plain_table(
        "when", "kind", "from", "to", "route", "transfers", "bytes", "time", right=("transfers", "bytes", "time")
    )
    for row in rows:
        count = str(row.edges) if row.when != "step" else f"{row.edges} x {row.count} steps"
        ends = (show_place(row.src), show_place(row.dst))
        table.add_row(row.when, row.kind, *ends, row.route, count, show_bytes(row.nbytes), show_seconds(row.seconds))
    return table


def edge_table(edges: Iterable[Priced]) -> Table:
    """Single transfers, with why each exists."""
    table = plain_table("value", "from", "to", "count", "bytes", "why", "at", right=("count", "bytes"))
    for p in edges:
        t = p.transfer
        table.add_row(
            f"%{t.value}: {t.type}",
            show_place(t.src),
            show_place(t.dst),
            str(t.count),
            show_bytes(p.nbytes),
            plain(t.reason),
            plain(str(t.loc or "")),
        )
    return table


def placement_summary(session: Session) -> RenderableType:
    """Where the last run ran and what crossed: per topology its device and kernels, per pair bytes planned and seen."""
    report = session.report
    places = plain_table("place", "device", "kernels run", "resident", right=("kernels run", "resident"))
    for topology, kernels in report.dispatches.items():
        resident = sum(r.nbytes for r in report.uploads if r.topology == topology)
        places.add_row(str(topology), plain(session.bindings.get(topology, "?")), str(kernels), show_bytes(resident))
    crossings = plain_table(
        "from", "to", "transfers", "planned", "observed", right=("transfers", "planned", "observed")
    )
    for (src, dst), moved in _by_pair(report.transfers).items():
        planned, observed = sum(m.planned_bytes for m in moved), sum(m.observed_bytes for m in moved)
        style = "red" if planned != observed else "bold" if src is not None and dst is not None else None
        times = str(sum(m.count for m in moved))
        crossings.add_row(show_place(src), show_place(dst), times, f"{planned:,} B", f"{observed:,} B", style=style)
    return Group(places, "", crossings) if report.transfers else places


def _by_pair(moves: Iterable[Moved]) -> dict[tuple[Topology | None, Topology | None], list[Moved]]:
    """Transfers by (source, destination): between devices first, then to and from the host."""
    pairs: dict[tuple[Topology | None, Topology | None], list[Moved]] = {}
    for m in moves:
        pairs.setdefault((m.src, m.dst), []).append(m)
    return dict(
        sorted(pairs.items(), key=lambda item: (None in item[0], *(-1 if p is None else int(p) for p in item[0])))
    )
