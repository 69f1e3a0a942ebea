"""Every mistake on the command line is one message, with exit code 1 and nothing on standard output."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import vxgraph as vx
from examples.llama2.generate import Decoding, Generation, plan
from tests.examples import tiny_tokenizer
from tests.examples.tiny_cli import CONFIG, PARAMS, REPOSITORY, refused, run
from tests.examples.tiny_llama import llama2c_bytes, random_params

MISTAKES = {
    "--chat": ("FOLDER/tokenizer.bin has no chat template: drop --chat to give the prompt as plain text"),
    "--model=nope": (
        "nope: there is no such file or folder, and no model of that name\n"
        "  can be fetched: smollm2-135m\n"
        "  can be compiled without weights: smollm2-135m, stories15m, tinyllama-1.1b, llama2-7b, llama2-13b, "
        "llama2-70b, llama3.1-8b"
    ),
    "--model=llama2-7b": (
        "llama2-7b: its configuration is known here, its weights are not; give the path of a checkpoint, "
        "or a model that can be fetched: smollm2-135m"
    ),
    "--temperature=-1": ("temperature is -1.0, wanted 0 (greedy) or a number above it"),
    "--temperature=nan": ("temperature is nan, wanted 0 (greedy) or a number above it"),
    "--top-p=0": ("top_p is 0.0, wanted a number above 0 and up to 1"),
    "--seed=9223372036854775808": ("seed is 9223372036854775808, wanted a 64-bit integer"),
    "--max-tokens=0": ("max_tokens is 0, wanted at least 1"),
    "--max-len=0": ("max_len is 0, wanted 1 or more"),
    "--max-len=1": (
        "the prompt has 2 tokens, but tiny-disaggregated was compiled for at most 1; "
        "shorten it, or compile with a larger max_len or max_prompt"
    ),
    "--bind=gpu:0=numpy": ("gpu:0 is not in the program; the program runs on cpu:0 and cpu:1"),
    "--bind=cpu:0= --bind=cpu:1=numpy": ("--bind cpu:0=: wanted a place and a device, like gpu:0=cuda:0"),
    "--require-gpu": ("a GPU is required, but the program runs on cpu:0 and cpu:1 only"),
    "--machine=cpu": ("disaggregated needs 2 devices, machine cpu has cpu:0; take one with 2, or 'single'"),
    "--tokenizer=FOLDER/none.bin": ("FOLDER/none.bin: cannot be read: No such file or directory"),
    "--trace=FOLDER/none/t.json": ("FOLDER/none/t.json: there is no folder FOLDER/none to write it to"),
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_one_message(tiny_model: Path, arguments: str):
    given = arguments.replace("FOLDER", str(tiny_model.parent)).split(" ")
    defaults = [
        f"--{name}={value}"
        for name, value in (("model", tiny_model), ("prompt", "Hello"), ("machine", "cpu-x2"))
        if not any(word.startswith(f"--{name}=") for word in given)
    ]
    result = run("generate", *defaults, *given)
    assert refused(result, tiny_model).replace(str(tiny_model.parent), "FOLDER") == MISTAKES[arguments]


@pytest.mark.case("R09")
@pytest.mark.parametrize(
    ("prompt", "stop_ids", "message"),
    [
        ([], [], "the prompt is empty: it has no token to go on from"),
        (
            [1, -1],
            [],
            "token id -1 of the prompt is not in the model's vocabulary of 274; the tokenizer is another model's",
        ),
        ([1], range(9), "9 ids end a turn, the program has room for 8"),
    ],
)
def test_a_generation_refuses_what_the_program_cannot_take(prompt: list[int], stop_ids: list[int], message: str):
    program = plan(CONFIG, "single", vx.load_machine("cpu"), max_len=16)
    with vx.Session(program, PARAMS) as session, pytest.raises(vx.VxError) as error:
        Generation(session, prompt, Decoding(max_tokens=4), stop_ids=stop_ids)
    assert str(error.value) == message


def test_a_prompt_that_is_not_utf_8_is_refused(tiny_model: Path):
    result = run("generate", "--model", tiny_model, "--prompt", "-", stdin=b"Hello \xff")
    assert refused(result, tiny_model) == "standard input is not UTF-8: byte 6 is 0xFF"


def test_a_llama2c_model_without_its_tokenizer_says_where_it_was_looked_for(tmp_path: Path):
    path = tmp_path / "alone.bin"
    path.write_bytes(llama2c_bytes(CONFIG, PARAMS, 0))
    result = run("generate", "--model", path, "--prompt", "Hello")
    assert refused(result, path) == (
        "MODEL: its tokenizer is not beside it as tokenizer.bin; give it with --tokenizer FILE"
    )
    tiny_tokenizer.write_llama2c(tmp_path).rename(tmp_path / "other.bin")
    given = run(
        "generate", "--model", path, "--prompt", "Hello", "--tokenizer", tmp_path / "other.bin", "--max-tokens", 1
    )
    assert given.exit_code == 0


def test_a_tokenizer_of_another_model_is_found_out(tmp_path: Path):
    small = replace(CONFIG, vocab=40)
    path = tmp_path / "small.bin"
    path.write_bytes(llama2c_bytes(small, random_params(small), 0))
    tiny_tokenizer.write_llama2c(tmp_path)
    assert refused(run("generate", "--model", path, "--prompt", "Hello", "-m", "cpu-x2"), path) == (
        "token id 263 of the prompt is not in the model's vocabulary of 40; the tokenizer is another model's"
    )


def test_a_mistake_in_a_process_of_its_own_has_no_traceback(tiny_model: Path):
    command = [
        sys.executable,
        "-m",
        "examples.llama2",
        "generate",
        "--model",
        str(tiny_model),
        "--prompt",
        "Hello",
        "--chat",
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    tokenizer = tiny_model.parent / "tokenizer.bin"
    assert done.stderr == (f"error: {tokenizer} has no chat template: drop --chat to give the prompt as plain text\n")
