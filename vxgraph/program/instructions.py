"""What a program is made of.

    upload gpu:0.copy %x -> %x.gpu0
    dispatch gpu:0.compute silu(%mm) -> %silu after %x.gpu0
    transfer_peer gpu:0.copy %silu -> %silu.gpu1 @gpu:1 direct after %silu
    download gpu:1.copy %y -> %y.host after %y
    view gpu:0 %q -> %q.heads
    emit "token" %tok.host
    loop ...

An instruction is named after the first value it defines; `after` names instructions of other queues that must be done
before it starts. Queues run their instructions in program order.

A loop is a barrier: everything before it in program order is done when its first step starts, and a step is done when
the next one starts. View, emit and loop are in no queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from vxgraph.errors import Loc
from vxgraph.ir.op import Op
from vxgraph.ir.types import TensorType
from vxgraph.topology.ids import Topology


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of one topology; its instructions start in program order, each after the one before it."""

    topology: Topology
    kind: Literal["compute", "copy"]

    def __str__(self) -> str:
        return f"{self.topology}.{self.kind}"


@dataclass(frozen=True, slots=True)
class Upload:
    """Host value `src` (an arg, a param or a downloaded value) into device value `dst` at `topology`."""

    src: str
    dst: str
    type: TensorType
    topology: Topology
    after: tuple[str, ...] = ()
    why: str = field(default="", compare=False)
    loc: Loc | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The value it defines."""
        return self.dst

    @property
    def queue(self) -> Queue:
        """The destination's copy queue."""
        return Queue(self.topology, "copy")


@dataclass(frozen=True, slots=True)
class Download:
    """Device value `src` at `topology` into host value `dst`."""

    src: str
    dst: str
    type: TensorType
    topology: Topology
    after: tuple[str, ...] = ()
    why: str = field(default="", compare=False)
    loc: Loc | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The value it defines."""
        return self.dst

    @property
    def queue(self) -> Queue:
        """The source's copy queue."""
        return Queue(self.topology, "copy")


@dataclass(frozen=True, slots=True)
class TransferPeer:
    """Device value `src` at `topology` into device value `dst` at `dst_topology`; `route` says how it travels."""

    src: str
    dst: str
    type: TensorType
    topology: Topology
    dst_topology: Topology
    route: Literal["local", "direct", "staged"]
    after: tuple[str, ...] = ()
    why: str = field(default="", compare=False)
    loc: Loc | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The value it defines."""
        return self.dst

    @property
    def queue(self) -> Queue:
        """The source's copy queue."""
        return Queue(self.topology, "copy")


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One kernel on `topology`'s compute queue."""

    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: tuple[TensorType, ...]
    topology: Topology
    after: tuple[str, ...] = ()
    why: str = field(default="", compare=False)
    loc: Loc | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The first value it defines."""
        return self.outputs[0]

    @property
    def queue(self) -> Queue:
        """The topology's compute queue."""
        return Queue(self.topology, "compute")


@dataclass(frozen=True, slots=True)
class Emit:
    """Hands host value `value` to the caller under the external name `name_out`."""

    name_out: str
    value: str


@dataclass(frozen=True, slots=True)
class View:
    """Value `dst` is the bytes of `src` under another shape; nothing runs."""

    src: str
    dst: str
    type: TensorType
    topology: Topology
    loc: Loc | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that goes from step to step. All four are one slot: `init` before the loop, `arg` at a step's start,
    `next` at its end, `out` after the loop."""

    init: str
    arg: str
    next: str
    out: str


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs `body` while fewer than min(max_steps, limit) steps are done and the last `stop` was false.

    `limit` and `stop` are host values (i32[] and bool[]), `steps` is the host value that holds the steps done.
    """

    steps: str
    carried: tuple[Carried, ...]
    body: tuple[Instruction, ...]
    max_steps: int
    limit: str | None = None
    stop: str | None = None
    loc: Loc | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The value that holds the steps done."""
        return self.steps


Queued = Upload | Download | TransferPeer | Dispatch
Instruction = Queued | View | Emit | Loop


def flatten(instructions: Iterable[Instruction]) -> Iterator[tuple[Instruction, int]]:
    """Every instruction with the number of loops around it, a loop before its body."""
    stack = [iter(instructions)]
    while stack:
        instr = next(stack[-1], None)
        if instr is None:
            stack.pop()
            continue
        yield instr, len(stack) - 1
        if isinstance(instr, Loop):
            stack.append(iter(instr.body))


def reads(instr: Queued) -> tuple[str, ...]:
    """The device values that an instruction reads."""
    match instr:
        case Upload():
            return ()
        case Download(src=src) | TransferPeer(src=src):
            return (src,)
        case Dispatch(inputs=inputs):
            return inputs


def writes(instr: Queued) -> tuple[str, ...]:
    """The device values that an instruction defines."""
    match instr:
        case Download():
            return ()
        case Upload(dst=dst) | TransferPeer(dst=dst):
            return (dst,)
        case Dispatch(outputs=outputs):
            return outputs


def touched(instr: Instruction) -> tuple[str, ...]:
    """The device values whose bytes an instruction reads or writes, or says to be another value's."""
    match instr:
        case Emit():
            return ()
        case View(src=src, dst=dst):
            return (src, dst)
        case Loop(carried=carried):
            return tuple(v for c in carried for v in (c.init, c.arg, c.out))
        case _:
            return (*reads(instr), *writes(instr))


def label(instr: Instruction) -> str:
    """`dispatch %h (matmul)`, `transfer_peer %k.gpu1`, `emit "token"`."""
    match instr:
        case Dispatch():
            return f"dispatch %{instr.name} ({instr.op.name})"
        case Upload():
            return f"upload %{instr.name}"
        case Download():
            return f"download %{instr.name}"
        case TransferPeer():
            return f"transfer_peer %{instr.name}"
        case Emit():
            return f'emit "{instr.name_out}"'
        case View():
            return f"view %{instr.dst}"
        case Loop():
            return f"loop %{instr.name}"
