"""Topologies are logical: what they are bound to is stated with the device's address and UUID, and never guessed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fakes import backend_on
from vxgraph.errors import BindError
from vxgraph.program.model import Program
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.binding import Binding, resolve
from vxgraph.topology.ids import Topology

G2, G7 = vx.GPU[2], vx.GPU[7]


def on(place: Topology, tmp_path: Path) -> Program:
    """-x on a place of a machine that has it."""
    text = (Path(vx.__file__).parent / "topology/machines/h200.toml").read_text()
    (tmp_path / "box.toml").write_text(text.replace('"gpu:0"', f'"{place}"'))
    with vx.Graph("one") as g, vx.on(place):
        vx.output("y", vx.neg(vx.input("x", vx.f32[4])))
    return vx.compile(g, vx.load_machine(str(tmp_path / "box.toml")))


def bound(bind: dict[str, str] | None, place: Topology, devices: int, *, require_gpu: bool = False) -> Binding:
    """A binding on a machine whose runtime counts that many devices."""
    there = {"numpy": NumpyBackend(), "cupy": backend_on(FakeDriver(devices))}
    return resolve(bind, (place,), require_gpu=require_gpu, backends=there)


def refusal(bind: dict[str, str] | None, place: Topology, devices: int, *, require_gpu: bool = False) -> str:
    with pytest.raises(BindError) as error:
        bound(bind, place, devices, require_gpu=require_gpu)
    return str(error.value)


@pytest.mark.case("P07")
@pytest.mark.parametrize(
    ("bind", "place", "devices", "message"),
    [
        ({"gpu:7": "cuda:7"}, G7, 1, "gpu:7=cuda:7: there is no device 'cuda:7' here; there are cuda:0, numpy"),
        ({"gpu:0": "cuda:0"}, G7, 1, "gpu:0 is not in the program; the program runs on gpu:7"),
        ({"gpu:2": "cuda:2"}, G2, 1, "gpu:2=cuda:2: there is no device 'cuda:2' here; there are cuda:0, numpy"),
        (
            {"gpu:2": "cuda:0"},
            G2,
            0,
            "gpu:2=cuda:0: no CUDA device is found here; with one, pip install 'vxgraph[cuda12]' or "
            "'vxgraph[cuda13]'; without, bind gpu:2=numpy",
        ),
    ],
)
def test_an_ordinal_that_the_runtime_does_not_count_is_refused_with_those_that_it_does(
    bind: dict[str, str], place: Topology, devices: int, message: str
) -> None:
    assert refusal(bind, place, devices) == message


@pytest.mark.case("P07")
def test_without_a_visible_device_it_is_said_or_refused() -> None:
    assert bound(None, G2, 0).note == "no GPU here: gpu:2 runs on NumPy"
    assert refusal(None, G2, 0, require_gpu=True) == "a GPU is required, but gpu:2 would run on numpy"


@pytest.mark.case("P07")
@pytest.mark.parametrize("bind", [{"gpu:2": "cuda:0"}, None])
def test_behind_a_mask_the_map_says_which_ordinal_and_which_card_it_is(
    bind: dict[str, str] | None, tmp_path: Path
) -> None:
    program = on(G2, tmp_path)
    for _ in range(2):  # the same plan twice in one process
        with vx.Session(program, {}, bound(bind, G2, 1)) as s:
            assert s.bindings == {G2: "cuda:0 Fake 0000:00:00.0 GPU-0"}
            np.testing.assert_array_equal(s.run({"x": np.ones(4, np.float32)})["y"], [-1] * 4)
            assert s.report.conforms()
