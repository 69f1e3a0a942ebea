"""Tables for people, shared by the command line and the examples.

place  device       kernels   resident        in       out  host time
gpu:0  numpy:gpu:0        2  64.00 KiB     256 B  1.00 KiB    61.5 us
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from vxgraph.program.admission import HEADER, show_bytes, table_rows
from vxgraph.program.instructions import Queue, Queued
from vxgraph.program.model import MemoryUse, Program
from vxgraph.program.timeline import Timeline
from vxgraph.runtime.report import Moved, Report
from vxgraph.tools.plain import plain
from vxgraph.tools.prices import BillRow, Priced, show_place, show_seconds
from vxgraph.tools.terminal import Fitting
from vxgraph.topology.ids import Topology

WIDE_GAP, NARROW_GAP = 3, 2  # columns between two cells
TIME_WIDTH = 7  # of `12.3 ms`: a table is as wide on a slow machine as on a fast one
PLACE_HEAD = ("place", "device", "kernels", "resident", "in", "out", "host time")
CROSSING_HEAD = ("from", "to", "transfers", "planned", "observed", "host time")
HOST = show_place(None)
_WORD = 8  # columns that a cell of words needs to be readable


class PlainTable(Table):
    """Aligned columns with a rule under their head. Numbers stay in one piece while the terminal has the room."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if sum(self._needs(column) for column in self.columns) > options.max_width:
            for column in self.columns:
                column.no_wrap = False
        yield from super().__rich_console__(console, options)

    def _needs(self, column: Column) -> int:
        longest = max((cell_len(str(cell)) for cell in (column.header, *column.cells)), default=0)
        return (longest if column.no_wrap else min(longest, _WORD)) + self.padding[1] + 1


def plain_table(*columns: str, right: Sequence[str] = (), gap: int = WIDE_GAP) -> Table:
    """A table with these columns; those in `right` are numbers."""
    table = PlainTable(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap - 1, 0, 0), header_style="bold", show_edge=False
    )
    table.highlight = True
    for name in columns:
        number = name in right
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold")
    return table


def memory_table(uses: Iterable[MemoryUse]) -> RenderableType:
    """The admission table."""
    return admission_table(table_rows(uses))


def admission_table(rows: Sequence[Sequence[str]]) -> RenderableType:
    """The same from its head and cells; a column per memory where a row per memory does not fit the terminal."""
    held = [_memory_cells(row) for row in rows[1:]]
    sideways = (_sideways(held, count) for count in range(len(held), 0, -1))
    return Fitting((_memory_rows(held), *sideways))


def _memory_rows(held: Iterable[Sequence[Text | str]]) -> Table:
    shown = plain_table(*HEADER, right=HEADER[2:])
    for row in held:
        shown.add_row(*row)
    return shown


def _sideways(held: Sequence[Sequence[Text | str]], count: int) -> RenderableType:
    """`count` memories beside each other, then the next."""
    tables: list[RenderableType] = []
    for k in range(0, len(held), count):
        shown = plain_table(HEADER[0], gap=NARROW_GAP)
        for first, *_ in held[k : k + count]:
            shown.add_column(first, justify="right", no_wrap=True, overflow="fold")
        for row, name in enumerate(HEADER[1:], 1):
            shown.add_row(name, *(one[row] for one in held[k : k + count]))
        tables += [*([""] if tables else []), shown]
    return Group(*tables)


def _memory_cells(row: Sequence[str]) -> list[Text | str]:
    *shown, peak, capacity, headroom = map(plain, row)
    styles = ("bold red", "bold red") if headroom.startswith("-") else ("bold", "green")
    return [*shown, Text(peak, styles[0]), capacity, Text(headroom, styles[1])]


def bill_table(rows: Iterable[BillRow]) -> RenderableType:
    """The transfer bill: per load, per run, and per step times the largest number of steps."""
    held = tuple(rows)
    return Fitting((_bill_rows(held, WIDE_GAP), _bill_rows(held, NARROW_GAP)))


def _bill_rows(rows: Iterable[BillRow], gap: int) -> Table:
    numbers = ("transfers", "bytes", "time")
    table = plain_table("when", "kind", "from", "to", "route", *numbers, right=numbers, gap=gap)
    for row in rows:
        count = str(row.edges) if row.when != "step" else f"{row.edges} x {row.count} steps"
        ends = (show_place(row.src), show_place(row.dst))
        style = "bold" if row.when != "load" and row.src is not None and row.dst is not None else None
        table.add_row(
            row.when, row.kind, *ends, row.route, count, show_bytes(row.nbytes), show_seconds(row.seconds), style=style
        )
    return table


def edge_table(edges: Iterable[Priced]) -> RenderableType:
    """Single transfers, with why each exists: in columns of its own, or in lines below the value."""
    held = tuple(edges)
    return Fitting((_edge_rows(held, WIDE_GAP), _edge_rows(held, NARROW_GAP), _edge_lines(held)))


def _edge_rows(edges: Iterable[Priced], gap: int) -> Table:
    table = plain_table("value", "from", "to", "count", "bytes", "why", "at", right=("count", "bytes"), gap=gap)
    for p in edges:
        table.add_row(_value(p), *_sizes(p), plain(p.transfer.reason), plain(str(p.transfer.loc or "")))
    return table


def _edge_lines(edges: Iterable[Priced]) -> Table:
    table = plain_table("value, why, at", "from", "to", "count", "bytes", right=("count", "bytes"), gap=NARROW_GAP)
    for p in edges:
        more = (plain(line) for line in (p.transfer.reason, str(p.transfer.loc or "")) if line)
        table.add_row("\n  ".join([_value(p), *more]), *_sizes(p))
    return table


def _value(p: Priced) -> str:
    return plain(f"%{p.transfer.value}: {p.transfer.type}")


def _sizes(p: Priced) -> tuple[str, ...]:
    t = p.transfer
    return show_place(t.src), show_place(t.dst), str(t.count), show_bytes(p.nbytes)


def placement_summary(report: Report) -> RenderableType:
    """Where the last run ran and what crossed, per topology and per pair of places."""
    places = _timed_table(PLACE_HEAD)
    for row in place_rows(report):
        places.add_row(*map(plain, row))
    if not report.transfers:
        return places
    crossings = _timed_table(CROSSING_HEAD)
    for row in crossing_rows(report):
        src, dst, _, planned, observed, _ = row
        style = "red" if planned != observed else "bold" if HOST not in (src, dst) else None
        crossings.add_row(*row, style=style)
    return Group(places, "", crossings)


def queue_table(run: Timeline, program: Program) -> RenderableType:
    """How much of the time each queue is busy, of the slices that the timeline has."""
    shown = plain_table("queue", "instructions", "busy", "share", right=("instructions", "busy", "share"))
    until = max((s.end for s in run.slices), default=0.0)
    busy: dict[Queue, list[float]] = {Queue(t, kind): [] for t in program.topologies for kind in ("compute", "copy")}
    for s in run.slices:
        busy[s.instr.queue].append(s.seconds)
    for queue, times in busy.items():
        share = f"{100 * sum(times) / until:.1f} %" if until else "-"
        shown.add_row(str(queue), f"{len(times):,}", show_seconds(sum(times)), share)
    return shown


def _timed_table(head: Sequence[str]) -> Table:
    table = plain_table(*head, right=head[2:], gap=NARROW_GAP)
    table.columns[-1].min_width = TIME_WIDTH
    return table


def place_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Per topology its device, kernels, bytes and time. Time is the host's, in calls of the backend: a device that
    works by itself is busy for longer, or for less."""
    for topology, kernels in report.dispatches.items():
        resident = sum(r.nbytes for r in report.uploads if r.topology == topology)
        taken = sum(m.observed_bytes for m in report.transfers if m.dst == topology)
        given = sum(m.observed_bytes for m in report.transfers if m.src == topology)
        queued = (i for i in report.instructions if isinstance(i.instr, Queued) and i.instr.topology == topology)
        device, seconds = report.devices.get(topology, "?"), show_seconds(sum(i.seconds for i in queued))
        yield str(topology), device, str(kernels), *map(show_bytes, (resident, taken, given)), seconds


def crossing_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """What crossed, per pair of places: the bytes planned, and those observed."""
    for (src, dst), moved in _by_pair(report.transfers).items():
        planned, observed = sum(m.planned_bytes for m in moved), sum(m.observed_bytes for m in moved)
        count, seconds = sum(m.count for m in moved), sum(m.seconds for m in moved)
        sizes = (f"{planned:,} B", f"{observed:,} B")
        yield show_place(src), show_place(dst), str(count), *sizes, show_seconds(seconds)


def _by_pair(moves: Iterable[Moved]) -> dict[tuple[Topology | None, Topology | None], list[Moved]]:
    """Transfers by (source, destination): between devices first, then to and from the host."""
    pairs: dict[tuple[Topology | None, Topology | None], list[Moved]] = {}
    for m in moves:
        pairs.setdefault((m.src, m.dst), []).append(m)
    return dict(
        sorted(pairs.items(), key=lambda item: (None in item[0], *(-1 if p is None else int(p) for p in item[0])))
    )
