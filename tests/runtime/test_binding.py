"""What a topology may be bound to, and what is said where it cannot."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

import vxgraph as vx
from vxgraph.errors import BindError
from vxgraph.runtime import binding
from vxgraph.runtime.abi import DeviceInfo
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.binding import Binding, find_backends, resolve

G0, G1, C0 = vx.GPU[0], vx.GPU[1], vx.CPU[0]


class Cards(NumpyBackend):
    """Offers GPUs, in name only."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def devices(self) -> tuple[DeviceInfo, ...]:
        return tuple(DeviceInfo(f"cuda:{i}", "gpu", f"Card {i}", 1 << 34) for i in range(self.count))


def backends(cards: int) -> dict[str, NumpyBackend]:
    return {"numpy": NumpyBackend(), "cards": Cards(cards)}


def targets(found: Binding) -> dict[vx.Topology, str]:
    return {t: target for t, (_, target) in found.devices.items()}


def test_numpy_takes_every_topology_without_a_note() -> None:
    found = resolve("numpy", (C0, G0, G1))
    assert targets(found) == {C0: "numpy", G0: "numpy", G1: "numpy"}
    assert len({id(backend) for backend, _ in found.devices.values()}) == 1
    assert found.note == ""


@pytest.mark.case("P07")
@pytest.mark.parametrize(
    ("topologies", "note"),
    [
        ((C0,), ""),
        ((C0, G0), "no GPU here: gpu:0 runs on NumPy"),
        ((G0, G1), "no GPU here: gpu:0 and gpu:1 run on NumPy"),
        ((G0, G1, vx.GPU[2]), "no GPU here: gpu:0, gpu:1 and gpu:2 run on NumPy"),
        (
            (vx.NPU[0], G0),
            "no GPU here: gpu:0 runs on NumPy; no device of its kind here: npu:0 runs on NumPy",
        ),
    ],
)
def test_without_gpus_automatic_binding_says_so_in_one_line(topologies: tuple[vx.Topology, ...], note: str) -> None:
    found = resolve(None, topologies, backends=backends(0))
    assert set(targets(found).values()) == {"numpy"}
    assert found.note == note


def test_automatic_binding_takes_gpus_in_order() -> None:
    found = resolve(None, (C0, G0, G1), backends=backends(2))
    assert targets(found) == {C0: "numpy", G0: "cuda:0", G1: "cuda:1"}
    assert found.note == ""
    again = resolve(None, (C0, G0, G1), backends=backends(2))
    assert targets(again) == targets(found)


@pytest.mark.case("P07")
def test_too_few_gpus_are_not_shared_silently() -> None:
    with pytest.raises(BindError) as e:
        resolve(None, (G0, G1), backends=backends(1))
    assert str(e.value) == (
        "gpu:0 and gpu:1 want 2 GPUs but there is 1 here; say which share one: gpu:0=cuda:0, gpu:1=cuda:0"
    )
    shared = resolve({"gpu:0": "cuda:0", "gpu:1": "cuda:0"}, (G0, G1), backends=backends(1))
    assert targets(shared) == {G0: "cuda:0", G1: "cuda:0"}


@pytest.mark.case("P07")
def test_a_mapping_takes_names_and_topologies() -> None:
    found = resolve({"gpu:0": "cuda:1", G1: "numpy"}, (G0, G1), backends=backends(2))
    assert targets(found) == {G0: "cuda:1", G1: "numpy"}
    masked = resolve({"gpu:2": "cuda:0"}, (vx.GPU[2],), backends=backends(1))  # a visible-device mask renumbers
    assert targets(masked) == {vx.GPU[2]: "cuda:0"}


@pytest.mark.case("P07")
@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ({"gpu:0": "numpy"}, "gpu:1 is not bound; the program runs on gpu:0 and gpu:1, bound: gpu:0"),
        ({}, "gpu:0 and gpu:1 are not bound; the program runs on gpu:0 and gpu:1, bound: none"),
        (
            {"gpu:0": "numpy", "gpu:1": "numpy", "gpu:7": "numpy"},
            "gpu:7 is not in the program; the program runs on gpu:0 and gpu:1",
        ),
        (
            {"gpu:0": "numpy", "gpu:1": "cuda:5"},
            "gpu:1=cuda:5: there is no device 'cuda:5' here; there are cuda:0, cuda:1, numpy",
        ),
        ("tpu", "gpu:0=tpu: there is no device 'tpu' here; there are cuda:0, cuda:1, numpy"),
    ],
)
def test_a_binding_that_names_what_is_not_there_is_refused(bind: object, message: str) -> None:
    with pytest.raises(BindError) as e:
        resolve(bind, (G0, G1), backends=backends(2))  # type: ignore[arg-type]
    assert str(e.value) == message


def test_cuda_without_a_backend_for_it_says_what_is_missing() -> None:
    with pytest.raises(BindError) as e:
        resolve({"gpu:0": "cuda:0"}, (G0,), backends={"numpy": NumpyBackend()})
    assert str(e.value) == (
        "gpu:0=cuda:0: no CUDA device is found here; with one, pip install 'vxgraph[cuda12]' or 'vxgraph[cuda13]'; "
        "without, bind gpu:0=numpy"
    )


@pytest.mark.case("P07")
def test_require_gpu_refuses_anything_else() -> None:
    wanted = {
        (G0, G1): "a GPU is required, but gpu:0 and gpu:1 would run on numpy",
        (C0,): "a GPU is required, but the program runs on cpu:0 only",
    }
    for topologies, message in wanted.items():
        with pytest.raises(BindError) as e:
            resolve(None, topologies, require_gpu=True, backends=backends(0))
        assert str(e.value) == message
    found = resolve(None, (C0, G0), require_gpu=True, backends=backends(1))
    assert targets(found) == {C0: "numpy", G0: "cuda:0"}


def test_a_binding_made_by_hand_must_cover_the_program() -> None:
    backend = NumpyBackend()
    whole = Binding({G0: (backend, "numpy")})
    assert resolve(whole, (G0,)) is whole
    with pytest.raises(BindError) as e:
        resolve(whole, (G0, G1))
    assert str(e.value) == "gpu:1 is not bound; the program runs on gpu:0 and gpu:1, bound: gpu:0"


def test_numpy_cupy_and_the_sanitizer_are_always_there_and_others_are_found_by_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "entry_points", lambda group: [])
    assert list(find_backends()) == ["numpy", "cupy", "sanitizer"]
    point = EntryPoint("cards", "tests.runtime.test_binding:TwoCards", binding.GROUP)
    monkeypatch.setattr(binding, "entry_points", lambda group: [point])
    monkeypatch.setattr(sys.modules[__name__], "TwoCards", lambda: Cards(2), raising=False)
    monkeypatch.setitem(sys.modules, "tests.runtime.test_binding", sys.modules[__name__])
    assert targets(resolve(None, (G0, G1))) == {G0: "cuda:0", G1: "cuda:1"}


def test_a_backend_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no_such_module_here:Backend", binding.GROUP)
    monkeypatch.setattr(binding, "entry_points", lambda group: [point])
    with pytest.raises(BindError) as e:
        find_backends()
    assert str(e.value) == (
        "backend 'broken' (no_such_module_here:Backend) does not load: No module named 'no_such_module_here'"
    )


def test_the_numpy_backend_offers_the_host_and_nothing_else() -> None:
    (device,) = NumpyBackend().devices()
    assert (device.target, device.kind) == ("numpy", "cpu")
    assert device.memory > 1 << 20
    with pytest.raises(BindError) as e:
        NumpyBackend().open(G0, "cuda:0")
    assert str(e.value) == "gpu:0=cuda:0: the NumPy backend offers 'numpy' and 'numpy:plain' only"
