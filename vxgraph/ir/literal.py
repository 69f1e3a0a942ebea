"""Types and attribute values as text, both ways: what stands between an op's braces.

{transpose_b = true, dims = [T, Head, 64], type = f32[8, Head], at = gpu:0, eps = 1e-05}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from vxgraph.errors import GraphError, Loc, MachineError
from vxgraph.ir.attributes import op_of, required
from vxgraph.ir.lexer import Reader, number, quote
from vxgraph.ir.op import OPS, Op
from vxgraph.ir.types import DTYPES, Dim, DimLike, TensorType
from vxgraph.topology.ids import Topology, parse_topology

Dims = Mapping[str, Dim]
MAX_LISTS = 8
_WORDS = {"true": True, "false": False, "none": None}


def print_dim(dim: Dim) -> str:
    """`dim Head = 9`, or `dim T = 1..2048`."""
    return f"dim {dim.name} = {dim.size}" if dim.size is not None else f"dim {dim.name} <= {dim.max} min {dim.min}"


def read_dim(reader: Reader) -> Dim:
    """Reads what print_dim writes, after the word `dim`."""
    loc = reader.loc
    name = reader.word("a dim's name")
    try:
        if reader.accept("="):
            return Dim(name, reader.integer("the dim's size"))
        reader.expect("<=", f"dim {name}")
        largest = reader.integer("the dim's largest size")
        reader.expect("min", f"dim {name}'s largest size")
        return Dim(name, max=largest, min=reader.integer("the dim's smallest size"))
    except GraphError as error:
        reader.fail(error.message, loc=loc)


def read_dims(reader: Reader) -> dict[str, Dim]:
    """Reads the dim lines at the head of a text."""
    dims: dict[str, Dim] = {}
    while reader.accept("dim"):
        loc = reader.loc
        dim = read_dim(reader)
        if dim.name in dims:
            reader.fail(f"dim {dim.name} is declared twice", loc=loc)
        dims[dim.name] = dim
    return dims


def read_dimlike(reader: Reader, dims: Dims) -> DimLike:
    """A dim by name, or a plain int."""
    if reader.kind == "word":
        if reader.text not in dims:
            reader.fail(f"dim {reader.text} is not declared; add a line 'dim {reader.text} = SIZE' at the head")
        return dims[reader.word("a dim")]
    return reader.integer("a dim's name or size")


def read_type(reader: Reader, dims: Dims) -> TensorType:
    """Reads `f32[T, Head, 64]`."""
    loc = reader.loc
    name = reader.word("a type like f32[4, 64]")
    if name not in DTYPES:
        reader.fail(f"{name} is no dtype; there are {', '.join(DTYPES)}", loc=loc)
    reader.expect("[", name)
    found: list[DimLike] = []
    while not reader.accept("]"):
        found.append(read_dimlike(reader, dims))
        if not reader.another("a dim"):
            reader.expect("]", "the dims")
            break
    try:
        return TensorType(DTYPES[name], tuple(found))
    except GraphError as error:
        reader.fail(error.message, loc=loc)


def read_place(reader: Reader) -> Topology:
    """Reads `gpu:0` or `dsp#1000`."""
    loc = reader.loc
    try:
        return parse_topology(reader.take("place", "a topology like gpu:0"))
    except MachineError as error:
        reader.fail(error.message, loc=loc)


def literal(value: Any) -> str:
    """An attribute's value as text."""
    match value:
        case bool() | None:
            return next(word for word, v in _WORDS.items() if v is value)
        case Topology():
            return str(value)
        case int() | float():
            return number(value)
        case str():
            return quote(value)
        case tuple():
            return f"[{', '.join(map(literal, value))}]"  # type: ignore[arg-type]  # a tuple of literals
        case _:
            return str(value)


def read_literal(reader: Reader, dims: Dims, *, depth: int = 0) -> Any:
    """Reads what `literal` writes."""
    if depth > MAX_LISTS:
        reader.fail(f"lists are nested more than {MAX_LISTS} deep")
    match reader.kind:
        case "place":
            return read_place(reader)
        case "string":
            return reader.string("a string")
        case "number":
            return reader.number("a number")
        case "word":
            return _read_word(reader, dims)
        case _:
            reader.expect("[", "'='")
            found: list[Any] = []
            while not reader.accept("]"):
                found.append(read_literal(reader, dims, depth=depth + 1))
                if not reader.another("a value"):
                    reader.expect("]", "the list")
                    break
            return tuple(found)


def _read_word(reader: Reader, dims: Dims) -> Any:
    if reader.text in _WORDS:
        return _WORDS[reader.word("a word")]
    if reader.text in DTYPES:
        is_type = reader.texts[reader.at + 1] == "["
        return read_type(reader, dims) if is_type else DTYPES[reader.word("a dtype")]
    return read_dimlike(reader, dims)


def attributes(op: Op) -> Iterator[tuple[str, Any]]:
    """The op's fields that differ from their defaults, loops' bodies left out."""
    for f in fields(op):
        value = getattr(op, f.name)
        if value not in op.bodies and (required(f) or value != f.default):
            yield f.name, value


def print_op(op: Op, inputs: tuple[str, ...]) -> str:
    """`matmul(%x, %w) {transpose_b = true}`, without a body."""
    shown = ", ".join(f"{name} = {literal(value)}" for name, value in attributes(op))
    operands = ", ".join(f"%{i}" for i in inputs)
    return f"{op.name}({operands})" + (f" {{{shown}}}" if shown else "")


def read_op_head(reader: Reader, dims: Dims) -> tuple[type[Op], tuple[str, ...], dict[str, Any]]:
    """Reads what print_op writes; the op is made by `make_op` once its body, if any, is read."""
    loc = reader.loc
    name = reader.word("an op's name")
    if name not in OPS:
        reader.fail(f"there is no op {name!r}", loc=loc)
    reader.expect("(", name)
    inputs = reader.values()
    reader.expect(")", f"{name}'s operands")
    found: dict[str, Any] = {}
    if reader.accept("{"):
        while not reader.accept("}"):
            key = reader.word("an attribute's name")
            if key in found:
                reader.fail(f"{name}: attribute {key!r} is given twice")
            reader.expect("=", key)
            found[key] = read_literal(reader, dims)
            if not reader.another("an attribute"):
                reader.expect("}", f"{name}'s attributes")
                break
    return OPS[name], inputs, found


def make_op(reader: Reader, cls: type[Op], found: Mapping[str, Any], *, loc: Loc | None = None) -> Op:
    """The op with these attributes; TextError where one is missing, unknown or of another kind."""
    try:
        return op_of(cls, found)
    except GraphError as error:
        reader.fail(error.message, loc=loc)
