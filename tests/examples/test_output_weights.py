"""The output layer is the embedding where a file says so, and its own block of weights where it does not."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vxgraph as vx
from examples.llama2.generate import Decoding, Generation
from examples.llama2.model import build
from examples.llama2.tokenizer import open_tokenizer
from examples.llama2.weights import open_checkpoint
from tests.examples.disaggregation import Bed, forced_choice, program_of, run, single, stories
from tests.examples.tiny_llama import CASES, llama2c_bytes

needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the case files are not beside this checkout")


def untied(bed: Bed, folder: Path) -> Bed:
    """The model from a file with a negative vocabulary and a classifier of twice the embedding."""
    path = folder / "untied.bin"
    own = {name: np.asarray(value) for name, value in bed.params.items()} | {"lm_head": 2 * bed.params["embed"]}
    data = llama2c_bytes(replace(bed.config, tied=False), own, 0)
    assert struct.unpack_from("<7i", data)[5] == -bed.config.vocab
    path.write_bytes(data)
    checkpoint = open_checkpoint(path)
    return replace(bed, config=checkpoint.config, params=dict(checkpoint.params))


@pytest.mark.case("N08")
def test_an_output_layer_of_twice_the_embedding_gives_twice_the_logits(bed: Bed, tmp_path: Path):
    other = untied(bed, tmp_path)
    graph = build(other.config, single(other), choose=forced_choice(other))
    with run(bed, single(bed), forced=True) as r:
        tied = r.out["logits"]
    with run(other, single(other), program=vx.compile(graph, vx.load_machine("cpu-x3"))) as r:
        np.testing.assert_array_equal(r.out["logits"], 2 * tied)


@pytest.mark.case("N08")
def test_an_output_layer_of_twice_the_embedding_chooses_the_same_tokens(bed: Bed, tmp_path: Path):
    other = untied(bed, tmp_path)
    program = vx.compile(build(other.config, single(other)), vx.load_machine("cpu-x3"))
    with run(bed, single(bed), steps=20) as r:
        wanted = r.out["token"].tolist()
    with run(other, single(other), program=program, steps=20) as r:
        assert r.out["token"].tolist() == wanted
    assert len(set(wanted)) > 3


@needs_cases
@pytest.mark.case("N08")
def test_stories260k_tells_llama2c_s_story_to_the_byte():
    bed = stories()
    wanted = [int(line) for line in (CASES / "stories260K_greedy200_ids.txt").read_text().split()]
    program = program_of(bed, single(bed))
    with vx.Session(program, bed.params, "numpy") as session:
        ids = list(Generation(session, [1], Decoding(max_tokens=200)))
    assert [1, *ids] == wanted
    text = open_tokenizer(CASES / "tok512.bin").decode(ids, after=[1])
    assert len(text.encode()) == 464
    assert text.startswith(
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    )
