"""What `verify` says to a graph that breaks a rule: the whole message, with the line of the text."""

from __future__ import annotations

import pytest

import vxgraph as vx
from tests.ir.test_graph_text import nested
from vxgraph import ops
from vxgraph.errors import GraphError, Loc
from vxgraph.ir.graph import Graph, Input, Node, Result
from vxgraph.ir.text import parse_graph
from vxgraph.ir.verify import verify

BODY = """ body "b" {
    arg %s : f32[4]
    %n = neg(%s) : f32[4]
    LINE
    result "s" = %n
  } : f32[4], i32[]"""


def loop(line: str = "", head: str = "%o, %k = loop(%x) {carried = 1, max_steps = 3}") -> str:
    return head + BODY.replace("LINE", line)


MISTAKES = {
    "a value defined twice": (
        "%a = neg(%x) : f32[4]\n  %a = exp(%x) : f32[4]",
        "m.vxg:4: %a is defined twice",
    ),
    "an input's name taken again": ("%x = neg(%x) : f32[4]", "m.vxg:3: %x is defined twice"),
    "a name of the graph taken in a loop's body": (
        "%n = neg(%x) : f32[4]\n  " + loop(),
        "m.vxg:6: %n is defined twice",
    ),
    "an operand that is nowhere": ("%a = neg(%b) : f32[4]", "m.vxg:3: %a: operand %b is not defined"),
    "a body that reads around its args": (
        loop("%m = add(%s, %x) : f32[4]"),
        "m.vxg:6: %m: operand %x is not defined",
    ),
    "a line that stands too early": (
        "%a = neg(%b) : f32[4]\n  %b = neg(%x) : f32[4]",
        "m.vxg:3: %a: operand %b is defined after it; put its line first",
    ),
    "a node on itself": ("%a = neg(%a) : f32[4]", "m.vxg:3: the graph has a cycle: %a -> %a"),
    "a node beside a cycle without a root": (
        "%n0 = neg(%x) : f32[4]\n  %n1 = neg(%n2) : f32[4]\n  %n2 = neg(%n1) : f32[4]",
        "m.vxg:4: the graph has a cycle: %n1 -> %n2 -> %n1",
    ),
    "a cycle that crosses devices": (
        "%a = neg(%c) : f32[4] @gpu:0\n  %b = add(%x, %a) : f32[4] @gpu:1\n  %c = neg(%b) : f32[4] @gpu:0",
        "m.vxg:3: the graph has a cycle: %a -> %c -> %b -> %a",
    ),
    "a node that leads to a cycle": (
        "%a = neg(%b) : f32[4]\n  %b = neg(%c) : f32[4]\n  %c = neg(%b) : f32[4]",
        "m.vxg:3: the graph has a cycle: %b -> %c -> %b",
    ),
    "a cycle in a loop's body": (
        loop("%p = neg(%q) : f32[4]\n    %q = neg(%p) : f32[4]"),
        "m.vxg:6: the graph has a cycle: %p -> %q -> %p",
    ),
    "a type that the op does not give": (
        "%a = neg(%x) : f32[5]",
        "m.vxg:3: %a: neg gives f32[4], but the graph says f32[5]",
    ),
    "operands that do not fit": (
        "%a = matmul(%x, %x) : f32[4]",
        "m.vxg:3: matmul: wanted [..., M, K] @ [..., K, N], found f32[4] @ f32[4]\n  operands: %x: f32[4], %x: f32[4]",
    ),
    "too many operands": ("%a = neg(%x, %x) : f32[4]", "m.vxg:3: neg: found 2 operands, wanted 1"),
    "too few operands": ("%a = add(%x) : f32[4]", "m.vxg:3: add: found 1 operands, wanted 2"),
    "an optional operand too many": (
        "%a = cache_init(%x, %x) {type = f32[4]} : f32[4]",
        "m.vxg:3: cache_init: found 2 operands, wanted 0 to 1",
    ),
    "too many names": ("%a, %b = neg(%x) : f32[4]", "m.vxg:3: %a: 2 names, but 1 types"),
    "too few names": (
        loop(head="%o = loop(%x) {carried = 1, max_steps = 3}"),
        "m.vxg:3: %o: 1 names, but 2 types",
    ),
    "too many names in a loop's body": (
        loop("%p, %q = neg(%s) : f32[4]"),
        "m.vxg:6: %p: 2 names, but 1 types",
    ),
    "a type too many": ("%a = neg(%x) : f32[4], f32[4]", "m.vxg:3: %a: 1 names, but 2 types"),
    "results that the op does not have": (
        "%a, %b = neg(%x) : f32[4], f32[4]",
        "m.vxg:3: %a: neg gives f32[4], but the graph says f32[4], f32[4]",
    ),
    "a loop that carries more than its body": (
        loop(head="%o, %k = loop(%x) {carried = 2, max_steps = 3}"),
        "m.vxg:3: loop: the body has 1 args and 1 results for 2 carried values\n  operands: %x: f32[4]",
    ),
    "a loop without steps": (
        loop(head="%o, %k = loop(%x) {carried = 1, max_steps = 0}"),
        "m.vxg:3: loop: max_steps is 0, wanted 1 or more\n  operands: %x: f32[4]",
    ),
    "a loop whose limit is no count": (
        loop(head="%o, %k = loop(%x, %x) {carried = 1, max_steps = 3, limited = true}"),
        "m.vxg:3: loop: the limit is f32[4], wanted i32[]\n  operands: %x: f32[4], %x: f32[4]",
    ),
    "a result that is nowhere": ('result "y" = %b', "result 'y' names %b, which graph 'g' does not define"),
    "an emit that is nowhere": ('emit "y" = %b', "emit 'y' names %b, which graph 'g' does not define"),
    "a result given twice": ('result "y" = %x\n  result "y" = %x', "result 'y' is given twice"),
    "an emit of two types": (
        "%s0 = sum(%x) {axis = 0, keepdims = false} : f32[]\n  " + loop('emit "y" = %n') + '\n  emit "y" = %s0',
        "m.vxg:6: emit 'y' is f32[4] here and f32[] elsewhere; a name has one type",
    ),
    "an emit with a result's name": (
        loop('emit "y" = %s') + '\n  result "y" = %x',
        "'y' is a result and an emit; a run hands out one thing under a name",
    ),
    "a result of a body's value": (
        loop() + '\n  result "y" = %n',
        "result 'y' names %n, which graph 'g' does not define",
    ),
}


@pytest.mark.case("P08")
@pytest.mark.parametrize("what", MISTAKES)
def test_a_graph_that_breaks_a_rule_is_refused(what: str):
    lines, message = MISTAKES[what]
    with pytest.raises(GraphError) as error:
        parse_graph(f'graph "g" {{\n  arg %x : f32[4]\n  {lines}\n}}\n', "m.vxg")
    assert str(error.value) == message


@pytest.mark.case("P10")
@pytest.mark.case("P08")
def test_a_cycle_of_ten_thousand_nodes_is_named_without_recursion():
    n = 10_000
    nodes = tuple(Node(ops.Neg(), (f"v{(k + 1) % n}",), (f"v{k}",), (vx.f32[4],), loc=Loc("m.py", k)) for k in range(n))
    with pytest.raises(GraphError) as error:
        verify(Graph("g", nodes=nodes))
    assert str(error.value) == "m.py:0: the graph has a cycle: " + " -> ".join(f"%v{k % n}" for k in range(n + 1))


def test_one_name_means_one_dim_in_a_graph_and_its_bodies():
    short, long = vx.Dim("T", max=4), vx.Dim("T", max=8)
    g = Graph("g", (Input("x", vx.f32[short]),), nodes=(Node(ops.Size(long), (), ("n",), (vx.i32[()],)),))
    with pytest.raises(GraphError) as error:
        verify(g)
    assert str(error.value) == (
        "dim T is declared twice: Dim(name='T', size=None, max=4, min=0) and Dim(name='T', size=None, max=8, min=0)"
    )


def test_loops_deeper_than_the_limit_are_refused():
    verify(nested(32))
    with pytest.raises(GraphError) as error:
        verify(nested(33))
    assert str(error.value) == "loops are nested more than 32 deep"


def test_a_graph_names_the_node_that_it_lacks():
    g = Graph("g", (Input("x", vx.f32[4]),), results=(Result("y", "x"),))
    with pytest.raises(GraphError) as error:
        g.node("x")
    assert str(error.value) == "graph 'g' has no node that defines %x"


def test_a_reader_of_a_value_twice_is_one_consumer():
    g = parse_graph('graph "g" { arg %x : f32[4] %a = mul(%x, %x) : f32[4] %b = neg(%x) : f32[4] }')
    assert [n.name for n in g.consumers["x"]] == ["a", "b"]
    assert g.consumers["b"] == ()
