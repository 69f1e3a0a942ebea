"""The two tables: a row per kind of mutation, and a row per lie."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tests.mutants.checkers import CHECKERS
from tests.mutants.lies import NOTICES, Exposed
from tests.mutants.matrix import Matrix, Row


def kill_matrix(found: Matrix) -> Table:
    """`same`, `another program` and `wrong` are the verdicts; the checkers' columns count wrong mutants killed."""
    table = Table("kind", title="who notices a broken program")
    for name in ("mutants", "same", "another program", "digest", "wrong", *CHECKERS, "any", "survive", "crash"):
        table.add_column(name, justify="right")
    for kind, row in found.rows.items():
        table.add_row(kind, *_cells(row))
    table.add_section()
    table.add_row("all", *_cells(found.total))
    return table


def _cells(row: Row) -> list[str]:
    wrong = row.verdicts["wrong"]
    verdicts = [row.verdicts["same"], row.verdicts["other"], row.signed, wrong]
    killed = [row.killed[name] for name in (*CHECKERS, "any")]
    return [str(n) for n in (row.mutants, *verdicts, *killed, wrong - row.killed["any"], row.crashed)]


def told_lies(exposed: Sequence[Exposed]) -> Table:
    """A row per lie; a blank where the lie cannot be told."""
    table = Table("lie", "machine", "result", *NOTICES, "raises", title="who notices a lie of the backend")
    for e in exposed:
        told = {"sanitizer": e.lie.sanitized, "probe": e.lie.probed}
        seen = ["yes" if n in e.noticed else "" if told.get(n, True) is None else "no" for n in NOTICES]
        table.add_row(e.lie.name, e.lie.machine, "changed" if e.changes else "same", *seen, e.crash.partition(":")[0])
    return table
