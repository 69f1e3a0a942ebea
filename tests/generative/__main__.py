"""python -m tests.generative --count 1000000 [--seed S] [--jobs 2]"""

from __future__ import annotations

import signal
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.generative.check import compiled
from tests.generative.sweep import ELSEWHERE, Failure, Report, sweep, why_of

OUT = Console(highlight=False, soft_wrap=True)
app = typer.Typer(add_completion=False)


@app.command()
def main(
    count: Annotated[int, typer.Option(help="Graphs to try.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The first graph's seed; the others follow it.")] = 0,
    jobs: Annotated[int, typer.Option(help="Cores to use.")] = 2,
    sample: Annotated[int, typer.Option(help="Every which graph is compiled again in another process.")] = 4,
) -> None:
    """Random graphs at random places in random legal orders: all of them must give what one device gives."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with bar:
        task = bar.add_task("graphs", total=count)

        def progress(report: Report) -> None:
            text = f"{report.graphs / report.seconds:.0f} graphs/s, failures {len(report.failures)}"
            bar.update(task, completed=report.graphs, description=text)

        report = sweep(range(seed, seed + count), jobs=jobs, sample=sample, progress=progress)
    show(report)
    for failure in report.failures:
        show_failure(failure)
    raise typer.Exit(1 if report.failures else 0)


def show(report: Report) -> None:
    """The counts, by what they are of."""
    rate = report.graphs / report.seconds
    OUT.print(
        f"{report.graphs:,} graphs, {report.counts['runs']:,} runs, failures {len(report.failures)}, "
        f"{report.seconds:.0f} s, {rate:.0f} graphs/s; {report.again:,} compiled again with another hash seed"
    )
    for what in ("places", "loops", "depth", "instructions", "machine", "op"):
        rows = {name.partition(":")[2]: n for name, n in report.counts.items() if name.startswith(f"{what}:")}
        table = Table(title=f"graphs by {what}", show_header=False, title_justify="left")
        for name, n in sorted(
            rows.items(), key=lambda row: (len(row[0].split()[0]), row[0]) if what != "op" else (0, row[0])
        ):
            table.add_row(name, f"{n:,}")
        OUT.print(table)
    totals = ("runs with T = 0", "dispatches", "transfers", "waits", "donations")
    OUT.print(", ".join(f"{what} {report.counts[what]:,}" for what in totals))


def show_failure(failure: Failure) -> None:
    """The seed, and the smallest graph and schedule that fail."""
    OUT.print(f"\nseed {failure.seed}\n{failure.why}", markup=False)
    if failure.recipe is None:
        return
    why = why_of(failure.recipe) or ELSEWHERE
    OUT.print(f"\nmade small: {why}\n\n{failure.recipe}\n", markup=False)
    OUT.print(f"schedule {failure.recipe.order}, sizes of (T, L) {failure.recipe.runs}", markup=False)
    try:
        c = compiled(failure.recipe)
    except Exception:
        return
    OUT.print(c.texts[0], c.texts[2], sep="\n", markup=False)


if __name__ == "__main__":
    app()
