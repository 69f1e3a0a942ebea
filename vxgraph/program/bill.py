"""The transfer bill: every movement of a program, with its bytes, how often, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vxgraph.program.instructions import Download, Instruction, Loop, TransferPeer, Upload
from vxgraph.program.model import Program, Transfer, When


def transfers_of(program: Program) -> tuple[Transfer, ...]:
    """Load section first, then a run in program order."""
    return (*_transfers(program.load, "load", 1), *_transfers(program.body, "run", 1))


def _transfers(instructions: Iterable[Instruction], when: When, count: int) -> Iterator[Transfer]:
    for i in instructions:
        match i:
            case Upload():
                yield Transfer(i.src, None, i.topology, i.type, "upload", i.why, when, count, i.loc)
            case Download():
                yield Transfer(i.src, i.topology, None, i.type, "download", i.why, when, count, i.loc)
            case TransferPeer():
                yield Transfer(i.src, i.topology, i.dst_topology, i.type, i.route, i.why, when, count, i.loc)
            case Loop():
                yield from _transfers(i.body, "step", count * i.max_steps)
            case _:
                pass
