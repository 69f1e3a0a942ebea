"""Failures that other systems had (the codes are those of their collection), with their right values."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import vxgraph as vx
from tests.program.interpret import interpret
from tests.runtime.programs import bound_to
from tests.work import calls
from vxgraph import ops
from vxgraph.errors import PlacementError, user_loc
from vxgraph.ir.graph import Graph
from vxgraph.ir.text import parse_graph
from vxgraph.program.compile import place_graph
from vxgraph.program.instructions import TransferPeer
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.tools.draw.dot import to_dot
from vxgraph.tools.draw.walk import sketch_graph

X3, X8 = vx.load_machine("cpu-x3"), vx.load_machine("cpu-x8")
HERE = user_loc().file


def moved(graph: Graph) -> dict[tuple[str, str], int]:
    """How often each value goes to each place, loops' bodies included; the value is the one that was first moved."""
    root: dict[str, str] = {}
    found: dict[tuple[str, str], int] = {}
    for _, n in graph.walk():
        if isinstance(n.op, ops.Upload | ops.TransferPeer):
            root[n.name] = root.get(n.inputs[0], n.inputs[0])
            key = (root[n.name], str(n.place))
            found[key] = found.get(key, 0) + 1
    return found


def p01(first: vx.Topology, second: vx.Topology, order: tuple[str, str]) -> vx.Graph:
    with vx.Graph("p01") as g:
        with vx.on(first):
            a, b, c = (vx.input(name, vx.i32[5]) for name in "abc")
        made = {}
        for name in order:
            with vx.on(first if name == "n1" else second):
                made[name] = vx.add(a, b, name="n1") if name == "n1" else vx.add(b, c, name="n2")
        with vx.on(first):
            vx.output("out", vx.sub(made["n1"], made["n2"]))
    return g


@pytest.mark.case("P01")
@pytest.mark.parametrize("order", [("n1", "n2"), ("n2", "n1")])
@pytest.mark.parametrize(
    ("machine", "first", "second"),
    [
        ("cpu-x3", vx.CPU[0], vx.CPU[1]),
        ("cpu-x3", vx.CPU[1], vx.CPU[0]),
        ("h200", vx.CPU[0], vx.GPU[0]),
        ("h200", vx.GPU[0], vx.CPU[0]),
    ],
)
def test_p01_an_operand_of_two_places_is_moved_to_the_one_that_lacks_it(
    machine: str, first: vx.Topology, second: vx.Topology, order: tuple[str, str]
):
    graph, found = p01(first, second, order), vx.load_machine(machine)
    uploads = {(v, str(first)): 1 for v in ("a", "b", "c")}
    wanted = {("b", str(second)): 1, ("c", str(second)): 1, ("n2", str(first)): 1}
    assert moved(place_graph(graph, found)) == uploads | wanted
    a, b, c = np.arange(5, dtype=np.int32), np.full(5, 7, np.int32), np.array([1, 5, 2, 4, 3], np.int32)
    program, backend = vx.compile(graph, found), NumpyBackend()
    peers = [(t.value.partition(".")[0], str(t.dst)) for t in program.transfers if None not in (t.src, t.dst)]
    assert sorted(peers) == sorted(wanted)
    with vx.Session(program, {}, bound_to(backend, program)) as s:
        np.testing.assert_array_equal(s.run({"a": a, "b": b, "c": c})["out"], a - c)
        assert (backend.moved(first, second), backend.moved(second, first)) == (2 * 20, 20)


@pytest.mark.case("P02")
def test_p02_a_value_is_moved_once_to_each_place_that_reads_it():
    with vx.Graph("p02") as g:
        with vx.on(vx.CPU[0]):
            y = vx.relu(vx.input("x", vx.f32[4, 4]), name="y")
        w1 = vx.param("w1", vx.f32[4, 4])
        with vx.on(vx.CPU[1]):
            m1, m2 = vx.matmul(y, w1, name="m1"), vx.mul(y, y, name="m2")
            vx.output("m3", m1 + y)
            vx.output("m2", m2)
        with vx.on(vx.CPU[2]):
            vx.output("m4", -y)
        vx.output("y", y)
    placed = place_graph(g, X3)
    assert moved(placed) == {("x", "cpu:0"): 1, ("y", "cpu:1"): 1, ("y", "cpu:2"): 1, ("w1", "cpu:1"): 1}
    assert [n.inputs for n in placed.nodes if isinstance(n.op, ops.Download)].count(("y",)) == 1
    program, backend = vx.compile(g, X3), NumpyBackend()
    assert [t.nbytes for t in program.transfers if t.kind == "direct"] == [64, 64]
    x, w = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), np.eye(4, dtype=np.float32)[::-1].copy()
    relu = np.maximum(x, 0)
    with vx.Session(program, {"w1": w}, bound_to(backend, program)) as s:
        found = s.run({"x": x})
        places = [vx.CPU[k] for k in range(3)]
        between = {(a, b): backend.moved(a, b) for a, b in permutations(places, 2) if backend.moved(a, b)}
        assert between == {(vx.CPU[0], vx.CPU[1]): 64, (vx.CPU[0], vx.CPU[2]): 64}
    for name, value in {"m3": relu @ w + relu, "m2": relu * relu, "m4": -relu, "y": relu}.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.case("P02")
def test_p02_an_input_whose_only_reader_is_elsewhere_is_moved_once():
    with vx.Graph("p02b") as g:
        with vx.on(vx.CPU[0]):
            x = vx.input("x", vx.f32[4])
        with vx.on(vx.CPU[1]):
            vx.output("y", -x)
    placed = place_graph(g, X3)
    assert moved(placed) == {("x", "cpu:0"): 1, ("x", "cpu:1"): 1}
    assert [n.op.name for n in placed.nodes] == ["upload", "transfer_peer", "neg", "download"]
    program, backend = vx.compile(g, X3), NumpyBackend()
    with vx.Session(program, {}, bound_to(backend, program)) as s:
        np.testing.assert_array_equal(s.run({"x": np.arange(4, dtype=np.float32)})["y"], [0, -1, -2, -3])
        assert backend.moved(vx.CPU[0], vx.CPU[1]) == 16


@pytest.mark.case("P03")
def test_p03_a_loop_moves_each_step_only_what_changes():
    with vx.Graph("p03") as g:
        w0, w1 = vx.param("w0", vx.f32[8, 8]), vx.param("w1", vx.f32[8, 8])
        steps = vx.input("steps", vx.i32[()])
        with vx.on(vx.CPU[0]):
            bias = vx.exp(vx.input("bias", vx.f32[1, 8]))

        def body(h):
            with vx.on(vx.CPU[0]):
                h = h @ w0
            with vx.on(vx.CPU[1]):
                return (vx.softmax(h @ w1 + bias),)

        (last,), _ = vx.loop(body, [vx.input("h", vx.f32[1, 8])], max_steps=16, steps=steps)
        vx.output("h", last)
    eye, h = np.eye(8, dtype=np.float32), np.ones((1, 8), np.float32)
    program, backend = vx.compile(g, X3), NumpyBackend()
    ends = (None, vx.CPU[0], vx.CPU[1])
    with vx.Session(program, {"w0": eye, "w1": eye}, bound_to(backend, program)) as s:
        total = {}
        for n in (1, 10):
            before = {pair: backend.moved(*pair) for pair in permutations(ends, 2)}
            s.run({"steps": np.int32(n), "h": h, "bias": h})
            total[n] = {pair: backend.moved(*pair) - before[pair] for pair in before}
        assert [(u.param, u.count, u.nbytes) for u in s.report.uploads] == [("w0", 1, 256), ("w1", 1, 256)]
    assert {pair: total[10][pair] - nbytes for pair, nbytes in total[1].items() if total[10][pair] != nbytes} == {
        (vx.CPU[0], vx.CPU[1]): 9 * 32,
        (vx.CPU[1], vx.CPU[0]): 9 * 32,  # the next step begins where the weights are that it reads first
    }
    step = [t for t in program.transfers if t.when == "step"]
    assert [(t.kind, t.nbytes, t.count) for t in step] == [("direct", 32, 16), ("direct", 32, 16)]


@pytest.mark.case("P07")
def test_p07_a_place_that_the_machine_lacks_is_an_error_of_its_line():
    with vx.Graph("p07") as g:
        x = vx.input("x", vx.f32[4])
        with vx.on(vx.GPU[7]):
            y = vx.neg(x, name="y")
        vx.output("y", y)
    node = g.build().nodes[0]
    assert node.loc is not None
    with pytest.raises(PlacementError) as error:
        vx.compile(g, X3)
    line = test_p07_a_place_that_the_machine_lacks_is_an_error_of_its_line.__code__.co_firstlineno + 5
    assert str(error.value) == (
        f"{HERE}:{line}: %y is pinned to gpu:7, but machine cpu-x3 has cpu:0, cpu:1, cpu:2; "
        "pin it to one of these, or compile for a machine that has it"
    )


@pytest.mark.case("P07")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, p: vx.prefer(p), "%neg is hinted to gpu:7"),
        (lambda x, p: x.to(p), "%to is sent to gpu:7"),
        (lambda x, p: vx.on(p), "%neg is pinned to gpu:7"),
    ],
)
def test_p07_hints_and_sends_and_bodies_are_checked_too(make, message: str):
    def body(a):
        context = make(a, vx.GPU[7])
        if isinstance(context, vx.Value):
            return (context,)
        with context:
            return (-a,)

    with vx.Graph("p07") as g:
        vx.output("y", vx.loop(body, [vx.input("x", vx.f32[4])], max_steps=2)[0][0])
    with pytest.raises(PlacementError) as error:
        vx.compile(g, X3)
    assert error.value.message.startswith(message + ", but machine cpu-x3 has cpu:0, cpu:1, cpu:2; ")
    assert error.value.loc is not None


@pytest.mark.case("P07")
def test_p07_an_input_pinned_to_a_place_that_the_machine_lacks_is_refused():
    with vx.Graph("p07") as g, vx.on(vx.NPU[0]):
        vx.output("y", vx.param("w", vx.f32[4]) + vx.input("x", vx.f32[4]))
    with pytest.raises(PlacementError, match="%x is pinned to npu:0, but machine cpu-x3 has"):
        vx.compile(g, X3)


@pytest.mark.case("P08")
def test_p08_a_generated_name_avoids_a_users():
    with vx.Graph("p08") as g:
        with vx.on(vx.CPU[0]):
            h = vx.neg(vx.input("x", vx.f32[4]), name="h")
        with vx.on(vx.CPU[1]):
            mine = vx.exp(h, name="h.cpu1")
            vx.output("y", mine)
            vx.output("h.host", h + 1)
    placed = place_graph(g, X3)
    names = [n.name for n in placed.nodes]
    assert [n for n in names if n.startswith("h")] == ["h", "h.cpu1.1", "h.cpu1", "h.cpu1.host"]
    assert (placed.node("h.cpu1").op, placed.node("h.cpu1").inputs) == (ops.Exp(), ("h.cpu1.1",))
    assert not any("0x" in n for n in names)


@pytest.mark.case("P08")
def test_p08_two_nodes_of_one_name_are_refused_with_both_their_lines():
    with vx.Graph("p08") as g:
        x = vx.input("x", vx.f32[4])
        vx.neg(x, name="mm")
        with pytest.raises(vx.GraphError) as error:
            vx.exp(x, name="mm")
        assert [n.name for n in g.build().nodes] == ["mm"]
    first = test_p08_two_nodes_of_one_name_are_refused_with_both_their_lines.__code__.co_firstlineno + 4
    assert str(error.value) == (
        f"{HERE}:{first + 2}: the name %mm is used twice; give one of the two another name=\n"
        f"  first used at {HERE}:{first}"
    )


@pytest.mark.case("P08")
@pytest.mark.parametrize(
    "lines",
    [
        "%n0 = neg(%x) : f32[4] @cpu:0 %n1 = neg(%n2) : f32[4] @cpu:0 %n2 = neg(%n1) : f32[4] @cpu:0",
        "%n1 = add(%x, %n1) : f32[4] @cpu:0",
        "%n1 = neg(%n2) : f32[4] @cpu:0 %n2 = neg(%n1) : f32[4] @cpu:1",
    ],
)
def test_p08_a_text_with_a_cycle_is_no_graph(lines: str):
    with pytest.raises(vx.GraphError, match=r"the graph has a cycle: %n1 -> (%n2 -> )?%n1$"):
        parse_graph(f'graph "p08" {{ arg %x : f32[4] {lines} result "y" = %n1 }}')


@pytest.mark.case("P08")
def test_p08_a_graph_with_a_cycle_is_not_compiled():
    straight = parse_graph('graph "p08" { arg %x : f32[4] %n1 = neg(%x) : f32[4] %n2 = exp(%n1) : f32[4] }')
    broken = replace(straight, nodes=tuple(replace(n, inputs=(straight.nodes[1].name,)) for n in straight.nodes))
    with pytest.raises(vx.GraphError, match="the graph has a cycle: %n2 -> %n2"):
        vx.compile(broken, X3)


@pytest.mark.case("P08")
def test_p08_a_schedule_has_every_node_of_its_graph():
    graph = p09(tuple(range(8))).build()
    with vx.Graph("p08") as g:
        x = vx.input("x", vx.f32[2, 2])
        for k in range(20):
            with vx.on(vx.CPU[k % 3]):
                x = vx.softmax(x @ x, name=f"s{k}")  # neither is fused or folded
        vx.output("y", x)
    for each in (graph, g.build()):
        program = vx.compile(each, X3)
        placed = place_graph(each, X3)
        assert len(program.body) == len(placed.nodes)
        assert {name for n in placed.nodes for name in n.outputs} == {i.name for i in program.body}
    names = [n.name for n in placed.nodes if n.op.name in ("matmul", "softmax")]
    assert len(names) == len(g.build().nodes) == 40
    assert not any(re.search(r"\d{4}", name) for name in names)  # no part of an address


def p09(order: tuple[int, ...]) -> vx.Graph:
    with vx.Graph("p09") as g:
        x = vx.input("x", vx.f32[4])
        with vx.on(vx.CPU[0]):
            root = vx.neg(x, name="root")
        branches = {}
        for k in order:
            with vx.on(vx.CPU[k % 3]):
                branches[k] = vx.add(root, float(k), name=f"b{k}")
        with vx.on(vx.CPU[0]):
            total = branches[0]
            for k in range(1, 8):
                total = total + branches[k]
            vx.output("y", total)
    return g


@pytest.mark.case("P09")
def test_p09_the_text_does_not_depend_on_the_hash_seed():
    build = inspect.getsource(p09)
    code = f"""import vxgraph as vx
from vxgraph.program.compile import place_graph
from vxgraph.tools.draw.dot import to_dot
from vxgraph.tools.draw.walk import sketch_program
{build}
graph, machine = p09(tuple(range(8))).build(), vx.load_machine('cpu-x3')
program = vx.compile(graph, machine)
print(graph.text(), place_graph(graph, machine).text(), program.text(), to_dot(sketch_program(program)))
"""

    def text(seed: int) -> str:
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True).stdout

    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(text, range(20)))
    assert len(texts) == 1
    assert "transfer_peer" in texts.pop()


@pytest.mark.case("P09")
def test_p09_the_order_of_insertion_changes_no_transfer_and_no_bit():
    """The sum is over the branches by their names: its order is the graph's, not that of insertion."""
    x = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    one = p09(tuple(range(8)))
    wanted = interpret(one, {"x": x}, {})["y"].tobytes()
    backwards = [np.float32(k) - x for k in reversed(range(8))]
    assert np.add.accumulate(backwards)[-1].tobytes() != wanted  # an order shows
    texts = set()
    for seed in range(20):
        order = tuple(np.random.default_rng(seed).permutation(8).tolist())
        other = p09(order)
        assert moved(place_graph(other, X3)) == moved(place_graph(one, X3))
        program = vx.compile(other, X3)
        assert {(t.value, t.src, t.dst) for t in program.transfers} == {
            (t.value, t.src, t.dst) for t in vx.compile(one, X3).transfers
        }
        with vx.Session(program, bind="numpy") as s:
            assert s.run({"x": x})["y"].tobytes() == wanted
        texts.add(program.digest)
    assert len(texts) > 10  # the orders do differ


def chain(n: int) -> Graph:
    with vx.Graph("p10") as g:
        x = vx.input("x", vx.f32[4])
        with vx.on(vx.CPU[0]):
            one = vx.constant(1.0)
        for k in range(n):
            with vx.on(vx.CPU[k // 1000 % 2]):
                x = x + one
        vx.output("y", x)
    return g.build()


@pytest.mark.case("P10")
def test_p10_a_chain_of_20000_nodes_compiles_under_the_default_recursion_limit():
    assert sys.getrecursionlimit() == 1000
    graph = chain(20_000)
    assert parse_graph(graph.text()) == graph
    assert to_dot(sketch_graph(graph)).count("\n") > 20
    program = vx.compile(graph, X3)
    assert sum(isinstance(i, TransferPeer) for i in program.body) == 19
    assert vx.parse_program(program.text()) == program
    with vx.Session(program, bind="numpy") as s:
        np.testing.assert_array_equal(s.run({"x": np.zeros(4, np.float32)})["y"], np.full(4, 20_000, np.float32))


@pytest.mark.case("P10")
def test_p10_twice_the_chain_is_twice_the_work():
    half, whole = chain(3_000), chain(6_000)
    assert calls(lambda: place_graph(whole, X3)) < 2.2 * calls(lambda: place_graph(half, X3))


@pytest.mark.case("D03")
def test_d03_a_layout_met_with_another_is_refused_though_the_sizes_are_equal():
    tokens, heads = vx.Dim("Tok", 4), vx.Dim("KV", 4)
    with vx.Graph("d03"), vx.on(vx.CPU[0]):
        rows = vx.input("rows", vx.f32[tokens, heads, 8])
        with vx.on(vx.CPU[1]):
            cache, here = vx.cache_init(vx.f32[heads, tokens, 8]), rows.to(vx.CPU[1])
            with pytest.raises(vx.GraphError) as error:
                vx.cache_append(cache, here, vx.constant(0))
    assert "Tok=4 met KV=4; transpose one of them" in str(error.value)


@pytest.mark.case("D03")
def test_d03_a_cache_of_another_layout_and_dtype_is_converted_by_the_nodes_that_say_so():
    tokens, heads = vx.Dim("Tok", 4), vx.Dim("KV", 4)
    with vx.Graph("d03") as g:
        rows = vx.input("rows", vx.f16[tokens, heads, 8])
        with vx.on(vx.CPU[0]):
            rows = vx.transpose(rows, [1, 0, 2])
        with vx.on(vx.CPU[1]):
            cache = vx.cache_append(vx.cache_init(vx.f32[heads, tokens, 8]), rows.cast(vx.f32), vx.constant(0))
            vx.output("cache", cache)
    program, backend = vx.compile(g, X3), NumpyBackend()
    rows = np.random.default_rng(0).standard_normal((4, 4, 8)).astype(np.float16)
    with vx.Session(program, {}, bound_to(backend, program), audit=True) as s:
        found = s.run({"rows": rows})["cache"]
        assert backend.moved(vx.CPU[0], vx.CPU[1]) == rows.nbytes
    np.testing.assert_array_equal(found, rows.astype(np.float32).transpose(1, 0, 2))


@pytest.mark.case("D03")
def test_d03_a_dtype_met_with_another_is_refused():
    with vx.Graph("d03"), vx.on(vx.CPU[0]):
        rows = vx.input("rows", vx.f16[4, 8])
        with vx.on(vx.CPU[1]), pytest.raises(vx.GraphError) as error:
            vx.cache_append(vx.cache_init(vx.f32[16, 8]), rows, vx.constant(0))
    assert "f32[16, 8] and f16[4, 8] differ in dtype; cast one of them: x.cast(vx.f32)" in str(error.value)


def test_strict_placement_lists_every_node_without_a_pin():
    with vx.Graph("strict") as g:
        x = vx.input("x", vx.f32[4])
        with vx.on(vx.CPU[0]):
            y = x + 1.0
        for _ in range(9):
            y = -y
        with vx.prefer(vx.CPU[1]):
            vx.output("y", vx.exp(y))
    line = test_strict_placement_lists_every_node_without_a_pin.__code__.co_firstlineno + 6
    with pytest.raises(PlacementError) as error:
        vx.compile(g, X3, place="strict")
    shown = [f"  {HERE}:{line}: %neg{f'.{k}' if k else ''} = neg" for k in range(8)]
    assert str(error.value) == "\n".join(
        [
            "strict placement: 10 node(s) of graph 'strict' have no pin; "
            "put them under vx.on(...), or compile with place='auto'",
            *shown,
            "  and 2 more",
        ]
    )


def test_strict_placement_takes_a_graph_whose_every_node_is_pinned():
    with vx.Graph("strict") as g, vx.on(vx.CPU[1]):
        x = vx.input("x", vx.f32[4])
        (y,), _ = vx.loop(lambda a: (a * 2.0,), [x], max_steps=3)
        vx.output("y", y.to(vx.CPU[2]))
    placed = place_graph(g, X3, place="strict")
    assert {str(n.place) for _, n in placed.walk() if n.op.name == "mul"} == {"cpu:1"}


def test_a_symbol_that_no_arg_gives_a_size_is_refused():
    with vx.Graph("sizeless") as g:
        vx.output("n", vx.size(vx.Dim("S", max=4)))
    with pytest.raises(vx.GraphError) as error:
        vx.compile(g, X3)
    assert str(error.value) == "dim S of graph 'sizeless' has no size at run time: no arg has it in its type"


def test_results_that_are_inputs_move_nothing():
    with vx.Graph("through") as g:
        vx.output("x", vx.input("x", vx.f32[4]))
        vx.output("w", vx.param("w", vx.f32[4]))
    assert place_graph(g, X3).nodes == ()


def test_a_param_is_a_replica_wherever_it_is_read_and_never_a_peer_transfer():
    with vx.Graph("replicas") as g:
        with vx.on(vx.CPU[0]):
            w = vx.param("w", vx.f32[4])
        x = vx.input("x", vx.f32[4])
        for k in range(3):
            with vx.on(vx.CPU[k]):
                vx.output(f"y{k}", x * w)
    found = [(n.op.name, n.inputs, str(n.place)) for n in place_graph(g, X3).nodes if n.inputs == ("w",)]
    assert found == [("upload", ("w",), f"cpu:{k}") for k in range(3)]
    loads = [t for t in vx.compile(g, X3).transfers if t.when == "load"]
    assert [(t.value, str(t.dst)) for t in loads] == [("w", "cpu:0"), ("w", "cpu:1"), ("w", "cpu:2")]


def test_a_node_that_reads_a_pinned_param_runs_where_the_param_is():
    with vx.Graph("draws") as g:
        with vx.on(vx.CPU[2]):
            w = vx.param("w", vx.f32[4, 4])
        vx.output("y", vx.input("x", vx.f32[1, 4]) @ w)
    assert str(place_graph(g, X3).node("matmul").place) == "cpu:2"
