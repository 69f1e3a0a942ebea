"""Graphs as text, both ways: `parse_graph(print_graph(g)) == g`.

    graph "mlp" {
      dim T <= 2048 min 1
      arg %x : f32[T, 64] @gpu:0
      param %w : f32[64, 256]
      %matmul = matmul(%x, %w) : f32[T, 256] @gpu:0 why "pinned" loc "model.py:41"
      emit "token" = %matmul
      result "y" = %matmul
    }

A loop's body is a graph in braces after the loop's attributes. `@` is a place, `~` a hint. The grammar is in
docs/text-format.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from vxgraph.errors import Loc
from vxgraph.ir.graph import Graph, Input, Node, Result, dims_of
from vxgraph.ir.lexer import Reader, quote
from vxgraph.ir.literal import Dims, make_op, print_dim, print_op, read_dims, read_op_head, read_place, read_type
from vxgraph.ir.op import Op
from vxgraph.ir.types import MAX_SIZE, Dim
from vxgraph.ir.verify import MAX_NESTING, too_deep, verify

_LINE = re.compile(r"[0-9]{1,9}")


def print_graph(graph: Graph) -> str:
    """The graph's text, ending in a newline."""
    return "\n".join([*_graph_lines(graph, "graph", dims_of(graph), "")]) + "\n"


def print_node(node: Node) -> str:
    """One node as a graph's text has it; a loop without its body."""
    return next(_node_lines(node, ""))


def _graph_lines(graph: Graph, keyword: str, dims: list[Dim], indent: str) -> Iterator[str]:
    inner = indent + "  "
    yield f"{indent}{keyword} {quote(graph.name)} {{"
    yield from (inner + print_dim(d) for d in dims)
    for kind, inputs in (("arg", graph.args), ("param", graph.params)):
        yield from (f"{inner}{kind} %{i.name} : {i.type}{_place(i.place)}{_loc(i.loc)}" for i in inputs)
    for node in graph.nodes:
        yield from _node_lines(node, inner)
    yield from (f"{inner}emit {quote(r.name)} = %{r.value}" for r in graph.emits)
    yield from (f"{inner}result {quote(r.name)} = %{r.value}" for r in graph.results)
    yield indent + "}"


def _node_lines(node: Node, indent: str) -> Iterator[str]:
    outs = ", ".join(f"%{o}" for o in node.outputs)
    types = ", ".join(map(str, node.types))
    hint = f" ~{node.hint}" if node.hint is not None else ""
    why = f" why {quote(node.why)}" if node.why else ""
    tail = f" : {types}{_place(node.place)}{hint}{why}{_loc(node.loc)}"
    head = f"{indent}{outs} = {print_op(node.op, node.inputs)}"
    if not node.op.bodies:
        yield head + tail
        return
    yield head
    for body in node.op.bodies:
        yield from _graph_lines(body, "body", [], indent + "  ")
    yield indent + tail[1:]


def _place(place: Any) -> str:
    return f" @{place}" if place is not None else ""


def _loc(loc: Loc | None) -> str:
    return f" loc {quote(str(loc))}" if loc else ""


def parse_graph(text: str, source: str = "<graph>") -> Graph:
    """Reads and verifies a graph. TextError or GraphError with file:line where it is wrong."""
    reader = Reader(text, source)
    reader.expect("graph", "the start")
    graph = _read_graph(reader, None, ())
    if reader.kind != "end":
        reader.fail(f"expected the end after the graph, found {reader.text!r}")
    verify(graph)
    return graph


def _read_graph(reader: Reader, dims: Dims | None, steps: tuple[int, ...]) -> Graph:
    """`steps` are those of the loops around it."""
    if len(steps) > MAX_NESTING:
        reader.fail(too_deep())
    check_steps(reader, steps, reader.loc)
    name = reader.string("the graph's name")
    reader.expect("{", "the graph's name")
    dims = read_dims(reader) if dims is None else dims
    args = _read_inputs(reader, "arg", dims)
    params = _read_inputs(reader, "param", dims)
    nodes: list[Node] = []
    while reader.kind == "value":
        nodes.append(_read_node(reader, dims, steps))
    emits = _read_outlets(reader, "emit")
    results = _read_outlets(reader, "result")
    reader.expect("}", "the graph's lines")
    return Graph(name, args, params, tuple(nodes), results, emits)


def _read_inputs(reader: Reader, keyword: str, dims: Dims) -> tuple[Input, ...]:
    found: list[Input] = []
    while reader.accept(keyword):
        here = reader.loc
        name = reader.value()
        reader.expect(":", f"%{name}")
        type = read_type(reader, dims)
        place = read_place(reader) if reader.accept("@") else None
        found.append(Input(name, type, place, read_loc(reader) or here))
    return tuple(found)


def check_steps(reader: Reader, steps: Sequence[int], loc: Loc) -> None:
    """TextError where loops in loops may take more steps together than an index can count."""
    if math.prod(steps) > MAX_SIZE:
        reader.fail(f"loops in loops take up to {' x '.join(map(str, steps))} steps; at most {MAX_SIZE}", loc=loc)


def _read_node(reader: Reader, dims: Dims, steps: tuple[int, ...]) -> Node:
    here = reader.loc
    outputs = reader.values()
    reader.expect("=", f"%{outputs[-1]}")
    cls, inputs, found = read_op_head(reader, dims)
    if reader.accept("body"):
        most: Any = found.get("max_steps")
        found["body"] = _read_graph(reader, dims, (*steps, most if type(most) is int else 1))
    op: Op = make_op(reader, cls, found, loc=here)
    reader.expect(":", f"{op.name}'s operands")
    types = [read_type(reader, dims)]
    while reader.accept(","):
        types.append(read_type(reader, dims))
    place = read_place(reader) if reader.accept("@") else None
    hint = read_place(reader) if reader.accept("~") else None
    why = reader.string("a reason") if reader.accept("why") else ""
    return Node(op, inputs, outputs, tuple(types), place, hint, why, read_loc(reader) or here)


def read_loc(reader: Reader) -> Loc | None:
    """Reads ` loc "model.py:41"`, if it is there."""
    if not reader.accept("loc"):
        return None
    here = reader.loc
    text = reader.string("a place like model.py:41")
    file, _, line = text.rpartition(":")
    if not file or not _LINE.fullmatch(line):
        reader.fail(f"{text!r} is no file:line", loc=here)
    return Loc(file, int(line))


def _read_outlets(reader: Reader, keyword: str) -> tuple[Result, ...]:
    found: list[Result] = []
    while reader.accept(keyword):
        name = reader.string("an external name")
        reader.expect("=", f"{keyword} {quote(name)}")
        found.append(Result(name, reader.value()))
    return tuple(found)
