"""What an instruction costs beyond its kernel: a program of 1,000 tiny products, and the same kernels called directly.

    python -m benchmarks.executor_overhead [--turns 15]

    kernel      the kernels in a bare loop, their operands bound: what no executor can be quicker than
    dispatch    + the backend: are the operands where they should be, count, make an event
    run         + the executor, a whole run: inputs checked, fresh records, results handed over
    batch       the 1,000 kernels as one, without anything around them
    loop        + the executor, as in decode: a vx.loop whose body is the 1,000 products

Each side does the same products on 1,000 buffers; the sides take turns. All of it is one thread's work, so that CPU
time says what the wall clock would on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

import vxgraph as vx
from benchmarks.measure import Stopwatch, Timing, bound, in_turns, show
from vxgraph.ops import MatMul
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.numpy.kernels import Kernel
from vxgraph.runtime.backends.numpy.space import Tensor

OPS = 1_000
STEPS = 10
ROW = vx.f32[1, 16]
SQUARE = vx.f32[16, 16]
START = np.ones((1, 16), np.float32)
WEIGHT = np.eye(16, dtype=np.float32)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=15)
    turns = parser.parse_args().turns
    machine = vx.load_machine("cpu")
    straight, looped = (vx.compile(graph, machine) for graph in (_straight(), _looped()))
    _check_count(straight)
    with (
        vx.Session(straight, {"w": WEIGHT}, bind="numpy") as run,
        vx.Session(looped, {"w": WEIGHT}, bind="numpy") as loop,
    ):
        sides = {**_direct(), "run": lambda: _time_run(run), "loop": lambda: _time_loop(loop)}
        for side in sides.values():
            side()
        found = in_turns(turns, sides)
    cpu = {name: t.cpu.each(_micro) for name, t in found.items()}
    bare = {"dispatch": "kernel", "run": "kernel", "loop": "batch"}
    extra = {name: cpu[name].less(cpu[without]) for name, without in bare.items()}
    show(
        f"microseconds per instruction, {OPS} small products, median (min..max) of {turns}",
        ["side", "CPU us", "beyond the kernel", "wall us"],
        [(name, str(cpu[name]), str(extra.get(name, "")), str(t.wall.each(_micro))) for name, t in found.items()],
        notes=(
            f"beyond the kernel, in a loop: {bound(extra['loop'].median, '< 2 us', extra['loop'].median < 2)}",
            f"beyond the kernel, a whole run: {bound(extra['run'].median, '< 10 us', extra['run'].median < 10)}",
        ),
    )


def _micro(seconds: float) -> float:
    return 1e6 * seconds


def _straight() -> vx.Graph:
    with vx.Graph("straight") as graph:
        x, w = vx.input("x", ROW), vx.param("w", SQUARE)
        with vx.on(vx.CPU[0]):
            for _ in range(OPS):
                x = x @ w
        vx.output("y", x)
    return graph


def _looped() -> vx.Graph:
    with vx.Graph("looped") as graph:
        x, w = vx.input("x", ROW), vx.param("w", SQUARE)

        def step(row: vx.Value) -> list[vx.Value]:
            for _ in range(OPS):
                row = row @ w
            return [row]

        with vx.on(vx.CPU[0]):
            (y,), _ = vx.loop(step, [x], max_steps=STEPS)
        vx.output("y", y)
    return graph


def _check_count(program: vx.Program) -> None:
    """Nothing was folded away: what is measured is what was written."""
    found = sum(1 for i in program.body if type(i).__name__ == "Dispatch")
    if found != OPS:
        raise SystemExit(f"the program has {found} dispatches, not {OPS}")


def _direct() -> dict[str, Callable[[], Timing]]:
    """The kernels, called by hand through the backend and without it."""
    backend, place = NumpyBackend(), vx.CPU[0]
    backend.open(place, "numpy")
    arena = backend.alloc(OPS * 64 + 64 + 1024, place)
    weight = backend.tensor(arena, OPS * 64 + 64, vx.f32, (16, 16), place)
    rows = [backend.tensor(arena, k * 64, vx.f32, (1, 16), place) for k in range(OPS + 1)]
    backend.upload(WEIGHT, weight, place)
    backend.upload(START, rows[0], place)
    # One each, as a program has: a kernel in C keeps the addresses that it ran on.
    kernels = [backend.kernel(MatMul(), (ROW, SQUARE), (ROW,), place) for _ in range(OPS)]
    steps = [(kernel, (a, weight), (b,)) for kernel, (a, b) in zip(kernels, pairwise(rows), strict=True)]
    bare = [_bare(kernel, ins, outs) for kernel, ins, outs in steps]
    batch = backend.batch(steps, place, sizes={})

    def run() -> Timing:
        watch = Stopwatch()
        for each in bare:
            each()
        return watch.per(OPS)

    def dispatch() -> Timing:
        watch = Stopwatch()
        for kernel, ins, outs in steps:
            backend.dispatch(kernel, ins, outs, place, sizes={})
        return watch.per(OPS)

    def batched() -> Timing:
        watch = Stopwatch()
        for _ in range(STEPS):
            batch.run()
        return watch.per(OPS * STEPS)

    return {"kernel": run, "dispatch": dispatch, "batch": batched}


def _bare(kernel: Kernel, ins: tuple[Tensor, ...], outs: tuple[Tensor, ...]) -> Callable[[], None]:
    """The kernel alone."""
    if kernel.native is not None:
        return kernel.native.launch(ins, outs, {}).run
    return partial(kernel.run, [t.view for t in ins], [t.view for t in outs], {})


def _time_loop(session: vx.Session) -> Timing:
    watch = Stopwatch()
    session.run({"x": START})
    return watch.per(OPS * STEPS)


def _time_run(session: vx.Session) -> Timing:
    watch = Stopwatch()
    session.run({"x": START})
    return watch.per(OPS)


if __name__ == "__main__":
    main()
