"""What a graph means: its ops' NumPy references, one after the other, wherever the nodes are placed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vxgraph import dsl, ops
from vxgraph.ir.graph import Graph, Node
from vxgraph.ir.types import Array

Env = dict[str, Array]
Emitted = dict[str, list[Array]]


def interpret(graph: Graph | dsl.Graph, inputs: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Array]:
    """What `Session.run` must give: results, and emits stacked over the steps."""
    built = graph.build() if isinstance(graph, dsl.Graph) else graph
    env = {name: np.asarray(value) for name, value in {**inputs, **params}.items()}
    sizes = {d.name: env[a.name].shape[k] for a in built.args for k, d in enumerate(a.type.dims) if d in a.type.symbols}
    emitted: Emitted = {}
    _block(built, env, sizes, emitted)
    return {r.name: env[r.value] for r in built.results} | {name: np.stack(found) for name, found in emitted.items()}


def _block(graph: Graph, env: Env, sizes: Mapping[str, int], emitted: Emitted) -> None:
    def emit(names: Iterable[str]) -> None:
        """A value is emitted as soon as it is there."""
        for name in names:
            for e in graph.emits:
                if e.value == name:
                    emitted.setdefault(e.name, []).append(env[name])

    emit(i.name for i in graph.inputs)
    for node in graph.nodes:
        env.update(zip(node.outputs, _node(node, env, sizes, emitted), strict=True))
        emit(node.outputs)


def _node(node: Node, env: Env, sizes: Mapping[str, int], emitted: Emitted) -> tuple[Array, ...]:
    operands = [env[i] for i in node.inputs]
    match node.op:
        case ops.Loop():
            return _loop(node.op, operands, sizes, emitted)
        case ops.To() | ops.Upload() | ops.Download() | ops.TransferPeer():
            return (operands[0],)
        case _:
            return node.op.reference(sizes, *operands)


def _loop(loop: ops.Loop, operands: list[Array], sizes: Mapping[str, int], emitted: Emitted) -> tuple[Array, ...]:
    limit = min(loop.max_steps, int(operands[-1])) if loop.limited else loop.max_steps
    carried, captured = operands[: loop.carried], operands[loop.carried : len(loop.body.args)]
    done, stopped = 0, False
    while done < limit and not stopped:
        env = {a.name: v for a, v in zip(loop.body.args, [*carried, *captured], strict=True)}
        _block(loop.body, env, sizes, emitted)
        carried = [env[v] for v in loop.next_values]
        stopped = loop.stop is not None and bool(env[loop.stop])
        done += 1
    return (*carried, np.array(done, np.int32))
