"""Two models to disaggregate, runs of them in address spaces that can be looked into, and checks of their reports.

A random model of five layers runs everywhere, held against the textbook forward pass in float64; stories260K, with its
float64 logits, where that file is. "Observed" is what the backend's own address spaces say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import vxgraph as vx
from examples.llama2.config import LlamaConfig
from examples.llama2.model import Choose, Placement, build
from examples.llama2.show import kv_transfers
from examples.llama2.weights import open_checkpoint
from tests.examples.tiny_llama import CASES, TINY, logits, random_params
from vxgraph.program.instructions import Dispatch, Loop
from vxgraph.runtime.abi import Backend
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.numpy.space import Buffer
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.report import Executed, Report

HERE, THERE = vx.CPU[0], vx.CPU[1]
NO_STOP = np.array([-1], np.int32)


# The models.


@dataclass(frozen=True)
class Bed:
    """A model, a text, and the float64 logits after each of its tokens."""

    config: LlamaConfig
    params: Any
    ids: np.ndarray  # one more than golden has rows: the last is chosen, not read
    golden: np.ndarray
    prompt: int

    @property
    def kv_row(self) -> int:
        """Bytes of K and V of one token, in all layers."""
        c = self.config
        return 2 * c.layers * c.kv_heads * c.head_dim * 4


@cache
def tiny() -> Bed:
    config = replace(TINY, layers=5, max_len=64)
    params = random_params(config)
    ids = np.random.default_rng(1).integers(3, config.vocab, 41).astype(np.int32)
    return Bed(config, params, ids, logits(config, params, list(ids[:-1])), prompt=8)


@cache
def stories() -> Bed:
    checkpoint = open_checkpoint(CASES / "stories260K.bin")
    golden = np.load(CASES / "stories260K_golden.npz")
    return Bed(
        checkpoint.config,
        dict(checkpoint.params),
        golden["ids"].astype(np.int32),
        golden["logits_f64_prefill0_199"],
        prompt=32,
    )


BEDS: dict[str, Callable[[], Bed]] = {"tiny": tiny, "stories260K": stories}


# Programs.


def placement(bed: Bed, prefill: Sequence[vx.Topology], decode: Sequence[vx.Topology]) -> Placement:
    """Layers spread over places as evenly as they come: one place takes all."""

    def spread(places: Sequence[vx.Topology]) -> tuple[vx.Topology, ...]:
        return tuple(places) if len(places) > 1 else (places[0],) * bed.config.layers

    return Placement("by hand", spread(prefill), spread(decode))


def single(bed: Bed) -> Placement:
    return placement(bed, [HERE], [HERE])


def disaggregated(bed: Bed) -> Placement:
    return placement(bed, [HERE], [THERE])


def spread_out(bed: Bed) -> Placement:
    """D04: prefill in a third place, three layers of decode here and two there."""
    return placement(bed, [vx.CPU[2]], [HERE, HERE, HERE, THERE, THERE])


def forced_choice(bed: Bed) -> Callable[[], Choose]:
    """Chooses the text's own tokens, whatever the logits are, and emits the logits and the positions."""

    def choose() -> Choose:
        forced = vx.input("forced", vx.i32[bed.config.max_len + 1])

        def pick(found: vx.Value, position: vx.Value) -> vx.Value:
            vx.emit("logits", found)
            vx.emit("position", position)
            return vx.embed(forced, position)

        return pick

    return choose


@cache
def compiled(name: str, where: Placement, forced: bool) -> vx.Program:
    bed = BEDS[name]()
    graph = build(bed.config, where, choose=forced_choice(bed) if forced else None)
    return vx.compile(graph, vx.load_machine("cpu-x3"))


def program_of(bed: Bed, where: Placement, *, forced: bool = False) -> vx.Program:
    return compiled("tiny" if bed is tiny() else "stories260K", where, forced)


# Runs.


class Watched(NumpyBackend):
    """Keeps what it allocates, with a guard of poison behind each block."""

    GUARD = 4096

    def __init__(self) -> None:
        super().__init__()
        self.buffers: dict[vx.Topology, Buffer] = {}
        self.asked: dict[vx.Topology, int] = {}

    def alloc(self, nbytes: int, topology: vx.Topology) -> Buffer:
        self.buffers[topology] = super().alloc(nbytes + self.GUARD, topology)
        self.asked[topology] = nbytes
        return self.buffers[topology]

    def bytes_of(self, program: vx.Program, value: str) -> np.ndarray:
        """What is in a value's slot now."""
        slot = program.slot_of[value]
        block = self.buffers[slot.topology].block[slot.offset : slot.end]
        return block.view(slot.type.dtype.numpy).reshape(slot.type.shape()).copy()

    def guard(self, topology: vx.Topology) -> np.ndarray:
        return self.buffers[topology].block[self.asked[topology] :]


@dataclass
class Run:
    """A run that is over, with its session still open."""

    program: vx.Program
    backend: Watched
    report: Report
    out: dict[str, np.ndarray]


def binding(program: vx.Program, backend: Backend) -> Binding:
    return Binding(dict.fromkeys(program.topologies, (backend, "numpy")))


def inputs(bed: Bed, program: vx.Program, prompt: np.ndarray, steps: int) -> dict[str, Any]:
    given: dict[str, Any] = {"tokens": prompt, "steps": np.int32(steps), "stop_ids": NO_STOP}
    if any(arg.name == "forced" for arg in program.args):
        forced = np.zeros(bed.config.max_len + 1, np.int32)
        forced[: len(bed.ids)] = bed.ids
        return given | {"forced": forced}
    return given | {"temperature": np.float32(0), "top_p": np.float32(1), "seed": np.int64(0)}


@contextmanager
def run(
    bed: Bed,
    where: Placement,
    *,
    prompt: int | np.ndarray | None = None,
    steps: int | None = None,
    forced: bool = False,
    backend: Watched | None = None,
    program: vx.Program | None = None,
    audit: bool = True,
) -> Iterator[Run]:
    """A run from the text's first tokens (`prompt` of them), by default to the end of the golden logits."""
    program = program or program_of(bed, where, forced=forced)
    prompt = bed.prompt if prompt is None else prompt
    tokens = bed.ids[:prompt] if isinstance(prompt, int) else prompt
    steps = len(bed.golden) - len(tokens) if steps is None else steps
    backend = backend or Watched()
    with vx.Session(program, bed.params, binding(program, backend), audit=audit) as session:
        out = session.run(inputs(bed, program, tokens, steps))
        yield Run(program, backend, session.report, out)


# Checks. Each fails on a report of a run that did nothing.


def dispatches(report: Report, phase: str) -> list[Executed]:
    """The kernels of a phase; there are some, and each ran."""
    found = [e for e in report.instructions if isinstance(e.instr, Dispatch) and e.instr.name.startswith(phase + ".")]
    assert found
    assert all(e.count for e in found), "nothing ran"
    return found


def prefill_ran_at(report: Report, place: vx.Topology) -> None:
    assert {e.observed for e in dispatches(report, "prefill")} == {place}


def decode_ran_at(report: Report, place: vx.Topology) -> None:
    (steps,) = report.steps.values()
    assert steps > 0, "every step was prefill"
    assert {(e.observed, e.count) for e in dispatches(report, "decode") if e.instr.name in _in_loop(report)} == {
        (place, steps)
    }
    assert report.dispatches[place] > steps


def _in_loop(report: Report) -> set[str]:
    (loop,) = (i for i in report.program.body if isinstance(i, Loop))
    return {i.name for i in loop.body if isinstance(i, Dispatch)}


def handover_moved(report: Report, nbytes: int) -> None:
    moves = kv_transfers(report)
    assert moves
    assert sum(m.planned_bytes for m in moves) == sum(m.observed_bytes for m in moves) == nbytes


def prompt_went_through_once(report: Report, bed: Bed, rows: int, *, decode: vx.Topology) -> None:
    """D07: the prompt's layers ran once, none of them where decode runs, and its rows of K and V were moved."""
    assert {e.count for e in dispatches(report, "prefill")} == {1}
    over_prompt = [e for e in report.instructions if isinstance(e.instr, Dispatch) and _over_prompt(e.instr)]
    assert over_prompt
    recomputed = [e.instr.name for e in over_prompt if e.observed == decode]
    assert not recomputed, f"{len(recomputed)} kernels over the prompt ran where decode runs"
    moved = sum(m.observed_bytes for m in kv_transfers(report))
    assert moved == rows * bed.kv_row, f"{moved / bed.kv_row:g} rows of {rows} were moved"


def _over_prompt(instr: Dispatch) -> bool:
    """Whether a result is as long as the prompt is."""
    return any(dim.name == "T" for type in instr.types for dim in type.symbols)
