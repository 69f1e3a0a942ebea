"""`--weights`: matrices in fewer bytes, computed with in f32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vxgraph as vx
from examples.llama2.compare import difference, logits_of_text
from examples.llama2.config import Weights, preset, stored_params, with_types
from examples.llama2.fit import types_of
from examples.llama2.generate import plan
from examples.llama2.weights import open_checkpoint
from tests.examples.tiny_cli import CONFIG, HELLO, PARAMS, PLACES, refused, run, textbook
from tests.examples.tiny_llama import llama2c_bytes, logits
from vxgraph.errors import CheckpointError
from vxgraph.ir.types import Array

TEXT = [*HELLO, 40, 41, 42, 43, 44, 45]
NARROW: tuple[Weights, ...] = ("f16", "bf16", "int8")


def widened(params: dict[str, Array], weights: Weights) -> dict[str, Array]:
    """The tiny model's parameters as they are after they were stored, by arithmetic of the test's own."""
    return {name: stored(w, weights) if w.ndim > 1 else w for name, w in params.items()}


def stored(w: Array, weights: Weights) -> Array:
    if weights == "int8":
        scale = (np.abs(w).max(axis=1, keepdims=True) / np.float32(127)).astype(np.float32)
        return np.round(w / scale).astype(np.float64) * scale
    return w.astype({"f16": vx.f16, "bf16": vx.bf16}[weights].numpy).astype(np.float64)


@pytest.mark.parametrize("weights", NARROW)
def test_logits_are_those_of_the_stored_weights_in_f32(tiny_model: Path, weights: Weights) -> None:
    found = logits_of_text(open_checkpoint(tiny_model, weights=weights), TEXT)
    wanted = logits(CONFIG, widened(PARAMS, weights), TEXT)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("weights", NARROW)
def test_every_placement_gives_the_tokens_of_the_stored_weights(tiny_model: Path, weights: Weights) -> None:
    ids = list(HELLO)
    for _ in range(8):
        ids.append(int(logits(CONFIG, widened(PARAMS, weights), ids)[-1].argmax()))
    assert not {1, 2} & set(ids[2:])
    for place in PLACES:
        result = run(
            *("generate", "--model", tiny_model, "--prompt", "Hello", "--ids", "--max-tokens", 8),
            *("--place", place, "--weights", weights),
        )
        assert (result.exit_code, result.stdout) == (0, " ".join(map(str, ids[2:])) + "\n")


def test_a_plan_has_the_bytes_of_the_stored_weights_and_everything_else_in_f32() -> None:
    machine = vx.load_machine("cpu")
    for weights, wanted in (("f32", 4), ("bf16", 2), ("int8", 1)):
        program = plan(with_types(CONFIG, None, weights), "single", machine)
        matrices = [p for p in program.params if p.type.rank == 2]
        assert {p.type.dtype.itemsize for p in matrices} == {wanted}
        assert {p.type.dtype for p in program.params if p.type.rank == 1} == {vx.f32}
        assert {s.type.dtype for s in program.slots if s.kind == "kv"} == {vx.f32}
    scales = {p.name: str(p.type) for p in program.params if p.name.startswith("layers.1.w_down")}
    assert scales == {"layers.1.w_down": "i8[64, 96]", "layers.1.w_down.scale": "f32[64]"}


def test_a_saved_program_decides_what_weights_are_stored_in(tiny_model: Path, tmp_path: Path) -> None:
    saved = tmp_path / "tiny.vxp"
    asked = ("--model", tiny_model, "--weights", "int8")
    assert run("compile", *asked, "-m", "cpu-x2", "-o", saved).exit_code == 0
    assert types_of(vx.load_program(saved), saved) == ("f32", "int8")
    told = run("generate", "--program", saved, "--model", tiny_model, "--prompt", "Hello", "--ids")
    same = run("generate", *asked, "-m", "cpu-x2", "--prompt", "Hello", "--ids")
    assert (told.exit_code, told.stdout) == (0, same.stdout)
    result = run("generate", "--program", saved, *asked, "--prompt", "Hello")
    assert refused(result, tiny_model, saved) == (
        "--weights is decided in FILE; leave it out, or compile another program with it"
    )


def test_the_same_type_twice_is_the_plan_without_weights_said(tiny_model: Path) -> None:
    machine = vx.load_machine("cpu")
    for dtype in ("f16", "f32"):
        texts = {plan(with_types(CONFIG, dtype, w), "single", machine).text() for w in (None, dtype)}
        assert len(texts) == 1
    result = run("generate", "--model", tiny_model, "--prompt", "Hello", "--ids", "--max-tokens", 8, "--weights", "f32")
    assert result.stdout == " ".join(map(str, textbook(8))) + "\n"


def test_weights_that_the_compute_dtype_does_not_take_are_refused(tiny_model: Path) -> None:
    result = run("generate", "--model", tiny_model, "--prompt", "Hello", "--weights", "int8", "--dtype", "bf16")
    assert refused(result, tiny_model) == (
        "model 'tiny': weights of int8 are computed with in f32, not in bf16; leave the dtype out"
    )


def test_weights_that_int8_cannot_hold_are_an_error_that_names_the_tensor(tmp_path: Path) -> None:
    params = {name: w.copy() for name, w in PARAMS.items()}
    params["layers.1.wq"][5, 2] = np.inf
    path = tmp_path / "tiny.bin"
    path.write_bytes(llama2c_bytes(CONFIG, params, 0))
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(path, weights="int8").params["layers.1.wq.scale"]
    assert str(error.value) == f"{path}: tensor 'layers.1.wq': row 5 has values that are not finite"


def test_a_matrix_and_its_scales_are_read_in_either_order(tiny_model: Path) -> None:
    one, other = (open_checkpoint(tiny_model, weights="int8").params for _ in range(2))
    scale, matrix = one["embed.scale"], one["embed"]
    np.testing.assert_array_equal(other["embed"], matrix)
    np.testing.assert_array_equal(other["embed.scale"], scale)
    assert list(one) == list(stored_params(with_types(CONFIG, None, "int8")))


def test_compare_says_how_far_the_logits_are_apart(tiny_model: Path) -> None:
    result = run("compare", "--model", tiny_model, "--weights", "int8", "--prompt", "Hello Hello Hello")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("tiny, weights of int8 against f32, ")
    assert lines[1] == f"  parameters      {stored_bytes('int8'):,} B, f32 {stored_bytes('f32'):,} B"
    assert [line[:18].strip() for line in lines[2:]] == [
        "logit error",
        "likeliest token",
        "KL divergence",
        "perplexity",
    ]


def stored_bytes(weights: Weights) -> int:
    matrices = [w for w in PARAMS.values() if w.ndim > 1]
    others = sum(w.size for w in PARAMS.values() if w.ndim == 1)
    if weights == "int8":
        return sum(w.size + 4 * len(w) for w in matrices) + 4 * others
    return 4 * (sum(w.size for w in matrices) + others)


def test_figures_of_a_difference_are_by_their_formulas() -> None:
    wanted = np.log(np.array([[0.5, 0.25, 0.25], [0.2, 0.7, 0.1]], np.float32))
    found = np.log(np.array([[0.25, 0.5, 0.25], [0.2, 0.7, 0.1]], np.float32)) + 3
    d = difference(wanted, found, [0, 2])
    assert (d.tokens, d.same_top) == (2, 1)
    assert d.largest == pytest.approx(3 + np.log(2), rel=1e-6)
    assert d.divergence == pytest.approx((0.5 * np.log(2) - 0.25 * np.log(2)) / 2, rel=1e-5)
    assert (d.perplexity, d.wanted_perplexity) == (pytest.approx(4, rel=1e-5), pytest.approx(4, rel=1e-5))


@pytest.mark.parametrize("tokens", [0, 65])
def test_a_text_that_the_context_does_not_hold_is_refused(tiny_model: Path, tokens: int) -> None:
    with pytest.raises(vx.VxError) as error:
        logits_of_text(open_checkpoint(tiny_model), [3] * tokens)
    assert str(error.value) == f"the text has {tokens} tokens, wanted 1 to 64, the model's context"


def test_a_preset_compiles_with_weights_of_a_quarter_of_the_bytes() -> None:
    config = replace(preset("llama2-7b"), layers=1)
    machine = vx.load_machine("h200")
    whole, quarter = (plan(with_types(config, "f32", w), "single", machine).memories[0].params for w in ("f32", "int8"))
    assert 0.25 < quarter / whole < 0.251
