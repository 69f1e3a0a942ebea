"""Small programs that the runtime's tests run, and what they must give."""

from __future__ import annotations

import numpy as np

import vxgraph as vx
from vxgraph.ir.graph import Result
from vxgraph.ir.types import Array, f32
from vxgraph.ops import Add
from vxgraph.program.instructions import Dispatch, Download, TransferPeer, Upload
from vxgraph.program.model import Arena, HostInput, Program, Slot
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.binding import Binding

MACHINE = "h200-x2"
RNG = np.random.default_rng(3)


def mlp() -> Program:
    """silu(x @ w1) on gpu:0, then @ w2 on gpu:1."""
    with vx.Graph("mlp") as g:
        x = vx.input("x", vx.f32[1, 64])
        w1 = vx.param("w1", vx.f32[64, 256])
        w2 = vx.param("w2", vx.f32[256, 64])
        with vx.on(vx.GPU[0]):
            h = vx.silu(x @ w1, name="h")
        with vx.on(vx.GPU[1]):
            vx.output("y", vx.matmul(h, w2, name="y"))
    return vx.compile(g, vx.load_machine(MACHINE))


def mlp_params() -> dict[str, Array]:
    """Random weights."""
    shapes = {"w1": (64, 256), "w2": (256, 64)}
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def mlp_result(x: Array, params: dict[str, Array]) -> Array:
    """What `mlp` gives."""
    h = x @ params["w1"]
    return (h / (1 + np.exp(-h))) @ params["w2"]


def counting(max_steps: int = 6) -> Program:
    """Counts up from `start` on gpu:0 by `by` (on gpu:1 and back) for at most `limit` steps, until above `last`."""
    with vx.Graph("counting") as g:
        start, by = vx.input("start", vx.i32[()]), vx.input("by", vx.i32[()])
        last, limit = vx.input("last", vx.i32[()]), vx.input("limit", vx.i32[()])
        with vx.on(vx.GPU[0]):
            first = vx.maximum(start, 0, name="first")
        vx.emit("count", first)

        def step(count: vx.Value) -> list[vx.Value]:
            with vx.on(vx.GPU[1]):
                more = vx.maximum(count + by, 0, name="more")
            with vx.on(vx.GPU[0]):
                again = vx.maximum(more, 0, name="again")
                vx.stop(vx.compare(again, last, "gt"))
            vx.emit("count", again)
            vx.emit("twice", again + again)
            return [again]

        (count,), steps = vx.loop(step, [first], max_steps=max_steps, steps=limit)
        vx.output("count_at_end", count)
        vx.output("steps", steps)
    return vx.compile(g, vx.load_machine(MACHINE))


def counting_inputs(start: int = 3, by: int = 2, last: int = 1000, limit: int = 4) -> dict[str, Array]:
    """Inputs of `counting`."""
    given = {"start": start, "by": by, "last": last, "limit": limit}
    return {name: np.array(value, np.int32) for name, value in given.items()}


def rows(max_rows: int = 8) -> Program:
    """Doubles x: f32[T, 4] on gpu:0, then on gpu:1; two inputs share T."""
    t = vx.Dim("T", min=1, max=max_rows)
    with vx.Graph("rows") as g:
        x, z = vx.input("x", vx.f32[t, 4]), vx.input("z", vx.f32[t])
        with vx.on(vx.GPU[0]):
            y = x + x
            w = z + z
        with vx.on(vx.GPU[1]):
            vx.output("y", y + y)
        vx.output("w", w)
    return vx.compile(g, vx.load_machine(MACHINE))


def alternating(steps: int = 10, n: int = 64, machine: str = MACHINE) -> Program:
    """s + 1 on gpu:0 and gpu:1 in turn."""
    with vx.Graph("alternating") as g:
        s = vx.input("s", vx.f32[n])
        for k in range(steps):
            with vx.on(vx.GPU[k % 2]):
                s = s + 1
        vx.output("s_end", s)
    return vx.compile(g, vx.load_machine(machine))


def crossing(rounds: int = 3, n: int = 16) -> Program:
    """a on gpu:0 and b on gpu:1 change places; each side uses what it was sent, and so `rounds` times."""
    with vx.Graph("crossing") as g:
        with vx.on(vx.GPU[0]):
            a = vx.neg(vx.input("a", vx.f32[n]), name="a0")
        with vx.on(vx.GPU[1]):
            b = vx.neg(vx.input("b", vx.f32[n]), name="b0")
        for k in range(1, rounds + 1):
            with vx.on(vx.GPU[0]):
                after = vx.add(a, b, name=f"a{k}")
            with vx.on(vx.GPU[1]):
                b = vx.sub(b, a, name=f"b{k}")
            a = after
        vx.output("a_end", a)
        vx.output("b_end", b)
    return vx.compile(g, vx.load_machine(MACHINE))


def crossing_result(a: Array, b: Array, rounds: int = 3) -> dict[str, Array]:
    """What `crossing` gives."""
    a, b = -a, -b
    for _ in range(rounds):
        a, b = a + b, b - a
    return {"a_end": a, "b_end": b}


def overwriting(n: int = 256) -> Program:
    """y dies on gpu:0 with its transfer; then gpu:0 fills values of its size with NaN, given `nothing` = NaN."""
    with vx.Graph("overwriting") as g:
        x, nothing = vx.input("x", vx.f32[n]), vx.input("nothing", vx.f32[()])
        with vx.on(vx.GPU[0]):
            y = vx.add(x, x, name="y")
            h = x * nothing
            for k in range(3):
                h = vx.softmax(h, name=f"h{k}")
            vx.output("h", h)
        with vx.on(vx.GPU[1]):
            vx.output("z", y * y)
    return vx.compile(g, vx.load_machine(MACHINE))


def by_hand() -> Program:
    """x + b on gpu:0, sent to gpu:1, + b there; b is uploaded once and sent on, at load."""
    t = f32[4]
    g0, g1 = vx.GPU[0], vx.GPU[1]
    slots = (
        *(Slot("b.0", t, g0, 0, 16, "param"), Slot("b.1", t, g1, 0, 16, "param")),
        *(Slot("x.0", t, g0, 64, 16, "staging"), Slot("y", t, g0, 128, 16, "activation")),
        *(Slot("y.1", t, g1, 64, 16, "staging"), Slot("z", t, g1, 128, 16, "activation")),
    )
    return Program(
        name="by_hand",
        machine=MACHINE,
        dims=(),
        args=(HostInput("x", t),),
        params=(HostInput("b", t),),
        arenas=(Arena(g0, "hbm0", 192, 64, 0, 128, 0), Arena(g1, "hbm1", 192, 64, 0, 128, 0)),
        memories=(),
        slots=slots,
        load=(Upload("b", "b.0", t, g0), TransferPeer("b.0", "b.1", t, g0, g1, "direct", ("b.0",))),
        body=(
            Upload("x", "x.0", t, g0),
            Dispatch(Add(), ("x.0", "b.0"), ("y",), (t,), g0, ("x.0",), loc=vx.Loc("model.py", 7)),
            TransferPeer("y", "y.1", t, g0, g1, "direct", ("y",), loc=vx.Loc("model.py", 8)),
            Dispatch(Add(), ("y.1", "b.1"), ("z",), (t,), g1, ("y.1",), loc=vx.Loc("model.py", 9)),
            Download("z", "z.host", t, g1, ("z",)),
        ),
        results=(Result("z", "z.host"),),
    )


def bound_to(backend: NumpyBackend, program: Program) -> Binding:
    """Every topology on one given backend."""
    return Binding(dict.fromkeys(program.topologies, (backend, "numpy")))
