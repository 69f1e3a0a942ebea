"""Machines answer by topology and by name, and say what they have where they lack it."""

from __future__ import annotations

import copy
import pickle

import pytest

from vxgraph.errors import MachineError
from vxgraph.topology.ids import CPU, GPU, declared
from vxgraph.topology.model import Device, Link, Machine, Memory

HOST = Memory("host", capacity=1000, bandwidth=10.0, granule=4, reserved=0)
HBM = Memory("hbm", capacity=500, bandwidth=100.0, granule=2, reserved=20)
DSP = declared("dsp", 1000)
BOX = Machine(
    name="box",
    source="box.toml",
    host="host",
    devices=(
        Device(DSP, "host", ("host",), {"f32": 1.0}),
        Device(GPU[0], "hbm", ("hbm", "host"), {"f32": 5.0}),
        Device(CPU[0], "host", ("host",), {"f32": 2.0}),
    ),
    memories=(HOST, HBM),
    links=(Link("host", "hbm", bandwidth=4.0, latency=0.5),),
    origins={"memory.host.capacity": "spec"},
)


def test_topologies_are_ordered_by_id_whatever_the_file_says():
    assert BOX.topologies == (CPU[0], GPU[0], DSP)
    assert [str(place) for place in BOX.topologies] == ["cpu:0", "gpu:0", "dsp#1000"]


def test_accelerators_are_the_devices_other_than_cpus():
    assert [str(device.topology) for device in BOX.accelerators] == ["gpu:0", "dsp#1000"]


def test_a_device_and_its_memory_are_found_by_topology():
    assert BOX.device(GPU[0]).flops == {"f32": 5.0}
    assert (BOX.memory_of(GPU[0]), BOX.memory_of(DSP), BOX.memory_of(None)) == (HBM, HOST, HOST)
    assert (BOX.has(GPU[0]), BOX.has(GPU[1])) == (True, False)


def test_usable_bytes_are_what_is_not_reserved():
    assert (HBM.usable, HOST.usable) == (480, 1000)


def test_a_link_takes_its_latency_and_then_its_bandwidth():
    assert BOX.links[0].seconds(8) == 2.5


def test_a_topology_that_the_machine_lacks_is_named_with_those_it_has():
    for ask in (BOX.device, BOX.memory_of):
        with pytest.raises(MachineError) as error:
            ask(GPU[7])
        assert str(error.value) == "box has no gpu:7; it has cpu:0, gpu:0, dsp#1000 (box.toml)"


def test_a_memory_that_the_machine_lacks_is_named_with_those_it_has():
    with pytest.raises(MachineError) as error:
        BOX.memory("hbm9")
    assert str(error.value) == "box has no memory 'hbm9'; it has host, hbm (box.toml)"


def test_a_machine_can_be_a_key_and_survives_pickle_and_copy():
    for again in (pickle.loads(pickle.dumps(BOX)), copy.deepcopy(BOX)):
        assert again == BOX
        assert {BOX: "same"}[again] == "same"
        assert again.device(GPU[0]) == BOX.device(GPU[0])
