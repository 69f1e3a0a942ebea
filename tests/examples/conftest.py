"""Fixtures of the example's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import tiny_tokenizer
from tests.examples.disaggregation import BEDS, Bed
from tests.examples.tiny_cli import CONFIG, PARAMS
from tests.examples.tiny_llama import CASES, llama2c_bytes


@pytest.fixture(params=BEDS)
def bed(request: pytest.FixtureRequest) -> Bed:
    if request.param == "stories260K" and not (CASES / "stories260K.bin").exists():
        pytest.skip("stories260K.bin is not in the cases folder beside this repository")
    return BEDS[request.param]()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama2.c model with its tokenizer beside it."""
    folder = tmp_path_factory.mktemp("model")
    tiny_tokenizer.write_llama2c(folder)
    path = folder / "tiny.bin"
    path.write_bytes(llama2c_bytes(CONFIG, PARAMS, 0))
    return path
