"""`generate` on the command line: the same text at every placement, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import vxgraph as vx
from examples.llama2.__main__ import app
from examples.llama2.config import PRESETS
from examples.llama2.fetch import locate
from examples.llama2.generate import Decoding, Generation, plan
from examples.llama2.tokenizer import open_tokenizer
from tests.ctrl_c import interrupted
from tests.examples import tiny_tokenizer
from tests.examples.tiny_cli import CONFIG, HELLO, PARAMS, PLACES, REPOSITORY, run, textbook
from vxgraph.tools.plain import plain_text

# Text.


@pytest.mark.parametrize("place", PLACES)
def test_ids_are_those_of_the_textbook_at_every_placement(tiny_model: Path, place: str):
    result = run("generate", "--model", tiny_model, "--prompt", "Hello", "--ids", "--max-tokens", 12, "--place", place)
    assert (result.exit_code, result.stdout) == (0, " ".join(map(str, textbook(12))) + "\n")


SUMMARY = """
max tokens: 12 tokens; prefill 2 tokens at R tokens/s, decode 11 steps at R tokens/s

place  device       kernels    resident        in       out  host time
──────────────────────────────────────────────────────────────────────
cpu:0  numpy:cpu:0       43  309.75 KiB      36 B  1.01 KiB       TIME
cpu:1  numpy:cpu:1      468  309.75 KiB  1.03 KiB      55 B       TIME

from   to     transfers  planned  observed  host time
─────────────────────────────────────────────────────
cpu:0  cpu:1          5  1,028 B   1,028 B       TIME
host   cpu:0          6     36 B      36 B       TIME
host   cpu:1          4     24 B      24 B       TIME
cpu:0  host           2      8 B       8 B       TIME
cpu:1  host          22     55 B      55 B       TIME

hand-over cpu:0 -> cpu:1: 4 K and V transfers, planned 1,024 B, observed 1,024 B
the run conforms to the plan: places, counts and bytes were observed, and are as planned
"""


def test_text_goes_to_standard_output_and_what_happened_to_standard_error(tiny_model: Path):
    result = run("generate", "--model", tiny_model, "--prompt", "Hello", "--max-tokens", 12, "-m", "cpu-x2")
    tokenizer = open_tokenizer(tiny_model.parent / "tokenizer.bin")
    assert result.stdout == plain_text(tokenizer.decode(textbook(12), after=HELLO)) + "\n"
    said = re.sub(r"at \d+\.\d tokens/s", "at R tokens/s", result.stderr)
    assert re.sub(r" +[0-9.]+ [num]?s$", "       TIME", said, flags=re.MULTILINE) == SUMMARY


def printed(model: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, **options: Any) -> bytes:
    """What is printed where the model writes `text`, one byte a token."""
    run_to_its_end = Generation.__iter__

    def other_tokens(self: Generation) -> Iterator[int]:
        assert list(run_to_its_end(self))
        yield from (tiny_tokenizer.token(f"<0x{byte:02X}>") for byte in text)

    monkeypatch.setattr(Generation, "__iter__", other_tokens)
    command = ["generate", "--model", str(model), "--prompt", "Hello", "-m", "cpu-x2", "--max-tokens", "1"]
    result = CliRunner(**options).invoke(app, command)
    assert result.exit_code == 0
    return result.stdout_bytes


# Spaces of other widths, joiners and marks of direction belong to their languages; a backslash is the writer's.
ORDINARY = (
    "a\tb\n\n\u00e9 1\u202f000\u00a0\u20ac \u4f60\u597d\u3000\u3002 \u05e9\u05dc\u05d5\u05dd\u200f! "
    "\u0645\u06cc\u200c\u062e \u0915\u094d\u200d\u0937 \U0001f468\u200d\U0001f469 \U000e0067 \U0001fae9 \\x1b \ufffd"
)


def test_text_in_any_language_is_printed_as_it_is(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    assert printed(tiny_model, monkeypatch, ORDINARY.encode()) == ORDINARY.encode() + b"\n"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"a\x1b[31mb\x1b]0;c\x07", rb"a\x1b[31mb\x1b]0;c\x07"),
        (b"a\rb\x08\x7f\x00\x0b", rb"a\rb\x08\x7f\x00\x0b"),
        (b"a\xc2\x9b31mb\xc2\x85", rb"a\x9b31mb\x85"),  # C1, each in two tokens
        (b"a\xe2\x80\xaeb\xe2\x81\xa6", rb"a\u202eb\u2066"),  # directions, each in three
        (b"a\x9b31m\xe2\x80", "a\ufffd31m\ufffd".encode()),  # no UTF-8, and one that is cut off
    ],
)
def test_what_a_terminal_would_act_on_is_shown_escaped(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, written: bytes, shown: bytes
):
    assert printed(tiny_model, monkeypatch, written) == shown + b"\n"


def test_a_terminal_that_has_not_every_character_shows_the_others_escaped(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
):
    text = "\u00e9 \u4f60"
    assert printed(tiny_model, monkeypatch, text.encode(), charset="latin-1") == b"\xe9 \\u4f60\n"


def test_the_prompt_is_read_from_standard_input(tiny_model: Path):
    given = run("generate", "--model", tiny_model, "--prompt", "Hello wo", "--ids", "--max-tokens", 5)
    read = run("generate", "--model", tiny_model, "--prompt", "-", "--ids", "--max-tokens", 5, stdin="Hello wo\n")
    assert (read.exit_code, read.stdout) == (0, given.stdout)
    assert len(given.stdout.split()) == 5


def test_a_seed_gives_the_same_tokens_at_every_placement_and_another_seed_others(tiny_model: Path):
    sampled = ["generate", "--model", tiny_model, "--prompt", "Hello", "--ids", "--max-tokens", 12, "--temperature", 3]
    texts = [run(*sampled, "--seed", 5, "--place", place).stdout for place in PLACES]
    assert texts[0] == texts[1] == texts[2] != run(*sampled, "--seed", 6).stdout


def test_a_run_is_audited_and_traced(tiny_model: Path, tmp_path: Path):
    trace = tmp_path / "trace.json"
    result = run(
        "generate",
        "--model",
        tiny_model,
        "--prompt",
        "Hello",
        "--max-tokens",
        3,
        "--audit",
        "--trace",
        trace,
        "-m",
        "cpu-x2",
    )
    assert result.exit_code == 0
    names = [e["name"] for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert sum("handover.layers.0.k" in name for name in names) == 1
    assert sum("decode.sample" in name and "host" not in name for name in names) == 2


# How it ends.


@pytest.mark.case("D05")
@pytest.mark.parametrize(
    ("stop", "max_tokens", "ended", "count"),
    [
        (3, 60, "end of turn", 3),
        (0, 60, "end of turn", 0),
        (3, 4, "end of turn", 3),
        (3, 3, "max tokens", 3),
        (None, 1, "max tokens", 1),
        (None, 60, "context full", 15),
        (None, 10**12, "context full", 15),
    ],
)
@pytest.mark.parametrize("place", ["single", "disaggregated"])
def test_a_generation_says_how_it_ended(place: str, stop: int | None, max_tokens: int, ended: str, count: int):
    ids = textbook(15)
    stop_ids = [] if stop is None else [ids[stop]]
    assert stop is None or ids[stop] not in ids[:stop]
    program = plan(CONFIG, place, vx.load_machine("cpu-x2"), max_len=16)
    with vx.Session(program, PARAMS) as session:
        generation = Generation(session, HELLO, Decoding(max_tokens), stop_ids=stop_ids)
        assert list(generation) == ids[:count]
        assert generation.ended == ended
        assert generation.yielded == count
        assert session.report.conforms()


def test_a_generation_that_is_closed_leaves_the_session_ready_for_another():
    program = plan(CONFIG, "disaggregated", vx.load_machine("cpu-x2"), max_len=16)
    with vx.Session(program, PARAMS) as session:
        with closing(Generation(session, HELLO, Decoding(max_tokens=9))) as generation:
            assert next(iter(generation)) == textbook(1)[0]
        assert generation.ended is None
        again = Generation(session, HELLO, Decoding(max_tokens=9))
        assert (list(again), again.ended) == (textbook(9), "max tokens")


def test_ctrl_c_ends_with_a_clean_line(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(self: Generation) -> Iterator[int]:
        yield HELLO[1]
        raise KeyboardInterrupt

    monkeypatch.setattr(Generation, "__iter__", interrupted)
    result = run("generate", "--model", tiny_model, "--prompt", "Hello", "-m", "cpu-x2")
    assert (result.exit_code, result.stdout, result.stderr) == (130, " Hello\n", "interrupted\n")


def test_ctrl_c_at_any_time_ends_with_one_line_after_the_text_so_far(tiny_model: Path, tmp_path: Path):
    arguments = ("generate", "--model", tiny_model, "--prompt", "Hello", "-m", "cpu-x2", "--ids", "--trace", "t.json")
    whole, others = interrupted("examples.llama2.__main__", arguments, tmp_path, times=8)
    assert whole.code == 0
    for code, stdout, stderr in others:
        assert whole.stdout.startswith(stdout.removesuffix("\n"))
        assert code <= 0 or (code, stderr) in ((130, "interrupted\n"), (130, ""))  # the last is typer's own
    assert any(outcome.stderr == "interrupted\n" for outcome in others)
    assert [f.name for f in tmp_path.iterdir() if f.suffix != ".bin"] == ["t.json"]


# The other commands.


def test_models_lists_every_preset():
    result = run("models")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == list(PRESETS)
    assert " ".join(rows[3]) == "llama2-7b 6,738 M 32 4096 f16 give a path"


def test_fetch_of_an_unknown_model_says_which_there_are():
    result = run("fetch", "gpt-5")
    assert (result.exit_code, result.stderr) == (1, "error: no model 'gpt-5' can be fetched; there are: smollm2-135m\n")


# The real model.

MOON = (
    "The moon is a celestial body that orbits Earth, and it is a breathtaking sight that captivates our imagination "
    "and inspires awe.\n"
)
ASK = ["--chat", "--prompt", "Write one sentence about the moon."]


@pytest.fixture(scope="module")
def smollm2() -> Path:
    found = locate()
    if found is None:
        pytest.skip("SmolLM2 is not here; get it with: python -m examples.llama2 fetch")
    return found


@pytest.mark.model
@pytest.mark.parametrize("place", PLACES)
def test_smollm2_writes_a_sentence_about_the_moon(smollm2: Path, place: str):
    result = run("generate", *ASK, "--place", place, "-m", "cpu-x2")
    assert (result.exit_code, result.stdout) == (0, MOON)
    assert "end of turn: 25 tokens; prefill 37 tokens" in result.stderr


@pytest.mark.model
def test_smollm2_knows_the_capital_of_france(smollm2: Path):
    result = run("generate", "--prompt", "The capital of France is", "--max-tokens", 5, "--ids")
    assert (result.exit_code, result.stdout) == (0, "7042 30 198 198 504\n")


@pytest.mark.model
def test_smollm2_runs_from_a_program_that_was_compiled_without_weights(smollm2: Path, tmp_path: Path):
    saved = tmp_path / "s.vxp"
    compiled = run("compile", "--model", "smollm2-135m", "--place", "disaggregated", "-m", "cpu-x2", "-o", saved)
    assert compiled.exit_code == 0
    result = run("generate", "--program", saved, *ASK)
    assert (result.exit_code, result.stdout) == (0, MOON)


@pytest.mark.model
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_one_replica_of_smollm2_stays_below_2_2_times_its_weights(smollm2: Path):
    # Not ru_maxrss, which starts from what the parent process had.
    measure = (
        "import sys; from examples.llama2.__main__ import app; app(sys.argv[1:], standalone_mode=False); "
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-c", measure, "generate", *ASK, "--place", "single"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    text, peak = done.stdout.splitlines()
    assert text + "\n" == MOON
    assert int(peak) * 1024 < 2.2 * 4 * 134_515_008
