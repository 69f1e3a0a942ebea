"""The correct programs that are broken, each with runs that would show it.

One session makes all the calls one after the other, with other values, other sizes and loops of no steps, so that what
an earlier call left behind is never what a later one wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, islice
from typing import Any

import numpy as np

import vxgraph as vx
from examples.llama2.model import Placement
from examples.llama2.model import build as build_llama
from tests.conformance.test_programs import INPUTS as DECODER_INPUTS
from tests.conformance.test_programs import PARAMS as DECODER_PARAMS
from tests.conformance.test_programs import decoder
from tests.examples.disaggregation import Bed, forced_choice, inputs
from tests.examples.tiny_llama import TINY, random_params
from tests.generative.build import arrays as arrays_of
from tests.generative.build import params as params_of
from tests.generative.check import compiled
from tests.generative.recipe import recipe_of
from tests.program.samples import SAMPLES, Sample, ramp
from tests.runtime import programs
from tests.runtime.cupy import fakes
from vxgraph.program.instructions import Loop, flatten
from vxgraph.program.model import Program

Given = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """A program, its params, and the inputs of consecutive calls of one session."""

    name: str
    program: Program
    params: Given
    calls: tuple[Given, ...]


def other(inputs: Given) -> dict[str, Any]:
    """Other values of the same shapes; integers as they are, for they index or count."""
    return {n: v if np.asarray(v).dtype.kind != "f" else np.flip(v) * np.float32(1.5) + 3 for n, v in inputs.items()}


def _subject(name: str, program: Program, params: Given, inputs: Given, *more: Given) -> Subject:
    return Subject(name, program, params, (other(inputs), inputs, *({**inputs, **m} for m in more)))


def _samples() -> list[Subject]:
    more: dict[str, list[Given]] = {
        "emits": [{"n": np.int32(0)}, {"n": np.int32(2)}],
        "views": [{"x": SAMPLES["views"].inputs["x"][:2]}],
    }
    return [_subject(n, s.program(), s.params, s.inputs, *more.get(n, ())) for n, s in SAMPLES.items()]


def _of_the_runtime() -> list[Subject]:
    x = np.random.default_rng(2).standard_normal((8, 4)).astype(np.float32)
    llama_x, llama_params = fakes.branching_inputs()
    counts = [programs.counting_inputs(start=s, limit=n) for s, n in ((3, 4), (5, 2), (1, 0))]
    lines = {"row": x[:1], "rows": x[1:2], "at": np.int32(1)}
    return [
        Subject("counting", programs.counting(), {}, tuple(counts)),
        _subject("rows", programs.rows(), {}, {"x": x, "z": x[:, 0]}, {"x": x[:3], "z": x[:3, 1]}),
        _subject(
            "decoder", decoder(vx.GPU[0], vx.GPU[1]), DECODER_PARAMS, DECODER_INPUTS, {"x": DECODER_INPUTS["x"][:1]}
        ),
        _subject("all_pairs", fakes.all_pairs(8), {}, {"x": x[:, 0]}),
        _subject("alternating", programs.alternating(4, 8), {}, {"s": x[:, 1]}),
        _subject("appending", fakes.appending(capacity=2), {}, lines),
        _subject("branching", fakes.branching(3), llama_params, llama_x),
    ]


def nested() -> None:
    """A loop in a loop: both carry, both cross, and the inner one reads what the outer one makes and holds."""
    x, w = vx.input("x", vx.f32[2, 4]), vx.param("w", vx.f32[4, 4])

    def outer(h: vx.Value, total: vx.Value) -> list[vx.Value]:
        with vx.on(vx.GPU[0]):
            scale = vx.softmax(h @ w)

        def inner(y: vx.Value) -> list[vx.Value]:
            with vx.on(vx.GPU[1]):
                there = vx.relu(y @ w)
            with vx.on(vx.GPU[0]):
                return [there * scale + h]

        (y,), _ = vx.loop(inner, [scale], max_steps=3)
        vx.emit("y", y)
        with vx.on(vx.GPU[0]):
            return [vx.silu(y), total + y]

    with vx.on(vx.GPU[0]):
        start = x + 1
        zero = x * 0
    (h, total), _ = vx.loop(outer, [start, zero], max_steps=3)
    vx.output("h", h)
    vx.output("total", total)


def _nested() -> Subject:
    sample = Sample(nested, "h200-x2", {"x": ramp(2, 4)}, {"w": ramp(4, 4)})
    return _subject("nested", sample.program(), sample.params, sample.inputs)


def _llama(name: str, prefill: Sequence[vx.Topology], decode: Sequence[vx.Topology]) -> Subject:
    config = replace(TINY, max_len=12)
    ids = np.random.default_rng(1).integers(3, config.vocab, 8).astype(np.int32)
    bed = Bed(config, random_params(config), ids, np.empty(0), prompt=4)
    where = Placement(name, tuple(prefill), tuple(decode))
    program = vx.compile(build_llama(config, where, choose=forced_choice(bed)), vx.load_machine("cpu-x3"))
    calls = [inputs(bed, program, ids[a:b], n) for a, b, n in ((3, 7, 1), (0, 3, 3), (2, 3, 0))]
    return Subject(f"llama, {name}", program, bed.params, tuple(calls))


def _llamas() -> list[Subject]:
    a, b, c = (vx.CPU[k] for k in range(3))
    return [_llama("disaggregated", [a, a], [b, b]), _llama("disaggregated and split", [c, c], [a, b])]


RECIPES = 24


def _generative(seed: int) -> Subject:
    """A random graph of any ops, loops in loops, sizes of zero, at any places; as tests/generative makes them."""
    recipe = recipe_of(seed)
    c = compiled(recipe)
    runs = [arrays_of(c.graph, sizes, seed + k) for k, sizes in enumerate((*recipe.runs, recipe.runs[0]))]
    return Subject(f"recipe {seed}", c.program, params_of(c.graph, seed), tuple(runs))


def _large(found: Iterator[Subject]) -> Iterator[Subject]:
    """The first that have enough instructions to break."""
    sizes = ((s, sum(1 for _ in flatten((*s.program.load, *s.program.body)))) for s in found)
    return islice((s for s, n in sizes if n >= 12), RECIPES)


def _repeats(subject: Subject) -> bool:
    """Whether it has loops and all of them may do two steps: what a step does twice is seen."""
    loops = [i for i, _ in flatten(subject.program.body) if isinstance(i, Loop)]
    return bool(loops) and all(loop.max_steps > 1 for loop in loops)


@cache
def subjects() -> tuple[Subject, ...]:
    """All of them."""
    return (*small_subjects(), *_large(map(_generative, count())), *_llamas())


@cache
def small_subjects() -> tuple[Subject, ...]:
    """Those that take a few milliseconds, and a few of the random ones."""
    return (*_samples(), *_of_the_runtime(), _nested(), *islice(filter(_repeats, _large(map(_generative, count()))), 4))
