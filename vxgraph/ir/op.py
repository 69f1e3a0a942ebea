"""The base of all ops, and their registry.

An op is a frozen dataclass; its fields are its attributes, and all that is true of it stands in its class:

    @register
    @dataclass(frozen=True)
    class Neg(Op):
        name: ClassVar[str] = "neg"
        def infer(self, x: TensorType) -> tuple[TensorType]: return (x,)
        def reference(self, sizes: Sizes, x: Array) -> tuple[Array]: return (-x,)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from vxgraph.errors import InternalError
from vxgraph.ir.types import Array, TensorType

if TYPE_CHECKING:
    from vxgraph.ir.graph import Graph


class Effect(Enum):
    """What running a node does besides computing its outputs."""

    PURE = "pure"  # nothing: may be merged, repeated or dropped
    MOVES = "moves"  # takes bytes from one place to another
    CONTROL = "control"  # decides on the host what runs next


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a node takes at the sizes given: arithmetic, and bytes of device memory read and written."""

    flops: float
    nbytes: float


@dataclass(frozen=True)
class Op:
    """One operation. `infer` is its typing rule, `reference` its meaning in NumPy, `cost` its price."""

    name: ClassVar[str]
    effect: ClassVar[Effect] = Effect.PURE
    elementwise: ClassVar[bool] = False  # out[i] depends on operands at i only; one dtype throughout
    donates: ClassVar[int | None] = None  # the operand whose buffer the result may take over
    alias: ClassVar[bool] = False  # the result is operand 0's bytes under another shape: never runs

    def infer(self, *args: Any, **kwargs: Any) -> tuple[TensorType, ...]:
        """The result types; GraphError, without a place, where the operands do not fit."""
        raise InternalError(f"{self.name}: no typing rule")

    def reference(self, sizes: Any, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
        """The results in plain NumPy, fresh arrays; `sizes` are the symbols' sizes in this run."""
        raise InternalError(f"{self.name}: moves or controls; it has no value in NumPy")

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """At the symbols' bounds; by default one operation per result element, every operand read once."""
        elements = sum(t.max_bytes // t.dtype.itemsize for t in outs)
        return Cost(float(elements), float(sum(t.max_bytes for t in (*ins, *outs))))

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """Graphs that the op holds (a loop's body)."""
        return ()


OPS: dict[str, type[Op]] = {}
OpT = TypeVar("OpT", bound=Op)


def register(cls: type[OpT]) -> type[OpT]:
    """Makes an op known to the text format by its name."""
    if cls.name in OPS:
        raise InternalError(f"op {cls.name!r} is registered twice")
    OPS[cls.name] = cls
    return cls
