"""Orders are choices that can be replayed, and made smaller while they still fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vxgraph as vx
from tests.runtime.programs import by_hand, counting, counting_inputs, mlp, mlp_params, mlp_result
from vxgraph.errors import BindError, HazardError
from vxgraph.ir.types import Array
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.runtime.backends.sanitizer.order import Order, shrink
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session

B = {"b": np.full(4, 10, np.float32)}
X = {"x": np.arange(4, dtype=np.float32)}
NUMBERS = st.lists(st.integers(0, 9), max_size=40)


def test_the_latest_order_always_picks_the_first():
    assert [Order().pick(n) for n in (1, 2, 9)] == [0, 0, 0]


def test_a_seed_picks_the_same_every_time_and_another_does_not():
    def picks(seed: int) -> list[int]:
        order = Order(seed=seed)
        return [order.pick(10) for _ in range(30)]

    assert picks(7) == picks(7)
    assert picks(7) != picks(8)


@given(st.integers(0, 2**32), st.lists(st.integers(2, 9), max_size=30))
def test_what_was_taken_replays(seed: int, sizes: list[int]):
    order = Order(seed=seed, keep=True)
    picked = [order.pick(n) for n in sizes]
    again = Order(replay=order.taken)
    assert [again.pick(n) for n in sizes] == picked
    assert again.pick(5) == 0  # as late as events allow beyond the end


@given(NUMBERS, st.integers(1, 9), st.integers(0, 39))
def test_shrinking_keeps_only_what_matters(choices: list[int], least: int, where: int):
    def fails(found: Sequence[int]) -> bool:
        return len(found) > where and found[where] >= least

    if fails(choices):
        assert shrink(choices, fails) == [*[0] * where, least]


def test_the_same_seed_runs_the_same_order_and_seeds_differ():
    def ran(order: Order) -> list[str]:
        backend, program = SanitizerBackend(order), both()
        with Session(program, {}, Binding(dict.fromkeys(program.topologies, (backend, "sanitizer")))) as s:
            s.run({"x": np.ones(4, np.float32)})
        return backend.ran

    late = ran(Order(keep=True))
    assert ran(Order(seed=1, keep=True)) == ran(Order(seed=1, keep=True))
    orders = {tuple(ran(Order(seed=k, keep=True))) for k in range(12)}
    assert len(orders) > 3
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(late))}


@pytest.mark.parametrize("seed", range(6))
def test_any_order_gives_what_program_order_gives(seed: int):
    bind = f"sanitizer:{seed}"
    with Session(counting(), {}, bind, audit=True) as s:
        for start in (3, 4):
            found = s.run(counting_inputs(start=start, limit=5))
            assert found["count"].tolist() == [start + 2 * k for k in range(6)]
            assert s.report.conforms()
    params = mlp_params()
    x = np.random.default_rng(2).standard_normal((1, 64)).astype(np.float32)
    with Session(mlp(), params, bind) as s:
        for _ in range(3):
            np.testing.assert_allclose(s.run({"x": x})["y"], mlp_result(x, params), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "sanitizer:x",
            "gpu:0=sanitizer:x: wanted 'sanitizer' (as late as events allow) or 'sanitizer:SEED' (a random order)",
        ),
        (
            "sanitizer:",
            "gpu:0=sanitizer:: wanted 'sanitizer' (as late as events allow) or 'sanitizer:SEED' (a random order)",
        ),
    ],
)
def test_a_seed_is_a_number(target: str, message: str):
    with pytest.raises(BindError) as e:
        Session(by_hand(), B, target)
    assert str(e.value) == message


def test_places_share_one_order():
    with pytest.raises(BindError) as e:
        Session(by_hand(), B, {"gpu:0": "sanitizer:1", "gpu:1": "sanitizer:2"})
    assert str(e.value) == "gpu:1=sanitizer:2: places share one order, and 'sanitizer:1' is open already"


def test_a_place_on_numpy_beside_one_under_the_sanitizer_gives_the_same():
    with Session(by_hand(), B, {"gpu:0": "sanitizer", "gpu:1": "numpy"}) as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
        assert s.report.conforms()


def appending() -> vx.Program:
    """A row into a cache of four on gpu:0, and what is read back on gpu:1."""
    with vx.Graph("appending") as g:
        row, at = vx.input("row", vx.f32[1, 2]), vx.input("at", vx.i32[()])
        with vx.on(vx.GPU[0]):
            kept = vx.cache_append(vx.cache_init(vx.f32[4, 2], vx.concat([row] * 4, axis=0)), row * 2, at)
        with vx.on(vx.GPU[1]):
            vx.output("y", kept + 0)
    return vx.compile(g, vx.load_machine("h200-x2"))


@pytest.mark.parametrize("bind", ["numpy", "sanitizer", "sanitizer:1", "sanitizer:2"])
def test_what_ends_a_run_is_its_first_cause_and_ends_no_other(bind: str):
    row = np.ones((1, 2), np.float32)
    with Session(appending(), {}, bind) as s:
        for at in (0, 9, 1, 7, 3):
            if at < 4:
                wanted = np.ones((4, 2), np.float32)
                wanted[at] = 2
                np.testing.assert_array_equal(s.run({"row": row, "at": np.int32(at)})["y"], wanted)
                assert s.report.conforms()
            else:
                with pytest.raises(vx.RunError) as e:
                    s.run({"row": row, "at": np.int32(at)})
                assert e.value.loc is not None
                assert e.value.message == f"%cache_append: 1 rows at {at} do not fit the cache, which has 4 rows"


# Many orders.


def test_many_orders_of_a_right_program_find_nothing():
    params = mlp_params()
    done: list[tuple[int, int]] = []
    x = np.ones((1, 64), np.float32)
    found = vx.sanitize(mlp(), {"x": x}, params, orders=5, seed=3, progress=lambda k, n: done.append((k, n)))
    np.testing.assert_allclose(found.results["y"], mlp_result(x, params), rtol=1e-4, atol=1e-4)
    assert str(found) == (
        "no hazard in 6 orders: the latest and 5 random from seed 3; "
        f"{found.calls} calls and {found.checked} pairs of accesses to the same bytes in each"
    )
    assert found.calls == len(mlp().load) + len(mlp().body)
    assert found.checked > 0
    assert done == [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


class Remembers(SanitizerBackend):
    """A kernel on gpu:0 adds how many kernels ran on gpu:1 before it: what no plan knows of."""

    def kernel(self, op: Any, ins: Any, outs: Any, topology: vx.Topology) -> Any:
        kernel = super().kernel(op, ins, outs, topology)
        ran = self.__dict__.setdefault("ran_on", dict.fromkeys((vx.GPU[0], vx.GPU[1]), 0))

        def run(operands: Any, results: Sequence[Array], sizes: Any) -> None:
            kernel.run(operands, results, sizes)
            if topology == vx.GPU[0]:
                results[0][...] += np.float32(ran[vx.GPU[1]])
            ran[topology] += 1

        return replace(kernel, run=run)


def both() -> vx.Program:
    """A kernel on each of two places, with nothing between them."""
    with vx.Graph("both") as g:
        x = vx.input("x", vx.f32[4])
        with vx.on(vx.GPU[0]):
            vx.output("a", vx.exp(x, name="a"))
        with vx.on(vx.GPU[1]):
            vx.output("b", vx.exp(x, name="b"))
    return vx.compile(g, vx.load_machine("h200-x2"))


def test_a_result_that_depends_on_the_order_is_shown_by_the_smallest_order_that_does():
    x: Array = np.zeros(4, np.float32)
    with pytest.raises(HazardError) as e:
        vx.sanitize(both(), {"x": x}, orders=20, backend=Remembers)
    assert e.value.kind == "order dependence"
    lines = str(e.value).splitlines()
    assert lines[0] == "result 'a' depends on the order, though every two accesses to the same bytes are ordered"
    assert lines[1].startswith("  it differs where call ")
    assert lines[2].startswith("  choices that show it: [")
    assert lines[2].count(",") <= 8
    assert lines[3] == "  a kernel may use what is neither its operand nor its result"


class Draws(SanitizerBackend):
    """Kernels add what no two runs have in common."""

    runs = count()

    def kernel(self, op: Any, ins: Any, outs: Any, topology: vx.Topology) -> Any:
        kernel = super().kernel(op, ins, outs, topology)

        def run(operands: Any, results: Sequence[Array], sizes: Any) -> None:
            kernel.run(operands, results, sizes)
            results[0][...] += np.float32(next(Draws.runs))

        return replace(kernel, run=run)


def test_a_result_that_no_two_runs_share_is_no_matter_of_order():
    with pytest.raises(HazardError) as e:
        vx.sanitize(both(), {"x": np.zeros(4, np.float32)}, orders=1, backend=Draws)
    assert str(e.value) == (
        "result 'a' depends on the order, though every two accesses to the same bytes are ordered\n"
        "  it differs between two runs in the same order\n"
        "  choices that show it: [] (the smallest found, from seed 0)\n"
        "  a kernel may use what is neither its operand nor its result"
    )
