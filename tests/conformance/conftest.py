"""The backends that the suite runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.bed import PLACES, Bed
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fake_kernels import fake_plan
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.cupy.launch import Launcher
from vxgraph.runtime.backends.numpy import NumpyBackend


@pytest.fixture(params=["numpy", "fake-1", "fake-2", "fake-3", pytest.param("cupy", marks=pytest.mark.gpu)])
def closed_bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """A backend with nothing open; `fake-2` is the CuPy backend on two devices that are not there."""
    bed = _bed(request.param)
    yield bed
    bed.backend.close()


def _bed(name: str) -> Bed:
    if name == "numpy":
        return Bed(NumpyBackend(), dict.fromkeys(PLACES, "numpy"))
    if name == "cupy":
        return _cuda_bed(CupyBackend())
    return _cuda_bed(CupyBackend(FakeDriver(int(name.removeprefix("fake-"))), launcher=Launcher(fake_plan)))


def _cuda_bed(backend: CupyBackend) -> Bed:
    """On CUDA the topologies share the devices that there are."""
    targets = [device.target for device in backend.devices()]
    if not targets:
        pytest.skip("CuPy finds no CUDA device here")
    return Bed(backend, {place: targets[k % len(targets)] for k, place in enumerate(PLACES)})


@pytest.fixture
def bed(closed_bed: Bed) -> Bed:
    """A backend with three topologies open."""
    closed_bed.open()
    return closed_bed
