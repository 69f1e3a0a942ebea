"""A program's values by name: what makes each, what reads it, how often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vxgraph.errors import Loc
from vxgraph.ir.types import TensorType
from vxgraph.program.instructions import Dispatch, Download, Emit, Instruction, Loop, TransferPeer, Upload, View
from vxgraph.program.model import HostInput, Program

Transferring = Upload | Download | TransferPeer
Maker = HostInput | Instruction


@dataclass(frozen=True)
class Index:
    """What is known of each value."""

    program: Program
    maker: dict[str, Maker]
    readers: dict[str, list[Instruction]]
    steps: dict[str, int]  # an instruction -> executions at most, per run (or per load)

    def type_of(self, name: str) -> TensorType | None:
        """The value's type; None for what is in no table."""
        match self.maker.get(name):
            case HostInput(type=type) | Upload(type=type) | Download(type=type) | TransferPeer(type=type):
                return type
            case View(type=type):
                return type
            case _:
                slot = self.program.slot_of.get(name)
                return None if slot is None else slot.type

    def loc_of(self, name: str) -> Loc | None:
        """The user's line that the value is from."""
        maker = self.maker.get(name)
        return None if maker is None or isinstance(maker, Emit) else maker.loc

    def moves_of(self, name: str) -> list[Transferring]:
        """Transfers that make the value or take it elsewhere, those of its load first."""
        maker = self.maker.get(name)
        own = [maker] if isinstance(maker, Transferring) else []
        return [*own, *(i for i in self.readers.get(name, ()) if isinstance(i, Transferring))]


def index_of(program: Program) -> Index:
    """Both sections of a program, indexed."""
    maker: dict[str, Maker] = {i.name: i for i in (*program.args, *program.params)}
    readers: dict[str, list[Instruction]] = defaultdict(list)
    steps: dict[str, int] = {}
    for instr, count in _counted((*program.load, *program.body), 1):
        for value in _makes(instr):
            maker.setdefault(value, instr)
            steps.setdefault(value, count)
        for value in dict.fromkeys(_reads(instr)):
            readers[value].append(instr)
    return Index(program, maker, readers, steps)


def _counted(instructions: Iterable[Instruction], count: int) -> Iterator[tuple[Instruction, int]]:
    for i in instructions:
        yield i, count
        if isinstance(i, Loop):
            yield from _counted(i.body, count * i.max_steps)


def _makes(instr: Instruction) -> tuple[str, ...]:
    match instr:
        case Dispatch(outputs=outputs):
            return outputs
        case Upload(dst=dst) | Download(dst=dst) | TransferPeer(dst=dst) | View(dst=dst):
            return (dst,)
        case Loop():
            return (instr.steps, *(c.arg for c in instr.carried), *(c.out for c in instr.carried))
        case Emit():
            return ()


def _reads(instr: Instruction) -> tuple[str, ...]:
    match instr:
        case Dispatch(inputs=inputs):
            return inputs
        case Upload(src=src) | Download(src=src) | TransferPeer(src=src) | View(src=src):
            return (src,)
        case Emit(value=value):
            return (value,)
        case Loop():
            hosts = tuple(v for v in (instr.limit, instr.stop) if v is not None)
            return (*(c.init for c in instr.carried), *hosts)
