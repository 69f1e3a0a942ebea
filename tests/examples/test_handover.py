"""What crosses between prefill and decode: the valid rows of K and V, each to its layer's place, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.generate import Decoding, Generation
from examples.llama2.model import PLACEMENTS, Placement, build
from examples.llama2.show import kv_transfers
from tests.examples.disaggregation import (
    HERE,
    THERE,
    Bed,
    Watched,
    binding,
    disaggregated,
    handover_moved,
    inputs,
    program_of,
    run,
    single,
    spread_out,
    stories,
    tiny,
)
from tests.examples.tiny_llama import CASES

# The valid rows (3, D02).


@pytest.mark.case("D02")
@pytest.mark.parametrize("n", ["1", "32", "half", "S - 1", "S"])
def test_handover_moves_the_valid_rows_and_leaves_the_others_untouched(bed: Bed, n: str):
    size = bed.config.max_len
    rows = {"1": 1, "32": 32, "half": size // 2, "S - 1": size - 1, "S": size}[n]
    prompt = np.resize(bed.ids, rows)
    with run(bed, disaggregated(bed), prompt=prompt, steps=0) as r:
        handover_moved(r.report, rows * bed.kv_row)
        assert r.backend.moved(HERE, THERE) == rows * bed.kv_row + 4  # and the first token
        for layer in range(bed.config.layers):
            for name in "kv":
                cache = r.backend.bytes_of(r.program, f"handover.layers.{layer}.{name}")
                assert cache.shape == (size, bed.config.kv_heads, bed.config.head_dim)
                assert np.isfinite(cache[:rows]).all()
                assert np.isnan(cache[rows:]).all()


@pytest.mark.case("D02")
def test_rows_of_stories260k_are_1280_bytes():
    if not (CASES / "stories260K.bin").exists():
        pytest.skip("stories260K.bin is not in the cases folder beside this repository")
    assert stories().kv_row == 1280


@pytest.mark.case("D02")
def test_rows_of_llama2_7b_in_f16_are_524288_bytes():
    """Measured on two layers of the model: every layer hands over the same."""
    machine, whole = vx.load_machine("h200-x2"), preset("llama2-7b")
    graph = build(replace(whole, layers=2, dtype="f16"), PLACEMENTS["disaggregated"](machine, 2), max_len=64)
    edges = [t for t in vx.compile(graph, machine).transfers if re.search(r"layers\.\d\.[kv]", t.value)]
    assert [(t.src, t.dst, t.count) for t in edges] == [(vx.GPU[0], vx.GPU[1], 1)] * 4
    assert sum(t.nbytes for t in edges) * whole.layers // 2 == 64 * 524_288


@pytest.mark.case("D01")
@pytest.mark.case("D02")
@pytest.mark.parametrize("n", ["1", "half", "S - 3"])
def test_rows_beyond_the_text_are_never_read(bed: Bed, n: str):
    size = bed.config.max_len
    rows = {"1": 1, "half": size // 2, "S - 3": size - 3}[n]
    prompt = np.resize(bed.ids, rows)
    with run(bed, disaggregated(bed), prompt=prompt, steps=2, forced=True) as r:
        assert np.isfinite(r.out["logits"]).all()  # one NaN that is read makes all of them NaN
        for value in ("handover.layers.0.k", f"handover.layers.{bed.config.layers - 1}.v"):
            cache = r.backend.bytes_of(r.program, value)
            assert np.isfinite(cache[: rows + 2]).all()
            assert np.isnan(cache[rows + 2 :]).all()


# Load-bearing (5).


NEVER_COMES = "waits for %{value}.cpu1, which is not sure to come before it: it might wait for ever"
UNORDERED = "reads %{value}, but does not wait for the instruction on cpu:0.compute that writes it"
# What each line brings: who complains when it is gone, and who does when nobody waits for it either.
REFUSED = {
    "prefill.layers.0.k": (
        f"cache_init %handover.layers.0.k on cpu:1: {NEVER_COMES}",
        "cache_init %handover.layers.0.k on cpu:1",
    ),
    "prefill.layers.4.v": (
        f"cache_init %handover.layers.4.v on cpu:1: {NEVER_COMES}",
        "cache_init %handover.layers.4.v on cpu:1",
    ),
    # The first token's download comes after its transfer on one queue, and relies on what that waits for.
    "prefill.sample": (f"download %prefill.sample.host from cpu:0: {UNORDERED}", "loop %decode.loop.12"),
}


@pytest.mark.parametrize("value", REFUSED)
def test_a_program_without_one_line_of_the_handover_is_refused(value: str):
    waiting, reader = REFUSED[value]
    lines = program_of(tiny(), disaggregated(tiny())).text().splitlines()
    (line,) = (n for n in lines if f"= transfer_peer(%{value})" in n)
    without = [n for n in lines if n is not line]
    assert _refusal(without) == (
        f"s.vxp:{len(without) - 1}: the digest is not that of this text, so it was edited; compile again, or delete "
        "the digest line to have the edited program proved and loaded"
    )
    unsigned = [n for n in without if not n.startswith("  digest")]
    assert _refusal(unsigned) == "examples/llama2/model.py:N: " + waiting.format(value=value)
    nobody_waits = [_without_wait(n, value) for n in unsigned]
    assert _refusal(nobody_waits) == (
        f"examples/llama2/model.py:N: {reader}: reads %{value}.cpu1, which nothing has written"
    )


def _without_wait(line: str, value: str) -> str:
    """The line without a wait for the transfer that is gone."""
    if f"download(%{value})" in line:
        return line.replace(" why ", f" after %{value} why ")
    return line.replace(f" after %{value}.cpu1 why ", " why ")


def _refusal(lines: list[str]) -> str:
    """What the reader says, without the source line that the program's text states."""
    with pytest.raises(vx.ProgramError) as error:
        vx.parse_program("\n".join(lines), "s.vxp")
    return _anyline(error.value)


class Zeroing(Watched):
    """Says that it copied K and V between spaces; zeros arrive."""

    def copy(
        self, src: np.ndarray, dst: np.ndarray, src_topology: vx.Topology | None, dst_topology: vx.Topology | None
    ) -> None:
        super().copy(src, dst, src_topology, dst_topology)
        if src_topology is not None and dst_topology is not None and src.ndim == 3:
            dst.fill(0)


class Skipping(Watched):
    """Does not copy K and V between spaces."""

    def copy(
        self, src: np.ndarray, dst: np.ndarray, src_topology: vx.Topology | None, dst_topology: vx.Topology | None
    ) -> None:
        if src_topology is None or dst_topology is None or src.ndim != 3:
            super().copy(src, dst, src_topology, dst_topology)


def test_zeroed_handover_changes_the_tokens(bed: Bed):
    with run(bed, disaggregated(bed)) as r:
        right = r.out["token"].tolist()
    with run(bed, disaggregated(bed), backend=Zeroing(), audit=False) as r:
        assert r.report.conforms()  # places, counts and bytes: what the bytes hold is an audit's to compare
        wrong = r.out["token"].tolist()
    assert wrong[0] == right[0]  # chosen by prefill
    assert wrong != right


def test_an_audit_stops_at_a_zeroed_handover(bed: Bed):
    with pytest.raises(vx.ConformanceError) as error, run(bed, disaggregated(bed), backend=Zeroing()):
        pass
    assert _anyline(error.value) == (
        "examples/llama2/model.py:N: transfer_peer %prefill.layers.0.k.cpu1: the bytes on cpu:1 are not those on cpu:0"
    )


def test_a_handover_that_did_not_happen_does_not_conform(bed: Bed):
    with (
        run(bed, disaggregated(bed), backend=Skipping(), audit=False) as r,
        pytest.raises(vx.ConformanceError) as error,
    ):
        r.report.conforms()
    nbytes = bed.config.kv_heads * bed.config.head_dim * 4  # of a row
    assert _anyline(error.value) == (
        f"examples/llama2/model.py:N: transfer_peer %prefill.layers.0.k.cpu1: planned {bed.prompt * nbytes} bytes, "
        "observed 0"
    )


def _anyline(error: vx.VxError) -> str:
    return re.sub(r"model\.py:\d+", "model.py:N", str(error))


# Nothing else crosses (6).


def test_each_weight_is_uploaded_once_per_replica_and_never_again(bed: Bed):
    names = list(bed.params)
    prompt_and_scalars = 4 * bed.prompt + 24
    for where, per_run in (
        (single(bed), {HERE: prompt_and_scalars}),
        (disaggregated(bed), {HERE: prompt_and_scalars, THERE: 20}),
    ):
        program = program_of(bed, where)
        backend = Watched()
        with vx.Session(program, bed.params, binding(program, backend)) as session:
            uploads = session.report.uploads
            assert sorted((u.param, u.topology) for u in uploads) == sorted((n, t) for n in names for t in per_run)
            assert all(u.count == 1 and u.observed == u.topology for u in uploads)
            assert all(u.nbytes == bed.params[u.param].nbytes for u in uploads)
            loaded = {t: backend.moved(None, t) for t in per_run}
            assert loaded == dict.fromkeys(per_run, sum(p.nbytes for p in bed.params.values()))
            for _ in range(2):
                session.run(inputs(bed, program, bed.ids[: bed.prompt], 3))
            assert session.report.uploads == uploads
            assert {t: backend.moved(None, t) - loaded[t] for t in per_run} == {t: 2 * n for t, n in per_run.items()}


def test_the_replicas_of_a_weight_are_uploaded_one_after_the_other(bed: Bed):
    """So that a checkpoint's array, read when it is asked for, is let go before the next."""
    asked: list[str] = []

    class Lazy(Mapping[str, np.ndarray]):
        def __getitem__(self, name: str) -> np.ndarray:
            asked.append(name)
            return bed.params[name]

        def __iter__(self) -> Iterator[str]:
            return iter(bed.params)

        def __len__(self) -> int:
            return len(bed.params)

    program = program_of(bed, disaggregated(bed))
    loaded: list[str] = []
    with vx.Session(program, Lazy(), "numpy", progress=lambda param, done, total: loaded.append(param)):
        assert asked == list(bed.params)
        assert loaded == [name for name in bed.params for _ in (HERE, THERE)]


def test_a_step_moves_a_token_and_a_flag_to_the_host_and_nothing_else(bed: Bed):
    program = program_of(bed, disaggregated(bed))
    per_step = [(t.src, t.dst, t.nbytes) for t in program.transfers if t.when == "step"]
    assert per_step == [(THERE, None, 4), (THERE, None, 1)]
    few, many = (_moved(bed, disaggregated(bed), steps=steps) for steps in (2, 12))
    assert {pair: many[pair] - few[pair] for pair in many if many[pair] != few[pair]} == {(THERE, None): 10 * 5}


def _moved(bed: Bed, where: Placement, *, steps: int) -> dict[tuple[vx.Topology | None, vx.Topology | None], int]:
    """Bytes by pair, as the backend counted them."""
    with run(bed, where, steps=steps) as r:
        ends = (None, *r.program.topologies)
        return {(a, b): r.backend.moved(a, b) for a in ends for b in ends}


@pytest.mark.case("D04")
def test_layers_in_other_places_get_their_own_k_and_v_and_hand_on_the_hidden_state(bed: Bed):
    """D04. Layers 0 to 2 decode here and 3 to 4 there, the prompt went through a third place.

    What is added to the hidden state per step is the token that was chosen at the end, which the first layer reads.
    """
    where = spread_out(bed)
    program = program_of(bed, where)
    edges: list[tuple[str, vx.Topology | None, vx.Topology | None]] = []
    for layer, place in enumerate(where.decode):
        edges += [(f"prefill.layers.{layer}.{name}", vx.CPU[2], place) for name in "kv"]
        for name in "kv":
            assert program.slot_of[f"handover.layers.{layer}.{name}"].topology == place
    per_step = [(t.src, t.dst, t.nbytes) for t in program.transfers if t.when == "step" and None not in (t.src, t.dst)]
    assert sorted(per_step) == [(HERE, THERE, bed.config.dim * 4), (THERE, HERE, 4)]
    with run(bed, where) as r:
        moves = kv_transfers(r.report)
        assert sorted((m.value, m.src, m.dst) for m in moves) == sorted(edges)
        assert all((m.observed_src, m.observed_dst, m.count) == (m.src, m.dst, 1) for m in moves)
        steps = int(r.out["steps"])
        assert r.backend.moved(HERE, THERE) == 256 * steps > 0
        assert r.backend.moved(THERE, HERE) == 4 * steps
        assert r.report.conforms()


# The end of the context (D05).


@pytest.mark.case("D05")
def test_decoding_ends_where_the_context_is_full_and_writes_nothing_outside(bed: Bed):
    size = bed.config.max_len
    prompt = np.resize(bed.ids, size - 12)
    program = program_of(bed, disaggregated(bed))
    backend = Watched()
    with vx.Session(program, bed.params, binding(program, backend)) as session:
        params = _params(program, backend)
        session.run(inputs(bed, program, prompt, 0))
        before = _caches(bed, program, backend)
        generation = Generation(session, prompt.tolist(), Decoding(max_tokens=20))
        tokens = list(generation)
        after = _caches(bed, program, backend)
        assert (generation.ended, len(tokens), *session.report.steps.values()) == ("context full", 13, 12)
        assert (backend.guard(THERE) == 0xFF).all()
        np.testing.assert_array_equal(params, _params(program, backend))
    assert np.isfinite(after).all()  # every row up to the last is written
    np.testing.assert_array_equal(before[:, :-12], after[:, :-12])


def _caches(bed: Bed, program: vx.Program, backend: Watched) -> np.ndarray:
    """Every cache, stacked."""
    names = [f"handover.layers.{layer}.{name}" for layer in range(bed.config.layers) for name in "kv"]
    return np.stack([backend.bytes_of(program, name) for name in names])


def _params(program: vx.Program, backend: Watched) -> np.ndarray:
    """The bytes of the params' replica where decode runs."""
    slots = [s for s in program.slots if s.kind == "param" and s.topology == THERE]
    return np.concatenate([backend.bytes_of(program, s.value).reshape(-1) for s in slots])


def test_a_run_that_fits_ends_at_the_tokens_asked_for(bed: Bed):
    program = program_of(bed, disaggregated(bed))
    with vx.Session(program, bed.params, binding(program, Watched())) as session:
        generation = Generation(session, bed.ids[: bed.prompt].tolist(), Decoding(max_tokens=20))
        assert (len(list(generation)), generation.ended) == (20, "max tokens")
