"""Several elementwise ops as one: one kernel, one result, nothing in between in memory.

    %act = fused(%gate, %up) {expr = "mul(silu(a), b)"} : f32[1, 1536] @gpu:0

Operands are named a, b, c, ... in the expression, which is made of registered elementwise ops without attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from string import ascii_lowercase
from typing import Any, ClassVar

from vxgraph.errors import GraphError
from vxgraph.ir.op import OPS, Cost, Op, register
from vxgraph.ir.types import Array, Sizes, TensorType

_TOKEN = re.compile(r"([a-z_]+)|([(),])|\s+")


@dataclass(frozen=True, slots=True)
class Expr:
    """An op over sub-expressions, or (without an op) operand number `operand`."""

    op: Op | None
    operands: tuple[Expr, ...] = ()
    operand: int = 0

    def __str__(self) -> str:
        if self.op is None:
            return ascii_lowercase[self.operand]
        return f"{self.op.name}({', '.join(map(str, self.operands))})"

    def fold(self, leaf: Callable[[int], Any], apply: Callable[[Op, list[Any]], Any]) -> Any:
        """The value of the expression, bottom up."""
        if self.op is None:
            return leaf(self.operand)
        return apply(self.op, [e.fold(leaf, apply) for e in self.operands])

    @property
    def size(self) -> int:
        """The number of ops in it."""
        return self.fold(lambda _: 0, lambda _, sizes: 1 + sum(sizes))


@lru_cache(maxsize=256)
def parse_expr(text: str) -> Expr:
    """Reads `mul(silu(a), b)`; GraphError where it is none."""
    tokens = [m[0] for m in _TOKEN.finditer(text) if m[0].strip()]
    if "".join(tokens) != re.sub(r"\s+", "", text):
        raise GraphError(f"expr {text!r} is no expression of elementwise ops, like mul(silu(a), b)")
    expr, end = _parse(text, tokens, 0, 0)
    if end != len(tokens):
        raise GraphError(f"expr {text!r} goes on after its end at {tokens[end]!r}")
    return expr


def _parse(text: str, tokens: list[str], at: int, depth: int) -> tuple[Expr, int]:
    if at >= len(tokens) or depth > MAX_DEPTH:
        raise GraphError(f"expr {text!r} ends too early, or is nested more than {MAX_DEPTH} deep")
    word = tokens[at]
    if at + 1 == len(tokens) or tokens[at + 1] != "(":
        if word not in ascii_lowercase or len(word) != 1:
            raise GraphError(f"expr {text!r}: {word!r} is no operand; they are a, b, c, ...")
        return Expr(None, (), ascii_lowercase.index(word)), at + 1
    if word not in OPS or not OPS[word].elementwise or fields(OPS[word]):
        raise GraphError(f"expr {text!r}: {word!r} is no elementwise op without attributes")
    operands: list[Expr] = []
    at += 2
    while True:
        operand, at = _parse(text, tokens, at, depth + 1)
        operands.append(operand)
        if at >= len(tokens) or tokens[at] not in (",", ")"):
            raise GraphError(f"expr {text!r}: expected ',' or ')' after {operand}")
        at += 1
        if tokens[at - 1] == ")":
            return Expr(OPS[word](), tuple(operands)), at


MAX_DEPTH = 32
MAX_OPERANDS = len(ascii_lowercase)


@register
@dataclass(frozen=True)
class Fused(Op):
    """An expression over elementwise ops."""

    name: ClassVar[str] = "fused"
    expr: str

    @cached_property
    def tree(self) -> Expr:
        """The expression, parsed."""
        return parse_expr(self.expr)

    def infer(self, *args: TensorType) -> tuple[TensorType]:
        """What the expression's ops infer."""

        def leaf(i: int) -> TensorType:
            if i >= len(args):
                raise GraphError(f"expr {self.expr!r} reads operand {ascii_lowercase[i]}, but there are {len(args)}")
            return args[i]

        return (self.tree.fold(leaf, lambda op, types: op.infer(*types)[0]),)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Every op once per result element; operands read and the result written once."""
        elements = outs[0].max_bytes // outs[0].dtype.itemsize
        return Cost(float(elements * self.tree.size), float(sum(t.max_bytes for t in (*ins, *outs))))

    def reference(self, sizes: Sizes, *args: Array) -> tuple[Array]:
        """The ops' own references, one after the other."""
        return (self.tree.fold(lambda i: args[i], lambda op, values: op.reference(sizes, *values)[0]),)
