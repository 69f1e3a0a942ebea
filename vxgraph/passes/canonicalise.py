"""The simplest graph with the same meaning: dce, cse and folds, before anything is placed.

reshape, cast, transpose, slice to what it already is   ->  its operand
matmul(x, transpose(w))                                 ->  matmul(x, w) {transpose_b = true}
cache_append(cache_init(), rows, 0)                     ->  cache_init(rows)
ops over constants                                      ->  a constant
the same op on the same operands at the same place      ->  one of them (a transfer, too, unless the user wrote it)
what nothing reads                                      ->  nothing (explicit transfers and emitting loops stay)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vxgraph import ops
from vxgraph.errors import RunError
from vxgraph.ir.graph import Graph, Node
from vxgraph.ir.op import Effect, Op
from vxgraph.ops.loop import STOP
from vxgraph.passes.rewrite import (
    drop_unused_captures,
    is_shareable,
    map_bodies,
    renamed,
    renamed_outlets,
    same_op,
)

MAX_FOLDED = 64  # elements of a folded constant: folding must not make a program larger


def canonicalise(graph: Graph) -> Graph:
    """The graph and its loops' bodies, simplified."""
    return drop_dead(map_bodies(simplify(graph), lambda body: drop_dead(simplify(body))))


def simplify(graph: Graph) -> Graph:
    """One forward walk: folds and common subexpressions of this graph, bodies left alone."""
    names: dict[str, str] = {}
    made: dict[str, Node] = {}
    seen: dict[object, Node] = {}
    nodes: list[Node] = []
    leaving = _leaving(graph)
    for node in graph.nodes:
        node = _fold(renamed(node, names), made)
        same = _identity(node, graph, made, leaving)
        if same is not None:
            names[node.name] = same
            continue
        if is_shareable(node.op):
            key = (same_op(node.op), node.inputs, node.place, node.hint)
            twin = seen.setdefault(key, node)
            if twin is not node:
                names.update(zip(node.outputs, twin.outputs, strict=True))
                continue
        nodes.append(node)
        made.update((out, node) for out in node.outputs)
    return replace(
        graph,
        nodes=tuple(nodes),
        results=renamed_outlets(graph.results, names),
        emits=renamed_outlets(graph.emits, names),
    )


def _leaving(graph: Graph) -> dict[str, set[str]]:
    """By input: the values that stay apart from it, though they may be equal to it, because they are read on the host.

    A param is on devices only, and cannot be read there; an arg of a body may stand for one.
    """
    found = _read_on_host(graph)
    handed = found.union(r.value for r in graph.results)
    return {
        **dict.fromkeys((a.name for a in graph.args), found),
        **dict.fromkeys((p.name for p in graph.params), handed),
    }


def _read_on_host(graph: Graph) -> set[str]:
    """What is emitted, ends or limits a loop, here or as what a loop's body calls it."""
    found = {r.value for r in graph.emits} | {r.value for r in graph.results if r.name == STOP}
    for node in graph.nodes:
        if isinstance(node.op, ops.Loop):
            inner = _read_on_host(node.op.body)
            found.update(value for value, arg in zip(node.inputs, node.op.body.args, strict=False) if arg.name in inner)
            if node.op.limited:
                found.add(node.inputs[-1])
    return found


def _identity(node: Node, graph: Graph, made: dict[str, Node], leaving: dict[str, set[str]]) -> str | None:
    """The operand that the node is equal to, where dropping it moves nothing."""
    if len(node.inputs) != 1 or not isinstance(node.op, ops.Reshape | ops.Cast | ops.Transpose | ops.Slice):
        return None
    operand = node.inputs[0]
    if node.name in leaving.get(operand, ()):
        return None
    producer = made.get(operand)  # none: an input of the graph
    type = graph.types[operand]
    place = producer.place if producer else None
    if node.types[0] != type or (node.place is not None and node.place != place):
        return None
    match node.op:
        case ops.Transpose(perm=perm):
            return operand if perm == tuple(range(len(perm))) else None
        case ops.Slice(step=step):
            return operand if step > 0 else None
        case _:
            return operand


def _fold(node: Node, made: dict[str, Node]) -> Node:
    """The node in its simplest form."""
    match node.op:
        case ops.MatMul():
            return _fold_transpose(node, made)
        case ops.CacheAppend():
            return _fold_first_append(node, made)
        case _:
            return _fold_constants(node, made)


def _fold_transpose(node: Node, made: dict[str, Node]) -> Node:
    assert isinstance(node.op, ops.MatMul)
    t = made.get(node.inputs[1])
    while t is not None and _swaps_last_two(t.op) and t.place in (None, node.place):
        assert isinstance(node.op, ops.MatMul)
        op = replace(node.op, transpose_b=not node.op.transpose_b)
        node = replace(node, op=op, inputs=(node.inputs[0], t.inputs[0]))
        t = made.get(t.inputs[0])
    return node


def _swaps_last_two(op: Op) -> bool:
    if not isinstance(op, ops.Transpose) or len(op.perm) < 2:
        return False
    *batch, a, b = op.perm
    rank = len(op.perm)
    return batch == list(range(rank - 2)) and (a, b) == (rank - 1, rank - 2)


def _fold_first_append(node: Node, made: dict[str, Node]) -> Node:
    cache, rows, at = node.inputs
    empty, start = made.get(cache), made.get(at)
    if empty is None or start is None or not isinstance(empty.op, ops.CacheInit) or empty.inputs:
        return node
    if not isinstance(start.op, ops.Constant) or start.op.values != (0,):
        return node
    return replace(node, op=empty.op, inputs=(rows,))


def _fold_constants(node: Node, made: dict[str, Node]) -> Node:
    producers = [made.get(i) for i in node.inputs]
    if not producers or node.op.effect is not Effect.PURE or len(node.types) != 1 or node.types[0].symbols:
        return node
    operands: list[ops.Constant] = []
    for p in producers:
        if p is None or not isinstance(p.op, ops.Constant):
            return node
        operands.append(p.op)
    if node.types[0].max_bytes > MAX_FOLDED * node.types[0].dtype.itemsize or isinstance(node.op, ops.CacheInit):
        return node
    try:
        with np.errstate(all="ignore"):
            value = node.op.reference({}, *(c.reference({})[0] for c in operands))[0]
    except RunError:
        return node  # an id outside its table, say: an error of the run, if it is ever reached
    return replace(node, op=replace(ops.constant_of(value), type=node.types[0]), inputs=())


def drop_dead(graph: Graph) -> Graph:
    """What no result, emit, explicit transfer or emitting loop needs is dropped."""
    live = {r.value for r in graph.outlets}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not (live.intersection(node.outputs) or _is_root(node)):
            continue
        if isinstance(node.op, ops.Loop):
            node = drop_unused_captures(node)
        kept.append(node)
        live.update(node.inputs)
    return replace(graph, nodes=tuple(reversed(kept)))


def _is_root(node: Node) -> bool:
    match node.op:
        case ops.Loop(body=body):
            return bool(body.emits) or any(_is_root(n) for n in body.nodes)
        case ops.TransferPeer(explicit=explicit) | ops.Upload(explicit=explicit):
            return explicit
        case ops.To():
            return True
        case _:
            return False
