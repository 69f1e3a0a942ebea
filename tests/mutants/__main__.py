"""python -m tests.mutants: who notices a broken program, and who a backend's lie; exit 1 where nobody does."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.mutants.checkers import CHECKERS
from tests.mutants.kinds import MUTATIONS
from tests.mutants.lies import NOTICES, Exposed, expose, lies
from tests.mutants.matrix import Row, Trial, trials

SHOWN = 10  # survivors
WIDTH = 160  # columns, where there is no terminal to ask


def main(
    count: Annotated[int, typer.Option(help="mutants to make, the kinds in turn")] = 1140,
    seed: Annotated[int, typer.Option(help="another seed makes other mutants")] = 0,
    kind: Annotated[list[str] | None, typer.Option(help="only this kind, as the matrix names it")] = None,
    past: Annotated[str | None, typer.Option(help="also show wrong mutants that this checker alone lets pass")] = None,
) -> None:
    """Breaks correct programs in every way, tells every lie of a backend, and shows who notices."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    rows: dict[str, Row] = defaultdict(Row)
    survivors: list[Trial] = []
    crashes: dict[str, Trial] = {}
    for trial in track(trials(count, seed, kind or MUTATIONS), "breaking programs", total=count, transient=True):
        rows[trial.kind].add(trial)
        if trial.survives:
            survivors.append(trial)
        if past and trial.verdict == "wrong" and trial.answers[past].outcome == "passed":
            console.print(f"\npast {past}: {trial}", markup=False, highlight=False)
        for name, answer in trial.answers.items():
            if answer.outcome == "crashed":
                key = f"{name}: {answer.message.partition(': ')[0]} in {answer.message.rpartition(' in ')[2]}"
                if key not in crashes or len(trial.mutant.body) < len(crashes[key].mutant.body):
                    crashes[key] = trial
    console.print(matrix(rows))
    for key, trial in crashes.items():
        where = f"{trial.kind}, {trial.subject.name}, seed {trial.seed}"
        console.print(f"crash: {key} ({where})", markup=False, highlight=False)
    for trial in survivors[:SHOWN]:
        console.print(f"\nsurvivor: {trial}", markup=False, highlight=False)
    wrong = sum(row.verdicts["wrong"] for row in rows.values())
    console.print(f"\n{wrong} mutants that compute something wrong, {len(survivors)} survive\n")
    exposed = [] if kind else [expose(lie) for lie in track(lies(), "telling lies", transient=True)]
    if exposed:
        console.print(told_lies(exposed))
    unnoticed = [e.lie.name for e in exposed if e.changes and not e.noticed]
    console.print(f"\n{sum(e.changes for e in exposed)} lies that change a result, {len(unnoticed)} unnoticed")
    raise typer.Exit(1 if survivors or unnoticed else 0)


def matrix(rows: dict[str, Row]) -> Table:
    """A row per kind."""
    table = Table("kind", title="who notices a broken program")
    for name in ("mutants", "same", "another program", "digest", "wrong", *CHECKERS, "any", "survive", "crash"):
        table.add_column(name, justify="right")
    total = Row()
    for kind, row in rows.items():
        table.add_row(kind, *_cells(row))
        total.mutants, total.signed = total.mutants + row.mutants, total.signed + row.signed
        for mine, its in ((total.verdicts, row.verdicts), (total.killed, row.killed), (total.crashed, row.crashed)):
            mine.update(its)  # type: ignore[arg-type]
    table.add_section()
    table.add_row("all", *_cells(total))
    return table


def _cells(row: Row) -> list[str]:
    verdicts = [row.verdicts["same"], row.verdicts["other"], row.signed, row.verdicts["wrong"]]
    killed = [row.killed[name] for name in (*CHECKERS, "any")]
    cells = [row.mutants, *verdicts, *killed, row.verdicts["wrong"] - row.killed["any"], row.crashed.total()]
    return [str(n) for n in cells]


def told_lies(exposed: list[Exposed]) -> Table:
    """A row per lie; a blank where the lie cannot be told."""
    table = Table("lie", "machine", "result", *NOTICES, "raises", title="who notices a lie of the backend")
    for e in exposed:
        told = {"sanitizer": e.lie.sanitized, "probe": e.lie.probed}
        seen = ["yes" if n in e.noticed else "" if told.get(n, True) is None else "no" for n in NOTICES]
        table.add_row(e.lie.name, e.lie.machine, "changed" if e.changes else "same", *seen, e.crash.partition(":")[0])
    return table


if __name__ == "__main__":
    typer.run(main)
