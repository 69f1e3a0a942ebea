"""Machine files: what they may say, and one whole message for each way of getting one wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from vxgraph.errors import MachineError
from vxgraph.topology.ids import CPU, GPU, declared
from vxgraph.topology.load import load_machine, shipped_machines
from vxgraph.topology.model import Link

BOX = """\
host = "host"

[[memory]]
name = "host"
capacity = { gib = 64, from = "policy" }
bandwidth = { gb_per_s = 100, from = "policy" }
granule = { kib = 4, from = "spec" }
reserved = { bytes = 0, from = "policy" }

[[memory]]
name = "hbm0"
capacity = { gib = 16, from = "spec" }
bandwidth = { tb_per_s = 0.9, from = "measured" }
granule = { mib = 2, from = "spec" }
reserved = { mib = 384, from = "policy" }

[[device]]
topology = "gpu:0"
memory = "hbm0"
reads = ["hbm0", "host"]
flops.f32 = { tflop_per_s = 15.7, from = "spec" }
flops.f16 = { tflop_per_s = 125, from = "spec" }

[[device]]
topology = "dsp"
id = 1000
memory = "host"
reads = ["host"]
flops.f32 = { gflop_per_s = 50, from = "policy" }

[[link]]
src = "host"
dst = "hbm0"
both_ways = true
bandwidth = { gb_per_s = 16, from = "spec" }
latency = { us = 8, from = "policy" }
"""


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes `box.toml` into the current folder, with the given replacements made in BOX."""
    monkeypatch.chdir(tmp_path)

    def write(*changes: tuple[str, str]) -> str:
        text = BOX
        for old, new in changes:
            assert old in text, f"{old!r} is not in BOX"
            text = text.replace(old, new, 1)
        Path("box.toml").write_text(text)
        return "box.toml"

    return write


def complaint(name_or_path: str | Path) -> str:
    with pytest.raises(MachineError) as error:
        load_machine(name_or_path)
    return str(error.value)


def test_a_file_becomes_a_machine_in_base_units(box):
    machine = load_machine(box())
    assert (machine.name, machine.source, machine.host) == ("box", "box.toml", "host")
    hbm = machine.memory("hbm0")
    assert (hbm.capacity, hbm.bandwidth, hbm.granule, hbm.reserved) == (17179869184, 9e11, 2097152, 402653184)
    assert type(hbm.capacity) is int
    gpu = machine.device(GPU[0])
    assert (gpu.memory, gpu.reads, gpu.flops) == ("hbm0", ("hbm0", "host"), {"f32": 1.57e13, "f16": 1.25e14})
    assert machine.links == (Link("host", "hbm0", 1.6e10, 8e-6), Link("hbm0", "host", 1.6e10, 8e-6))


def test_every_number_keeps_where_it_is_from(box):
    assert load_machine(box()).origins == {
        "memory.host.capacity": "policy",
        "memory.host.bandwidth": "policy",
        "memory.host.granule": "spec",
        "memory.host.reserved": "policy",
        "memory.hbm0.capacity": "spec",
        "memory.hbm0.bandwidth": "measured",
        "memory.hbm0.granule": "spec",
        "memory.hbm0.reserved": "policy",
        "device.gpu:0.flops.f32": "spec",
        "device.gpu:0.flops.f16": "spec",
        "device.dsp#1000.flops.f32": "policy",
        "link.host>hbm0.bandwidth": "spec",
        "link.host>hbm0.latency": "policy",
        "link.hbm0>host.bandwidth": "spec",
        "link.hbm0>host.latency": "policy",
    }


def test_a_declared_place_has_the_id_that_the_file_gives_it(box):
    machine = load_machine(box())
    assert [(str(place), int(place)) for place in machine.topologies] == [("gpu:0", 500), ("dsp#1000", 1000)]
    assert machine.memory_of(declared("dsp", 1000)).name == "host"


def test_a_link_is_one_way_unless_it_says_both_ways(box):
    machine = load_machine(box(("both_ways = true\n", "")))
    assert [(link.src, link.dst) for link in machine.links] == [("host", "hbm0")]


def test_among_links_each_memory_to_each_other(box):
    machine = load_machine(box(('src = "host"\ndst = "hbm0"\nboth_ways = true', 'among = ["host", "hbm0"]')))
    assert [(link.src, link.dst) for link in machine.links] == [("host", "hbm0"), ("hbm0", "host")]


def test_a_path_may_be_absolute_or_a_path_object_or_have_a_separator_only(box, tmp_path):
    path = tmp_path / box()
    (tmp_path / "plain").write_text(BOX)
    assert load_machine(path) == load_machine(str(path))
    assert load_machine("./plain").name == "plain"
    assert load_machine(Path("plain")).name == "plain"


def test_these_machines_are_shipped():
    assert shipped_machines() == (
        "a100-40-x2",
        "a100-80-x2",
        "cpu",
        "cpu-x2",
        "cpu-x3",
        "cpu-x8",
        "h100-x2-pcie",
        "h200",
        "h200-x2",
        "h200-x4",
        "l4",
        "rtx4090-x2",
        "v100-16-x2",
    )


@pytest.mark.parametrize("name", shipped_machines())
def test_every_shipped_machine_loads_and_has_what_its_name_says(name: str):
    machine = load_machine(name)
    kind, _, rest = name.partition("-")
    count = next((int(part[1:]) for part in rest.split("-") if part.startswith("x")), 1)
    band = CPU if kind == "cpu" else GPU
    assert (machine.name, machine.source) == (name, f"{name}.toml")
    assert [place for place in machine.topologies if place in band] == [band[index] for index in range(count)]
    assert machine.has(CPU[0])
    assert machine.memory_of(CPU[0]).name == machine.host
    assert len({device.memory for device in machine.devices}) == len(machine.devices)
    assert set(machine.origins.values()) <= {"spec", "measured", "policy"}


def test_volta_computes_no_bf16():
    assert set(load_machine("v100-16-x2").device(GPU[0]).flops) == {"f32", "f16"}


def test_llama2_7b_in_f16_fits_two_v100_with_4096_tokens_of_context_and_not_with_8192():
    params, kv_per_token, activations = 13_476_831_232, 524_288, 800 << 20
    usable = load_machine("v100-16-x2").memory_of(GPU[0]).usable
    assert params + 4096 * kv_per_token + activations <= usable < params + 8192 * kv_per_token


def test_an_unknown_name_lists_those_shipped():
    assert complaint("h20") == (
        "no machine 'h20' is shipped; wanted one of a100-40-x2, a100-80-x2, cpu, cpu-x2, cpu-x3, cpu-x8, "
        "h100-x2-pcie, h200, h200-x2, h200-x4, l4, rtx4090-x2, v100-16-x2, or the path of a machine file, "
        "like ./h20.toml"
    )


def test_a_file_that_cannot_be_read_says_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder.toml").mkdir()
    assert complaint("none.toml") == "none.toml: cannot read this machine file: No such file or directory"
    assert complaint("folder.toml") == "folder.toml: cannot read this machine file: Is a directory"
    assert complaint("a\0.toml") == "a\0.toml: cannot read this machine file: embedded null byte"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('host = "host"', "host = ", "box.toml:1: not TOML: Invalid value"),
        ("both_ways = true", "both_ways = maybe", "box.toml:34: not TOML: Invalid value"),
        ('name = "hbm0"', 'name = "hbm0"\nname = "hbm0"', "box.toml:12: not TOML: Cannot overwrite a value"),
        (
            'latency = { us = 8, from = "policy" }\n',
            "latency",
            "box.toml:36: not TOML: Expected '=' after a key in a key/value pair",
        ),
    ],
)
def test_bad_toml_names_file_and_line(box, old: str, new: str, message: str):
    assert complaint(box((old, new))) == message


def test_a_file_of_another_encoding_names_the_line(box):
    Path(box()).write_bytes(BOX.replace('"dsp"', '"d\xe9p"').encode("latin-1"))
    assert complaint("box.toml") == "box.toml:25: not UTF-8, as TOML must be"


MISTAKES = [
    # names that do not meet
    ('host = "host"', 'host = "ram"', "host: memory 'ram' is not declared; declared: host, hbm0"),
    ('dst = "hbm0"', 'dst = "hbm9"', "[[link]] 1: dst: memory 'hbm9' is not declared; declared: host, hbm0"),
    ('src = "host"', 'src = "hots"', "[[link]] 1: src: memory 'hots' is not declared; declared: host, hbm0"),
    (
        'memory = "host"\nreads = ["host"]',
        'memory = "ram"\nreads = ["host", "ram"]',
        "[[device]] 2: memory: memory 'ram' is not declared; declared: host, hbm0\n"
        "  [[device]] 2: reads: memory 'ram' is not declared; declared: host, hbm0",
    ),
    (
        'reads = ["hbm0", "host"]',
        'reads = ["host"]',
        "[[device]] 1: reads: 'hbm0', the device's own memory, is not among host",
    ),
    ('reads = ["host"]', "reads = []", "[[device]] 2: reads: 'host', the device's own memory, is not among none"),
    # the same thing twice
    (
        'name = "hbm0"',
        'name = "host"',
        "[[memory]] 2: name: 'host' is already [[memory]] 1\n"
        "  [[device]] 1: memory: memory 'hbm0' is not declared; declared: host\n"
        "  [[device]] 1: reads: memory 'hbm0' is not declared; declared: host\n"
        "  [[link]] 1: dst: memory 'hbm0' is not declared; declared: host",
    ),
    ('topology = "dsp"\nid = 1000', 'topology = "gpu:0"', "[[device]] 2: topology: gpu:0 has the id of [[device]] 1"),
    ('dst = "hbm0"', 'dst = "host"', "[[link]] 1: dst: 'host' is src as well; a link joins two memories"),
    # places
    (
        "id = 1000\n",
        "",
        "[[device]] 2: topology: 'dsp' is no topology; wanted cpu:0, npu:0, gpu:0, or a name of your own "
        "with id = 1000",
    ),
    (
        "id = 1000",
        "id = 7",
        "[[device]] 2: topology: dsp: id 7 is out of range; declared places take ids from 1000 to 999999999",
    ),
    ('"gpu:0"', '"gpu:100"', "[[device]] 1: topology: gpu:100 is outside its band; indices run from 0 to 99"),
    (
        'topology = "dsp"',
        'topology = "gpu:1"',
        "[[device]] 2: topology: 'gpu:1' is no name for a place; wanted letters, digits and underscores, like dsp",
    ),
    # numbers
    ("gib = 16", "gib = -16", "[[memory]] 2: capacity: gib: found -16, wanted a number above 0"),
    ("gib = 16", "gib = 0", "[[memory]] 2: capacity: gib: found 0, wanted a number above 0"),
    ("gib = 16", "gib = nan", "[[memory]] 2: capacity: gib: found nan, wanted a number above 0"),
    ("gib = 16", "gib = inf", "[[memory]] 2: capacity: gib: found inf, which is too large"),
    ("gib = 16", "gib = 1" + 400 * "0", f"[[memory]] 2: capacity: gib: found 1{400 * '0'}, which is too large"),
    ("gib = 16", "gib = 9000000000", "[[memory]] 2: capacity: gib: found 9000000000, which is too large"),
    ("gib = 16", "kib = 0.3", "[[memory]] 2: capacity: kib: found 0.3, which is not a whole number of bytes"),
    ("gib = 16", 'gib = "16"', "[[memory]] 2: capacity: gib: found '16', wanted a number"),
    ("gib = 16", "gib = true", "[[memory]] 2: capacity: gib: found True, wanted a number"),
    ("bytes = 0", "bytes = -1", "[[memory]] 1: reserved: bytes: found -1, wanted a number of 0 or more"),
    (
        "mib = 384",
        "gib = 16",
        "[[memory]] 2: reserved: 17179869184 bytes leave nothing of a capacity of 17179869184 bytes",
    ),
    ("us = 8", "us = 0", "[[link]] 1: latency: us: found 0, wanted a number above 0"),
    (
        "tflop_per_s = 125",
        "tflop_per_s = -1",
        "[[device]] 1: flops.f16: tflop_per_s: found -1, wanted a number above 0",
    ),
    # units and origins
    ("gib = 16", "gb = 16", "[[memory]] 2: capacity: found gb; wanted exactly one of bytes, kib, mib, gib, tib"),
    (
        "gib = 16",
        "gib = 16, mib = 1",
        "[[memory]] 2: capacity: found gib, mib; wanted exactly one of bytes, kib, mib, gib, tib",
    ),
    ("gib = 16, ", "", "[[memory]] 2: capacity: found no unit; wanted exactly one of bytes, kib, mib, gib, tib"),
    (
        'gib = 16, from = "spec"',
        "gib = 16",
        "[[memory]] 2: capacity: `from` is missing; wanted one of spec, measured, policy, "
        'as in { gib = 16, from = "spec" }',
    ),
    (
        'gib = 16, from = "spec"',
        'gib = 16, from = "guess"',
        "[[memory]] 2: capacity: from: found 'guess', wanted one of spec, measured, policy",
    ),
    (
        'capacity = { gib = 16, from = "spec" }',
        "capacity = 16",
        '[[memory]] 2: capacity: found 16, wanted a number with its unit and origin, like { gib = 16, from = "spec" }',
    ),
    # keys and types
    (
        'host = "host"',
        'hots = "host"',
        "host: missing; wanted the name of the memory that callers' arrays live in\n"
        "  hots: unknown key; wanted one of host, memory, device, link",
    ),
    ('host = "host"', "host = 1", "host: found 1, wanted the name of the memory that callers' arrays live in"),
    ('granule = { mib = 2, from = "spec" }\n', "", '[[memory]] 2: granule: missing; wanted { mib = 2, from = "spec" }'),
    (
        "both_ways = true",
        "both_way = true",
        "[[link]] 1: both_way: unknown key; wanted one of src, dst, both_ways, among, bandwidth, latency",
    ),
    ("both_ways = true", "both_ways = 1", "[[link]] 1: both_ways: found 1, wanted true or false"),
    ("id = 1000", "id = 1000.0", "[[device]] 2: id: found 1000.0, wanted an integer from 1000 up"),
    (
        'reads = ["host"]',
        'reads = "host"',
        "[[device]] 2: reads: found 'host', wanted the names of memories, like [\"hbm0\"]",
    ),
    ('reads = ["host"]', "reads = [1]", '[[device]] 2: reads: found 1, wanted the names of memories, like ["hbm0"]'),
    (
        'name = "hbm0"',
        'name = "hbm 0"',
        "[[memory]] 2: name: found 'hbm 0', wanted a name of letters, digits and _, like \"hbm0\"",
    ),
    (
        "flops.f16",
        "flops.fp16",
        "[[device]] 1: flops.fp16: no dtype that a device computes in; wanted 'f32', 'f16' or 'bf16'",
    ),
    (
        'flops.f32 = { gflop_per_s = 50, from = "policy" }',
        "flops = {}",
        "[[device]] 2: flops: found {}, wanted one entry per floating dtype, "
        'like f32 = { tflop_per_s = 125, from = "spec" }',
    ),
    ("[[link]]", "[link]", "link: found a table, wanted [[link]] tables"),
    # links
    (
        "[[link]]",
        '[[link]]\nsrc = "hbm0"\ndst = "host"\nbandwidth = { gb_per_s = 1, from = "spec" }\n'
        'latency = { us = 8, from = "policy" }\n\n[[link]]',
        "[[link]] 2: hbm0 to host is already [[link]] 1",
    ),
    (
        'src = "host"\n',
        "",
        "[[link]] 1: src: missing; wanted the name of a memory (or `among` in place of src and dst)",
    ),
    (
        'dst = "hbm0"\n',
        'among = ["host", "hbm0"]\n',
        "[[link]] 1: among: links each memory to each other, both ways; leave out src, both_ways",
    ),
    (
        'src = "host"\ndst = "hbm0"\nboth_ways = true',
        'among = ["host", "host"]',
        "[[link]] 1: among: found ['host', 'host'], wanted two or more different memories",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_a_mistake_is_one_message_with_file_table_and_key(box, old: str, new: str, message: str):
    assert complaint(box((old, new))) == f"box.toml: {message}"


def test_a_file_without_devices_says_so(box):
    Path("bare.toml").write_text(Path(box()).read_text().split("[[device]]")[0])
    assert complaint("bare.toml") == "bare.toml: device: missing; wanted at least one [[device]] table"
    Path("bare.toml").write_text('host = "host"\nmemory = []\ndevice = [1]\n')
    assert complaint("bare.toml") == (
        "bare.toml: memory: found [], wanted at least one [[memory]] table\n"
        "  [[device]] 1: found 1, wanted a table with topology, id, memory, reads, flops"
    )
