"""How graphs, programs, machines, reports and sanitizers' verdicts look in a notebook.

    program        the picture, the memory table, what crosses
    report         what each place took, gave and ran; bytes planned and observed; the verdict

HTML is a fragment without scripts that takes the notebook's own colours; the picture in it stands on white.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from rich.console import Console, RenderableType

import vxgraph.dsl
from vxgraph.display import View
from vxgraph.errors import ConformanceError, VxError
from vxgraph.ir.graph import Graph
from vxgraph.program.admission import show_bytes, table_rows
from vxgraph.program.model import Program
from vxgraph.runtime.backends.sanitizer.sanitize import Sanitized
from vxgraph.runtime.report import Report
from vxgraph.tools import html
from vxgraph.tools.draw.render import find_renderer, render
from vxgraph.tools.html import Table
from vxgraph.tools.pictures import dot_text
from vxgraph.tools.plain import plain
from vxgraph.tools.prices import bill, show_place, unpriced
from vxgraph.tools.tables import CROSSING_HEAD, PLACE_HEAD, crossing_rows, place_rows, placement_summary, plain_table
from vxgraph.topology.model import Machine

LINES, WIDTH = 40, 100  # of a text where a notebook shows no HTML
HOW_TO_SEE_ALL = "print(... .text()) shows all of it"


def views(shown: object) -> Mapping[str, View]:
    """How to show an object, by MIME type; nothing is made before it is asked for."""
    match shown:
        case vxgraph.dsl.Graph():
            return views(shown.build())
        case Graph():
            return _drawn(shown, f"graph {shown.name}", lambda: dot_text(shown))
        case Program():
            title = f"program {shown.name} for {shown.machine}"
            return _drawn(shown, title, lambda: dot_text(shown))
        case Report():
            return {"text/plain": lambda: _report_text(shown), "text/html": lambda: _report(shown)}
        case Machine():
            return {"text/plain": lambda: _machine_text(shown), "text/html": lambda: _machine(shown)}
        case Sanitized():
            return {"text/plain": lambda: str(shown), "text/html": lambda: html.verdict(str(shown), good=True)}
        case _:
            return {}


# Graphs and programs.


def _drawn(shown: Graph | Program, title: str, dot: Callable[[], str]) -> Mapping[str, View]:
    @cache
    def svg() -> str | None:
        return _svg(dot())

    return {
        "text/plain": lambda: _short(shown.text()),
        "text/html": lambda: _page(shown, title, svg() or ""),
        "image/svg+xml": svg,
    }


def _page(shown: Graph | Program, title: str, picture: str) -> str:
    if isinstance(shown, Graph):
        return html.fragment(title, picture=picture)
    return html.fragment(title, *_program(shown), places=shown.topologies, picture=picture)


def _short(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if len(lines) <= LINES:
        return "\n".join(lines)
    return "\n".join([*lines[: LINES - 1], f"... and {len(lines) - LINES + 1} more lines: {HOW_TO_SEE_ALL}"])


def _svg(dot: str) -> str | None:
    """The picture's element; None where nothing here draws it."""
    renderer = find_renderer()
    if renderer is None:
        return None
    try:
        drawn = render(dot, "svg", renderer).decode()
    except VxError:
        return None
    return drawn[drawn.index("<svg") :]


def _program(program: Program) -> Iterator[Table]:
    head, *rows = table_rows(program.memories)
    yield Table("memory", head, rows, right=head[2:])
    yield _bill(program)


def _bill(program: Program) -> Table:
    """What crosses, at the symbols' bounds; its times are a machine's, so `vxgraph check` says them."""
    rows = bill(unpriced(program))
    cells = [
        (
            row.when,
            row.kind,
            show_place(row.src),
            show_place(row.dst),
            str(row.edges) if row.when != "step" else f"{row.edges} x {row.count} steps",
            show_bytes(row.nbytes),
        )
        for row in rows
    ]
    return Table("transfers", ("when", "kind", "from", "to", "transfers", "bytes"), cells, right=("transfers", "bytes"))


# Reports.


def _report_text(report: Report) -> str:
    verdict, _ = _verdict(report)
    return _plain(placement_summary(report), "", verdict)


def _report(report: Report) -> str:
    verdict, good = _verdict(report)
    tables = [Table("places", PLACE_HEAD, [*place_rows(report)], right=PLACE_HEAD[2:])]
    if report.transfers:
        tables.append(Table("what crossed", CROSSING_HEAD, [*crossing_rows(report)], right=CROSSING_HEAD[2:]))
    title, after = f"report of {report.program.name} for {report.program.machine}", html.verdict(verdict, good=good)
    return html.fragment(title, *tables, places=report.program.topologies, after=after)


def _verdict(report: Report) -> tuple[str, bool]:
    try:
        report.conforms()
    except ConformanceError as error:
        return str(error), False
    return "the run is the plan: places, counts and bytes were observed, and are as planned", True


# Machines.


def _machine(machine: Machine) -> str:
    return html.fragment(f"machine {machine.name}", *_machine_tables(machine))


def _machine_text(machine: Machine) -> str:
    parts: list[RenderableType] = [f"machine {plain(machine.name)}, from {plain(machine.source)}"]
    for table in _machine_tables(machine):
        shown = plain_table(*table.head, right=table.right)
        for row in table.rows:
            shown.add_row(*map(plain, row))
        parts += ["", shown]
    return _plain(*parts)


def _machine_tables(machine: Machine) -> Iterator[Table]:
    devices = [
        (str(d.topology), d.memory, ", ".join(f"{name} {flops / 1e12:,.1f}" for name, flops in d.flops.items()))
        for d in (machine.device(t) for t in machine.topologies)
    ]
    yield Table("devices", ("place", "memory", "TFLOP/s"), devices, right=())
    sizes = [(m.name, *map(show_bytes, (m.capacity, m.reserved)), _rate(m.bandwidth)) for m in machine.memories]
    head = ("memory", "capacity", "reserved", "bandwidth")
    yield Table("memories", head, sizes, right=head[1:])
    links = [(link.src, link.dst, _rate(link.bandwidth), f"{link.latency * 1e6:.3g} us") for link in machine.links]
    yield Table("links", ("from", "to", "bandwidth", "latency"), links, right=("bandwidth", "latency"))


def _rate(bandwidth: float) -> str:
    return f"{bandwidth / 1e9:,.0f} GB/s"


def _plain(*parts: Any) -> str:
    """What a terminal would show without colours."""
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))
