"""Small graphs that each show one thing a program must get right, with the machine and arrays to run them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import vxgraph as vx

HEAD, D = vx.Dim("Head", 2), vx.Dim("D", 4)
T, S = vx.Dim("T", min=1, max=4), vx.Dim("S", 8)
A, B = vx.GPU[0], vx.GPU[1]


@dataclass(frozen=True)
class Sample:
    """A graph's builder, called inside the graph; the machine; and one run's arrays."""

    build: Callable[[], None]
    machine: str
    inputs: dict[str, Any]
    params: dict[str, Any]

    def graph(self) -> vx.Graph:
        """The graph, built anew."""
        with vx.Graph(self.build.__name__) as graph:
            self.build()
        return graph

    def program(self) -> vx.Program:
        """The compiled program."""
        return vx.compile(self.graph(), vx.load_machine(self.machine))


def ramp(*shape: int) -> np.ndarray[Any, Any]:
    """0.01, 0.02, ..., no two equal."""
    return (np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32) / 100).reshape(shape)


def mlp() -> None:
    x = vx.input("x", vx.f32[1, 64])
    w1, w2 = vx.param("w1", vx.f32[64, 256]), vx.param("w2", vx.f32[256, 64])
    with vx.on(A):
        h = vx.silu(x @ w1)
    with vx.on(B):
        vx.output("y", h @ w2)


def loop_with_captures() -> None:
    """w is captured on both places, h crosses in every step."""
    x, w = vx.input("x", vx.f32[2, 4]), vx.param("w", vx.f32[4, 4])

    def step(h: vx.Value) -> list[vx.Value]:
        with vx.on(A):
            h = vx.relu(h @ w)
        with vx.on(B):
            return [h @ w]

    with vx.on(B):
        start = x + 1
    (y,), _ = vx.loop(step, [start], max_steps=3)
    vx.output("y", y)


def swap() -> None:
    """a, b = b, a: no order of two moves does that, one needs a copy."""
    a, b = vx.input("a", vx.f32[4]), vx.input("b", vx.f32[4])
    with vx.on(A):
        (p, q), _ = vx.loop(lambda p, q: [q, p], [a + 1, b + 2], max_steps=3)
    vx.output("p", p)
    vx.output("q", q)


def handed_on() -> None:
    """One carried value is never changed."""
    x = vx.input("x", vx.f32[4])
    with vx.on(A):
        (k, y), _ = vx.loop(lambda k, y: [k, y + k], [x * 2, x + 0.5], max_steps=3)
    vx.output("k", k)
    vx.output("y", y)


def read_after() -> None:
    """What the loop carried is read on the other place after it."""
    x = vx.input("x", vx.f32[4])
    with vx.on(A):
        (y,), done = vx.loop(lambda y: [y * 2], [x + 1], max_steps=3)
    with vx.on(B):
        vx.output("z", y - 1)
    vx.output("steps", done)


def one_next_for_two() -> None:
    """Both carried values become the same new value."""
    x = vx.input("x", vx.f32[4])

    def step(a: vx.Value, b: vx.Value) -> list[vx.Value]:
        c = a * 2 + b
        return [c, c]

    with vx.on(A):
        (a, b), _ = vx.loop(step, [x, x + 1], max_steps=3)
    vx.output("a", a)
    vx.output("b", b)


def init_used_outside() -> None:
    """What a loop starts from is read after the loop, so that the loop changes a copy."""
    x = vx.input("x", vx.f32[4])
    with vx.on(A):
        start = x + 1
        (y,), _ = vx.loop(lambda y: [y * 2], [start], max_steps=3)
        vx.output("z", y - start)


def views() -> None:
    """Reshapes, one after the other and of what crosses."""
    x = vx.input("x", vx.f32[T, 8])
    with vx.on(A):
        heads = vx.relu(x).reshape(T, HEAD, D)
        back = heads.reshape(T, 8).reshape(T, 4, 2)
    with vx.on(B):
        vx.output("y", back.reshape(T, 8) * 2)
        vx.output("heads", vx.neg(heads))


def a_param_on_two_places() -> None:
    x, w = vx.input("x", vx.f32[4, 4]), vx.param("w", vx.f32[4, 4])
    with vx.on(A):
        h = x @ w
    with vx.on(B):
        vx.output("y", h @ w)


def staged() -> None:
    """Between places without a direct link."""
    x = vx.input("x", vx.f32[256])
    with vx.on(A):
        h = x + 1
    with vx.on(B):
        vx.output("y", h * 2)


def emits() -> None:
    """At the top, in a loop with a limit and a stop, a carried value itself, and an arg itself."""
    n, x = vx.input("n", vx.i32[()]), vx.input("x", vx.f32[2])

    def step(k: vx.Value, y: vx.Value) -> list[vx.Value]:
        vx.emit("before", y)
        with vx.on(A):
            y, k = y * 2, k + 1
            vx.stop(vx.compare(k, 3, "ge"))
        vx.emit("value", y)
        return [k, y]

    with vx.on(A):
        start = x + 1
    vx.emit("value", start)
    vx.emit("given", x)
    with vx.on(A):
        zero = vx.constant(0)
    _, done = vx.loop(step, [zero, start], max_steps=8, steps=n)
    vx.output("steps", done)


def hand_over() -> None:
    """Rows made on one place become a cache on the other, appended to in a loop."""
    x, row, at = vx.input("x", vx.f32[T, HEAD, D]), vx.input("row", vx.f32[1, HEAD, D]), vx.input("at", vx.i32[()])
    with vx.on(A):
        rows = x * 2
    with vx.on(B):
        cache = vx.cache_init(vx.f32[S, HEAD, D], rows)

        def step(at: vx.Value, cache: vx.Value) -> list[vx.Value]:
            return [at + 1, vx.cache_append(cache, row, at)]

        (_, last), _ = vx.loop(step, [at, cache], max_steps=2)
        vx.output("y", last[:6])


def _sample(build: Callable[[], None], machine: str = "h200-x2", **arrays: Any) -> Sample:
    params = {name: array for name, array in arrays.items() if name.startswith("w")}
    return Sample(build, machine, {n: a for n, a in arrays.items() if n not in params}, params)


SAMPLES = {
    s.build.__name__: s
    for s in (
        _sample(mlp, x=ramp(1, 64), w1=ramp(64, 256) / 100, w2=ramp(256, 64) / 100),
        _sample(loop_with_captures, x=ramp(2, 4), w=ramp(4, 4)),
        _sample(swap, a=ramp(4), b=ramp(4)),
        _sample(handed_on, x=ramp(4)),
        _sample(read_after, x=ramp(4)),
        _sample(one_next_for_two, x=ramp(4)),
        _sample(init_used_outside, x=ramp(4)),
        _sample(views, x=ramp(3, 8)),
        _sample(a_param_on_two_places, x=ramp(4, 4), w=ramp(4, 4)),
        _sample(staged, "rtx4090-x2", x=ramp(256)),
        _sample(emits, n=np.int32(7), x=ramp(2)),
        _sample(hand_over, x=ramp(4, 2, 4), row=ramp(1, 2, 4), at=np.int32(4)),
    )
}
