"""`parse_graph(g.text()) == g`, and what the parser says to a text that is no graph."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import vxgraph as vx
from tests.strategies import T, graphs, texts
from vxgraph import ops
from vxgraph.errors import Loc, VxError
from vxgraph.ir.graph import Graph, Input, Node, Result
from vxgraph.ir.lexer import Reader, quote
from vxgraph.ir.text import parse_graph, print_graph

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@given(texts())
@QUICK
def test_a_graph_reads_back_from_its_text(g: Graph):
    text = g.text()
    again = parse_graph(text)
    assert again == g
    assert again.text() == text  # -0.0, reasons and lines compare equal where they differ; the text tells them apart
    text.encode()


@given(st.text(st.characters()))
@example('a"b\\n\n\t\x00\u2028\ud800é')
def test_a_string_reads_back_and_can_be_saved(text: str):
    token = quote(text)
    assert "\n" not in token
    token.encode()
    assert Reader(token, "s").string("a string") == text


def constants(values: list[float]) -> Graph:
    node = Node(ops.Constant(vx.f32[len(values)], tuple(values)), (), ("c",), (vx.f32[len(values)],))
    return Graph("g", nodes=(node,), results=(Result("c", "c"),))


def test_a_constants_text_keeps_infinities_nan_and_the_sign_of_zero():
    g = constants([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, 0.1])
    assert "values = [0.0, -0.0, inf, -inf, nan, 1e-45, 0.1]" in g.text()
    (node,) = parse_graph(g.text()).nodes
    assert isinstance(node.op, ops.Constant)
    assert [math.copysign(1, v) for v in node.op.values[:2]] == [1, -1]
    assert parse_graph(g.text()) == g


def test_a_numpy_float_prints_as_a_number():
    import numpy as np

    node = Node(ops.RmsNorm(eps=np.float64(1e-5)), ("x", "w"), ("y",), (vx.f32[2, 4],))
    g = Graph("g", (Input("x", vx.f32[2, 4]), Input("w", vx.f32[4])), nodes=(node,))
    assert "{eps = 1e-05}" in g.text()
    assert parse_graph(g.text()) == g


HEAD = 'graph "g" {\n  dim T <= 8 min 1\n  arg %x : f32[T, 4]\n  param %w : f32[4, 4]\n'
MISTAKES = {
    "": "m.vxg:1: expected 'graph' after the start, found 'the end of the text'",
    "graph g": "m.vxg:1: expected the graph's name, found 'g'",
    'graph "g"': "m.vxg:1: expected '{' after the graph's name, found 'the end of the text'",
    'graph "g" {\n': "m.vxg:2: expected '}' after the graph's lines, found 'the end of the text'",
    'graph "g" {\n}\nrest': "m.vxg:3: expected the end after the graph, found 'rest'",
    'graph "g" {\n  dim T <= 8 min 1\n  dim T = 3\n}': "m.vxg:3: dim T is declared twice",
    'graph "g" {\n  dim T <= 8\n}': "m.vxg:3: expected 'min' after dim T's largest size, found '}'",
    'graph "g" {\n  dim T = 1.5\n}': "m.vxg:2: expected the dim's size, found '1.5'",
    'graph "g" {\n  dim f32 = 3\n}': (
        "m.vxg:2: Dim('f32'): a dim's name is an identifier, no dtype and none of false, inf, nan, none, true"
    ),
    'graph "g" {\n  dim T <= 3 min 4\n}': "m.vxg:2: Dim('T'): 4 to 3 is no range of sizes",
    'graph "g" {\n  arg x : f32[4]\n}': "m.vxg:2: expected a value like %x, found 'x'",
    'graph "g" {\n  arg %x f32[4]\n}': "m.vxg:2: expected ':' after %x, found 'f32'",
    'graph "g" {\n  arg %x : f64[4]\n}': "m.vxg:2: f64 is no dtype; there are f32, f16, bf16, i8, i32, i64, u8, bool",
    'graph "g" {\n  arg %x : f32[S]\n}': ("m.vxg:2: dim S is not declared; add a line 'dim S = SIZE' at the head"),
    'graph "g" {\n  arg %x : f32[-1]\n}': "m.vxg:2: -1 is no dim; wanted an int of 0 or more, or a vxgraph.Dim",
    'graph "g" {\n  arg %x : f32[99999999999999999999999]\n}': (
        "m.vxg:2: a dim's name or size is at most 18446744073709551616, found 99999999999999999999999..."
    ),
    'graph "g" {\n  arg %x : f32[9999999999999999999]\n}': (
        "m.vxg:2: f32[9999999999999999999] is too large: a tensor has at most 32 dims and 9223372036854775807 bytes"
    ),
    'graph "g" {\n  arg %x : f32[4] @gpu:100\n}': ("m.vxg:2: gpu:100 is outside its band; indices run from 0 to 99"),
    'graph "g" {\n  arg %x : f32[4] @gpu\n}': "m.vxg:2: expected a topology like gpu:0, found 'gpu'",
    'graph "g" {\n  arg %x : f32[4] loc "here"\n}': "m.vxg:2: 'here' is no file:line",
    'graph "g" {\n  arg %x : f32[4] loc "a.py:²"\n}': "m.vxg:2: 'a.py:²' is no file:line",
    'graph "g" {\n  arg %x. : f32[4]\n}': "m.vxg:2: unexpected character '.'",
    'graph "g\n': "m.vxg:1: unexpected character '\"'",
    'graph "\\q"': 'm.vxg:1: "\\q" has an escape that JSON does not know',
    HEAD + "  %y = gelu2(%x) : f32[T, 4]\n}": "m.vxg:5: there is no op 'gelu2'",
    HEAD + "  %y = gelu %x : f32[T, 4]\n}": "m.vxg:5: expected '(' after gelu, found '%x'",
    HEAD + "  %y = gelu(%x : f32[T, 4]\n}": "m.vxg:5: expected ')' after gelu's operands, found ':'",
    HEAD + "  %y gelu(%x) : f32[T, 4]\n}": "m.vxg:5: expected '=' after %y, found 'gelu'",
    HEAD + "  %y = gelu(%x)\n}": "m.vxg:6: expected ':' after gelu's operands, found '}'",
    HEAD + "  %y = gelu(%x) : \n}": "m.vxg:6: expected a type like f32[4, 64], found '}'",
    HEAD + "  %y = softmax(%x) {axis = 0.5} : f32[T, 4]\n}": "m.vxg:5: softmax: attribute axis is int, found 0.5",
    HEAD + "  %y = softmax(%x) {axis = true} : f32[T, 4]\n}": "m.vxg:5: softmax: attribute axis is int, found True",
    HEAD + "  %y = softmax(%x) {ax = 0} : f32[T, 4]\n}": "m.vxg:5: softmax has no attribute 'ax'; it has axis",
    HEAD + "  %y = gelu(%x) {ax = 0} : f32[T, 4]\n}": "m.vxg:5: gelu has no attribute 'ax'; it has none",
    HEAD + "  %y = softmax(%x) {axis = 0, axis = 0} : f32[T, 4]\n}": (
        "m.vxg:5: softmax: attribute 'axis' is given twice"
    ),
    HEAD + "  %y = softmax(%x) {axis 0} : f32[T, 4]\n}": "m.vxg:5: expected '=' after axis, found '0'",
    HEAD + "  %y = softmax(%x) {axis = 0 : f32[T, 4]\n}": (
        "m.vxg:5: expected '}' after softmax's attributes, found ':'"
    ),
    HEAD + "  %y = rmsnorm(%x, %w) : f32[T, 4]\n}": "m.vxg:5: rmsnorm: attribute 'eps' is missing",
    HEAD + "  %y = rmsnorm(%x, %w) {eps = -1} : f32[T, 4]\n}": "m.vxg:5: rmsnorm: eps is 0 or more, found -1",
    HEAD + "  %y = transpose(%x) {perm = [1.0, 0]} : f32[4, T]\n}": (
        "m.vxg:5: transpose: attribute perm is tuple[int, ...], found (1.0, 0)"
    ),
    HEAD + "  %y = transpose(%x) {perm = [1, 0} : f32[4, T]\n}": "m.vxg:5: expected ']' after the list, found '}'",
    HEAD + f"  %y = transpose(%x) {{perm = {'[' * 5000}": "m.vxg:5: lists are nested more than 8 deep",
    HEAD + "  %y = to(%x) {dst = 501} : f32[4]\n}": "m.vxg:5: to: attribute dst is Topology, found 501",
    HEAD + "  %y = loop(%x) {body = 3, carried = 1, max_steps = 1} : f32[4]\n}": (
        "m.vxg:5: loop: attribute body is Graph, found 3"
    ),
    HEAD + "  %y = constant() {type = f32[1], values = [1e400, 2]} : f32[1]\n}": (
        "m.vxg:5: constant: f32[1] has 1 values, found 2"
    ),
    HEAD + f"  %y = constant() {{type = f32[1], values = [{'9' * 500}]}} : f32[1]\n}}": (
        f"m.vxg:5: a number is at most 18446744073709551616, found {'9' * 24}..."
    ),
    HEAD + "  %y = gelu(%x) {\n}": "m.vxg:6: expected ':' after gelu's operands, found 'the end of the text'",
    HEAD + "  %y = gelu(%x) : f32[T, 4] why because\n}": "m.vxg:5: expected a reason, found 'because'",
    HEAD + "  result y = %x\n}": "m.vxg:5: expected an external name, found 'y'",
    HEAD + "  %y = gelu(%x,) : f32[T, 4]\n}": (
        "m.vxg:5: expected a value after the comma, found ')'; a list does not end in a comma"
    ),
    HEAD + "  %y, = gelu(%x) : f32[T, 4]\n}": (
        "m.vxg:5: expected a value after the comma, found '='; a list does not end in a comma"
    ),
    HEAD + "  %y = gelu(%x) : f32[T, 4,]\n}": (
        "m.vxg:5: expected a dim after the comma, found ']'; a list does not end in a comma"
    ),
    HEAD + "  %y = transpose(%x) {perm = [1, 0,]} : f32[4, T]\n}": (
        "m.vxg:5: expected a value after the comma, found ']'; a list does not end in a comma"
    ),
    HEAD + "  %y = softmax(%x) {axis = 0,} : f32[T, 4]\n}": (
        "m.vxg:5: expected an attribute after the comma, found '}'; a list does not end in a comma"
    ),
    HEAD + '  result "y" %x\n}': "m.vxg:5: expected '=' after result \"y\", found '%x'",
    HEAD + '  result "y" = x\n}': "m.vxg:5: expected a value like %x, found 'x'",
    HEAD + '  result "y" = %x\n  emit "z" = %x\n}': "m.vxg:6: expected '}' after the graph's lines, found 'emit'",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_a_text_is_named_with_its_line(text: str):
    with pytest.raises(VxError) as error:
        parse_graph(text, "m.vxg")
    assert str(error.value) == MISTAKES[text]


def nested(depth: int) -> Graph:
    """A loop in a loop in a loop."""
    g = Graph("b", (Input("x0", vx.f32[4]),), results=(Result("x0", "x0"),))
    for k in range(1, depth + 1):
        loop = Node(ops.Loop(g, 1, 1), (f"x{k}",), (f"y{k}", f"n{k}"), (vx.f32[4], vx.i32[()]))
        g = Graph("b", (Input(f"x{k}", vx.f32[4]),), nodes=(loop,), results=(Result(f"x{k}", f"y{k}"),))
    return g


def test_loops_nest_up_to_a_limit_that_is_said():
    assert parse_graph(print_graph(nested(32))) == nested(32)
    head = 'graph "g" {\narg %a : f32[4]\n'
    loops = "".join(f'%y{k}, %n{k} = loop(%a{k}) {{carried = 1, max_steps = 1}} body "b" {{\n' for k in range(5000))
    for text in (print_graph(nested(33)), head + loops):
        with pytest.raises(VxError, match="loops are nested more than 32 deep"):
            parse_graph(text)


def test_a_long_chain_reads_back_without_recursion():
    nodes = tuple(
        Node(ops.Neg(), (f"v{k}",), (f"v{k + 1}",), (vx.f32[4],), loc=Loc("chain.py", k)) for k in range(20_000)
    )
    g = Graph("chain", (Input("v0", vx.f32[4]),), nodes=nodes, results=(Result("y", "v20000"),))
    assert parse_graph(g.text()) == g


def test_a_line_without_a_source_line_is_its_own():
    (node,) = parse_graph(HEAD + "  %y = gelu(%x) : f32[T, 4]\n}", "m.vxg").nodes
    assert node.loc == Loc("m.vxg", 5)
    (node,) = parse_graph(HEAD + '  %y = gelu(%x) : f32[T, 4] loc "C:\\\\m.py:7"\n}', "m.vxg").nodes
    assert node.loc == Loc("C:\\m.py", 7)


def test_comments_and_line_ends_separate_and_mean_nothing():
    one = parse_graph(HEAD + '  %y = gelu(%x) : f32[T, 4]\n result "y" = %y }')
    other = parse_graph((HEAD + '  %y = // the gelu\n gelu(%x) : f32[T, 4]\n result "y" = %y }').replace("\n", "\r\n"))
    assert one == other
    assert one.nodes[0].types == (vx.f32[T.__class__("T", min=1, max=8), 4],)


VALID = [
    nested(2).text(),
    constants([1.0, math.inf]).text(),
    HEAD
    + """  %c = constant() {type = i32[], values = [3]} : i32[] @cpu:0 why "a" loc "m.py:1"
  %t = transpose(%w) {perm = [1, 0]} : f32[4, 4] ~gpu:1
  %r = rope(%h, %i) {theta = 10000.0, interleaved = true, scaling = [8.0, 1.0, 4.0, 8192]} : f32[T, 2, 4]
  %f = fused(%x) {expr = "silu(neg(a))"} : f32[T, 4]
  %z = reshape(%x) {dims = [T, 2, 2]} : f32[T, 2, 2]
  emit "e" = %f
  result "y" = %f
}
""",
]
SCRAPS = [
    *(
        "%x",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        ",",
        "=",
        ":",
        "@gpu:0",
        "-1",
        "1e999",
        "99999999999999999999",
        "0",
        "inf",
    ),
    *("loop", "body", "result", "to", "fused", "constant", "none", "true", "f32", "T", "²", "\\", "\n", "\ud800"),
]


def check_refused_or_read_back(text: str) -> None:
    """VxError and no other, or a graph that reads back."""
    try:
        g = parse_graph(text)
    except VxError:
        return
    assert parse_graph(g.text()) == g


@given(st.sampled_from(VALID), st.data())
@settings(max_examples=400, deadline=None)
def test_a_damaged_text_is_a_graph_or_one_clear_error(text: str, data: st.DataObject):
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(at, min(at + 12, len(text))))
        text = text[:at] + data.draw(st.sampled_from(SCRAPS) | st.just("")) + text[end:]
    check_refused_or_read_back(text)


@given(graphs(max_steps=4), st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_text_with_tokens_changed_is_a_graph_or_one_clear_error(g: Graph, data: st.DataObject):
    tokens = Reader(g.text(), "g").texts[:-1]
    k = data.draw(st.integers(0, len(tokens) - 1))
    tokens[k : k + data.draw(st.integers(0, 1))] = data.draw(
        st.just([]) | st.sampled_from(SCRAPS).map(lambda s: [s]) | st.sampled_from(tokens).map(lambda s: [s])
    )
    check_refused_or_read_back(" ".join(tokens))


def test_equality_does_not_ask_where_a_node_was_written():
    g = constants([1.0])
    assert g == replace(g, nodes=(replace(g.nodes[0], loc=Loc("m.py", 3), why="so"),))
