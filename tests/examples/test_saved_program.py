"""`compile`, and `generate --program`: the same ids, or a refusal that says what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

import vxgraph as vx
from examples.llama2.config import PRESETS
from examples.llama2.generate import default_max_len
from tests.examples import tiny_tokenizer
from tests.examples.tiny_cli import CONFIG, PARAMS, refused, run, textbook
from tests.examples.tiny_llama import hf_name, llama2c_bytes, write_hf


def test_a_saved_program_gives_the_same_ids(tiny_model: Path, tmp_path: Path):
    saved = tmp_path / "tiny.vxp"
    compiled = run("compile", "--model", tiny_model, "--place", "disaggregated", "-m", "cpu-x2", "-o", saved)
    assert compiled.exit_code == 0
    assert "tiny-disaggregated for cpu-x2: 64 tokens, of which the prompt has at most 64" in compiled.stdout
    result = run(
        "generate", "--program", saved, "--model", tiny_model, "--prompt", "Hello", "--ids", "--max-tokens", 12
    )
    assert (result.exit_code, result.stdout) == (0, " ".join(map(str, textbook(12))) + "\n")


def test_a_saved_program_decides_the_dtype(tiny_model: Path, tmp_path: Path):
    saved = tmp_path / "tiny.vxp"
    assert run("compile", "--model", tiny_model, "-m", "cpu-x2", "-o", saved, "--dtype", "f16").exit_code == 0
    assert ": f16[" in saved.read_text()
    result = run("generate", "--program", saved, "--model", tiny_model, "--prompt", "Hello", "--ids", "--max-tokens", 3)
    assert (result.exit_code, len(result.stdout.split())) == (0, 3)


def test_a_program_of_other_shapes_is_refused(tiny_model: Path, tmp_path: Path):
    saved = tmp_path / "s.vxp"
    run("compile", "--model", "stories15m", "--place", "single", "-m", "cpu", "-o", saved)
    result = run("generate", "--program", saved, "--model", tiny_model, "--prompt", "Hello")
    assert refused(result, tiny_model, saved) == (
        "FILE was compiled for another model than MODEL\n"
        "  embed: f32[32000, 288] in the program, f32[274, 64] in the checkpoint\n"
        "  layers.0.attention_norm: f32[288] in the program, f32[64] in the checkpoint\n"
        "  layers.0.wq: f32[288, 288] in the program, f32[64, 64] in the checkpoint\n"
        "  layers.0.wk: f32[288, 288] in the program, f32[32, 64] in the checkpoint\n"
        "  and 52 more"
    )


def test_a_program_that_rotates_otherwise_is_refused(tmp_path: Path):
    """The shapes are equal: only the rotation tells a Hugging Face model from one that llama2.c wrote."""
    pytest.importorskip("safetensors")
    tiny_tokenizer.write_llama2c(tmp_path)
    halves = write_hf(tmp_path / "halves", CONFIG, {hf_name(n): w for n, w in PARAMS.items()})
    pairs = tmp_path / "pairs.bin"
    pairs.write_bytes(llama2c_bytes(CONFIG, PARAMS, 0))
    saved = tmp_path / "s.vxp"
    assert run("compile", "--model", halves, "-m", "cpu-x2", "-o", saved).exit_code == 0
    result = run("generate", "--program", saved, "--model", pairs, "--prompt", "Hello")
    assert refused(result, pairs, saved) == (
        "FILE was compiled for another model than MODEL\n"
        "  rope interleaved: False in the program, True in the checkpoint"
    )


def test_a_program_that_is_no_llama_is_refused(tiny_model: Path, tmp_path: Path):
    with vx.Graph("mlp") as graph:
        vx.output("y", vx.neg(vx.input("x", vx.f32[4])))
    saved = tmp_path / "mlp.vxp"
    vx.compile(graph, vx.load_machine("cpu")).save(saved)
    result = run("generate", "--program", saved, "--model", tiny_model, "--prompt", "Hello")
    assert refused(result, tiny_model, saved) == (
        "FILE: program 'mlp' is no Llama; wanted one that 'python -m examples.llama2 compile' wrote"
    )


@pytest.mark.parametrize(
    ("option", "value"), [("--place", "single"), ("--machine", "cpu"), ("--max-len", "8"), ("--dtype", "f16")]
)
def test_what_a_saved_program_has_decided_is_not_asked_again(tiny_model: Path, tmp_path: Path, option: str, value: str):
    saved = tmp_path / "s.vxp"
    result = run("generate", "--program", saved, option, value, "--model", tiny_model, "--prompt", "Hello")
    assert refused(result, tiny_model, saved) == (
        f"{option} is decided in FILE; leave it out, or compile another program with it"
    )


def test_compile_and_generate_have_room_for_the_context_up_to_4096():
    assert {name: default_max_len(config) for name, config in PRESETS.items()} == {
        "smollm2-135m": 4096,
        "stories15m": 256,
        "tinyllama-1.1b": 2048,
        "llama2-7b": 4096,
        "llama2-13b": 4096,
        "llama2-70b": 4096,
        "llama3.1-8b": 4096,
    }


def test_what_does_not_fit_leaves_no_file(tmp_path: Path):
    saved = tmp_path / "s.vxp"
    result = run("compile", "--model", "llama2-13b", "--place", "single", "-m", "l4", "-o", saved)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: llama2-13b-single does not fit l4\n  memory")
    assert list(tmp_path.iterdir()) == []
