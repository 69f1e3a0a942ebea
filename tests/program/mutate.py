"""Mutants of a program: each the smallest edit of one kind that a wrong compiler, or a hand, could make."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from vxgraph.ir.graph import Result
from vxgraph.program.instructions import Dispatch, Download, Emit, Instruction, Loop, TransferPeer, Upload, View
from vxgraph.program.model import Program, Slot

Path = tuple[int, ...]
Block = tuple[Instruction, ...]


def paths(block: Block, prefix: Path = ()) -> Iterator[tuple[Path, Instruction]]:
    """Every instruction with its index, and the indices of the loops around it."""
    for k, instr in enumerate(block):
        yield (*prefix, k), instr
        if isinstance(instr, Loop):
            yield from paths(instr.body, (*prefix, k))


def edit(block: Block, path: Path, change: Callable[[Block, int], Block]) -> Block:
    """The block with `change(innermost block, index)` made."""
    k, *rest = path
    if not rest:
        return change(block, k)
    loop = block[k]
    assert isinstance(loop, Loop)
    return (*block[:k], replace(loop, body=edit(loop.body, tuple(rest), change)), *block[k + 1 :])


def swapped(program: Program, where: str, path: Path, *new: Instruction) -> Program:
    """The program with one instruction replaced by others."""
    block = edit(getattr(program, where), path, lambda b, k: (*b[:k], *new, *b[k + 1 :]))
    return replace(program, **{where: block})


def sites(program: Program, *kinds: type) -> list[tuple[str, Path, Any]]:
    """Every instruction of these kinds, in the load section and the body."""
    return [
        (w, p, i) for w in ("load", "body") for p, i in paths(getattr(program, w)) if isinstance(i, kinds or object)
    ]


Mutation = Callable[[Program, random.Random], Program | None]


def _drop(*kinds: type) -> Mutation:
    def mutate(program: Program, rng: random.Random) -> Program | None:
        found = sites(program, *kinds)
        if not found:
            return None
        where, path, _ = rng.choice(found)
        return swapped(program, where, path)

    return mutate


def drop_wait(program: Program, rng: random.Random) -> Program | None:
    found = [(w, p, i) for w, p, i in sites(program, Upload, Download, TransferPeer, Dispatch) if i.after]
    if not found:
        return None
    where, path, instr = rng.choice(found)
    k = rng.randrange(len(instr.after))
    return swapped(program, where, path, replace(instr, after=instr.after[:k] + instr.after[k + 1 :]))


def forward_wait(program: Program, rng: random.Random) -> Program | None:
    found = sites(program, Upload, Download, TransferPeer, Dispatch)
    k, m = sorted((rng.randrange(len(found)), rng.randrange(len(found))))
    (where, path, instr), (_, _, later) = found[k], found[m]
    return None if k == m else swapped(program, where, path, replace(instr, after=(*instr.after, later.name)))


def swap_places(program: Program, rng: random.Random) -> Program | None:
    found = sites(program, TransferPeer)
    if not found:
        return None
    where, path, i = rng.choice(found)
    return swapped(program, where, path, replace(i, topology=i.dst_topology, dst_topology=i.topology))


def other_place(program: Program, rng: random.Random) -> Program | None:
    where, path, i = rng.choice(sites(program, Upload, Download, TransferPeer, Dispatch))
    others = [t for t in program.topologies if t != i.topology]
    return swapped(program, where, path, replace(i, topology=rng.choice(others))) if others else None


def _slot(change: Callable[[Slot, Program, random.Random], Slot]) -> Mutation:
    def mutate(program: Program, rng: random.Random) -> Program | None:
        k = rng.randrange(len(program.slots))
        new = change(program.slots[k], program, rng)
        return (
            None
            if new == program.slots[k]
            else replace(program, slots=(*program.slots[:k], new, *program.slots[k + 1 :]))
        )

    return mutate


def shift_slot(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, offset=slot.offset + rng.choice([-256, -1, 1, 16, 256, 512]))


def onto_another(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, offset=rng.choice([s.offset for s in program.slots if s.topology == slot.topology]))


def shrink_slot(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, nbytes=max(0, slot.nbytes - rng.choice([1, 4, 16])))


def move_slot(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, topology=rng.choice(program.topologies))


def retype_slot(slot: Slot, program: Program, rng: random.Random) -> Slot:
    like = rng.choice(program.slots).type
    return replace(slot, type=like, nbytes=like.max_bytes)


def reorder(program: Program, rng: random.Random) -> Program | None:
    """Two neighbours of one block change places."""
    where, path, _ = rng.choice(sites(program))

    def change(block: Block, k: int) -> Block:
        return (*block[:k], block[k + 1], block[k], *block[k + 2 :]) if k + 1 < len(block) else block

    block = edit(getattr(program, where), path, change)
    return None if block == getattr(program, where) else replace(program, **{where: block})


def move_far(program: Program, rng: random.Random) -> Program | None:
    """One instruction goes somewhere else in its block."""
    where, path, _ = rng.choice(sites(program))

    def change(block: Block, k: int) -> Block:
        rest = [*block[:k], *block[k + 1 :]]
        rest.insert(rng.randrange(len(block)), block[k])
        return tuple(rest)

    block = edit(getattr(program, where), path, change)
    return None if block == getattr(program, where) else replace(program, **{where: block})


def out_of_loop(program: Program, rng: random.Random) -> Program | None:
    """What a loop does in every step is done once, before or after it."""
    found = [(w, p, i) for w, p, i in sites(program, Loop) if i.body]
    if not found:
        return None
    where, path, loop = rng.choice(found)
    k = rng.randrange(len(loop.body))
    rest = replace(loop, body=loop.body[:k] + loop.body[k + 1 :])
    order = (loop.body[k], rest) if rng.random() < 0.5 else (rest, loop.body[k])
    return swapped(program, where, path, *order)


def into_loop(program: Program, rng: random.Random) -> Program | None:
    """What is done once before or after a loop is done in every step."""
    found = sites(program, Loop)
    if not found:
        return None
    where, path, loop = rng.choice(found)

    def change(block: Block, k: int) -> Block:
        if rng.random() < 0.5 and k > 0:
            j = rng.randrange(k)
            return (*block[:j], *block[j + 1 : k], replace(loop, body=(block[j], *loop.body)), *block[k + 1 :])
        if k + 1 < len(block):
            return (*block[:k], replace(loop, body=(*loop.body, block[k + 1])), *block[k + 2 :])
        return block

    block = edit(getattr(program, where), path, change)
    return None if block == getattr(program, where) else replace(program, **{where: block})


def other_operand(program: Program, rng: random.Random) -> Program | None:
    where, path, i = rng.choice(sites(program, Upload, Download, TransferPeer, Dispatch, View))
    if isinstance(i, Upload):
        names = [*(a.name for a in program.args), *(p.name for p in program.params)]
        names += [d.dst for _, _, d in sites(program, Download)]
        return swapped(program, where, path, replace(i, src=rng.choice(names)))
    other = rng.choice(program.slots).value
    if not isinstance(i, Dispatch):
        return swapped(program, where, path, replace(i, src=other))
    if not i.inputs:
        return None
    k = rng.randrange(len(i.inputs))
    return swapped(program, where, path, replace(i, inputs=(*i.inputs[:k], other, *i.inputs[k + 1 :])))


def other_output(program: Program, rng: random.Random) -> Program | None:
    where, path, i = rng.choice(sites(program, Upload, TransferPeer, Dispatch, View))
    other = rng.choice(program.slots).value
    new = replace(i, outputs=(other, *i.outputs[1:])) if isinstance(i, Dispatch) else replace(i, dst=other)
    return swapped(program, where, path, new)


def other_host_value(program: Program, rng: random.Random) -> Program | None:
    names = [a.name for a in program.args] + [p.name for p in program.params]
    names += [d.dst for _, _, d in sites(program, Download)] + [lp.steps for _, _, lp in sites(program, Loop)]
    emits = sites(program, Emit)
    if emits and rng.random() < 0.5:
        where, path, e = rng.choice(emits)
        return swapped(program, where, path, replace(e, value=rng.choice(names)))
    k = rng.randrange(len(program.results))
    new = Result(program.results[k].name, rng.choice(names))
    return replace(program, results=(*program.results[:k], new, *program.results[k + 1 :]))


def other_carry(program: Program, rng: random.Random) -> Program | None:
    found = [(w, p, i) for w, p, i in sites(program, Loop) if i.carried]
    if not found:
        return None
    where, path, loop = rng.choice(found)
    k = rng.randrange(len(loop.carried))
    new = replace(loop.carried[k], **{rng.choice(["init", "arg", "next", "out"]): rng.choice(program.slots).value})
    return swapped(program, where, path, replace(loop, carried=(*loop.carried[:k], new, *loop.carried[k + 1 :])))


def drop_carry(program: Program, rng: random.Random) -> Program | None:
    found = [(w, p, i) for w, p, i in sites(program, Loop) if i.carried]
    if not found:
        return None
    where, path, loop = rng.choice(found)
    k = rng.randrange(len(loop.carried))
    return swapped(program, where, path, replace(loop, carried=loop.carried[:k] + loop.carried[k + 1 :]))


def other_type(program: Program, rng: random.Random) -> Program | None:
    where, path, i = rng.choice(sites(program, Upload, Download, TransferPeer, Dispatch, View))
    like = rng.choice(program.slots).type
    new = replace(i, types=(like, *i.types[1:])) if isinstance(i, Dispatch) else replace(i, type=like)
    return None if new == i else swapped(program, where, path, new)


def repeat(program: Program, rng: random.Random) -> Program | None:
    """An instruction is there twice."""
    where, path, i = rng.choice(sites(program, Upload, Download, TransferPeer, Dispatch, Emit))
    return swapped(program, where, path, i, i)


MUTATIONS: dict[str, Mutation] = {
    "a transfer is dropped": _drop(TransferPeer),
    "an upload is dropped": _drop(Upload),
    "a download is dropped": _drop(Download),
    "a dispatch is dropped": _drop(Dispatch),
    "a view is dropped": _drop(View),
    "a loop is dropped": _drop(Loop),
    "a wait is dropped": drop_wait,
    "a wait for a later instruction": forward_wait,
    "a transfer's places are swapped": swap_places,
    "an instruction is at another place": other_place,
    "a slot is shifted": _slot(shift_slot),
    "a slot lies on another": _slot(onto_another),
    "a slot is too small": _slot(shrink_slot),
    "a slot is at another place": _slot(move_slot),
    "a slot has another type": _slot(retype_slot),
    "neighbours change places": reorder,
    "an instruction is moved": move_far,
    "a step's instruction leaves the loop": out_of_loop,
    "an instruction enters the loop": into_loop,
    "another operand": other_operand,
    "another output": other_output,
    "another host value": other_host_value,
    "a loop carries another value": other_carry,
    "a loop carries one value less": drop_carry,
    "an instruction has another type": other_type,
    "an instruction is there twice": repeat,
}
