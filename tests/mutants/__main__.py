"""python -m tests.mutants: who notices a broken program, and who a backend's lie; exit 1 where nobody does."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from tests.mutants.kinds import MUTATIONS
from tests.mutants.lies import Exposed, expose, lies
from tests.mutants.matrix import Matrix, trials
from tests.mutants.show import kill_matrix, told_lies

SHOWN = 10  # of those that should not be
WIDTH = 170  # columns, where there is no terminal to ask


def main(
    count: Annotated[int, typer.Option(help="mutants to make, the kinds in turn")] = 10 * len(MUTATIONS),
    seed: Annotated[int, typer.Option(help="another seed makes other mutants")] = 0,
    kind: Annotated[list[str] | None, typer.Option(help="only this kind, as the matrix names it; no lies")] = None,
    past: Annotated[str | None, typer.Option(help="also show wrong mutants that this checker alone lets pass")] = None,
) -> None:
    """Breaks correct programs in every way, tells every lie of a backend, and shows who notices."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, markup=False)
    found = Matrix()
    for trial in track(trials(count, seed, kind or MUTATIONS), "breaking programs", count, console=console):
        found.add(trial)
        if past and trial.verdict == "wrong" and trial.answers[past].outcome == "passed":
            console.print(f"\npast {past}: {trial}")
    console.print(kill_matrix(found))
    for key, trial in found.crashes.items():
        console.print(f"crash: {key} ({trial.kind}, {trial.subject.name}, seed {trial.seed})")
    for what, shown in (("survivor", found.survivors), ("crash of what proves", found.broken)):
        for trial in shown[:SHOWN]:
            console.print(f"\n{what}: {trial}")
    exposed = [] if kind else [expose(lie) for lie in track(lies(), "telling lies", console=console)]
    unnoticed = _tell(console, exposed)
    console.print(f"\n{found.wrong} mutants compute something wrong, {len(found.survivors)} survive")
    console.print(f"{found.total.crashed} mutants crash a session, {found.total.broke} of them prove")
    raise typer.Exit(1 if found.survivors or found.broken or unnoticed else 0)


def _tell(console: Console, exposed: list[Exposed]) -> list[Exposed]:
    """Shows the lies; those that change a result and that nobody notices."""
    unnoticed = [e for e in exposed if e.changes and not e.noticed]
    if exposed:
        console.print(told_lies(exposed))
        console.print(f"\n{sum(e.changes for e in exposed)} lies change a result, {len(unnoticed)} go unnoticed")
    return unnoticed


if __name__ == "__main__":
    typer.run(main)
