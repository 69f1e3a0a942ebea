"""Runs: results, streams, and what is left after a mistake."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Thread
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.programs import (
    by_hand,
    counting,
    counting_inputs,
    mlp,
    mlp_params,
    mlp_result,
    rows,
)
from vxgraph.errors import BindError, RunError
from vxgraph.ir.types import Array
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session, run

X = np.random.default_rng(5).standard_normal((1, 64)).astype(np.float32)


def test_a_two_device_program_gives_what_numpy_gives() -> None:
    params = mlp_params()
    with Session(mlp(), params, bind="numpy", audit=True) as s:
        for scale in (1, 2):
            y = s.run({"x": X * scale})["y"]
            np.testing.assert_allclose(y, mlp_result(X * scale, params), rtol=1e-4, atol=1e-4)
        assert s.report.conforms()


def test_one_call_runs_a_program() -> None:
    params = mlp_params()
    np.testing.assert_allclose(run(mlp(), {"x": X}, params)["y"], mlp_result(X, params), rtol=1e-4, atol=1e-4)


def test_without_gpus_the_note_says_where_the_program_runs() -> None:
    with Session(mlp(), mlp_params()) as s:
        assert s.note == "no GPU here: gpu:0 and gpu:1 run on NumPy"
        assert s.bindings == {vx.GPU[0]: "numpy:gpu:0", vx.GPU[1]: "numpy:gpu:1"}
    with Session(mlp(), mlp_params(), bind="numpy") as s:
        assert s.note == ""


def test_load_may_pass_a_param_on_from_device_to_device() -> None:
    x, b = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)
    with Session(by_hand(), {"b": b}, "numpy", audit=True) as s:
        np.testing.assert_array_equal(s.run({"x": x})["z"], x + 20)
        assert s.report.conforms()
        assert [(u.param, u.topology, u.count, u.nbytes) for u in s.report.uploads] == [("b", vx.GPU[0], 1, 16)]


# Two backends: what crosses between them goes through the host.


def test_topologies_on_different_backends_meet_through_the_host() -> None:
    program, params = mlp(), mlp_params()
    first, second = NumpyBackend(), NumpyBackend()
    binding = Binding({vx.GPU[0]: (first, "numpy"), vx.GPU[1]: (second, "numpy")})
    with Session(program, params, binding) as s:
        y = s.run({"x": X})["y"]
        np.testing.assert_allclose(y, mlp_result(X, params), rtol=1e-4, atol=1e-4)
        assert s.report.conforms()
        assert s.report.dispatches == {vx.GPU[0]: 2, vx.GPU[1]: 1}
        (peer,) = [t for t in s.report.transfers if t.src and t.dst]
        assert (peer.planned_bytes, peer.observed_bytes, peer.observed_src, peer.observed_dst) == (
            1024,
            1024,
            vx.GPU[0],
            vx.GPU[1],
        )
        assert first.moved(vx.GPU[0], None) == second.moved(None, vx.GPU[1]) - params["w2"].nbytes == 1024


def test_a_loop_runs_on_different_backends() -> None:
    binding = Binding({vx.GPU[0]: (NumpyBackend(), "numpy"), vx.GPU[1]: (NumpyBackend(), "numpy")})
    with Session(counting(), {}, binding, audit=True) as s:
        assert s.run(counting_inputs())["count"].tolist() == [3, 5, 7, 9, 11]
        assert s.report.conforms()


# Loops, emits and streams.


def test_emits_are_stacked_top_level_first() -> None:
    with Session(counting(), {}, "numpy") as s:
        found = s.run(counting_inputs())
        assert found["count"].tolist() == [3, 5, 7, 9, 11]
        assert found["twice"].tolist() == [10, 14, 18, 22]
        assert (int(found["count_at_end"]), int(found["steps"])) == (11, 4)
        assert s.report.conforms()
        assert list(s.report.steps.values()) == [4]


@pytest.mark.parametrize(
    ("limit", "last", "counts"),
    [
        (0, 1000, [3]),
        (-5, 1000, [3]),
        (1, 1000, [3, 5]),
        (100, 1000, [3, 5, 7, 9, 11, 13, 15]),  # max_steps is 6
        (100, 6, [3, 5, 7]),  # the step that stops is emitted, too
        (100, -1, [3, 5]),
    ],
)
def test_a_loop_ends_at_its_limit_its_maximum_or_its_stop(limit: int, last: int, counts: list[int]) -> None:
    with Session(counting(), {}, "numpy", audit=True) as s:
        found = s.run(counting_inputs(limit=limit, last=last))
        assert found["count"].tolist() == counts
        assert int(found["steps"]) == len(counts) - 1
        assert int(found["count_at_end"]) == counts[-1]
        assert s.report.conforms()


def test_what_no_step_emitted_is_empty_and_typed() -> None:
    with Session(counting(), {}, "numpy") as s:
        twice = s.run(counting_inputs(limit=0))["twice"]
        assert (twice.shape, twice.dtype) == ((0,), np.int32)


def test_a_stream_gives_a_group_per_emission_and_then_results() -> None:
    with Session(counting(), {}, "numpy") as s:
        stream = s.stream(counting_inputs(limit=2))
        with pytest.raises(RunError) as e:
            _ = stream.results
        assert str(e.value) == "the stream has no results yet: iterate it to its end"
        groups = [{name: int(a) for name, a in group.items()} for group in stream]
        assert groups == [{"count": 3}, {"count": 5, "twice": 10}, {"count": 7, "twice": 14}]
        assert int(stream.results["steps"]) == 2
        assert list(stream) == []


def test_a_streamed_step_is_handed_over_before_the_next_one_runs() -> None:
    with Session(counting(), {}, "numpy") as s:
        stream = s.stream(counting_inputs(limit=5))
        for steps_done, _ in enumerate(stream):
            assert sum(s.report.steps.values()) == steps_done


@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_stream_that_ends_early_leaves_the_session_usable(how: str) -> None:
    with Session(counting(), {}, "numpy") as s:
        stream = s.stream(counting_inputs())
        next(stream)
        next(stream)
        if how == "close":
            stream.close()
        del stream
        gc.collect()
        assert s.run(counting_inputs())["count"].tolist() == [3, 5, 7, 9, 11]


def test_one_run_at_a_time() -> None:
    with Session(counting(), {}, "numpy") as s:
        stream = s.stream(counting_inputs())
        next(stream)
        with pytest.raises(RunError) as e:
            s.run(counting_inputs())
        assert str(e.value) == (
            "the session of 'counting' is running already; exhaust or close its stream, or make a second session"
        )
        assert [int(g["count"]) for g in stream] == [5, 7, 9, 11]
        assert s.run(counting_inputs(limit=1))["count"].tolist() == [3, 5]


def test_two_sessions_of_one_program_run_side_by_side() -> None:
    program, found = counting(), {}
    with Session(program, {}, "numpy") as a, Session(program, {}, "numpy") as b:
        threads = [
            Thread(target=lambda s=s, k=k: found.update({k: s.run(counting_inputs(start=k))["count"].tolist()}))
            for k, s in ((1, a), (2, b))
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert found == {1: [1, 3, 5, 7, 9], 2: [2, 4, 6, 8, 10]}


def test_a_closed_session_runs_nothing() -> None:
    s = Session(counting(), {}, "numpy")
    s.close()
    s.close()
    with pytest.raises(RunError) as e:
        s.run(counting_inputs())
    assert str(e.value) == "the session of 'counting' is closed"


def test_a_session_closes_after_an_error_inside_it() -> None:
    backend = NumpyBackend()
    program = counting()
    binding = Binding(dict.fromkeys(program.topologies, (backend, "numpy")))
    with pytest.raises(ZeroDivisionError), Session(program, {}, binding):
        raise ZeroDivisionError
    with Session(program, {}, binding) as s:  # nothing is left open
        assert s.run(counting_inputs(limit=0))["count"].tolist() == [3]


# Arrays in and out.


@pytest.mark.case("R09")
def test_inputs_of_any_strides_are_taken_and_left_alone() -> None:
    base = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)
    with Session(rows(), {}, "numpy") as s:
        for x in (base[:8, :4][::-1], base[::4, ::-2], base.T[:8:2, :4], np.broadcast_to(base[0, :4], (3, 4))):
            z = np.ones(len(x), np.float32)
            kept = x.copy()
            x.flags.writeable = False
            np.testing.assert_array_equal(s.run({"x": x, "z": z})["y"], 4 * kept)
            np.testing.assert_array_equal(x, kept)


def test_sizes_may_change_from_run_to_run() -> None:
    with Session(rows(), {}, "numpy", audit=True) as s:
        for n in (1, 8, 3, 2, 5, 1, 8, 4, 7):
            x, z = np.full((n, 4), n, np.float32), np.ones(n, np.float32)
            found = s.run({"x": x, "z": z})
            np.testing.assert_array_equal(found["y"], 4 * x)
            np.testing.assert_array_equal(found["w"], 2 * z)
            assert s.report.conforms()
            assert [t.planned_bytes for t in s.report.transfers if t.src and t.dst] == [16 * n]


def test_the_sizes_used_last_are_not_prepared_again() -> None:
    program, backend = rows(), Counting()

    def prepares(s: Session, n: int) -> bool:
        before = backend.calls["tensor"]
        s.run({"x": np.ones((n, 4), np.float32), "z": np.ones(n, np.float32)})
        return backend.calls["tensor"] > before

    with Session(program, {}, Binding(dict.fromkeys(program.topologies, (backend, "numpy")))) as s:
        assert [prepares(s, n) for n in (1, 2, 3, 4)] == [True] * 4
        assert [prepares(s, n) for n in (1, 5, 1, 4, 3)] == [False, True, False, False, False]
        assert prepares(s, 2)  # 5 took its place


def test_what_is_streamed_is_the_callers_own() -> None:
    with vx.Graph("echo") as g:
        x = vx.input("x", vx.f32[3])
        vx.emit("seen", x)
        with vx.on(vx.GPU[0]):
            vx.output("y", x + x)
    given = np.arange(3, dtype=np.float32)
    with Session(vx.compile(g, vx.load_machine("h200")), {}, "numpy") as s:
        stream = s.stream({"x": given})
        for group in stream:
            group["seen"] += 100
        np.testing.assert_array_equal(given, [0, 1, 2])
        np.testing.assert_array_equal(stream.results["y"], [0, 2, 4])


def test_results_are_the_callers_own() -> None:
    with vx.Graph("through") as g:
        x = vx.input("x", vx.f32[3])
        vx.output("same", x)
        vx.output("again", x)
        vx.emit("seen", x)
        with vx.on(vx.GPU[0]):
            y = x + x
        vx.output("y", y)
        vx.output("y2", y)
    program = vx.compile(g, vx.load_machine("h200"))
    given = np.arange(3, dtype=np.float32)
    with Session(program, {}, "numpy") as s:
        found = s.run({"x": given})
        arrays = [given, *found.values()]
        for i, a in enumerate(arrays):
            assert not any(np.shares_memory(a, b) for b in arrays[i + 1 :])
        for a in found.values():
            a += 100
        np.testing.assert_array_equal(s.run({"x": given})["y"], 2 * given)
        np.testing.assert_array_equal(given, [0, 1, 2])


def test_memory_is_flat_over_runs() -> None:
    backend = NumpyBackend()
    program = counting()
    with Session(program, {}, Binding(dict.fromkeys(program.topologies, (backend, "numpy")))) as s:
        s.run(counting_inputs())
        spaces = backend._spaces.values()
        before = [space.nbytes for space in spaces]
        for _ in range(20):
            s.run(counting_inputs())
        assert [space.nbytes for space in spaces] == before == [a.nbytes for a in program.arenas]


# Params.


class Counting(NumpyBackend):
    """Counts calls, also those of before it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def upload(self, *args: Any, **keywords: Any) -> Any:
        self.calls["upload"] += 1
        return super().upload(*args, **keywords)

    def tensor(self, *args: Any) -> Any:
        self.calls["tensor"] += 1
        return super().tensor(*args)


class Lazy(Mapping[str, Array]):
    """Counts how often each array is asked for, and how many are alive at once."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays
        self.asked: list[str] = []

    def __getitem__(self, name: str) -> Array:
        self.asked.append(name)
        return self._arrays[name].copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def replicas() -> vx.Program:
    with vx.Graph("replicas") as g:
        x, w = vx.input("x", vx.f32[4]), vx.param("w", vx.f32[4])
        for place in (vx.GPU[0], vx.GPU[1]):
            with vx.on(place):
                x = x + w
        vx.output("y", x)
    return vx.compile(g, vx.load_machine("h200-x2"))


def test_a_lazy_param_is_asked_for_once_even_with_two_replicas() -> None:
    params = Lazy({"w": np.ones(4, np.float32)})
    seen: list[tuple[str, int, int]] = []
    with Session(replicas(), params, "numpy", progress=lambda *args: seen.append(args)) as s:
        assert params.asked == ["w"]
        assert seen == [("w", 16, 32), ("w", 32, 32)]
        s.run({"x": np.zeros(4, np.float32)})
        assert s.report.conforms()
        assert [(u.param, u.topology, u.count, u.nbytes, u.observed) for u in s.report.uploads] == [
            ("w", vx.GPU[0], 1, 16, vx.GPU[0]),
            ("w", vx.GPU[1], 1, 16, vx.GPU[1]),
        ]
        assert params.asked == ["w"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w2": None}, "param 'w2' is missing\n  params: w1, w2"),
        ({"ww2": np.ones(1)}, "there is no param 'ww2'; did you mean 'w2'?\n  params: w1, w2"),
        (
            {"w2": np.zeros((64, 256), np.float32)},
            "param 'w2' is f32[64, 256], wanted f32[256, 64]: axis 0 is 64 instead of 256",
        ),
        (
            {"w2": np.zeros((256, 64))},
            "param 'w2' is float64[256, 64], wanted f32[256, 64]; cast it: value.astype(np.float32)",
        ),
        ({"w2": np.zeros(256, np.float32)}, "param 'w2' is f32[256], wanted f32[256, 64]: rank 1 instead of 2"),
    ],
)
def test_params_that_do_not_fit_are_refused_before_any_upload(change: dict[str, object], message: str) -> None:
    backend, program = Counting(), mlp()
    params = {name: array for name, array in {**mlp_params(), **change}.items() if array is not None}
    with pytest.raises(RunError) as e:
        Session(program, params, Binding(dict.fromkeys(program.topologies, (backend, "numpy"))))
    assert _without_line(e.value) == message
    assert backend.calls["upload"] == 0
    backend.open(vx.GPU[0], "numpy")  # and nothing is left open


def test_a_lazy_param_of_the_wrong_shape_leaves_nothing_open() -> None:
    backend, program = NumpyBackend(), mlp()
    params = Lazy({**mlp_params(), "w2": np.zeros((1, 1), np.float32)})
    with pytest.raises(RunError) as e:
        Session(program, params, Binding(dict.fromkeys(program.topologies, (backend, "numpy"))))
    assert _without_line(e.value) == "param 'w2' is f32[1, 1], wanted f32[256, 64]: axis 0 is 1 instead of 256"
    backend.open(vx.GPU[0], "numpy")


# Mistakes.


@pytest.mark.case("R09")
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "args 'x', 'z' are missing\n  args: x, z"),
        (
            {"x": np.zeros((2, 4), np.float32), "zz": 1, "z": np.zeros(2)},
            "there is no arg 'zz'; did you mean 'z'?\n  args: x, z",
        ),
        (
            {"x": [[1.0] * 4], "z": np.zeros(1, np.float32)},
            "arg 'x' is a list, wanted f32[T, 4]; make it: np.asarray(value, np.float32)",
        ),
        (
            {"x": np.zeros((2, 4)), "z": np.zeros(2, np.float32)},
            "arg 'x' is float64[2, 4], wanted f32[T, 4]; cast it: value.astype(np.float32)",
        ),
        (
            {"x": np.zeros((2, 4), ">f4"), "z": np.zeros(2, np.float32)},
            "arg 'x' is float32[2, 4] of the other byte order, wanted f32[T, 4]; cast it: value.astype(np.float32)",
        ),
        (
            {"x": np.zeros((2, 5), np.float32), "z": np.zeros(2, np.float32)},
            "arg 'x' is f32[2, 5], wanted f32[T, 4]: axis 1 is 5 instead of 4",
        ),
        (
            {"x": np.zeros(4, np.float32), "z": np.zeros(2, np.float32)},
            "arg 'x' is f32[4], wanted f32[T, 4]: rank 1 instead of 2",
        ),
        (
            {"x": np.zeros((9, 4), np.float32), "z": np.zeros(9, np.float32)},
            "arg 'x' is f32[9, 4], wanted f32[T, 4]: T is 9, but runs from 1 to 8",
        ),
        (
            {"x": np.zeros((0, 4), np.float32), "z": np.zeros(0, np.float32)},
            "arg 'x' is f32[0, 4], wanted f32[T, 4]: T is 0, but runs from 1 to 8",
        ),
        (
            {"x": np.zeros((3, 4), np.float32), "z": np.zeros(2, np.float32)},
            "arg 'z' is f32[2], wanted f32[T]: T is 2 here but 3 in 'x'",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused_before_anything_runs(inputs: dict[str, object], message: str) -> None:
    with Session(rows(), {}, "numpy") as s:
        for call in (s.run, s.stream):
            with pytest.raises(RunError) as e:
                call(inputs)
            assert _without_line(e.value) == message
        assert s.report.run is None


def _without_line(error: RunError) -> str:
    """The message without the user's file and line, which is this repository's `programs.py`."""
    text = str(error)
    if error.loc is None:
        return text
    assert error.loc.file.endswith(("programs.py", "test_session.py"))
    return text.removeprefix(f"{error.loc}: ")


def test_a_kernels_refusal_names_the_value_and_the_users_line() -> None:
    with vx.Graph("lookup") as g:
        ids, table = vx.input("ids", vx.i32[2]), vx.param("table", vx.f32[4, 2])
        with vx.on(vx.GPU[0]):
            found = vx.embed(table, ids, name="found")
        vx.output("rows", found)
    with Session(vx.compile(g, vx.load_machine("h200")), {"table": np.ones((4, 2), np.float32)}, "numpy") as s:
        with pytest.raises(RunError) as e:
            s.run({"ids": np.array([1, 9], np.int32)})
        assert e.value.loc is not None
        assert e.value.loc.file.endswith("test_session.py")
        assert e.value.message == "%found: id 9 is not in the table, which has 4 rows: 0 to 3"
        assert s.run({"ids": np.array([1, 3], np.int32)})["rows"].shape == (2, 2)  # and the session is usable
        assert s.report.conforms()


def test_an_op_without_a_kernel_is_refused_at_load_by_name() -> None:
    class NoSilu(NumpyBackend):
        def kernel(self, op: object, *args: object) -> object:
            if op.name in ("silu", "fused"):  # type: ignore[attr-defined]
                raise BindError(f"{op.name} on {args[-1]}: no kernel")  # type: ignore[attr-defined]
            return super().kernel(op, *args)  # type: ignore[arg-type]

    backend, program = NoSilu(), mlp()
    with pytest.raises(BindError) as e:
        Session(program, mlp_params(), Binding(dict.fromkeys(program.topologies, (backend, "numpy"))))
    assert e.value.message == "%h: silu on gpu:0: no kernel"
    assert e.value.loc is not None
    backend.open(vx.GPU[0], "numpy")


def test_a_session_that_closes_ends_its_suspended_stream() -> None:
    session = Session(counting(), bind="numpy")
    stream = session.stream(counting_inputs(limit=5))
    next(stream)
    session.close()
    with pytest.raises(StopIteration):
        next(stream)
    with pytest.raises(RunError) as e:
        _ = stream.results
    assert str(e.value) == "the stream has no results: its run was ended early"
