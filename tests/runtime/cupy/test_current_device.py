"""CUDA's current device belongs to the calling thread: used from any, given back to each; a handle for each device."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.conformance.bed import PLACES, Bed
from tests.runtime.cupy.fake_driver import FakeDriver, Handle
from tests.runtime.cupy.fakes import (
    appending,
    backend_on,
    branching,
    branching_inputs,
    nothing_left,
    open_bed,
    products,
    session_on,
)
from tests.runtime.programs import alternating
from vxgraph.errors import RunError
from vxgraph.ir.types import Array, f32
from vxgraph.ops import MatMul
from vxgraph.runtime.backends.cupy import CupyBackend

X = np.arange(16, dtype=np.float32).reshape(4, 4)
W = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)


def in_a_thread(work: Any) -> Any:
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture(params=[0, 1, 2])
def caller(request: pytest.FixtureRequest) -> Iterator[FakeDriver]:
    """Three devices, one of them the caller's current one, which it is afterwards too."""
    driver = FakeDriver(3)
    driver.set_device(request.param)
    yield driver
    assert driver.device() == request.param


@pytest.mark.case("R04")
def test_a_session_gives_the_callers_device_back(caller: FakeDriver) -> None:
    with session_on(caller, products(), {"w": W}) as s:
        np.testing.assert_allclose(s.run({"x": X})["y"], X @ W @ W, rtol=1e-5)
        assert s.report.conforms()
    assert nothing_left(caller)


@pytest.mark.case("R04")
def test_a_run_that_fails_gives_the_callers_device_back(caller: FakeDriver) -> None:
    row = np.ones((1, 4), np.float32)
    with session_on(caller, appending()) as s, pytest.raises(RunError):
        s.run({"row": row, "rows": row, "at": np.int32(9)})
    assert nothing_left(caller)


@pytest.mark.case("R04")
def test_every_call_gives_the_callers_device_back(caller: FakeDriver) -> None:
    device, bed = caller.device(), open_bed(caller)
    for src in PLACES:
        for dst in PLACES:
            a, b = bed.put(X, src), bed.put(W, dst)
            bed.get(a, X, src)
            if src != dst:
                bed.send(a, X, src, dst)
            bed.apply(MatMul(), [b, b], (f32[4, 4], f32[4, 4]), dst)
            bed.backend.free(a.buffer, src)
            assert caller.device() == device
    bed.backend.close()


class Refuses(FakeDriver):
    """Refuses what its name says, once."""

    refused = ""

    def _maybe(self, call: str) -> None:
        if self.refused == call:
            self.refused = ""
            raise RunError(f"{call} failed")

    def launch(self, *args: Any) -> None:
        self._maybe("launch")
        super().launch(*args)

    def gemm(self, *args: Any) -> None:
        self._maybe("gemm")
        super().gemm(*args)

    def copy(self, *args: Any) -> None:
        self._maybe("copy")
        super().copy(*args)

    def copy_peer(self, *args: Any) -> None:
        self._maybe("copy_peer")
        super().copy_peer(*args)

    def alloc(self, nbytes: int) -> Any:
        self._maybe("alloc")
        return super().alloc(nbytes)


@pytest.mark.case("R04")
@pytest.mark.parametrize("call", ["launch", "gemm", "copy", "copy_peer"])
def test_a_call_that_the_driver_refuses_gives_the_callers_device_back_and_the_next_run_is_right(call: str) -> None:
    driver = Refuses(2)
    inputs, params = branching_inputs()
    with session_on(driver, branching(), params) as s:
        wanted = s.run(inputs)
        driver.refused = call
        with pytest.raises(RunError, match=f"{call} failed"):
            s.run(inputs)
        assert driver.device() == 0
        np.testing.assert_array_equal(s.run(inputs)["y"], wanted["y"])
        assert s.report.conforms()
    assert nothing_left(driver)


def test_a_session_that_cannot_be_made_leaves_nothing_and_the_callers_device() -> None:
    for nth in range(8):
        driver = Refuses(2)
        driver.set_device(1)
        made = driver.alloc
        left = [nth]

        def alloc(nbytes: int, made: Any = made, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise RunError("no bytes left")
            return made(nbytes)

        driver.alloc = alloc  # type: ignore[method-assign]
        try:
            with session_on(driver, products(), {"w": W}) as s:
                s.run({"x": X})
        except RunError as error:
            assert "no bytes left" in str(error)  # noqa: PT017  # with enough of them there is no error
        assert driver.device() == 1
        assert nothing_left(driver)


@pytest.mark.case("R04")
def test_a_fresh_thread_runs_on_the_topologies_devices() -> None:
    driver = FakeDriver(2)
    driver.set_device(1)

    def work() -> tuple[Array, int]:
        with session_on(driver, products(), {"w": W}) as s:
            y = s.run({"x": X})["y"]
            assert s.report.conforms()
            return y, driver.device()

    y, device = in_a_thread(work)
    np.testing.assert_allclose(y, X @ W @ W, rtol=1e-5)
    assert device == 0


@pytest.mark.case("R04")
def test_a_session_of_one_thread_runs_in_another() -> None:
    driver = FakeDriver(2)
    with session_on(driver, products(), {"w": W}, audit=True) as s:
        for _ in range(2):
            np.testing.assert_allclose(in_a_thread(lambda: s.run({"x": X})["y"]), X @ W @ W, rtol=1e-5)
            assert s.report.conforms()


def test_two_sessions_run_in_two_threads() -> None:
    driver, program = FakeDriver(2), alternating(4)
    wrong: list[BaseException] = []

    def work(first: int) -> None:
        try:
            with session_on(driver, program) as s:
                for k in range(first, first + 10):
                    np.testing.assert_array_equal(s.run({"s": np.full(64, k, np.float32)})["s_end"], k + 4)
                    assert s.report.conforms()
        except BaseException as error:
            wrong.append(error)

    threads = [Thread(target=work, args=(k,)) for k in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert nothing_left(driver)


# Handles.


def multiply(bed: Bed, place: vx.Topology) -> None:
    a = bed.put(X, place)
    result, _ = bed.apply(MatMul(), [a, a], (f32[4, 4], f32[4, 4]), place)
    np.testing.assert_allclose(bed.get(result, X, place), X @ X)


def handles(bed: Bed) -> tuple[tuple[int, int], ...]:
    assert isinstance(bed.backend, CupyBackend)
    return tuple((record.ordinal, record.current) for record in bed.backend.handles())


@pytest.mark.case("R04")
def test_a_handle_is_made_by_the_first_product_on_its_ordinal_while_that_is_current() -> None:
    driver = FakeDriver(3)
    backend = backend_on(driver)
    bed = Bed(backend, {place: f"cuda:{2 - k}" for k, place in enumerate(PLACES)})
    assert backend.handles() == ()
    bed.open()
    bed.touch(PLACES[1])
    assert handles(bed) == ()
    multiply(bed, PLACES[1])
    assert handles(bed) == ((1, 1),)
    multiply(bed, PLACES[0])
    assert sorted(handles(bed)) == [(1, 1), (2, 2)]
    made = backend.handles()
    for place in PLACES[:2]:
        multiply(bed, place)
    assert backend.handles() == made
    assert driver.alive(Handle) == 2


def test_no_handle_is_made_by_loading_and_one_per_ordinal_by_running() -> None:
    for devices in (1, 2):
        driver = FakeDriver(devices)
        with session_on(driver, products(), {"w": W}) as s:
            assert driver.alive(Handle) == 0
            s.run({"x": X})
            assert driver.alive(Handle) == devices
            s.run({"x": X})
            assert driver.alive(Handle) == devices
        assert driver.alive(Handle) == 0


@pytest.mark.case("R04")
def test_topologies_on_one_ordinal_share_its_handle_and_two_ordinals_do_not() -> None:
    driver = FakeDriver(2)
    bed = Bed(backend_on(driver), dict(zip(PLACES, ("cuda:0", "cuda:1", "cuda:0"), strict=True)))
    bed.open()
    for place in PLACES:
        multiply(bed, place)
    assert handles(bed) == ((0, 0), (1, 1))
    assert len({record.handle for record in bed.backend.handles()}) == 2  # type: ignore[attr-defined]


def test_products_of_topologies_on_one_ordinal_do_not_share_scratch_memory() -> None:
    bed = open_bed(FakeDriver(1))
    operands = {t: bed.put(X, t) for t in PLACES}
    results = {t: bed.empty(f32, (4, 4), t) for t in PLACES}
    kernels = {t: bed.backend.kernel(MatMul(), (f32[4, 4], f32[4, 4]), (f32[4, 4],), t) for t in PLACES}
    events = [  # side by side: with one workspace between them this is a race
        bed.backend.dispatch(kernels[t], (operands[t], operands[t]), (results[t],), t, sizes={}) for t in PLACES
    ]
    for event in events:
        bed.backend.wait(event)
    for t in PLACES:
        np.testing.assert_allclose(bed.get(results[t], X, t), X @ X)
