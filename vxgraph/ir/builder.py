"""The one mutable thing of the IR: a graph under construction.

Names are unique in a graph and in all its loops' bodies together, so that one name means one value from text to trace.
An op gets its own name (`%matmul`, `%matmul.1`, ...) unless the user gives one; a name given twice is an error that
shows both lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from vxgraph.errors import GraphError, Loc
from vxgraph.ir.graph import Graph, Input, Node, Result
from vxgraph.ir.op import Op
from vxgraph.ir.types import Dim, TensorType, dims_in
from vxgraph.topology.ids import Topology

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")


def check_name(name: str, loc: Loc | None) -> None:
    """GraphError for what the text format cannot read back after `%`."""
    if not NAME.fullmatch(name):
        raise GraphError(f"{name!r} is no name; wanted letters, digits and _, parts joined by dots", loc=loc)


@dataclass
class Names:
    """The names taken so far, with where each was given."""

    taken: dict[str, Loc | None] = field(default_factory=dict[str, Loc | None])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def claim(self, name: str, loc: Loc | None) -> str:
        """Takes exactly this name, or GraphError."""
        check_name(name, loc)
        if name in self.taken:
            first = self.taken[name]
            raise GraphError(
                f"the name %{name} is used twice; give one of the two another name=",
                loc=loc,
                details=(f"first used at {first}",) if first else (),
            )
        self.taken[name] = loc
        return name

    def fresh(self, base: str, loc: Loc | None) -> str:
        """Takes `base`, or the first of `base.1`, `base.2`, ... that is free; GraphError where it is no name."""
        check_name(base, loc)
        name = base
        while name in self.taken:
            self.counts[base] = self.counts.get(base, 0) + 1
            name = f"{base}.{self.counts[base]}"
        self.taken[name] = loc
        return name


class GraphBuilder:
    """Builds one graph; a loop's body has a builder of its own that shares `names`."""

    def __init__(self, name: str, *, names: Names | None = None, dims: dict[str, Dim] | None = None) -> None:
        self.name = name
        self.names = names if names is not None else Names()
        self.dims = dims if dims is not None else {}
        self.args: list[Input] = []
        self.params: list[Input] = []
        self.nodes: list[Node] = []
        self.results: list[Result] = []
        self.emits: list[Result] = []
        self.types: dict[str, TensorType] = {}
        self.captures: dict[str, str] = {}  # a loop's body: outer value -> the arg that stands for it
        self._outlets: dict[str, Loc | None] = {}  # external name -> where it was given

    def arg(self, name: str, type: TensorType, *, place: Topology | None = None, loc: Loc | None = None) -> str:
        """Adds a per-call input."""
        return self._input(self.args, name, type, place, loc)

    def param(self, name: str, type: TensorType, *, place: Topology | None = None, loc: Loc | None = None) -> str:
        """Adds a resident input."""
        return self._input(self.params, name, type, place, loc)

    def _input(self, into: list[Input], name: str, type: TensorType, place: Topology | None, loc: Loc | None) -> str:
        self._see_dims(type, loc)
        into.append(Input(self.names.claim(name, loc), type, place, loc))
        self.types[name] = type
        return name

    def add(
        self,
        op: Op,
        inputs: Sequence[str],
        *,
        name: str | None = None,
        base: str | None = None,
        place: Topology | None = None,
        hint: Topology | None = None,
        loc: Loc | None = None,
    ) -> Node:
        """Adds `op(inputs)`, typed. `name` is exact (and must be free); `base` is made free with a suffix."""
        types = self.infer(op, inputs, loc)
        for value in (*vars(op).values(), *types):
            self._see_dims(value, loc)
        first = self.names.claim(name, loc) if name else self.names.fresh(base or op.name, loc)
        rest = [self.names.fresh(first, loc) for _ in types[1:]]
        node = Node(op, tuple(inputs), (first, *rest), types, place, hint, loc=loc)
        self.nodes.append(node)
        self.types.update(zip(node.outputs, types, strict=True))
        return node

    def infer(self, op: Op, inputs: Sequence[str], loc: Loc | None) -> tuple[TensorType, ...]:
        """The op's result types, or GraphError with the line and the operands."""
        operands = [self.types[i] for i in inputs]
        try:
            return op.infer(*operands)
        except GraphError as error:
            raise operand_error(op, inputs, operands, error, loc) from None

    def result(self, name: str, value: str, *, loc: Loc | None = None) -> None:
        """Gives a value an external name, read when the run ends."""
        self._outlet(self.results, name, value, loc)

    def emit(self, name: str, value: str, *, loc: Loc | None = None) -> None:
        """Gives a value an external name, handed to the caller as soon as it is there."""
        self._outlet(self.emits, name, value, loc)

    def _outlet(self, into: list[Result], name: str, value: str, loc: Loc | None) -> None:
        if name in self._outlets:
            first = self._outlets[name]
            raise GraphError(
                f"the output name {name!r} is used twice; outputs have names of their own",
                loc=loc,
                details=(f"first used at {first}",) if first else (),
            )
        self._outlets[name] = loc
        into.append(Result(name, value))

    def _see_dims(self, value: object, loc: Loc | None) -> None:
        """A dim's name means one dim throughout the graph; GraphError otherwise."""
        for d in dims_in(value):
            if self.dims.setdefault(d.name, d) != d:
                raise GraphError(f"dim {d.name} is declared twice: {self.dims[d.name]!r} and {d!r}", loc=loc)

    def build(self) -> Graph:
        """The graph so far."""
        return Graph(
            self.name,
            tuple(self.args),
            tuple(self.params),
            tuple(self.nodes),
            tuple(self.results),
            tuple(self.emits),
        )


def operand_error(
    op: Op, inputs: Sequence[str], types: Sequence[TensorType], error: GraphError, loc: Loc | None
) -> GraphError:
    """`model.py:41: matmul: ...` with the operands shown."""
    shown = ", ".join(f"%{name}: {type}" for name, type in zip(inputs, types, strict=True))
    details = (*error.details, *((f"operands: {shown}",) if shown else ()))
    return GraphError(f"{op.name}: {error.message}", loc=loc, details=details)
