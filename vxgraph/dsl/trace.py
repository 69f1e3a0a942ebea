"""The graph being built: the current builder, place and name scope, and handles for its values.

    with vx.Graph("mlp") as g:            opens a frame
        with vx.on(vx.GPU[0]):            changes its place
            y = x @ w                     adds a node at file:line of this statement

A value used inside a loop's body that was made outside is captured: it becomes an arg of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import Any

import vxgraph.ir.graph as ir
from vxgraph.display import Displayed
from vxgraph.errors import GraphError, Loc, user_loc
from vxgraph.ir.attributes import op_of
from vxgraph.ir.builder import GraphBuilder, check_name
from vxgraph.ir.op import Op
from vxgraph.ir.types import TensorType
from vxgraph.topology.ids import Topology


@dataclass(frozen=True)
class Frame:
    """What a new node takes from around it."""

    builder: GraphBuilder
    outer: Frame | None = None  # the frame around a loop's body
    place: Topology | None = None
    hint: Topology | None = None
    scope: str = ""


_current: ContextVar[Frame | None] = ContextVar("vxgraph_frame", default=None)


def frame() -> Frame:
    """The innermost open frame; GraphError outside every graph."""
    found = _current.get()
    if found is None:
        raise GraphError("no graph is open; write 'with vx.Graph(\"name\") as g:' around this", loc=user_loc())
    return found


class Within:
    """Changes the current frame for a while. No generator: contextlib's line would stand for the user's in errors."""

    def __init__(self, change: Callable[[Frame], Frame]) -> None:
        self._change = change
        self._tokens: list[Token[Frame | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_current.set(self._change(frame())))

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())


class Handle:
    """A value of a graph under construction. `vxgraph.dsl.Value` adds the operators."""

    __slots__ = ("builder", "name", "type")

    def __init__(self, builder: GraphBuilder, name: str, type: TensorType) -> None:
        self.builder = builder
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Graph(Displayed):
    """A graph under construction, as a context manager; `build()` gives the immutable graph."""

    def __init__(self, name: str) -> None:
        self._builder = GraphBuilder(name)
        self._token: Token[Frame | None] | None = None

    def __enter__(self) -> Graph:
        if _current.get() is not None:
            raise GraphError(
                "a graph is open already; graphs do not nest (a loop's body is given to vx.loop)", loc=user_loc()
            )
        self._token = _current.set(Frame(self._builder))
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None

    @property
    def name(self) -> str:
        """The graph's name."""
        return self._builder.name

    def build(self) -> ir.Graph:
        """The graph so far, immutable."""
        return self._builder.build()

    def text(self) -> str:
        """The graph as text; `vxgraph.parse_graph` reads it back."""
        return self.build().text()

    def __eq__(self, other: object) -> bool:
        other = other.build() if isinstance(other, Graph) else other
        return self.build() == other

    __hash__ = None  # type: ignore[assignment]  # it changes while it is built


def on(place: Topology) -> Within:
    """Pins what is built inside to a topology: it runs there, or compiling fails. The innermost of `with`s wins."""
    pin = topology(place, "vx.on")
    return Within(lambda here: replace(here, place=pin, hint=None))


def prefer(place: Topology) -> Within:
    """Wishes that what is built inside runs on a topology; an outer pin does not hold there."""
    wish = topology(place, "vx.prefer")
    return Within(lambda here: replace(here, place=None, hint=wish))


def topology(place: object, what: str) -> Topology:
    """The place itself; GraphError where it is none."""
    if not isinstance(place, Topology):
        raise GraphError(f"{what}({place!r}): wanted a topology such as vx.GPU[0]", loc=user_loc())
    return place


def scope(name: str) -> Within:
    """Prefixes the names of what is built inside: `layers.3.` for `scope("layers.3")`."""

    def scoped(here: Frame) -> Frame:
        check_name(f"{here.scope}{name}", user_loc())
        return replace(here, scope=f"{here.scope}{name}.")

    return Within(scoped)


def local_name(value: object, here: Frame, loc: Loc) -> str:
    """The value's name in the current graph; one from around the loop is captured."""
    if not isinstance(value, Handle):
        raise GraphError(f"{value!r} is no value of a graph; wanted what vx.input, vx.param or an op returns", loc=loc)
    if value.builder is here.builder:
        return value.name
    chain: list[Frame] = []
    at: Frame | None = here
    while at is not None and at.builder is not value.builder:
        chain.append(at)
        at = at.outer
    if at is None:
        raise GraphError(f"{value!r} belongs to another graph, or to a loop's body that is closed", loc=loc)
    name = value.name
    for inner in reversed(chain):
        name = capture(inner.builder, name, value.type, loc)
    return name


def capture(body: GraphBuilder, outer: str, type: TensorType, loc: Loc) -> str:
    """The body's arg that stands for the outer value `outer`."""
    if outer not in body.captures:
        name = body.names.fresh(f"{outer}.in", loc)
        body.captures[outer] = name
        body.args.append(ir.Input(name, type, None, loc))
        body.types[name] = type
    return body.captures[outer]


def add(cls: type[Op], attributes: Mapping[str, Any], operands: tuple[object, ...], name: str | None) -> Handle:
    """Adds a node of one result at the caller's line."""
    here, loc = frame(), user_loc()
    names = [local_name(o, here, loc) for o in operands]
    node = here.builder.add(
        made(cls, attributes, loc),
        names,
        name=here.scope + name if name else None,
        base=here.scope + cls.name,
        place=here.place,
        hint=here.hint,
        loc=loc,
    )
    return Handle(here.builder, node.name, node.types[0])


def made(cls: type[Op], attributes: Mapping[str, Any], loc: Loc) -> Op:
    """The op with these attributes; GraphError with the line where one does not fit."""
    try:
        return op_of(cls, attributes)
    except GraphError as error:
        raise GraphError(error.message, loc=loc) from None
