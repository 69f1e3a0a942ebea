"""The table of ids is an interface: other programs hold these integers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from vxgraph.errors import MachineError
from vxgraph.topology.ids import CPU, GPU, NPU, Topology, declared, parse_topology, topology_of

GOLDEN = {
    "cpu:0": 0,
    "cpu:1": 1,
    "cpu:99": 99,
    "npu:0": 100,
    "npu:7": 107,
    "npu:99": 199,
    "gpu:0": 500,
    "gpu:1": 501,
    "gpu:99": 599,
    "dsp#1000": 1000,
    "my_place2#4096": 4096,
    "far#999999999": 999_999_999,
}


@pytest.mark.parametrize(("text", "number"), GOLDEN.items())
def test_a_name_has_the_id_of_the_golden_table_and_prints_as_itself(text: str, number: int):
    place = parse_topology(text)
    assert int(place) == number
    assert (str(place), repr(place), f"{place:>14}") == (text, text, text.rjust(14))


@pytest.mark.parametrize("text", [text for text in GOLDEN if ":" in text])
def test_an_id_within_a_band_reads_back_as_its_place(text: str):
    assert str(topology_of(GOLDEN[text])) == text


def test_bands_do_not_overlap_and_hold_a_hundred_each():
    ids = [int(band[index]) for band in (CPU, NPU, GPU) for index in range(100)]
    assert ids == [*range(100), *range(100, 200), *range(500, 600)]
    assert [GPU[99] in band for band in (CPU, NPU, GPU)] == [False, False, True]


def test_a_place_survives_pickle_and_copy_with_its_name():
    for again in (pickle.loads(pickle.dumps(GPU[1])), copy.deepcopy(GPU[1]), copy.copy(GPU[1])):
        assert (type(again), int(again), str(again)) == (Topology, 501, "gpu:1")


def test_cpu_0_is_true_like_every_other_place():
    assert [bool(place) for place in (CPU[0], CPU[1], GPU[0])] == [True, True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu:100", "gpu:100 is outside its band; indices run from 0 to 99"),
        ("dsp#999", "dsp: id 999 is out of range; declared places take ids from 1000 to 999999999"),
        *(
            (text, f"{text!r} is no topology; wanted cpu:0, npu:0, gpu:0 or a declared place like dsp#1000")
            for text in ("", "gpu", "gpu:", "gpu:-1", "gpu:01", "gpu:1 ", "gpu:1\n", "tpu:0", "gpu:١", "dsp#01000")
        ),
        (
            "gpu:" + "1" * 5000,
            f"'gpu:{'1' * 5000}' is no topology; wanted cpu:0, npu:0, gpu:0 or a declared place like dsp#1000",
        ),
    ],
)
def test_text_that_names_no_place_is_refused(text: str, message: str):
    with pytest.raises(MachineError) as error:
        parse_topology(text)
    assert str(error.value) == message


@pytest.mark.parametrize("number", [-1, 200, 499, 600, 999, 1000])
def test_an_id_outside_every_band_never_becomes_a_device(number: int):
    with pytest.raises(MachineError) as error:
        topology_of(number)
    assert str(error.value) == (
        f"topology id {number} is in no band (cpu 0-99, npu 100-199, gpu 500-599); "
        "ids from 1000 up are declared by a machine file"
    )


@pytest.mark.parametrize("index", [-1, 100, 501])
def test_an_index_outside_its_band_is_refused(index: int):
    with pytest.raises(MachineError) as error:
        GPU[index]
    assert error.value.message == f"gpu:{index} is outside its band; indices run from 0 to 99"


@pytest.mark.parametrize(("index", "kind"), [("0", "str"), (True, "bool"), (1.0, "float"), (None, "NoneType")])
def test_an_index_that_is_no_int_is_refused(index: object, kind: str):
    with pytest.raises(MachineError) as error:
        GPU[index]  # type: ignore[index]
    assert error.value.message == (
        f"gpu[{index!r}]: the index is {kind}, wanted a Python int known when the graph is built; write GPU[0]"
    )


@pytest.mark.parametrize("name", ["", "my dsp", "dsp#1", "8bit", "gpu:0"])
def test_a_declared_name_that_would_not_read_back_is_refused(name: str):
    with pytest.raises(MachineError) as error:
        declared(name, 1000)
    assert str(error.value) == f"{name!r} is no name for a place; wanted letters, digits and underscores, like dsp"


def test_ids_and_models_and_routes_load_neither_pydantic_nor_networkx():
    code = (
        "import sys, vxgraph.topology.ids, vxgraph.topology.model, vxgraph.topology.routes\n"
        "print(sorted({'pydantic', 'networkx', 'numpy'} & set(sys.modules)))"
    )
    # numpy is loaded by `vxgraph` itself, which has types and arrays; the other two belong to their doors.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in ("[]\n", "['numpy']\n")
