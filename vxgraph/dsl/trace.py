"""The graph being built: the current builder, place and name scope, and handles for its values.

    with vx.Graph("mlp") as g:            opens a frame
        with vx.on(vx.GPU[0]):            changes its place
            y = x @ w                     adds a node at file:line of this statement

A value used inside a loop's body that was made outside is captured: it becomes an arg of the body.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace

import vxgraph.ir.graph as ir
from vxgraph.errors import GraphError, Loc
from vxgraph.ir.builder import GraphBuilder
from vxgraph.ir.op import Op
from vxgraph.ir.types import TensorType
from vxgraph.topology.ids import Topology

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_shown: dict[str, str] = {}


def user_loc() -> Loc:
    """The line of the caller's code that is being run: the innermost frame outside this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # the only way to a caller's line without a traceback
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return Loc(_show(frame.f_code.co_filename), frame.f_lineno)


def _show(file: str) -> str:
    """The file relative to the current directory where it is below it."""
    if file not in _shown:
        here = os.getcwd() + os.sep
        _shown[file] = file.removeprefix(here)
    return _shown[file]


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


@contextmanager
def entered(new: Frame) -> Generator[None]:
    """Makes a frame the current one for a while."""
    token = _current.set(new)
    try:
        yield
    finally:
        _current.reset(token)


class Handle:
    """A value of a graph under construction. `vxgraph.dsl.Value` adds the operators."""

    __slots__ = ("builder", "name", "type")

    def __init__(self, builder: GraphBuilder, name: str, type: TensorType) -> None:
        self.builder = builder
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Graph:
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


@contextmanager
def on(place: Topology) -> Generator[None]:
    """Pins what is built inside to a topology: it runs there, or compiling fails."""
    with entered(replace(frame(), place=_topology(place, "on"), hint=None)):
        yield


@contextmanager
def prefer(place: Topology) -> Generator[None]:
    """Wishes that what is built inside runs on a topology, where no pin says otherwise."""
    with entered(replace(frame(), hint=_topology(place, "prefer"), place=None)):
        yield


def _topology(place: object, verb: str) -> Topology:
    if not isinstance(place, Topology):
        raise GraphError(f"vx.{verb}({place!r}): wanted a topology such as vx.GPU[0]", loc=user_loc())
    return place


@contextmanager
def scope(name: str) -> Generator[None]:
    """Prefixes the names of what is built inside: `layers.3.` for `scope("layers.3")`."""
    here = frame()
    with entered(replace(here, scope=f"{here.scope}{name}.")):
        yield


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


def add(op: Op, operands: tuple[object, ...], name: str | None, base: str | None = None) -> tuple[Handle, ...]:
    """Adds a node at the caller's line; handles of its outputs."""
    here, loc = frame(), user_loc()
    names = [local_name(o, here, loc) for o in operands]
    node = here.builder.add(
        op,
        names,
        name=here.scope + name if name else None,
        base=here.scope + (base or op.name),
        place=here.place,
        hint=here.hint,
        loc=loc,
    )
    return tuple(Handle(here.builder, o, t) for o, t in zip(node.outputs, node.types, strict=True))
