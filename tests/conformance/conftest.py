"""The backends that the suite runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.bed import PLACES, Bed
from vxgraph.runtime.backends.numpy import NumpyBackend


@pytest.fixture(
    params=[
        "numpy",
        pytest.param("cupy", marks=[pytest.mark.gpu, pytest.mark.skip(reason="no CuPy backend in this version")]),
    ]
)
def closed_bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """A backend with nothing open."""
    assert request.param == "numpy"
    bed = Bed(NumpyBackend(), dict.fromkeys(PLACES, "numpy"))
    yield bed
    bed.backend.close()


@pytest.fixture
def bed(closed_bed: Bed) -> Bed:
    """A backend with three topologies open."""
    closed_bed.open()
    return closed_bed
