"""Whether a mutant computes something else, decided by nothing of the package but the ops' NumPy references.

same       the bytes of every result of every call, in every order that was tried
other      other results, but those that its text asks for, in every order: a right program for another graph (or one
           whose op refuses the values that it is given, as its text makes it)
wrong      other results than the program's in some order, and not what its text asks for, or none at all
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

from tests.mutants.says import said
from tests.mutants.subjects import Subject
from tests.program.simulate import simulate_calls
from vxgraph.errors import RunError
from vxgraph.ir.types import Array
from vxgraph.program.model import Program

Verdict = Literal["same", "other", "wrong"]
Frozen = list[dict[str, tuple[Any, ...]]]
ORDERS = 6


class OneSided(random.Random):
    """Picks by a fixed ranking of the queues: those that rank low run as late as they may."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._ranks: dict[str, float] = {}

    def choice(self, seq: Sequence[Any]) -> Any:
        return max(seq, key=lambda queue: self._ranks.setdefault(str(queue), self.random()))


def orders(seed: int) -> list[random.Random]:
    """Orders to try: mostly one-sided, for a race shows where one queue runs far ahead of another."""
    return [random.Random(seed), *(OneSided(seed + k) for k in range(1, ORDERS))]


def frozen(results: list[dict[str, Array]]) -> Frozen:
    return [{name: (a.dtype.name, a.shape, a.tobytes()) for name, a in found.items()} for found in results]


@lru_cache(maxsize=256)
def wanted(subject: Subject) -> Frozen:
    """What the program gives; it says the same, in every order."""
    found = frozen(said(subject.program, subject.calls, subject.params))
    for rng in orders(0):
        assert frozen(simulate_calls(subject.program, subject.calls, subject.params, rng)) == found, subject.name
    return found


def judge(subject: Subject, mutant: Program, seed: int) -> Verdict:
    """The verdict on a mutant of the subject."""
    right = wanted(subject)
    found = [_behaviour(subject, mutant, rng) for rng in orders(seed)]
    if all(f == right for f in found):
        return "same"
    meant = _meant(subject, mutant)
    return "other" if meant is not None and all(f == meant for f in found) else "wrong"


def _behaviour(subject: Subject, mutant: Program, rng: random.Random) -> Frozen | str | None:
    return _ended(lambda: simulate_calls(mutant, subject.calls, subject.params, rng))


def _meant(subject: Subject, mutant: Program) -> Frozen | str | None:
    return _ended(lambda: said(mutant, subject.calls, subject.params))


def _ended(run: Callable[[], list[dict[str, Array]]]) -> Frozen | str | None:
    """The results; or an op's refusal of its operands' values; or None, whatever else a broken program came to."""
    try:
        return frozen(run())
    except RunError as error:
        return error.message
    except Exception:  # nothing here checks anything: an op's reference may fail in any way
        return None
