"""A Llama on a CUDA device, held to NumPy: places observed, logits, allocators, threads. Needs a GPU.

Two topologies share the first device; on a machine with two, `test_two_devices_give_what_one_gives` takes both.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from examples.llama2.config import LlamaConfig, param_shapes, preset
from examples.llama2.model import DTYPES, PLACEMENTS, Choose, build
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.topology.ids import GPU

pytestmark = pytest.mark.gpu
PROMPT, STEPS, LENGTH = 7, 20, 64
CONFIG = replace(preset("smollm2-135m"), layers=3, vocab=1000, name="tiny")


@pytest.fixture(scope="module")
def cupy() -> Any:
    """CuPy, where it finds a device."""
    if not CupyBackend().devices():
        pytest.skip("CuPy finds no CUDA device here")
    return pytest.importorskip("cupy")


def params(config: LlamaConfig) -> dict[str, Any]:
    """Random weights in the config's dtype, the same for every dtype before rounding."""
    random = np.random.default_rng(0)
    return {
        name: (random.standard_normal(shape, dtype=np.float32) * 0.05 + ("norm" in name)).astype(
            DTYPES[config.dtype].numpy
        )
        for name, shape in param_shapes(config).items()
    }


def forced() -> Choose:
    """Picks tokens that the caller gives, and hands out the logits."""
    tokens = vx.input("forced", vx.i32[LENGTH])

    def pick(logits: vx.Value, position: vx.Value) -> vx.Value:
        vx.emit("logits", logits)
        return vx.embed(tokens, position)

    return pick


def program(config: LlamaConfig, placement: str) -> vx.Program:
    """The teacher-forced program for two GPUs."""
    machine = vx.load_machine("h200-x2")
    graph = build(config, PLACEMENTS[placement](machine, config.layers), max_len=LENGTH, choose=forced)
    return vx.compile(graph, machine)


def inputs() -> dict[str, Any]:
    """A prompt, and what follows it."""
    ids = np.random.default_rng(1).integers(0, CONFIG.vocab, LENGTH).astype(np.int32)
    return {
        "tokens": ids[:PROMPT],
        "steps": np.array(STEPS, np.int32),
        "stop_ids": np.array([-1], np.int32),
        "forced": ids,
    }


def on_cuda(p: vx.Program) -> dict[str, str]:
    """Every topology on the first device."""
    return {str(t): "cuda:0" for t in p.topologies}


@pytest.mark.parametrize("placement", ["single", "disaggregated", "pipeline"])
def test_logits_are_numpys(cupy: Any, placement: str) -> None:
    p = program(CONFIG, placement)
    with vx.Session(p, params(CONFIG), "numpy") as s:
        wanted = s.run(inputs())["logits"]
    with vx.Session(p, params(CONFIG), on_cuda(p), audit=True) as s:
        found = s.run(inputs())["logits"]
        assert s.report.conforms()
    assert found.shape == (STEPS + 1, CONFIG.vocab)
    np.testing.assert_allclose(found, wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_halves_stay_near_f32(cupy: Any, dtype: str) -> None:
    config = replace(CONFIG, dtype=dtype)
    p = program(config, "disaggregated")
    rounded = {name: w.astype(np.float32) for name, w in params(config).items()}
    full = program(CONFIG, "single")
    with vx.Session(full, rounded, "numpy") as s:
        wanted = s.run(inputs())["logits"]
    with vx.Session(p, params(config), on_cuda(p)) as s:
        found = s.run(inputs())["logits"]
    assert np.linalg.norm(found - wanted) / np.linalg.norm(wanted) < 2e-2


def test_decode_runs_on_its_own_topology_and_only_the_valid_rows_cross(cupy: Any) -> None:
    p = program(CONFIG, "disaggregated")
    with vx.Session(p, params(CONFIG), on_cuda(p), audit=True) as s:
        s.run(inputs())
        report = s.report
    assert report.conforms()
    assert report.dispatches[GPU[1]] > 15 * STEPS
    moved = [t for t in report.transfers if t.src is not None and t.dst is not None]
    rows = sum(t.observed_bytes for t in moved if t.observed_bytes > 4)
    assert rows == 2 * CONFIG.layers * PROMPT * CONFIG.kv_heads * CONFIG.head_dim * 4
    assert {t.observed_dst for t in moved} == {GPU[1]}
    assert [r.count for r in report.uploads] == [1] * (2 * len(param_shapes(CONFIG)))


def test_a_batched_run_gives_bit_for_bit_what_single_dispatches_give(cupy: Any) -> None:
    p = program(CONFIG, "disaggregated")
    with vx.Session(p, params(CONFIG), on_cuda(p)) as s:
        batched = s.run(inputs())["logits"]
        again = s.run(inputs())["logits"]
    with vx.Session(p, params(CONFIG), on_cuda(p), audit=True) as s:
        alone = s.run(inputs())["logits"]
    np.testing.assert_array_equal(batched, alone)
    np.testing.assert_array_equal(again, alone)


def test_a_trace_has_the_device_s_times_and_not_those_of_the_calls(cupy: Any) -> None:
    """No GPU does a product of 8192 x 8192 f32 in less than a millisecond; its call returns long before."""
    n = 8192
    with vx.Graph("product") as g, vx.on(GPU[0]):
        x = vx.input("x", vx.f32[n, n])
        vx.output("y", (x @ x)[:1])
    p = vx.compile(g, vx.load_machine("h200-x2"))
    given = {"x": np.ones((n, n), np.float32)}
    with vx.Session(p, {}, on_cuda(p), trace=True) as s:
        s.run(given)
        s.run(given)  # cuBLAS and kernels are made by now
        timeline, done = s.report.timeline(), s.report.instructions
    assert timeline.clock == "device"
    (product,) = (e for e in timeline.slices if e.instr.name == "matmul")
    (call,) = (e for e in done if getattr(e.instr, "name", "") == "matmul")
    assert product.seconds > 1e-3 > call.seconds
    assert all(0 <= e.start <= e.end <= timeline.seconds for e in timeline.slices)


def test_another_prompt_after_a_capture_is_right(cupy: Any) -> None:
    p = program(CONFIG, "single")
    given = inputs()
    with vx.Session(p, params(CONFIG), on_cuda(p)) as s:
        s.run(given)
        longer = s.run({**given, "tokens": given["forced"][: PROMPT + 5]})["logits"]
    with vx.Session(p, params(CONFIG), "numpy") as s:
        wanted = s.run({**given, "tokens": given["forced"][: PROMPT + 5]})["logits"]
    np.testing.assert_allclose(longer, wanted, atol=1e-3, rtol=0)


@pytest.fixture(params=["default", "async", "none"])
def allocator(request: pytest.FixtureRequest, cupy: Any) -> Iterator[str]:
    """CuPy's allocators, the old one given back."""
    before = cupy.cuda.get_allocator()
    chosen = {
        "default": lambda: cupy.get_default_memory_pool().malloc,
        "async": lambda: cupy.cuda.MemoryAsyncPool().malloc,
        "none": lambda: None,
    }
    cupy.cuda.set_allocator(chosen[request.param]())
    yield request.param
    cupy.cuda.set_allocator(before)


@pytest.mark.case("R03")
def test_every_allocator_of_cupys_serves(allocator: str) -> None:
    p = program(CONFIG, "disaggregated")
    with vx.Session(p, params(CONFIG), "numpy") as s:
        wanted = s.run(inputs())["logits"]
    for _ in range(2):
        with vx.Session(p, params(CONFIG), on_cuda(p)) as s:
            np.testing.assert_allclose(s.run(inputs())["logits"], wanted, atol=1e-3, rtol=0)


@pytest.mark.case("R04")
def test_a_fresh_thread_gives_the_same_and_the_callers_stream_stays(cupy: Any) -> None:
    p = program(CONFIG, "disaggregated")
    with vx.Session(p, params(CONFIG), on_cuda(p)) as s:
        mine = cupy.cuda.Stream(non_blocking=True)
        with mine:
            here = s.run(inputs())["logits"]
            assert cupy.cuda.get_current_stream() == mine
            assert cupy.cuda.runtime.getDevice() == 0
        with ThreadPoolExecutor(1) as pool:
            there = pool.submit(lambda: s.run(inputs())["logits"]).result()
    np.testing.assert_array_equal(here, there)


def test_an_id_that_is_not_in_the_table_stops_the_run_and_the_next_one_works(cupy: Any) -> None:
    p = program(CONFIG, "single")
    given = inputs()
    with vx.Session(p, params(CONFIG), on_cuda(p)) as s:
        with pytest.raises(vx.RunError) as e:
            s.run({**given, "tokens": np.array([5, CONFIG.vocab], np.int32)})
        assert f"id {CONFIG.vocab} is not in the table, which has {CONFIG.vocab} rows: 0 to {CONFIG.vocab - 1}" in str(
            e.value
        )
        assert s.run(given)["logits"].shape == (STEPS + 1, CONFIG.vocab)
        assert s.report.conforms()


def test_two_devices_give_what_one_gives(cupy: Any) -> None:
    if len(CupyBackend().devices()) < 2:
        pytest.skip("there is one CUDA device here, two are needed")
    p = program(CONFIG, "disaggregated")
    with vx.Session(p, params(CONFIG), on_cuda(p)) as s:
        wanted = s.run(inputs())["logits"]
    with vx.Session(p, params(CONFIG), {"gpu:0": "cuda:0", "gpu:1": "cuda:1"}, audit=True) as s:
        np.testing.assert_array_equal(s.run(inputs())["logits"], wanted)
        assert s.report.conforms()
