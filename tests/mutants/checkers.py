"""Who may notice that a program is broken, each asked alone.

verify        `verify_program`, which every compiled or loaded program passes
sanitizer     sessions bound to "sanitizer" and to a few of its random orders
conformance   an audited session on NumPy, and its report

digest        `parse_program`, given the mutant's text under the digest of the program that it was: an edited file

A checker notices with an error of the VxError family. Any other exception is a crash: it stops the run too, but tells
the user nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.mutants.subjects import Subject
from vxgraph.errors import VxError
from vxgraph.program.model import Program
from vxgraph.program.text import parse_program
from vxgraph.program.verify import verify_program
from vxgraph.runtime.abi import Backend
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session

Outcome = Literal["passed", "killed", "crashed"]
SEEDS = 2


@dataclass(frozen=True)
class Answer:
    """What a checker did, and its message."""

    outcome: Outcome
    message: str = ""


def _asked(check: Callable[[], Any]) -> Answer:
    try:
        check()
    except VxError as error:
        return Answer("killed", str(error))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('vxgraph/')[2]}:{frame.name}"
        return Answer("crashed", f"{type(error).__name__}: {error} in {where}")
    return Answer("passed")


def verify(subject: Subject, mutant: Program, seed: int) -> Answer:
    """The proof of the finished plan."""
    return _asked(lambda: verify_program(mutant))


def sanitizer(subject: Subject, mutant: Program, seed: int) -> Answer:
    """As late as events allow, then in random orders; the first that notices."""
    for target in ("sanitizer", *(f"sanitizer:{seed + k}" for k in range(SEEDS))):
        answer = _asked(lambda target=target: _run(subject, mutant, SanitizerBackend(), target))
        if answer.outcome != "passed":
            return answer
    return answer


def conformance(subject: Subject, mutant: Program, seed: int) -> Answer:
    """What ran against what was planned, on NumPy."""
    return _asked(lambda: _run(subject, mutant, NumpyBackend(), "numpy", audit=True))


def digest(subject: Subject, mutant: Program) -> Answer:
    """Asked of right programs for another graph only: a sum sees every edit and proves nothing."""
    text = mutant.text().replace(mutant.digest, subject.program.digest)
    return _asked(lambda: parse_program(text, "edited.vxp"))


def _run(subject: Subject, mutant: Program, backend: Backend, target: str, **keywords: Any) -> None:
    # What bind=target would find, without looking through the installed packages each time.
    binding = Binding(dict.fromkeys(mutant.topologies, (backend, target)))
    with Session(mutant, subject.params, binding, **keywords) as session:
        for inputs in subject.calls:
            session.run(inputs)
            session.report.conforms()


CHECKERS = {"verify": verify, "sanitizer": sanitizer, "conformance": conformance}
