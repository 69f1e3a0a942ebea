"""Small edits of a program: where its instructions stand, and how one of them is replaced.

where, path, instr = pick(rng, sites(program, TransferPeer))
mutant = swapped(program, where, path, replace(instr, after=()))
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from vxgraph.errors import VxError
from vxgraph.program.instructions import Dispatch, Download, Instruction, Loop, TransferPeer, Upload
from vxgraph.program.model import Program, Slot
from vxgraph.topology.ids import Topology

Path = tuple[int, ...]  # the index in each block, the outermost first
Block = tuple[Instruction, ...]
Site = tuple[str, Path, Any]  # "load" or "body", the path, the instruction
Mutation = Callable[[Program, random.Random], Program]
QUEUED = (Upload, Download, TransferPeer, Dispatch)
T = TypeVar("T")


class NowhereError(LookupError):
    """The program has no place for this kind of edit."""


def pick(rng: random.Random, found: Iterable[T]) -> T:
    """One of them; NowhereError where there is none."""
    choices = list(found)
    if not choices:
        raise NowhereError
    return rng.choice(choices)


def mutant_of(mutation: Mutation, program: Program, rng: random.Random) -> Program | None:
    """The edited program; None where there is no place for the edit, or it changes nothing."""
    try:
        mutant = mutation(program, rng)
    except (NowhereError, VxError):  # a type or an op with such attributes cannot be made at all
        return None
    return None if mutant == program else mutant


def paths(block: Block, prefix: Path = ()) -> Iterator[tuple[Path, Instruction]]:
    """Every instruction with its index, and the indices of the loops around it."""
    for k, instr in enumerate(block):
        yield (*prefix, k), instr
        if isinstance(instr, Loop):
            yield from paths(instr.body, (*prefix, k))


def sites(program: Program, *kinds: type) -> list[Site]:
    """Every instruction of these kinds, in the load section and the body."""
    return [
        (w, p, i) for w in ("load", "body") for p, i in paths(getattr(program, w)) if isinstance(i, kinds or object)
    ]


def edit(block: Block, path: Path, change: Callable[[Block, int], Block]) -> Block:
    """The block with `change(innermost block, index)` made."""
    k, *rest = path
    if not rest:
        return change(block, k)
    loop = block[k]
    assert isinstance(loop, Loop)
    return (*block[:k], replace(loop, body=edit(loop.body, tuple(rest), change)), *block[k + 1 :])


def edited(program: Program, where: str, path: Path, change: Callable[[Block, int], Block]) -> Program:
    """The program with `change` made to the block that holds the path's instruction."""
    return replace(program, **{where: edit(getattr(program, where), path, change)})


def swapped(program: Program, where: str, path: Path, *new: Instruction) -> Program:
    """The program with one instruction replaced by others."""
    return edited(program, where, path, lambda block, k: (*block[:k], *new, *block[k + 1 :]))


def everywhere(program: Program, change: Callable[[Instruction], Instruction]) -> Program:
    """Every instruction changed, loops' bodies first."""

    def block(instructions: Block) -> Block:
        return tuple(change(replace(i, body=block(i.body)) if isinstance(i, Loop) else i) for i in instructions)

    return replace(program, load=block(program.load), body=block(program.body))


def with_slot(program: Program, slot: Slot) -> Program:
    """The program with the slot of that value replaced."""
    if slot.value not in program.slot_of:
        raise NowhereError
    return replace(program, slots=tuple(slot if s.value == slot.value else s for s in program.slots))


def with_new_slot(program: Program, like: Slot, name: str) -> Program:
    """The program with one more slot, in bytes at its arena's end that nothing else has."""
    slot, nbytes = replace(like, value=name, offset=end_of(program, like.topology)), -(-like.nbytes // 256) * 256
    arenas = tuple(
        replace(a, nbytes=slot.offset + nbytes, staging=a.staging + slot.offset + nbytes - a.nbytes)
        if a.topology == like.topology
        else a
        for a in program.arenas
    )
    return replace(program, slots=(*program.slots, slot), arenas=arenas)


def end_of(program: Program, topology: Topology) -> int:
    """The first aligned byte after a topology's arena."""
    (arena,) = (a for a in program.arenas if a.topology == topology)
    return -(-arena.nbytes // 256) * 256
