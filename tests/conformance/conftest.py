"""The backends that the suite runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.bed import PLACES, Bed
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.numpy import NumpyBackend


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def closed_bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """A backend with nothing open. On CUDA the topologies share the devices that there are."""
    bed = Bed(NumpyBackend(), dict.fromkeys(PLACES, "numpy")) if request.param == "numpy" else _cuda_bed()
    yield bed
    bed.backend.close()


def _cuda_bed() -> Bed:
    backend = CupyBackend()
    targets = [device.target for device in backend.devices()]
    if not targets:
        pytest.skip("CuPy finds no CUDA device here")
    return Bed(backend, {place: targets[k % len(targets)] for k, place in enumerate(PLACES)})


@pytest.fixture
def bed(closed_bed: Bed) -> Bed:
    """A backend with three topologies open."""
    closed_bed.open()
    return closed_bed
