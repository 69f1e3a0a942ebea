"""The compiler's front: what it refuses and how, that it is linear in nodes, and gives the same bytes always."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings

import vxgraph as vx
from tests.program.interpret import interpret
from tests.program.samples import SAMPLES, A, B
from tests.strategies import PLACES, arrays, graphs
from tests.work import calls
from vxgraph.errors import GraphError, InternalError, MachineError, PlacementError
from vxgraph.ir import graph as ir
from vxgraph.program import compile as compiler

ROOT = Path(__file__).parents[2]


def line_of(graph: vx.Graph, name: str) -> str:
    return str(graph.build().node(name).loc)


def test_a_place_that_the_machine_lacks_is_refused_with_the_node_s_line() -> None:
    with vx.Graph("g") as graph, vx.on(vx.GPU[7]):
        vx.output("y", vx.neg(vx.input("x", vx.f32[4])))
    machine = vx.load_machine("h200-x2")
    with pytest.raises(PlacementError) as error:
        vx.compile(graph, machine)
    assert str(error.value).startswith(f"{line_of(graph, 'neg')}: ")
    assert "gpu:7" in str(error.value)
    assert "cpu:0, gpu:0, gpu:1" in str(error.value)


def test_strict_wants_every_node_pinned_and_auto_does_not() -> None:
    with vx.Graph("g") as graph:
        y = vx.neg(vx.input("x", vx.f32[4]))
        with vx.on(A):
            vx.output("y", vx.exp(y))
    machine = vx.load_machine("h200-x2")
    with pytest.raises(PlacementError) as error:
        vx.compile(graph, machine, place="strict")
    assert str(error.value) == (
        "strict placement: 1 node(s) of graph 'g' have no pin; put them under vx.on(...), "
        "or compile with place='auto'\n"
        f"  {line_of(graph, 'neg')}: %neg = neg"
    )
    assert vx.compile(graph, machine).topologies == (A,)


def test_a_symbol_that_no_arg_gives_a_size_is_refused() -> None:
    with vx.Graph("g") as graph, vx.on(A):
        vx.output("y", vx.iota(vx.Dim("T", max=8)))
    with pytest.raises(GraphError) as error:
        vx.compile(graph, vx.load_machine("h200"))
    assert "dim T of graph 'g' has no size at run time: no arg has it in its type" in str(error.value)


def test_a_param_of_a_size_that_only_a_run_has_is_refused() -> None:
    t = vx.Dim("T", max=4)
    with vx.Graph("g") as graph:
        w = vx.param("w", vx.f32[t, 4])
        vx.output("y", vx.input("x", vx.f32[t, 4]) + w)
    with pytest.raises(GraphError) as error:
        vx.compile(graph, vx.load_machine("cpu"))
    assert str(error.value) == (
        f"{graph.build().params[0].loc}: param %w is f32[T, 4], but it is made resident before a run gives T its size; "
        "give it fixed dims, or make it an input"
    )


def test_a_broken_graph_is_refused_before_any_pass() -> None:
    x = ir.Input("x", vx.f32[4])
    broken = ir.Graph("g", (x,), results=(ir.Result("y", "nothing"),))
    with pytest.raises(GraphError) as error:
        vx.compile(broken, vx.load_machine("h200"))
    assert str(error.value) == "result 'y' names %nothing, which graph 'g' does not define"


def test_a_plan_that_does_not_prove_is_our_fault_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "schedule", lambda lowered: None)
    with pytest.raises(InternalError) as error:
        SAMPLES["mlp"].program()
    assert str(error.value).startswith("the plan of 'mlp' does not prove: tests/program/samples.py:")


def island(tmp_path: Path) -> vx.Machine:
    """Two devices, of which the second has no link at all."""
    memory = """
[[memory]]
name = "{0}"
capacity = {{ mib = 1, from = "policy" }}
bandwidth = {{ gb_per_s = 100, from = "policy" }}
granule = {{ kib = 4, from = "spec" }}
reserved = {{ bytes = 0, from = "policy" }}
"""
    device = """
[[device]]
topology = "{0}"
memory = "{1}"
reads = ["{1}"]
flops.f32 = {{ gflop_per_s = 50, from = "policy" }}
"""
    link = """
[[link]]
src = "host"
dst = "near"
both_ways = true
bandwidth = { gb_per_s = 16, from = "policy" }
latency = { us = 8, from = "policy" }
"""
    text = 'host = "host"\n' + "".join(map(memory.format, ("host", "near", "far")))
    text += device.format("gpu:0", "near") + device.format("gpu:1", "far") + link
    (tmp_path / "island.toml").write_text(text)
    return vx.load_machine(str(tmp_path / "island.toml"))


def test_a_transfer_that_no_path_carries_is_refused_with_the_links_there_are(tmp_path: Path) -> None:
    machine = island(tmp_path)
    with pytest.raises(MachineError) as error:
        vx.compile(SAMPLES["staged"].graph(), machine)
    assert (
        str(error.value)
        .splitlines()[0]
        .endswith(
            f"island: no path from gpu:0 to gpu:1: {machine.source} has no [[link]] from near to far, nor a way round"
        )
    )


# The same bytes, always.

HASH = """
import hashlib, vxgraph as vx
from examples.llama2.model import disaggregated, pipeline
machine = vx.load_machine("h200-x2")
texts = [vx.compile(build(machine, model="smollm2-135m"), machine).text() for build in (disaggregated, pipeline)]
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""


def test_the_hash_seed_changes_no_byte_of_llama_s_programs() -> None:
    found = set()
    for seed in ("0", "1", "4242"):
        run = subprocess.run(
            [sys.executable, "-c", HASH],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout.strip())
    assert len(found) == 1
    assert len(found.pop()) == hashlib.sha256().digest_size * 2


# Time.


def chain(nodes: int) -> vx.Graph:
    """A chain of matrix products that changes places, with a param now and then."""
    with vx.Graph("chain") as graph:
        x, w = vx.input("x", vx.f32[4, 4]), vx.param("w", vx.f32[4, 4])
        for k in range(nodes):
            with vx.on((A, B)[k // 50 % 2]):
                x = x @ w if k % 2 else vx.softmax(x)
        vx.output("y", x)
    return graph


def fan(nodes: int) -> vx.Graph:
    """Many values alive together, summed up in the end."""
    with vx.Graph("fan") as graph:
        x = vx.input("x", vx.f32[4, 4])
        with vx.on(A):
            values = [vx.softmax(x + k) for k in range(nodes // 3)]
            total = values[0]
            for v in values[1:]:
                total = total @ v
        vx.output("y", total)
    return graph


@pytest.mark.parametrize("build", [chain, fan])
def test_twice_the_nodes_take_about_twice_the_work(build: Callable[[int], vx.Graph]) -> None:
    machine = vx.load_machine("h200-x2")

    def work(nodes: int) -> int:
        graph = build(nodes).build()
        return calls(lambda: vx.compile(graph, machine))

    assert work(2000) < 2.2 * work(1000)


# Any graph.


def compiled(graph: ir.Graph) -> vx.Program | None:
    """The program; None where a param is handed to the host, which test_lower has the message of."""
    try:
        return vx.compile(graph, vx.load_machine("cpu-x3"))
    except GraphError as error:
        if "which a run has on devices only" in str(error):
            return None
        raise


@given(graphs(places=PLACES))
@settings(max_examples=40, deadline=None)
def test_any_graph_that_compiles_computes_what_its_ops_mean(graph: ir.Graph) -> None:
    program = compiled(graph)
    assume(program is not None)
    inputs, params = arrays(graph)
    with np.errstate(all="ignore"):
        wanted = interpret(graph, inputs, params)
    with vx.Session(program, params, bind="numpy", audit=True) as session:
        found = session.run(inputs)
        assert session.report.conforms()
    for name, value in wanted.items():
        np.testing.assert_allclose(
            found[name].astype(np.float64),
            value.astype(np.float64),
            rtol=2e-2 if value.itemsize < 4 else 1e-4,
            atol=1e-5,
        )
