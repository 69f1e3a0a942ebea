"""Copies between devices arrive, whatever the direct path says: probed once, staged where it lies."""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.cupy.fake_driver import Allocator, FakeDriver, Lie
from tests.runtime.cupy.fakes import all_pairs, backend_on, doubled, nothing_left, open_bed, session_on
from vxgraph.ir.types import f32
from vxgraph.ops import Add
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.cupy.peer import Mode, PeerWarning

X = np.arange(1, 65537, dtype=np.float32)
LIES: tuple[Lie, ...] = ("zeros", "half", "nothing", "first is wrong", "only first is right")
PAIRS = list(permutations(range(3), 2))


def peers_of(session: vx.Session) -> Any:
    return session._executor.backends[vx.GPU[0]].peers  # type: ignore[attr-defined]


@pytest.mark.case("R01")
def test_an_honest_pair_is_probed_once_and_used_directly() -> None:
    driver = FakeDriver(2)
    with warnings.catch_warnings(action="error"), session_on(driver, doubled()) as s:
        for k in range(3):
            np.testing.assert_array_equal(s.run({"x": X + k})["y"], 2 * (X + k))
            assert s.report.conforms()
        assert (peers_of(s).probes, peers_of(s).found, peers_of(s).staged) == (1, {(0, 1): True}, 0)
    assert driver.peer_copies == {(0, 1): 2 + 3}  # the probe's two, and the three runs'
    assert nothing_left(driver)


@pytest.mark.case("R01")
@pytest.mark.parametrize("lie", LIES)
def test_a_pair_that_lies_is_staged_with_one_warning_and_the_result_is_exact(lie: Lie) -> None:
    driver = FakeDriver(2, lies={(0, 1): lie})
    with warnings.catch_warnings(record=True) as found, session_on(driver, doubled()) as s:
        warnings.simplefilter("always")
        for k in range(3):
            np.testing.assert_array_equal(s.run({"x": X + k})["y"], 2 * (X + k))
            assert s.report.conforms()
        assert (peers_of(s).probes, peers_of(s).found) == (1, {(0, 1): False})
        assert peers_of(s).staged == 3 * X.nbytes
    assert [(w.category, str(w.message)) for w in found] == [
        (PeerWarning, "peer copies from cuda:0 to cuda:1 do not deliver; they go through the host")
    ]
    assert driver.peer_copies == {(0, 1): 2}  # nothing but the probe
    assert nothing_left(driver)


@pytest.mark.case("R01")
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("bad", PAIRS)
def test_of_six_ordered_pairs_the_one_that_lies_is_staged(bad: tuple[int, int], lie: Lie) -> None:
    driver = FakeDriver(3, lies={bad: lie})
    x = np.linspace(1, 2, 1024, dtype=np.float32)
    with warnings.catch_warnings(record=True) as found, session_on(driver, all_pairs()) as s:
        warnings.simplefilter("always")
        results = s.run({"x": x})
        assert s.report.conforms()
        peers = s._executor.backends[vx.CPU[0]].peers  # type: ignore[attr-defined]
        assert (peers.probes, peers.staged) == (6, x.nbytes)
        assert peers.found == {pair: pair != bad for pair in PAIRS}
    for k, (a, b) in enumerate(PAIRS):
        np.testing.assert_array_equal(results[f"y{a}{b}"], x + np.float32(k) + 1)
    assert [(w.category, str(w.message)) for w in found] == [
        (PeerWarning, f"peer copies from cuda:{bad[0]} to cuda:{bad[1]} do not deliver; they go through the host")
    ]
    assert nothing_left(driver)


@pytest.mark.case("R01")
def test_one_device_is_never_probed() -> None:
    driver = FakeDriver(1, lies={(0, 0): "zeros"})
    with session_on(driver, doubled()) as s:
        np.testing.assert_array_equal(s.run({"x": X})["y"], 2 * X)
        assert (peers_of(s).probes, peers_of(s).found, peers_of(s).staged) == (0, {}, 0)
    assert not driver.peer_copies


@pytest.mark.case("R01")
@pytest.mark.parametrize(("mode", "staged", "direct"), [("staged", X.nbytes, 0), ("direct", 0, 1)])
def test_a_way_that_is_forced_is_taken_without_a_probe(mode: Mode, staged: int, direct: int) -> None:
    driver = FakeDriver(2)
    with session_on(driver, doubled(), peer=mode) as s:
        np.testing.assert_array_equal(s.run({"x": X})["y"], 2 * X)
        assert (peers_of(s).probes, peers_of(s).staged) == (0, staged)
        assert s.report.conforms()
    assert driver.peer_copies[0, 1] == direct


@pytest.mark.case("R01")
def test_staging_that_is_forced_is_done_on_one_device_too() -> None:
    driver = FakeDriver(1)
    with session_on(driver, doubled(), peer="staged") as s:
        np.testing.assert_array_equal(s.run({"x": X})["y"], 2 * X)
        assert (peers_of(s).probes, peers_of(s).staged) == (0, X.nbytes)
        assert s.report.conforms()
    assert nothing_left(driver)


def test_a_forced_direct_way_trusts_the_driver() -> None:
    driver = FakeDriver(2, lies={(0, 1): "zeros"})
    with session_on(driver, doubled(), peer="direct") as s:
        np.testing.assert_array_equal(s.run({"x": X})["y"], 0 * X)


@pytest.mark.case("R03")
@pytest.mark.parametrize("mode", ["probe", "staged", "direct"])
@pytest.mark.parametrize("allocator", ["pool", "async pool", "none"])
def test_values_are_exact_with_every_allocator_and_after_a_second_opening(allocator: Allocator, mode: Mode) -> None:
    driver = FakeDriver(2, allocator=allocator)
    bed = open_bed(driver, peer=mode)
    for _ in range(2):
        tensor = bed.put(X, vx.GPU[0])
        for _ in range(2):
            into, _event = bed.send(tensor, X, vx.GPU[0], vx.GPU[1])
            np.testing.assert_array_equal(bed.get(into, X, vx.GPU[1]), X)
            total, _event = bed.apply(Add(), [into, into], (f32[65536], f32[65536]), vx.GPU[1])
            np.testing.assert_array_equal(bed.get(total, X, vx.GPU[1]), X + X)
        bed.backend.close()
        assert nothing_left(driver)
        bed.open()
    bed.backend.close()


@pytest.mark.case("R03")
def test_two_backends_at_once_on_the_same_devices_do_not_disturb_each_other() -> None:
    driver = FakeDriver(2)
    first, second = open_bed(driver), open_bed(driver)
    for bed in (first, second, first):
        into, _event = bed.send(bed.put(X, vx.GPU[0]), X, vx.GPU[0], vx.GPU[1])
        np.testing.assert_array_equal(bed.get(into, X, vx.GPU[1]), X)
    del into
    first.backend.close()
    into, _event = second.send(second.put(X, vx.GPU[0]), X, vx.GPU[0], vx.GPU[1])
    np.testing.assert_array_equal(second.get(into, X, vx.GPU[1]), X)
    second.backend.close()
    assert nothing_left(driver)


def test_a_pair_is_probed_again_after_the_backend_was_closed() -> None:
    driver = FakeDriver(2)
    bed = open_bed(driver)
    for probes in (2, 4):
        bed.send(bed.put(X[:4], vx.GPU[0]), X[:4], vx.GPU[0], vx.GPU[1])
        assert driver.peer_copies[0, 1] == probes + probes // 2
        bed.backend.close()
        bed.open()


@pytest.mark.case("R09")
def test_nothing_is_probed_for_no_bytes() -> None:
    driver = FakeDriver(2)
    bed = open_bed(driver)
    nothing = np.zeros((0, 4), np.float32)
    bed.send(bed.put(nothing, vx.GPU[0]), nothing, vx.GPU[0], vx.GPU[1])
    assert not driver.peer_copies


def test_a_backend_without_a_driver_offers_nothing_and_says_what_to_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vxgraph.runtime.backends.cupy.backend.cuda_driver", lambda: None)
    backend = CupyBackend()
    assert backend.devices() == ()
    with pytest.raises(vx.VxError) as e:
        backend.open(vx.GPU[0], "cuda:0")
    assert str(e.value) == "gpu:0=cuda:0: CuPy finds no CUDA device here; bind gpu:0=numpy"


def test_an_ordinal_that_is_not_here_is_refused_with_those_that_are() -> None:
    backend = backend_on(FakeDriver(2))
    assert [d.target for d in backend.devices()] == ["cuda:0", "cuda:1"]
    assert backend.open(vx.GPU[1], "cuda:1") == "cuda:1 Fake 0000:01:00.0 GPU-1"
    for target in ("cuda:2", "cuda:", "cuda:01", "cuda:-1", "numpy", "cuda"):
        with pytest.raises(vx.VxError) as e:
            backend.open(vx.GPU[0], target)
        assert str(e.value) == f"gpu:0={target}: there is no device {target!r} here; there are cuda:0, cuda:1"
