"""Fuzzing by hand, for as long as you like.

python -m tests.fuzz                          every target in turn, 60 s each
python -m tests.fuzz gguf --seconds 600       one target, guided by coverage where atheris is installed
python -m tests.fuzz gguf --seeded            one target, this project's own mutations (reproducible by seed)
python -m tests.fuzz gguf --replay 1234       that one mutant, with its traceback
"""

from __future__ import annotations

import argparse
import sys
from itertools import count
from pathlib import Path
from time import monotonic

import typer

from tests.fuzz import guided
from tests.fuzz.judge import judge, limited, scratch
from tests.fuzz.mutate import mutant
from tests.fuzz.report import Figures
from tests.fuzz.targets import TARGETS, Target


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=60, help="for each target")
    parser.add_argument("--seeded", action="store_true", help="mutate by seed, also where atheris is installed")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--replay", metavar="SEED_OR_FILE", help="run one input and show what comes of it")
    given = parser.parse_args()
    if unknown := [name for name in given.targets if name not in TARGETS]:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    targets = [TARGETS[name] for name in given.targets or TARGETS]
    if given.replay is not None:
        return max(replay(target, given.replay) for target in targets)
    by_coverage = not given.seeded and guided.is_installed()
    if not by_coverage and not given.seeded:
        typer.echo(guided.HOW_TO_GET_IT)
    fuzz = guided.fuzz if by_coverage else seeded
    return max(fuzz(target, given.seconds, given.first) for target in targets)


def seeded(target: Target, seconds: float, first: int) -> int:
    """Mutants by seed until the time is over."""
    figures, began, seeds = Figures(target), monotonic(), target.seeds()
    with scratch() as folder, limited():
        for seed in count(first):
            if monotonic() - began > seconds:
                break
            data = mutant(seed, seeds, text=target.text)
            figures.count(judge(target, data, folder, seconds=target.seconds), data, f"--replay {seed}")
    figures.say(monotonic() - began)
    return int(bool(figures.found))


def replay(target: Target, which: str) -> int:
    data = mutant(int(which), target.seeds(), text=target.text) if which.isdecimal() else Path(which).read_bytes()
    with scratch() as folder, limited():
        outcome = judge(target, data, folder)
    typer.echo(data[:2000] if not target.text else data.decode(errors="backslashreplace")[:4000])
    typer.echo(f"{target.name}: {outcome.verdict}\n{outcome.what}")
    return int(outcome.verdict == "finding")


if __name__ == "__main__":
    sys.exit(main())
