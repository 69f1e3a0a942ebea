"""The kill matrix: per kind of mutation, how many mutants change a result, and who notices.

A mutant that changes a result and is no program of its own (see judge) must be killed by somebody. One that nobody
kills is a survivor, and a bug of a checker.
"""

from __future__ import annotations

import difflib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from tests.mutants.checkers import CHECKERS, Answer, digest
from tests.mutants.edits import mutant_of
from tests.mutants.judge import Verdict, judge
from tests.mutants.kinds import MUTATIONS
from tests.mutants.subjects import Subject, subjects
from vxgraph.program.model import Program


@dataclass(frozen=True)
class Trial:
    """One mutant, judged and shown to every checker. `kind`, `subject` and `seed` make it again."""

    kind: str
    subject: Subject
    seed: int
    mutant: Program
    verdict: Verdict
    answers: dict[str, Answer]

    @property
    def killed(self) -> bool:
        """Whether anybody noticed."""
        return any(a.outcome == "killed" for a in self.answers.values())

    @property
    def survives(self) -> bool:
        """Whether it computes something wrong and nobody noticed."""
        return self.verdict == "wrong" and not self.killed

    @property
    def crashes(self) -> tuple[str, ...]:
        """Who ended with an exception that is no VxError, and with which."""
        return tuple(f"{n}: {a.message}" for n, a in self.answers.items() if a.outcome == "crashed")

    @property
    def breaks(self) -> bool:
        """Whether it proves, and crashes a session all the same: a user's program could do that."""
        return self.answers["verify"].outcome == "passed" and bool(self.crashes)

    def __str__(self) -> str:
        before, after = (p.text().splitlines() for p in (self.subject.program, self.mutant))
        diff = (n for n in difflib.unified_diff(before, after, lineterm="", n=1) if "  digest " not in n)
        head = f"{self.kind}: {self.subject.name}, seed {self.seed}: {self.verdict}"
        said = (
            f"  {name}: {a.outcome} {a.message.splitlines()[0] if a.message else ''}"
            for name, a in self.answers.items()
        )
        return "\n".join((head, *said, *diff))


@dataclass
class Row:
    """A kind's counts."""

    mutants: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter["Verdict"])
    signed: int = 0  # of right programs for another graph: those that are refused as an edited file
    killed: Counter[str] = field(default_factory=Counter[str])  # of those that are wrong, by checker and by "any"
    crashed: int = 0  # of all: those that end a session with an exception that is no VxError
    broke: int = 0  # of these: those that prove

    def add(self, trial: Trial) -> None:
        """Counts one more."""
        self.mutants += 1
        self.verdicts[trial.verdict] += 1
        self.crashed += bool(trial.crashes)
        self.broke += trial.breaks
        if trial.verdict == "other":
            self.signed += digest(trial.subject, trial.mutant).outcome == "killed"
        if trial.verdict == "wrong":
            self.killed.update(name for name, a in trial.answers.items() if a.outcome == "killed")
            self.killed["any"] += trial.killed


@dataclass
class Matrix:
    """A row per kind, the mutants that nobody should have let pass, and an example of each crash."""

    rows: dict[str, Row] = field(default_factory=lambda: defaultdict[str, Row](Row))
    survivors: list[Trial] = field(default_factory=list["Trial"])
    broken: list[Trial] = field(default_factory=list["Trial"])
    crashes: dict[str, Trial] = field(default_factory=dict[str, "Trial"])

    def add(self, trial: Trial) -> None:
        """Counts one more, as its kind's and in all."""
        self.rows[trial.kind].add(trial)
        if trial.survives:
            self.survivors.append(trial)
        elif trial.breaks:
            self.broken.append(trial)
        for message in trial.crashes:
            key = f"{message.split(': ')[1]} in {message.rpartition(' in ')[2]}"
            if len(trial.mutant.body) < len(self.crashes.setdefault(key, trial).mutant.body):
                self.crashes[key] = trial

    @property
    def wrong(self) -> int:
        """Mutants that compute something wrong."""
        return sum(row.verdicts["wrong"] for row in self.rows.values())

    @property
    def total(self) -> Row:
        """All rows together."""
        rows = self.rows.values()
        verdicts, killed = (sum((getattr(r, n) for r in rows), Counter[Any]()) for n in ("verdicts", "killed"))
        counts = (sum(getattr(r, n) for r in rows) for n in ("mutants", "signed", "crashed", "broke"))
        mutants, signed, crashed, broke = counts
        return Row(mutants, verdicts, signed, killed, crashed, broke)


def trials(count: int, seed: int, kinds: Iterable[str] = MUTATIONS, among: Sequence[Subject] = ()) -> Iterator[Trial]:
    """About `count` mutants, the kinds in turn, each of another program than the one before."""
    rng = random.Random(seed)
    found = among or subjects()
    pools = {kind: cycle(rng.sample(found, len(found))) for kind in kinds}
    for kind in islice(cycle(pools), count):
        for _ in range(50):  # not every program has a place for every kind
            trial = trial_of(kind, next(pools[kind]), rng.randrange(2**31))
            if trial is not None:
                yield trial
                break


def trial_of(kind: str, subject: Subject, seed: int) -> Trial | None:
    """The mutant that these three make; None where there is none."""
    mutant = mutant_of(MUTATIONS[kind], subject.program, random.Random(seed))
    if mutant is None:
        return None
    answers = {name: check(subject, mutant, seed) for name, check in CHECKERS.items()}
    return Trial(kind, subject, seed, mutant, judge(subject, mutant, seed), answers)
