"""The backends that the suite runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.conformance.bed import PLACES, Bed
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fake_kernels import fake_plan
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.cupy.launch import Launcher
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.sanitizer import SanitizerBackend

GPU = [pytest.param(name, marks=pytest.mark.gpu) for name in ("cupy", "cupy-staged")]


@pytest.fixture(params=["numpy", "numpy:plain", "sanitizer", "sanitizer:7", "fake-1", "fake-2", "fake-3", *GPU])
def closed_bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """A backend with nothing open.

    `fake-2` is the CuPy backend on two devices that are not there; `cupy-staged` the one on those that are, with every
    transfer through the host.
    """
    bed = _bed(request.param)
    yield bed
    bed.backend.close()


def _bed(name: str) -> Bed:
    if name.startswith("numpy"):
        numpy = NumpyBackend()
        return Bed(numpy, dict.fromkeys(PLACES, name), lambda t: numpy._spaces[t].nbytes)
    if name.startswith("sanitizer"):
        late = SanitizerBackend()
        return Bed(late, dict.fromkeys(PLACES, name), lambda t: late._spaces[t].nbytes)
    if name.startswith("cupy"):
        return _cuda_bed(CupyBackend(peer="staged" if name == "cupy-staged" else "probe"), _pool)
    driver = FakeDriver(int(name.removeprefix("fake-")))
    return _cuda_bed(CupyBackend(driver, launcher=Launcher(fake_plan)), driver.used)


def _cuda_bed(backend: CupyBackend, used: Callable[[int], int]) -> Bed:
    """On CUDA the topologies share the devices that there are."""
    targets = [device.target for device in backend.devices()]
    if not targets:
        pytest.skip("CuPy finds no CUDA device here")
    on = {place: k % len(targets) for k, place in enumerate(PLACES)}
    return Bed(backend, {place: targets[k] for place, k in on.items()}, lambda place: used(on[place]))


def _pool(ordinal: int) -> int:
    """Bytes of CuPy's pool that are in use on a device."""
    cupy: Any = import_module("cupy")
    with cupy.cuda.Device(ordinal):
        return int(cupy.get_default_memory_pool().used_bytes())


@pytest.fixture
def bed(closed_bed: Bed) -> Bed:
    """A backend with three topologies open."""
    closed_bed.open()
    return closed_bed
