"""What a graph means: its ops' NumPy references, one after the other, wherever the nodes are placed.

`apply` may run something else for a node: a backend's kernel, say, on the operands that the kernels before it made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from vxgraph import dsl, ops
from vxgraph.ir.graph import Graph, Node
from vxgraph.ir.types import Array, Sizes, TensorType

Env = dict[str, Array]
Emitted = dict[str, list[Array]]
Apply = Callable[[Node, tuple[TensorType, ...], Sizes, list[Array]], tuple[Array, ...]]


def reference(node: Node, types: tuple[TensorType, ...], sizes: Sizes, operands: list[Array]) -> tuple[Array, ...]:
    """The node's results, as its op's reference gives them; `types` are the operands' types."""
    return node.op.reference(sizes, *operands)


def interpret(
    graph: Graph | dsl.Graph, inputs: Mapping[str, Any], params: Mapping[str, Any], apply: Apply = reference
) -> dict[str, Array]:
    """What `Session.run` must give: results, and emits stacked over the steps."""
    built = graph.build() if isinstance(graph, dsl.Graph) else graph
    env = {name: np.asarray(value) for name, value in {**inputs, **params}.items()}
    sizes = {d.name: env[a.name].shape[k] for a in built.args for k, d in enumerate(a.type.dims) if d in a.type.symbols}
    emitted: Emitted = {}
    _block(built, env, sizes, emitted, apply)
    return {r.name: env[r.value] for r in built.results} | {name: np.stack(found) for name, found in emitted.items()}


def _block(graph: Graph, env: Env, sizes: Sizes, emitted: Emitted, apply: Apply) -> None:
    names_of: dict[str, list[str]] = {}
    for e in graph.emits:
        names_of.setdefault(e.value, []).append(e.name)

    def emit(values: Iterable[str]) -> None:
        """A value is emitted as soon as it is there."""
        for value in values:
            for name in names_of.get(value, ()):
                emitted.setdefault(name, []).append(env[value])

    emit(i.name for i in graph.inputs)
    for node in graph.nodes:
        env.update(zip(node.outputs, _node(node, graph, env, sizes, emitted, apply), strict=True))
        emit(node.outputs)


def _node(node: Node, graph: Graph, env: Env, sizes: Sizes, emitted: Emitted, apply: Apply) -> tuple[Array, ...]:
    operands = [env[i] for i in node.inputs]
    match node.op:
        case ops.Loop():
            return _loop(node.op, operands, sizes, emitted, apply)
        case ops.To() | ops.Upload() | ops.Download() | ops.TransferPeer():
            return (operands[0],)
        case _:
            return apply(node, tuple(graph.types[i] for i in node.inputs), sizes, operands)


def _loop(loop: ops.Loop, operands: list[Array], sizes: Sizes, emitted: Emitted, apply: Apply) -> tuple[Array, ...]:
    limit = min(loop.max_steps, int(operands[-1])) if loop.limited else loop.max_steps
    carried, captured = operands[: loop.carried], operands[loop.carried : len(loop.body.args)]
    done, stopped = 0, False
    while done < limit and not stopped:
        env = {a.name: v for a, v in zip(loop.body.args, [*carried, *captured], strict=True)}
        _block(loop.body, env, sizes, emitted, apply)
        carried = [env[v] for v in loop.next_values]
        stopped = loop.stop is not None and bool(env[loop.stop])
        done += 1
    return (*carried, np.array(done, np.int32))
