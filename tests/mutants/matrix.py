"""The kill matrix: per kind of mutation, how many mutants change a result, and who notices.

A mutant that changes a result and is no program of its own (see judge) must be killed by somebody. One that nobody
kills is a survivor, and a bug of a checker.
"""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

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
    killed: Counter[str] = field(default_factory=Counter[str])  # of those that are wrong, by checker and by "any"
    crashed: Counter[str] = field(default_factory=Counter[str])  # of all
    signed: int = 0  # of right programs for another graph: those that are refused as an edited file

    def add(self, trial: Trial) -> None:
        """Counts one more."""
        self.mutants += 1
        self.verdicts[trial.verdict] += 1
        self.crashed.update(name for name, a in trial.answers.items() if a.outcome == "crashed")
        if trial.verdict == "other":
            self.signed += digest(trial.subject, trial.mutant).outcome == "killed"
        if trial.verdict != "wrong":
            return
        self.killed.update(name for name, a in trial.answers.items() if a.outcome == "killed")
        self.killed["any"] += trial.killed


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
