"""Moves between places: the ops that passes insert and that `value.to(place)` writes.

%h.gpu1 = transfer_peer(%h) {src = gpu:0, dst = gpu:1} : f32[1, 256] @gpu:1
%x.gpu0 = upload(%x) {dst = gpu:0} : f32[1, 64] @gpu:0        from the host (the caller's memory)
%y.host = download(%y) {src = gpu:1} : f32[1, 64]             to the host
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vxgraph.errors import GraphError
from vxgraph.ir.op import Cost, Effect, Op, register
from vxgraph.ir.types import TensorType
from vxgraph.topology.ids import Topology


@dataclass(frozen=True)
class Move(Op):
    """What all moves share: one operand, the same type on the other side, no arithmetic."""

    effect: ClassVar[Effect] = Effect.MOVES

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The operand's type: a move never converts."""
        return (x,)

    def cost(self, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Cost:
        """Bytes read on one side and written on the other."""
        return Cost(0.0, float(ins[0].max_bytes + outs[0].max_bytes))


@register
@dataclass(frozen=True)
class TransferPeer(Move):
    """Device to device. `explicit` marks one that the user wrote, which is never elided."""

    name: ClassVar[str] = "transfer_peer"
    src: Topology
    dst: Topology
    explicit: bool = False

    def infer(self, x: TensorType) -> tuple[TensorType]:
        """The operand's type; GraphError where both ends are the same place."""
        if self.src == self.dst:
            raise GraphError(f"from {self.src} to itself")
        return (x,)


@register
@dataclass(frozen=True)
class Upload(Move):
    """Host to device. `explicit` as in `TransferPeer`."""

    name: ClassVar[str] = "upload"
    dst: Topology
    explicit: bool = False


@register
@dataclass(frozen=True)
class Download(Move):
    """Device to host."""

    name: ClassVar[str] = "download"
    src: Topology


@register
@dataclass(frozen=True)
class To(Move):
    """`value.to(gpu:1)` as the user wrote it; placement makes it the transfer that the operand's place asks for."""

    name: ClassVar[str] = "to"
    dst: Topology
