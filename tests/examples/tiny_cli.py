"""The command line on a model of 100,000 parameters that llama2.c could have written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner, Result

from examples.llama2.__main__ import app
from tests.examples import tiny_tokenizer
from tests.examples.tiny_llama import TINY, logits, random_params

PLACES = ["single", "disaggregated", "pipeline"]
CONFIG = replace(TINY, vocab=len(tiny_tokenizer.SPM), max_len=64)
PARAMS = random_params(CONFIG, seed=3)
HELLO = [1, tiny_tokenizer.token(tiny_tokenizer.SPACE + "Hello")]
REPOSITORY = Path(__file__).parents[2]


def run(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)


def textbook(count: int) -> list[int]:
    """The ids that float64 and no cache choose after `HELLO`, and that no end of turn is among."""
    ids = list(HELLO)
    for _ in range(count):
        ids.append(int(logits(CONFIG, PARAMS, ids)[-1].argmax()))
    assert not {1, 2} & set(ids[2:])
    return ids[2:]


def refused(result: Result, model: Path, saved: Path | None = None) -> str:
    """The message of a command that ended with exit code 1 and printed nothing else."""
    assert (result.exit_code, result.stdout) == (1, "")
    message = result.stderr.replace(str(model), "MODEL").replace(str(saved), "FILE")
    assert message.startswith("error: ")
    return message.removeprefix("error: ").removesuffix("\n")
