"""Every format under a few hundred mutants, the same in every run; `python -m tests.fuzz` goes on from there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.judge import judge, limited
from tests.fuzz.mutate import mutant
from tests.fuzz.targets import TARGETS, Target
from vxgraph.errors import VxError
from vxgraph.ir.lexer import Reader

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


def verdicts(target: Target, folder: Path, mutants: int) -> Counter[str]:
    """How many were accepted and refused; fails at the first finding, and says how to see it again."""
    found: Counter[str] = Counter()
    with limited():
        for seed in range(mutants):
            outcome = judge(target, mutant(seed, target.seeds(), text=target.text), folder)
            assert outcome.verdict != "finding", f"python -m tests.fuzz {target.name} --replay {seed}\n{outcome.what}"
            found[outcome.verdict] += 1
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_valid_is_accepted(name: str, tmp_path: Path) -> None:
    for data in TARGETS[name].seeds()[:4]:
        outcome = judge(TARGETS[name], data, tmp_path)
        assert outcome.verdict == "accepted", outcome.what


@pytest.mark.parametrize("name", [name for name in TARGETS if not name.startswith("cli-")])
def test_any_bytes_are_read_or_refused_with_one_message(name: str, tmp_path: Path) -> None:
    found = verdicts(TARGETS[name], tmp_path, TARGETS[name].mutants)
    assert found["accepted"]
    assert found["refused"]


@pytest.mark.parametrize("name", [name for name in TARGETS if name.startswith("cli-")])
def test_any_file_gives_a_command_a_documented_exit_code_and_no_traceback(name: str, tmp_path: Path) -> None:
    assert verdicts(TARGETS[name], tmp_path, 80)["accepted"] == 80


# The fuzzers themselves.


def test_a_mutant_is_its_seeds_number_and_nothing_else() -> None:
    for target in TARGETS.values():
        first, second = ([mutant(n, target.seeds(), text=target.text) for n in range(20)] for _ in range(2))
        assert first == second
        assert len(set(first)) > 10


def finding(target: Target, folder: Path, mutants: int = 200) -> str:
    """The first finding's kind."""
    for seed in range(mutants):
        outcome = judge(target, mutant(seed, target.seeds(), text=target.text), folder, seconds=0.5)
        if outcome.verdict == "finding":
            return outcome.key
    return "none"


def test_a_parser_that_forgets_to_ask_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "number", lambda self, what: int(self.take("number", what)))
    assert finding(TARGETS["graph"], tmp_path) == "ValueError in literal.py:read_literal"


def test_a_parser_that_does_not_end_is_found(tmp_path: Path) -> None:
    def run(data: bytes, _: Path) -> None:
        while b"9" * 100 in data:
            pass

    broken = Target("endless", TARGETS["graph"].seeds, run)
    assert finding(broken, tmp_path) == "HangError in test_targets.py:run"


def test_a_parser_that_believes_a_count_is_found(tmp_path: Path) -> None:
    def run(data: bytes, _: Path) -> None:
        bytearray(int.from_bytes(data[8:16], "little"))

    with limited():
        broken = Target("trusting", TARGETS["gguf"].seeds, run, text=False)
        assert finding(broken, tmp_path) in (
            "MemoryError in test_targets.py:run",
            "OverflowError in test_targets.py:run",
        )


def test_a_message_as_long_as_the_file_is_found(tmp_path: Path) -> None:
    def run(data: bytes, _: Path) -> None:
        raise VxError("x" * (10_000 + 3 * len(data)))

    assert finding(Target("wordy", TARGETS["graph"].seeds, run), tmp_path) == "message"
