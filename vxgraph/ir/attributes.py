"""An op from its attributes, held to what its fields' annotations say.

op_of(Softmax, {"axis": 0.5})  ->  GraphError: softmax: attribute axis is int, found 0.5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import lru_cache
from typing import Any

from vxgraph.errors import GraphError
from vxgraph.ir.graph import Graph
from vxgraph.ir.op import Op
from vxgraph.ir.types import Dim, DType, TensorType
from vxgraph.topology.ids import Topology

LARGEST_INT = 2**64  # an integer beyond it is no size, no id and no count


def op_of(cls: type[Op], attributes: Mapping[str, Any]) -> Op:
    """The op; GraphError, without a place, where an attribute is missing, unknown, of another kind or refused."""
    known = _fields(cls)
    for key, value in attributes.items():
        if key not in known:
            raise GraphError(f"{cls.name} has no attribute {key!r}; it has {', '.join(known) or 'none'}")
        if not fits(value, str(known[key].type)):
            raise GraphError(f"{cls.name}: attribute {key} is {known[key].type}, found {value!r}")
    for key, f in known.items():
        if required(f) and key not in attributes:
            raise GraphError(f"{cls.name}: attribute {key!r} is missing")
    try:
        return cls(**attributes)
    except GraphError as error:
        raise GraphError(f"{cls.name}: {error.message}") from None


@lru_cache(maxsize=256)
def _fields(cls: type[Op]) -> dict[str, Field[Any]]:
    return {f.name: f for f in fields(cls)}


def required(f: Field[Any]) -> bool:
    """Whether the attribute must be given."""
    return f.default is MISSING and f.default_factory is MISSING


_KINDS: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "float": (int, float),
    "str": str,
    "DType": DType,
    "Dim": Dim,
    "DimLike": (int, Dim),
    "TensorType": TensorType,
    "Topology": Topology,
    "Graph": Graph,
    "Literal": str,
}


def fits(value: Any, annotation: str) -> bool:
    """Whether a value is of the kind that a field's annotation names."""
    if annotation.endswith(" | None"):
        return value is None or fits(value, annotation.removesuffix(" | None"))
    outer, _, inner = annotation.partition("[")
    match outer:
        case "tuple":
            return isinstance(value, tuple) and _elements_fit(value, inner.removesuffix("]").split(", "))  # type: ignore[reportUnknownArgumentType]
        case "bool":
            return isinstance(value, bool)
        case "Scalar":
            return True  # Constant knows which of its dtype
        case _:
            return _is_kind(value, _KINDS[outer])


def _is_kind(value: Any, kind: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool) or (isinstance(value, Topology) and kind is not Topology):
        return False  # both are ints by inheritance only
    return isinstance(value, kind) and not (isinstance(value, int) and abs(value) > LARGEST_INT)


def _elements_fit(values: tuple[Any, ...], kinds: list[str]) -> bool:
    if kinds[-1] == "...":
        kinds = kinds[:1] * len(values)
    return len(values) == len(kinds) and all(map(fits, values, kinds))
