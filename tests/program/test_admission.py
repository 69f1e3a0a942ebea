"""Whether it fits is known before anything is allocated: the arithmetic, the table, the owners, the advice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS, Placement
from examples.llama2.model import build as llama
from tests.program.samples import SAMPLES
from vxgraph.errors import AdmissionError, MachineError
from vxgraph.program.admission import show_bytes
from vxgraph.program.compile import on_machine, plan
from vxgraph.program.model import MemoryUse

V100 = vx.load_machine("v100-16-x2")


def llama2(model: str, machine: vx.Machine, placement: str, max_len: int) -> vx.Graph:
    """A preset in f16; its context is as long as it is asked to be."""
    config = replace(preset(model), max_len=max_len, dtype="f16")
    return llama(config, PLACEMENTS[placement](machine, config.layers), max_len=max_len)


def use_of(program: vx.Program, memory: str) -> MemoryUse:
    return next(use for use in program.memory if use.memory == memory)


@pytest.mark.case("P06")
def test_llama2_7b_in_f16_with_4096_tokens_fits_two_16_gib_devices() -> None:
    program = vx.compile(llama2("llama2-7b", V100, "disaggregated", 4096), V100)
    decode = use_of(program, "hbm1")
    assert decode.params == 13_476_831_232
    assert decode.kv == 4096 * 524_288
    assert decode.peak < 16 << 30


@pytest.mark.case("P06")
def test_llama2_7b_in_f16_with_8192_tokens_is_refused_with_the_table() -> None:
    with pytest.raises(AdmissionError) as error:
        vx.compile(llama2("llama2-7b", V100, "disaggregated", 8192), V100)
    head, *lines = str(error.value).splitlines()
    assert head == "llama2-7b-disaggregated does not fit v100-16-x2"
    assert " ".join(lines[0].split()) == (
        "memory used by params kv activations staging reserved peak capacity headroom"
    )
    row = next(line.split() for line in lines if line.split()[0] == "hbm1")
    assert row[1:6] == ["gpu:1", "12.55", "GiB", "4.00", "GiB"]
    (owner,) = [line.strip() for line in lines if line.startswith("  on hbm1, kv:")]
    assert owner.startswith("on hbm1, kv: 4.00 GiB at examples/llama2/model.py:")
    assert owner.endswith(" (64 values such as %handover.layers.0.k: f16[S, KVHead, D])")
    assert lines[-1] == (
        "  hbm1 lacks 950.00 MiB: make S=8192 smaller, spread the graph over more devices, "
        "or take a machine with more memory"
    )


@pytest.mark.case("P06")
@pytest.mark.parametrize(
    ("model", "nbytes"), [("llama2-7b", 524_288), ("llama2-13b", 819_200), ("llama2-70b", 327_680)]
)
def test_a_token_s_keys_and_values_take(model: str, nbytes: int) -> None:
    """Measured on two layers of the model: every layer takes the same."""
    machine, config = vx.load_machine("h200-x2"), replace(preset(model), layers=2, dtype="f16")
    placement = PLACEMENTS["single"](machine, 2)
    a, b = (use_of(plan(llama(config, placement, max_len=n), machine), "hbm0").kv for n in (64, 128))
    assert (b - a) * preset(model).layers == 64 * 2 * nbytes


SMALL = """\
host = "host"

[[memory]]
name = "host"
capacity = { mib = 1, from = "policy" }
bandwidth = { gb_per_s = 100, from = "policy" }
granule = { kib = 4, from = "spec" }
reserved = { bytes = 0, from = "policy" }

[[memory]]
name = "left"
capacity = { kib = 64, from = "policy" }
bandwidth = { gb_per_s = 100, from = "policy" }
granule = { kib = 4, from = "spec" }
reserved = { kib = 8, from = "policy" }

[[memory]]
name = "right"
capacity = { kib = 64, from = "policy" }
bandwidth = { gb_per_s = 100, from = "policy" }
granule = { kib = 4, from = "spec" }
reserved = { kib = 8, from = "policy" }

[[device]]
topology = "gpu:0"
memory = "left"
reads = ["left"]
flops.f32 = { gflop_per_s = 50, from = "policy" }

[[device]]
topology = "gpu:1"
memory = "right"
reads = ["right"]
flops.f32 = { gflop_per_s = 50, from = "policy" }

[[link]]
src = "host"
dst = "left"
both_ways = true
bandwidth = { gb_per_s = 16, from = "policy" }
latency = { us = 8, from = "policy" }

[[link]]
src = "host"
dst = "right"
both_ways = true
bandwidth = { gb_per_s = 16, from = "policy" }
latency = { us = 8, from = "policy" }
"""


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., vx.Machine]:
    """Two devices of 64 KiB without a direct link, with the given replacements made."""

    def make(*changes: tuple[str, str]) -> vx.Machine:
        text = SMALL
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "small.toml").write_text(text)
        return vx.load_machine(str(tmp_path / "small.toml"))

    return make


GRAPH = """\
graph "tower" {
  dim T <= 64 min 1
  arg %x : f32[T, 64] loc "tower.py:3"
  param %w1 : f32[64, 64] loc "tower.py:4"
  param %w2 : f32[64, 192] loc "tower.py:5"
  %h = matmul(%x, %w1) : f32[T, 64] @gpu:0 loc "tower.py:7"
  %y = matmul(%h, %w2) : f32[T, 192] @gpu:1 loc "tower.py:9"
  result "y" = %y
}
"""


def test_the_whole_message(small: Callable[..., vx.Machine], golden: Callable[..., None]) -> None:
    with pytest.raises(AdmissionError) as error:
        vx.compile(vx.parse_graph(GRAPH), small())
    golden(str(error.value) + "\n")


PARAMS = """\
graph "heavy" {
  dim D = 128
  dim T <= 64 min 1
  arg %x : f16[T, 128] loc "heavy.py:3"
  param %w1 : f16[128, 128] loc "heavy.py:4"
  param %w2 : f16[128, 128] loc "heavy.py:5"
  %h = matmul(%x, %w1) : f16[T, 128] @gpu:0 loc "heavy.py:7"
  %y = matmul(%h, %w2) : f16[T, 128] @gpu:0 loc "heavy.py:8"
  %r = reshape(%y) {dims = [T, 1, D]} : f16[T, 1, D] @gpu:0 loc "heavy.py:9"
  result "y" = %r
}
"""


def advice_of(graph: str, machine: vx.Machine) -> str:
    with pytest.raises(AdmissionError) as error:
        vx.compile(vx.parse_graph(graph), machine)
    return str(error.value).splitlines()[-1]


def test_no_dim_is_said_to_help_where_the_params_alone_do_not_fit(small: Callable[..., vx.Machine]) -> None:
    assert advice_of(PARAMS, small()) == (
        "  left lacks 40.00 KiB, 8.00 KiB of it for params alone: "
        "spread the graph over more devices, or take a machine with more memory"
    )


def test_a_dtype_is_said_to_help_only_where_it_is_enough(small: Callable[..., vx.Machine]) -> None:
    half = ('name = "left"\ncapacity = { kib = 64', 'name = "left"\ncapacity = { kib = 100')
    assert advice_of(PARAMS.replace("f16", "f32"), small()) == (
        "  left lacks 136.00 KiB, 72.00 KiB of it for params alone, and %w1.gpu0 is larger than all that programs "
        "have of it: take a machine with more memory"
    )
    assert advice_of(PARAMS.replace("f16", "f32").replace("T <= 64", "T <= 4"), small(half)) == (
        "  left lacks 40.00 KiB, 36.00 KiB of it for params alone: use f16 or bf16 where it is f32, "
        "spread the graph over more devices, or take a machine with more memory"
    )


def test_a_dim_of_a_param_is_the_model_s_and_not_said_to_help(small: Callable[..., vx.Machine]) -> None:
    wide = """\
graph "wide" {
  dim D = 64
  arg %x : f16[512, D] loc "wide.py:3"
  param %w : f16[D] loc "wide.py:4"
  %y = mul(%x, %w) : f16[512, D] @gpu:0 loc "wide.py:5"
  result "y" = %y
}
"""
    assert advice_of(wide, small()) == (
        "  left lacks 76.00 KiB, and %x.gpu0 is larger than all that programs have of it: "
        "take a machine with more memory"
    )


def test_bytes_that_several_values_have_in_turn_belong_to_the_largest(small: Callable[..., vx.Machine]) -> None:
    longer = GRAPH.replace(
        'result "y" = %y',
        """%r = relu(%y) : f32[T, 192] @gpu:1 loc "tower.py:10"
  %u = slice(%r) {axis = 1, start = 0, stop = 80} : f32[T, 80] @gpu:1 loc "tower.py:11"
  %v = exp(%h) : f32[T, 64] @gpu:1 loc "tower.py:12"
  result "y" = %u
  result "v" = %v""",
    )
    program = plan(vx.parse_graph(longer), small())
    assert program.slot_of["u"].offset == program.slot_of["y"].offset
    with pytest.raises(AdmissionError) as error:
        vx.compile(vx.parse_graph(longer), small())
    assert "  on right, activation: 48.00 KiB at tower.py:9 (1 value such as %y: f32[T, 192])" in str(error.value)


def test_the_same_graph_fits_when_it_is_made_as_small_as_the_message_says(small: Callable[..., vx.Machine]) -> None:
    smaller = GRAPH.replace("dim T <= 64", "dim T <= 4")
    program = vx.compile(vx.parse_graph(smaller), small())
    assert all(use.headroom >= 0 for use in program.memory)


@pytest.mark.case("P05")
def test_it_is_refused_at_one_granule_too_many_and_not_before(small: Callable[..., vx.Machine]) -> None:
    graph = vx.parse_graph(GRAPH)
    peak = use_of(plan(graph, small()), "right").peak
    assert peak % 4096 == 0
    exact = ('name = "right"\ncapacity = { kib = 64', f'name = "right"\ncapacity = {{ bytes = {peak}')
    assert use_of(vx.compile(graph, small(exact)), "right").headroom == 0
    with pytest.raises(AdmissionError):
        vx.compile(graph, small((exact[0], exact[1].replace(str(peak), str(peak - 1)))))


def test_an_arena_is_rounded_up_to_whole_granules(small: Callable[..., vx.Machine]) -> None:
    graph = vx.parse_graph(GRAPH.replace("dim T <= 64", "dim T <= 1"))
    fine, coarse = (
        use_of(plan(graph, small(("granule = { kib = 4", f"granule = {{ kib = {g}"))), "right") for g in (4, 32)
    )
    arena = next(a for a in plan(graph, small()).arenas if a.memory == "right")
    assert fine.peak - fine.reserved == -(-arena.nbytes // 4096) * 4096
    assert coarse.peak - coarse.reserved == -(-arena.nbytes // 32768) * 32768


def test_a_transfer_without_a_direct_path_takes_the_host_s_bytes_too(small: Callable[..., vx.Machine]) -> None:
    program = plan(vx.parse_graph(GRAPH), small())
    host = use_of(program, "host")
    assert (host.staging, host.params, host.kv, host.activations, host.topologies) == (64 * 64 * 4, 0, 0, 0, ())
    with pytest.raises(AdmissionError) as error:
        vx.compile(
            vx.parse_graph(GRAPH.replace("dim T <= 64", "dim T <= 16")),
            small(("capacity = { mib = 1", "capacity = { kib = 2")),
        )
    assert "\n  host    staging  0 B" in str(error.value)


def test_topologies_of_one_memory_share_its_capacity(tmp_path: Path) -> None:
    text = SMALL.replace('topology = "gpu:1"\nmemory = "right"', 'topology = "gpu:1"\nmemory = "left"').replace(
        'reads = ["right"]', 'reads = ["left"]'
    )
    (tmp_path / "one.toml").write_text(text)
    program = plan(vx.parse_graph(GRAPH), vx.load_machine(str(tmp_path / "one.toml")))
    left = use_of(program, "left")
    assert left.topologies == (vx.GPU[0], vx.GPU[1])
    assert left.params == (64 * 64 + 64 * 192) * 4
    assert left.reserved == 8 << 10


@pytest.mark.case("P05")
def test_a_leaf_that_is_larger_than_its_device_is_named_with_its_size_and_the_capacity() -> None:
    with vx.Graph("big") as graph:
        ids = vx.input("ids", vx.i32[4])
        with vx.on(vx.GPU[0]):
            table = vx.param("embed", vx.f16[1 << 20, 8704])
            vx.output("x", vx.embed(table, ids))
    with pytest.raises(AdmissionError) as error:
        vx.compile(graph, V100)
    line = graph.build().params[0].loc
    message = str(error.value)
    assert message.startswith("big does not fit v100-16-x2\n")
    assert f"\n  on hbm0, param: 17.00 GiB at {line} (1 value such as %embed.gpu0: f16[1048576, 8704])\n" in message
    assert " 16.00 GiB " in message


@pytest.fixture
def four(tmp_path: Path) -> vx.Machine:
    """Four devices of 6 GiB."""
    text = (Path(vx.__file__).parent / "topology/machines/h200-x4.toml").read_text(encoding="utf-8")
    large = 'capacity = { mib = 143771, from = "measured" }'
    assert text.count(large) == 4
    (tmp_path / "four.toml").write_text(text.replace(large, 'capacity = { gib = 6, from = "policy" }'))
    return vx.load_machine(str(tmp_path / "four.toml"))


# 2 GiB of embedding, 32 layers of 0.11 GiB, 2 GiB of output weights.
LEAFY = replace(
    preset("llama2-7b"), dtype="f16", vocab=1 << 18, kv_heads=4, hidden=1728, tied=False, max_len=16, name="leafy"
)


@pytest.mark.case("P05")
def test_leaves_larger_than_a_fair_share_leave_no_device_empty_and_none_overfull(four: vx.Machine) -> None:
    runs = tuple(vx.GPU[layer // 8] for layer in range(32))
    program = vx.compile(llama(LEAFY, Placement("runs", runs, runs)), four)
    uses = [use_of(program, f"hbm{k}") for k in range(4)]
    gib = [round(use.params / (1 << 30), 2) for use in uses]
    assert gib == [2.88, 0.88, 0.88, 2.88]
    assert all(use.peak <= use.capacity == 6 << 30 for use in uses)
    hidden = [(t.src, t.dst) for t in program.transfers if t.when == "step" and t.nbytes == 4096 * 2 and t.dst]
    assert hidden == [(vx.GPU[0], vx.GPU[1]), (vx.GPU[1], vx.GPU[2]), (vx.GPU[2], vx.GPU[3])]


@pytest.mark.case("P05")
def test_all_of_it_on_one_device_is_refused_with_what_it_takes(four: vx.Machine) -> None:
    with pytest.raises(AdmissionError) as error:
        vx.compile(llama(LEAFY, PLACEMENTS["single"](four, 32)), four)
    head, _, row, owner, *_ = str(error.value).splitlines()
    assert head == "leafy-single does not fit four"
    assert row.split()[:4] == ["hbm0", "gpu:0", "7.52", "GiB"]
    assert row.split()[-4:] == ["6.00", "GiB", "-2.02", "GiB"]
    assert re.sub(r"py:\d+", "py:N", owner) == (
        "  on hbm0, param: 7.52 GiB at examples/llama2/model.py:N (291 values such as %embed.gpu0: f16[262144, 4096])"
    )


def test_a_plan_that_does_not_fit_can_still_be_shown() -> None:
    program = plan(llama2("llama2-7b", V100, "disaggregated", 8192), V100)
    assert min(use.headroom for use in program.memory) < 0


def test_the_same_program_is_held_against_another_machine() -> None:
    program = plan(llama2("llama2-7b", V100, "disaggregated", 8192), V100)
    moved = on_machine(program, vx.load_machine("h200-x2"))
    assert moved.machine == "h200-x2"
    assert all(use.headroom > 0 for use in moved.memory)
    assert moved.body == program.body


def test_a_machine_without_a_program_s_place_is_refused() -> None:
    program = SAMPLES["mlp"].program()
    machine = vx.load_machine("h200")
    with pytest.raises(MachineError) as error:
        on_machine(program, machine)
    assert str(error.value) == f"h200 has no gpu:1; it has cpu:0, gpu:0 ({machine.source})"


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (3 << 19, "1.50 MiB"),
        (-(5 << 30), "-5.00 GiB"),
        (7 << 50, "7168.00 TiB"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit_that_they_fill(nbytes: int, shown: str) -> None:
    assert show_bytes(nbytes) == shown
