"""The graph's own rules, checked after parsing and between all passes.

Every name is defined once in the graph and its bodies; every operand is defined before its reader (a cycle is named);
every node's types are what its op infers; results and emits name values that exist. What is emitted under one name, at
the top and in loops, has one type and no result's name, for a run stacks it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import lru_cache

from vxgraph.errors import GraphError, Loc
from vxgraph.ir.builder import operand_error
from vxgraph.ir.graph import Graph, Node, Result
from vxgraph.ir.op import Op
from vxgraph.ir.types import Dim, TensorType, dims_in

ANY_NUMBER = 2**31
MAX_NESTING = 32  # loops in loops; far below Python's own limit of recursion, which printing and parsing use


class Proved:
    """What was found right so far, for a graph that is verified again and again: typings of ops, and dims by name.

    Ops and types are immutable and passes hand on the same objects, so they are told apart by identity.
    """

    def __init__(self) -> None:
        self._typings: dict[tuple[int, ...], tuple[Op, tuple[TensorType, ...], tuple[TensorType, ...]]] = {}
        self._dims: dict[str, Dim] = {}

    def typing(self, op: Op, operands: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        """What the op infers; GraphError as its rule raises it, or for a dim that is another one elsewhere."""
        key = (id(op), *map(id, operands))
        if key not in self._typings:
            inferred = op.infer(*operands)
            for value in (*vars(op).values(), *operands, *inferred):
                self.see(value)
            self._typings[key] = (op, operands, inferred)
        return self._typings[key][2]

    def see(self, value: object) -> None:
        """Remembers the dims of a type or an attribute; a name stands for one dim throughout."""
        for d in dims_in(value):
            if self._dims.setdefault(d.name, d) != d:
                raise DimError(f"dim {d.name} is declared twice: {self._dims[d.name]!r} and {d!r}")


class DimError(GraphError):
    """Two dims of one name: the graph's mistake, not an op's."""


def verify(graph: Graph, proved: Proved | None = None) -> None:
    """GraphError where the graph breaks a rule. `proved` spares what an earlier call has shown."""
    proved = Proved() if proved is None else proved
    # First, and in bodies too: a loop's typing rule asks for the types of its body.
    for _, node in graph.walk():
        if len(node.outputs) != len(node.types):
            raise GraphError(f"%{node.name}: {len(node.outputs)} names, but {len(node.types)} types", loc=node.loc)
    defined: set[str] = set()
    emitted: dict[str, TensorType] = {}
    pending = [(graph, 0)]
    while pending:
        g, depth = pending.pop()
        if depth > MAX_NESTING:
            raise GraphError(too_deep())
        _verify_one(g, defined, proved, emitted)
        pending.extend((body, depth + 1) for node in g.nodes for body in node.op.bodies)
    for result in graph.results:
        if result.name in emitted:
            raise GraphError(f"{result.name!r} is a result and an emit; a run hands out one thing under a name")


def too_deep() -> str:
    """The message for loops in loops in loops."""
    return f"loops are nested more than {MAX_NESTING} deep"


def _verify_one(graph: Graph, defined: set[str], proved: Proved, emitted: dict[str, TensorType]) -> None:
    types: dict[str, TensorType] = {}
    for i in graph.inputs:
        _define(i.name, i.loc, defined)
        proved.see(i.type)
        types[i.name] = i.type
    for node in graph.nodes:
        for name in node.inputs:
            if name not in types:
                raise _missing(graph, node, name)
        _verify_types(node, tuple(types[name] for name in node.inputs), proved)
        for out, t in zip(node.outputs, node.types, strict=True):
            _define(out, node.loc, defined)
            types[out] = t
    for kind, outlets in (("result", graph.results), ("emit", graph.emits)):
        _verify_outlets(graph, kind, outlets, types)
    for e in graph.emits:
        first = emitted.setdefault(e.name, types[e.value])
        if first != types[e.value]:
            loc = next((n.loc for n in graph.nodes if e.value in n.outputs), None)
            raise GraphError(
                f"emit {e.name!r} is {types[e.value]} here and {first} elsewhere; a name has one type", loc=loc
            )


def _define(name: str, loc: Loc | None, defined: set[str]) -> None:
    if name in defined:
        raise GraphError(f"%{name} is defined twice", loc=loc)
    defined.add(name)


def _verify_types(node: Node, operands: tuple[TensorType, ...], proved: Proved) -> None:
    least, most = _arity(type(node.op))
    if not least <= len(operands) <= most:
        takes = f"{least}" if least == most else f"{least} to {most}" if most < ANY_NUMBER else f"{least} or more"
        raise GraphError(f"{node.op.name}: found {len(operands)} operands, wanted {takes}", loc=node.loc)
    try:
        inferred = proved.typing(node.op, operands)
    except DimError:
        raise
    except GraphError as error:
        raise operand_error(node.op, node.inputs, operands, error, node.loc) from None
    if inferred != node.types:
        stated, wanted = (", ".join(map(str, t)) for t in (node.types, inferred))
        raise GraphError(f"%{node.name}: {node.op.name} gives {wanted}, but the graph says {stated}", loc=node.loc)


@lru_cache(maxsize=256)
def _arity(cls: type[Op]) -> tuple[int, int]:
    """The least and the most operands: infer's parameters are the op's operands."""
    parameters = list(inspect.signature(cls.infer).parameters.values())[1:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 0, ANY_NUMBER
    return sum(p.default is p.empty for p in parameters), len(parameters)


def _verify_outlets(graph: Graph, kind: str, outlets: Iterable[Result], types: dict[str, TensorType]) -> None:
    seen: set[str] = set()
    for r in outlets:
        if r.value not in types:
            raise GraphError(f"{kind} {r.name!r} names %{r.value}, which graph {graph.name!r} does not define")
        if r.name in seen:
            raise GraphError(f"{kind} {r.name!r} is given twice")
        seen.add(r.name)


def _missing(graph: Graph, node: Node, name: str) -> GraphError:
    """An operand that is not defined yet: on a cycle, out of order, or nowhere."""
    by_output = {out: n for n in graph.nodes for out in n.outputs}
    if name not in by_output:
        return GraphError(f"%{node.name}: operand %{name} is not defined", loc=node.loc)
    cycle = _cycle_through(node, by_output)
    if cycle:
        shown = " -> ".join(f"%{n}" for n in (*cycle, cycle[0]))
        return GraphError(f"the graph has a cycle: {shown}", loc=node.loc)
    return GraphError(f"%{node.name}: operand %{name} is defined after it; put its line first", loc=node.loc)


def _cycle_through(start: Node, by_output: dict[str, Node]) -> list[str]:
    """The names on one cycle that `start` stands on or leads to, or nothing; without recursion."""
    path: list[str] = []
    on_path: set[str] = set()
    done: set[str] = set()
    stack: list[tuple[Node, int]] = [(start, 0)]
    while stack:
        node, i = stack.pop()
        if i == 0:
            path.append(node.name)
            on_path.add(node.name)
        for k in range(i, len(node.inputs)):
            operand = by_output.get(node.inputs[k])
            if operand is None or operand.name in done:
                continue
            if operand.name in on_path:
                return path[path.index(operand.name) :]
            stack.append((node, k + 1))
            stack.append((operand, 0))
            break
        else:
            done.add(path.pop())
    return []
