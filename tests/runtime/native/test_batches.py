"""A loop's steady state is one call of C, and nobody can tell but by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.programs import bound_to
from vxgraph.errors import RunError
from vxgraph.ir.types import TensorType
from vxgraph.ops import Add, MatMul
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.numpy.batch import Batch
from vxgraph.runtime.backends.numpy.native.library import Library, library
from vxgraph.runtime.session import Session

pytestmark = pytest.mark.skipif(not isinstance(library(), Library), reason="this machine compiles no kernels")

PARAMS = {"w": np.full((8, 8), 0.125, np.float32), "table": np.arange(40, dtype=np.float32).reshape(5, 8)}
X = np.arange(8, dtype=np.float32).reshape(1, 8)


class Batching(NumpyBackend):
    """Keeps the batches that it made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Batch] = []

    def batch(self, *args: Any, **keywords: Any) -> Batch | None:
        batch = super().batch(*args, **keywords)
        assert batch is not None
        self.made.append(batch)
        return batch


def walking(steps: int, machine: str = "cpu") -> vx.Program:
    """row = row @ w.T + table[at]; at += 1: a product, a softmax (which C has not) and more, `steps` times."""
    with vx.Graph("walking") as graph:
        x, at = vx.input("x", vx.f32[1, 8]), vx.input("at", vx.i32[1])
        w, table = vx.param("w", vx.f32[8, 8]), vx.param("table", vx.f32[5, 8])

        def step(row: vx.Value, at: vx.Value) -> list[vx.Value]:
            row = vx.matmul(row, vx.transpose(w, (1, 0))) + vx.softmax(vx.embed(table, at))
            return [row, at + vx.constant(np.ones(1, np.int32))]

        with vx.on(vx.CPU[0]):
            (y, _), _ = vx.loop(step, [x, at], max_steps=steps)
        vx.output("y", y)
    return vx.compile(graph, vx.load_machine(machine))


def inputs(at: int = 0) -> Mapping[str, Any]:
    return {"x": X, "at": np.array([at], np.int32)}


def test_a_batch_gives_what_its_launches_give_and_each_of_them_counts() -> None:
    program, backend = walking(5), Batching()
    with Session(program, PARAMS, bound_to(backend, program)) as s:
        found = s.run(inputs())["y"]
        s.report.conforms()
        counts = s.report.dispatches
    assert [batch.count for batch in backend.made] == [counts[vx.CPU[0]] // 5]
    assert [type(part).__name__ for part in backend.made[0].parts].count("Bind") == 1  # the softmax
    with Session(program, PARAMS, "numpy:plain") as s:
        plain = s.run(inputs())["y"]
        assert s.report.dispatches == counts
    np.testing.assert_allclose(found, plain, rtol=1e-5)
    with Session(program, PARAMS, "numpy", audit=True) as s:  # an audit never batches
        np.testing.assert_array_equal(s.run(inputs())["y"], found)


@pytest.mark.parametrize("bind", ["numpy", "numpy:plain"])
def test_what_a_launch_in_a_batch_refuses_is_told_as_alone(bind: str) -> None:
    """The fourth step's row is 5: the kernel in C declines, and NumPy's says why."""
    with Session(walking(4), PARAMS, bind) as s:
        with pytest.raises(RunError) as e:
            s.run(inputs(at=2))
        told = str(e.value)
        np.testing.assert_array_equal(s.run(inputs(at=0))["y"].shape, (1, 8))  # and the session goes on
    with Session(walking(4), PARAMS, bind, audit=True) as s, pytest.raises(RunError) as e:
        s.run(inputs(at=2))
    assert told == str(e.value)
    message = "%embed: id 5 is not in the table, which has 5 rows: 0 to 4"
    assert told.startswith("tests/runtime/native/test_batches.py:")
    assert told.partition(": ")[2] == message


# The verbs.

ROW, SQUARE = TensorType(vx.f32, (1, 16)), TensorType(vx.f32, (16, 16))


class Bench:
    """Two topologies, and tensors on them."""

    def __init__(self) -> None:
        self.backend = NumpyBackend()
        self.buffers: dict[vx.Topology, Any] = {}
        for place in (vx.CPU[0], vx.CPU[1]):
            self.backend.open(place, "numpy")
            self.buffers[place] = self.backend.alloc(4096, place)

    def tensor(self, offset: int, t: TensorType, place: vx.Topology, values: float | None = None) -> Any:
        tensor = self.backend.tensor(self.buffers[place], offset, t.dtype, t.shape(), place)
        if values is not None:
            self.backend.upload(np.full(t.shape(), values, np.float32), tensor, place)
        return tensor


@pytest.fixture
def bench() -> Any:
    bench = Bench()
    yield bench
    bench.backend.close()


def test_an_output_that_is_an_operand_is_right_each_time(bench: Bench) -> None:
    place = vx.CPU[0]
    x, one = bench.tensor(0, ROW, place, 0), bench.tensor(64, ROW, place, 1)
    add = [bench.backend.kernel(Add(), (ROW, ROW), (ROW,), place) for _ in range(3)]
    assert add[0].by == "native"
    batch = bench.backend.batch([(kernel, (x, one), (x,)) for kernel in add], place, sizes={})
    for _ in range(4):
        event = bench.backend.dispatch(batch, (), (), place, sizes={})
    bench.backend.wait(event)
    np.testing.assert_array_equal(x.view, np.full((1, 16), 12.0))
    assert bench.backend.dispatched(place) == 12
    assert bench.backend.observe(event).topologies == (place,)


def test_a_batch_takes_no_address_of_another_topology(bench: Bench) -> None:
    here, there = vx.CPU[0], vx.CPU[1]
    x, w, y = bench.tensor(0, ROW, here, 1), bench.tensor(1024, SQUARE, there, 1), bench.tensor(64, ROW, here)
    kernel = bench.backend.kernel(MatMul(transpose_b=True), (ROW, SQUARE), (ROW,), here)
    with pytest.raises(RunError) as e:
        bench.backend.batch([(kernel, (x, w), (y,))] * 2, here, sizes={})
    assert e.value.message == "dispatch matmul on cpu:0: the buffer lives on cpu:1; transfer it first"


def test_a_batch_on_memory_that_was_freed_does_not_run(bench: Bench) -> None:
    place = vx.CPU[0]
    x, y = bench.tensor(0, ROW, place, 1), bench.tensor(64, ROW, place, 2)
    kernel = bench.backend.kernel(Add(), (ROW, ROW), (ROW,), place)
    batch = bench.backend.batch([(kernel, (x, y), (y,))] * 2, place, sizes={})
    bench.backend.free(bench.buffers[place], place)
    with pytest.raises(RunError) as e:
        bench.backend.dispatch(batch, (), (), place, sizes={})
    assert e.value.message == "dispatch a batch on cpu:0: the buffer was freed"
    assert bench.backend.dispatched(place) == 0
    np.testing.assert_array_equal(y.view, np.full((1, 16), 2.0))
