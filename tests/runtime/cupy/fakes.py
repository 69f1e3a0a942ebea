"""Beds and sessions on CUDA devices that are not there, and the programs that the tests run on them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

import vxgraph as vx
from tests.conformance.bed import PLACES, Bed
from tests.runtime.cupy.fake_driver import FakeDriver, Handle
from tests.runtime.cupy.fake_kernels import fake_plan
from tests.runtime.cupy.fake_queue import Event, Graph, Stream
from tests.runtime.programs import MACHINE
from vxgraph.ir.types import Array
from vxgraph.program.model import Program
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.cupy.launch import Launcher
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session


def backend_on(driver: FakeDriver, kind: type[CupyBackend] = CupyBackend, **keywords: Any) -> CupyBackend:
    return kind(driver, launcher=Launcher(fake_plan), **keywords)


def targets(driver: FakeDriver, places: tuple[vx.Topology, ...]) -> dict[vx.Topology, str]:
    """The k-th topology on the k-th device, in turn."""
    return {place: f"cuda:{k % driver.count()}" for k, place in enumerate(places)}


def open_bed(driver: FakeDriver, **keywords: Any) -> Bed:
    bed = Bed(backend_on(driver, **keywords), targets(driver, PLACES))
    bed.open()
    return bed


def session_on(driver: FakeDriver, program: Program, params: Any = None, **keywords: Any) -> Session:
    """A session; `kind` and `peer` are the backend's, the rest is the session's."""
    own = {name: keywords.pop(name) for name in ("kind", "peer") if name in keywords}
    backend = backend_on(driver, **own)
    where = targets(driver, program.topologies)
    return Session(program, params or {}, Binding({t: (backend, where[t]) for t in where}), **keywords)


def nothing_left(driver: FakeDriver) -> bool:
    """Nothing that was made is still there, and nobody did what should not be."""
    assert driver.faults == []
    kinds = {kind.__name__: driver.alive(kind) for kind in (Stream, Event, Handle, Graph)}
    assert kinds == dict.fromkeys(kinds, 0)
    assert [driver.used(k) for k in range(driver.count())] == [0] * driver.count()
    return True


def doubled(n: int = 65536) -> Program:
    """x on gpu:0, times 2 on gpu:1."""
    with vx.Graph("doubled") as g:
        x = vx.input("x", vx.f32[n])
        with vx.on(vx.GPU[0]):
            here = x + 0
        with vx.on(vx.GPU[1]):
            vx.output("y", here * 2)
    return vx.compile(g, vx.load_machine(MACHINE))


def all_pairs(n: int = 1024) -> Program:
    """x + k from one topology to another, + 1 there: each ordered pair of three is used once."""
    with vx.Graph("all_pairs") as g:
        x = vx.input("x", vx.f32[n])
        for k, (a, b) in enumerate(permutations(range(3), 2)):
            with vx.on(vx.CPU[a]):
                here = x + k
            with vx.on(vx.CPU[b]):
                vx.output(f"y{a}{b}", here + 1)
    return vx.compile(g, vx.load_machine("cpu-x3"))


def products() -> Program:
    """x @ w on gpu:0, then @ w on gpu:1: one product on each."""
    with vx.Graph("products") as g:
        x, w = vx.input("x", vx.f32[4, 4]), vx.param("w", vx.f32[4, 4])
        with vx.on(vx.GPU[0]):
            h = x @ w
        with vx.on(vx.GPU[1]):
            vx.output("y", h @ w)
    return vx.compile(g, vx.load_machine(MACHINE))


def appending(capacity: int = 4) -> Program:
    """Writes a row at `at` into a cache on gpu:0 and adds 1 to it."""
    with vx.Graph("appending") as g:
        row, at = vx.input("row", vx.f32[1, 4]), vx.input("at", vx.i32[()])
        with vx.on(vx.GPU[0]):
            cache = vx.cache_append(vx.cache_init(vx.f32[capacity, 4], vx.input("rows", vx.f32[1, 4])), row, at)
            vx.output("y", cache + 1)
    return vx.compile(g, vx.load_machine(MACHINE))


def branching(steps: int = 6) -> Program:
    """In each step two products that may run side by side, their sum, a product on gpu:1 and back."""
    with vx.Graph("branching") as g:
        x, w, v = vx.input("x", vx.f32[2, 4]), vx.param("w", vx.f32[4, 4]), vx.param("v", vx.f32[4, 4])
        with vx.on(vx.GPU[0]):
            first = x * 1

        def step(h: vx.Value) -> list[vx.Value]:
            with vx.on(vx.GPU[0]):
                a, b = vx.softmax(h @ w, axis=-1), vx.softmax(h @ v, axis=-1)
                both = a + b
            with vx.on(vx.GPU[1]):
                there = vx.softmax(both @ w, axis=-1)
            with vx.on(vx.GPU[0]):
                again = vx.softmax(there @ v, axis=-1)
            vx.emit("h", again)
            return [again]

        (h,), _ = vx.loop(step, [first], max_steps=steps)
        vx.output("y", h)
    return vx.compile(g, vx.load_machine(MACHINE))


def branching_inputs() -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and params of `branching`."""
    rng = np.random.default_rng(4)
    some = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    return {"x": some.pop("x")}, some


SHAPES = {"x": (2, 4), "w": (4, 4), "v": (4, 4)}
