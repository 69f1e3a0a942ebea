"""The engines of the CPU benchmark that need nothing installed compute the same thing, and verdicts say what holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cpu.numpy_loop import NumpyLoop
from benchmarks.cpu.sizes import SIZES, model_file, prompt
from benchmarks.cpu.vxgraph_session import VxgraphSession
from benchmarks.cpu.wanted import verdicts
from benchmarks.measure import Spread

CONFIG = SIZES["tiny"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf")
    return model_file(tmp_path_factory.mktemp("models"), CONFIG, "f32")


def test_a_session_and_the_loop_by_hand_generate_the_same_from_one_file(file: Path):
    tokens, wanted = NumpyLoop(file).trial(prompt(CONFIG, 5), steps=3)
    session = VxgraphSession(file, "numpy:plain", "f32")
    found_tokens, found = session.trial(prompt(CONFIG, 5), steps=3)
    assert found_tokens == tokens == list(session.generate(prompt(CONFIG, 5), steps=3))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_loop_by_hand_prefills_to_what_its_steps_come_to(file: Path):
    loop, tokens = NumpyLoop(file), prompt(CONFIG, 6)
    at_once = loop.forward(tokens, 0).copy()
    for position, token in enumerate(tokens):
        one_by_one = loop.forward([token], position)
    np.testing.assert_allclose(at_once, one_by_one, atol=1e-4)


def test_a_verdict_says_the_ratio_and_whether_it_holds_and_what_it_could_not_be_measured_without():
    rates = {
        name: {"decode": Spread(values), "prefill": Spread(values)}
        for name, values in {"vxgraph f32": (30.0, 28.0, 33.0), "numpy loop f32": (10.0, 20.0, 10.0)}.items()
    }
    said = list(verdicts("110m", rates))
    assert "110m decode: vxgraph f32 over numpy loop f32 3 (1.4..3.3), wanted >= 1.4: yes" in said
    assert "110m prefill: vxgraph f32 over ONNX Runtime f32, wanted >= 1: not measured without ONNX Runtime f32" in said
