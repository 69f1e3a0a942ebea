"""A bounded loop on the host over a body graph.

    %token.1, %pos.1, %loop = loop(%token, %pos, %w, %limit) {carried = 2, max_steps = 64, limited = true}
      body "decode" {
        arg %t : i32[1]          the carried values first,
        arg %p : i32[]
        arg %w.in : f32[8, 8]    then the captures, the same in every step
        ...
        emit "token" = %next     handed to the caller in every step
        result "t" = %next       the next carried values, in order,
        result "p" = %p.next
        result "stop" = %done    then, if there is one, the stop predicate (bool[])
      } : i32[1], i32[], i32[]

It runs while fewer than min(max_steps, limit) steps are done and the last step's stop was false. Its results are the
last carried values and the number of steps done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vxgraph.errors import GraphError
from vxgraph.ir.graph import Graph, Input
from vxgraph.ir.op import Cost, Effect, Op, register
from vxgraph.ir.types import TensorType, bool_, i32

STOP = "stop"


@register
@dataclass(frozen=True)
class Loop(Op):
    """`carried` counts the values that go from step to step; `limited` says that the last operand bounds the steps."""

    name: ClassVar[str] = "loop"
    effect: ClassVar[Effect] = Effect.CONTROL
    body: Graph
    carried: int
    max_steps: int
    limited: bool = False

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The one body."""
        return (self.body,)

    @property
    def carried_args(self) -> tuple[Input, ...]:
        """The body's args that change from step to step."""
        return self.body.args[: self.carried]

    @property
    def captures(self) -> tuple[Input, ...]:
        """The body's args that are the same in every step."""
        return self.body.args[self.carried :]

    @property
    def next_values(self) -> tuple[str, ...]:
        """The body's values that the next step starts from."""
        return tuple(r.value for r in self.body.results[: self.carried])

    @property
    def stop(self) -> str | None:
        """The body's value that ends the loop, if there is one."""
        return self.body.results[self.carried].value if len(self.body.results) > self.carried else None

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The carried types, then i32[]; GraphError where operands, args and next values disagree."""
        body, n = self.body, self.carried
        if self.max_steps < 1:
            raise GraphError(f"max_steps is {self.max_steps}, wanted 1 or more")
        if not 0 <= n <= len(body.args) or len(body.results) not in (n, n + 1) or body.params:
            raise GraphError(
                f"the body has {len(body.args)} args and {len(body.results)} results for {n} carried values"
            )
        if len(operands) != len(body.args) + self.limited:
            raise GraphError(f"{len(operands)} operands for a body of {len(body.args)} args")
        for operand, arg in zip(operands, body.args, strict=False):
            if operand != arg.type:
                raise GraphError(f"%{arg.name} is {arg.type} in the body, but the loop is given {operand}")
        if self.limited and operands[-1] != i32[()]:
            raise GraphError(f"the limit is {operands[-1]}, wanted i32[]")
        self._check_results()
        return (*(arg.type for arg in self.carried_args), i32[()])

    def _check_results(self) -> None:
        types = self.body.types
        for arg, value in zip(self.carried_args, self.next_values, strict=True):
            if value in types and types[value] != arg.type:
                raise GraphError(
                    f"%{arg.name} starts a step as {arg.type}, but the step hands on %{value}: {types[value]}"
                )
        if self.stop is not None and types.get(self.stop, bool_[()]) != bool_[()]:
            raise GraphError(f"the stop predicate %{self.stop} is {types[self.stop]}, wanted bool[]")

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """One step's cost; what runs many steps multiplies it."""
        flops = nbytes = 0.0
        for node in self.body.nodes:
            one = node.op.cost(tuple(self.body.types[i] for i in node.inputs), node.types)
            flops, nbytes = flops + one.flops, nbytes + one.nbytes
        return Cost(flops, nbytes)
