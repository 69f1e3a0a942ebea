"""Of correct programs that are broken, none that computes something wrong goes unnoticed.

`python -m tests.mutants` does the same with more mutants, and prints who notices.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from typer import Typer
from typer.testing import CliRunner

import vxgraph as vx
from tests.mutants import matrix
from tests.mutants.__main__ import main
from tests.mutants.checkers import Answer, digest, verify
from tests.mutants.judge import judge, wanted
from tests.mutants.kinds import COSTS, FORMAL, MEANING, MUTATIONS, RACES
from tests.mutants.matrix import Trial, trial_of, trials
from tests.mutants.subjects import Subject, small_subjects
from vxgraph.program.instructions import Dispatch, Download, Loop
from vxgraph.runtime.session import Session

FEWEST, MOST = 6, 64


def some(kind: str) -> list[Trial]:
    """Mutants of a kind: a few, and more until one of them computes something wrong."""
    found: list[Trial] = []
    for trial in trials(MOST, 1, [kind], small_subjects()):
        found.append(trial)
        if len(found) >= FEWEST and any(t.verdict == "wrong" for t in found):
            break
        if len(found) >= FEWEST and kind in (*COSTS, *FORMAL, *MEANING):
            break
    assert len(found) >= FEWEST
    return found


def survivors(found: Sequence[Trial]) -> str:
    """Those that compute something wrong unnoticed, or prove and crash a session."""
    return "\n\n".join(str(t) for t in found if t.survives or t.breaks)


@pytest.mark.parametrize("kind", [k for k in MUTATIONS if k not in (*COSTS, *FORMAL, *MEANING)])
def test_some_mutants_compute_something_wrong_and_none_survives_where(kind: str) -> None:
    found = some(kind)
    assert not survivors(found)
    wrong = [t for t in found if t.verdict == "wrong"]
    assert wrong
    assert {t.answers["verify"].outcome for t in wrong} == {"killed"}  # the proof alone refuses all of them
    if kind in RACES:
        assert {t.answers["sanitizer"].outcome for t in wrong} == {"killed"}


@pytest.mark.parametrize("kind", COSTS)
def test_the_bill_shows_what_is_moved_for_nothing_where(kind: str) -> None:
    found = some(kind)
    assert not survivors(found)
    assert all(t.mutant.transfers != t.subject.program.transfers for t in found)
    assert any(t.verdict == "same" for t in found)


@pytest.mark.parametrize("kind", FORMAL)
def test_the_proof_refuses_what_is_stated_wrong_even_where_no_result_changes(kind: str) -> None:
    found = some(kind)
    assert {t.answers["verify"].outcome for t in found} == {"killed"}
    assert any(t.verdict == "same" for t in found)


@pytest.mark.parametrize("kind", MEANING)
def test_a_right_program_for_another_graph_is_refused_by_its_digest_where(kind: str) -> None:
    found = some(kind)
    assert not survivors(found)
    others = [t for t in found if t.verdict == "other"]
    assert others
    for t in others:
        assert digest(t.subject, t.mutant).message.endswith(
            "the digest is not that of this text, so it was edited; compile again, or delete the digest line to have "
            "the edited program proved and loaded"
        )


def test_the_kinds_that_need_not_change_a_result_are_kinds() -> None:
    named = (*COSTS, *FORMAL, *MEANING, *RACES)
    assert len(set(named)) == len(named)
    assert set(named) <= set(MUTATIONS)
    assert len(MUTATIONS) - len((*COSTS, *FORMAL, *MEANING)) >= 40


# The judge.


def test_every_correct_program_proves_and_does_what_it_says_in_every_order() -> None:
    for subject in small_subjects():
        check_correct(subject)


def check_correct(subject: Subject) -> None:
    assert wanted(subject)
    assert judge(subject, subject.program, seed=11) == "same"
    assert verify(subject, subject.program, 0) == Answer("passed")
    with Session(subject.program, subject.params, "numpy") as s:
        found = [s.run(inputs) for inputs in subject.calls]
    for call, right in zip(found, wanted(subject), strict=True):
        for name, (dtype, shape, data) in right.items():
            reference = np.frombuffer(data, dtype).reshape(shape)
            np.testing.assert_allclose(call[name], reference, rtol=2e-4, atol=2e-4)


def test_another_result_is_told_from_a_wrong_one() -> None:
    subject = _named("swap")
    emptied = replace(subject.program, body=tuple(i for i in subject.program.body if not isinstance(i, Loop)))
    assert judge(subject, emptied, 0) == "wrong"
    loop = next(i for i in subject.program.body if isinstance(i, Loop))
    shorter = tuple(replace(i, max_steps=2) if i is loop else i for i in subject.program.body)
    assert judge(subject, replace(subject.program, body=shorter), 0) == "other"
    unwaited = tuple(replace(i, after=()) if isinstance(i, Download) else i for i in subject.program.body)
    assert judge(subject, replace(subject.program, body=unwaited), 0) == "same"  # the loop is a barrier


def test_a_race_is_wrong_even_where_the_first_order_is_right() -> None:
    subject = _named("mlp")
    hasty = tuple(replace(i, after=()) if isinstance(i, Dispatch) else i for i in subject.program.body)
    assert judge(subject, replace(subject.program, body=hasty), 0) == "wrong"


def _named(name: str) -> Subject:
    return next(s for s in small_subjects() if s.name == name)


# The matrix: it can fail.


def test_the_same_three_words_make_the_same_mutant_again() -> None:
    for trial in trials(12, 3, among=small_subjects()):
        again = trial_of(trial.kind, trial.subject, trial.seed)
        assert again is not None
        assert again.mutant == trial.mutant


def test_a_blind_checker_lets_mutants_survive_and_the_command_exits_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "subjects", small_subjects)
    app = Typer()
    app.command()(main)
    words = ["--count", "8", "--kind", "a wait is dropped", "--seed", "2"]
    seeing = CliRunner().invoke(app, words)
    assert seeing.exit_code == 0, seeing.output
    assert ", 0 survive" in seeing.output
    assert "survivor: " not in seeing.output
    monkeypatch.setattr(matrix, "CHECKERS", dict.fromkeys(matrix.CHECKERS, lambda *_: Answer("passed")))
    blind = CliRunner().invoke(app, words)
    assert blind.exit_code == 1
    assert "survivor: a wait is dropped: " in blind.output
    assert "\n--- " in blind.output


def test_every_program_is_broken_in_many_ways() -> None:
    """No program is there that has no place for most kinds."""
    counts: Counter[str] = Counter()
    for subject in small_subjects():
        for mutation in MUTATIONS.values():
            counts[subject.name] += matrix.mutant_of(mutation, subject.program, random.Random(1)) is not None
    assert min(counts.values()) >= 20


# What the mutants have found.


def test_what_is_emitted_under_one_name_has_one_type() -> None:
    with vx.Graph("g") as g:
        x = vx.input("x", vx.f32[2])
        with vx.on(vx.CPU[0]):
            vx.emit("e", x + 1)

            def step(y: vx.Value) -> list[vx.Value]:
                vx.emit("e", vx.concat([y, y], axis=0))
                return [y + 1]

            vx.loop(step, [x + 1], max_steps=1)
    with pytest.raises(vx.GraphError) as e:
        vx.compile(g, vx.load_machine("cpu"))
    assert e.value.message == "emit 'e' is f32[4] here and f32[2] elsewhere; a name has one type"
