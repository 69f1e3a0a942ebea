"""Fixtures of the example's tests."""

from __future__ import annotations

import pytest

from tests.examples.disaggregation import BEDS, Bed
from tests.examples.tiny_llama import CASES


@pytest.fixture(params=BEDS)
def bed(request: pytest.FixtureRequest) -> Bed:
    if request.param == "stories260K" and not (CASES / "stories260K.bin").exists():
        pytest.skip("stories260K.bin is not in the cases folder beside this repository")
    return BEDS[request.param]()
