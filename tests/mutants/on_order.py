"""Waits, and the order of instructions in queues, blocks and loops."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.mutants.edits import QUEUED, Block, Mutation, edited, pick, sites, swapped
from vxgraph.program.instructions import Dispatch, Emit, Loop, TransferPeer, Upload, reads, writes
from vxgraph.program.model import Program


def drop_wait(program: Program, rng: random.Random) -> Program:
    """One of an instruction's waits."""
    where, path, instr = pick(rng, (s for s in sites(program, *QUEUED) if s[2].after))
    k = rng.randrange(len(instr.after))
    return swapped(program, where, path, replace(instr, after=instr.after[:k] + instr.after[k + 1 :]))


def drop_waits(program: Program, rng: random.Random) -> Program:
    where, path, instr = pick(rng, (s for s in sites(program, *QUEUED) if s[2].after))
    return swapped(program, where, path, replace(instr, after=()))


def other_wait(program: Program, rng: random.Random) -> Program:
    """For an instruction that comes earlier, but not for the one that it needs."""
    found = sites(program, *QUEUED)
    k = pick(rng, (k for k, (_, _, i) in enumerate(found) if i.after))
    where, path, instr = found[k]
    others = [i.name for w, p, i in found[:k] if w == where and p[:-1] == path[:-1] and i.name not in instr.after]
    j = rng.randrange(len(instr.after))
    after = (*instr.after[:j], pick(rng, others), *instr.after[j + 1 :])
    return swapped(program, where, path, replace(instr, after=after))


def forward_wait(program: Program, rng: random.Random) -> Program:
    found = sites(program, *QUEUED)
    k, m = sorted((rng.randrange(len(found)), rng.randrange(len(found))))
    (where, path, instr), (_, _, later) = found[k], found[m]
    return swapped(program, where, path, replace(instr, after=(*instr.after, later.name))) if k != m else program


def neighbours(program: Program, rng: random.Random) -> Program:
    where, path, _ = pick(rng, sites(program))

    def change(block: Block, k: int) -> Block:
        return (*block[:k], block[k + 1], block[k], *block[k + 2 :]) if k + 1 < len(block) else block

    return edited(program, where, path, change)


def queue_order(program: Program, rng: random.Random) -> Program:
    """Two instructions of one queue, one of which needs the other's bytes, change places; their waits go along."""
    where, path, first = pick(rng, sites(program, *QUEUED))
    touched = {*reads(first), *writes(first)}

    def change(block: Block, k: int) -> Block:
        same = [
            j
            for j, i in enumerate(block)
            if j > k and isinstance(i, QUEUED) and i.queue == first.queue and touched & {*reads(i), *writes(i)}
        ]
        j = pick(rng, same)
        return (*block[:k], block[j], *block[k + 1 : j], block[k], *block[j + 1 :])

    return edited(program, where, path, change)


def move_far(program: Program, rng: random.Random) -> Program:
    where, path, _ = pick(rng, sites(program))

    def change(block: Block, k: int) -> Block:
        rest = [*block[:k], *block[k + 1 :]]
        rest.insert(rng.randrange(len(block)), block[k])
        return tuple(rest)

    return edited(program, where, path, change)


def out_of_loop(program: Program, rng: random.Random) -> Program:
    """What a loop does in every step is done once, before or after it."""
    where, path, loop = pick(rng, (s for s in sites(program, Loop) if s[2].body))
    k = rng.randrange(len(loop.body))
    rest = replace(loop, body=loop.body[:k] + loop.body[k + 1 :])
    return swapped(program, where, path, *((loop.body[k], rest) if rng.random() < 0.5 else (rest, loop.body[k])))


def into_loop(program: Program, rng: random.Random) -> Program:
    """What is done once before or after a loop is done in every step."""
    where, path, loop = pick(rng, sites(program, Loop))

    def change(block: Block, k: int) -> Block:
        if rng.random() < 0.5 and k > 0:
            j = rng.randrange(k)
            return (*block[:j], *block[j + 1 : k], replace(loop, body=(block[j], *loop.body)), *block[k + 1 :])
        if k + 1 < len(block):
            return (*block[:k], replace(loop, body=(*loop.body, block[k + 1])), *block[k + 2 :])
        return block

    return edited(program, where, path, change)


def twice(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, Upload, TransferPeer, Dispatch, Emit))
    return swapped(program, where, path, i, i)


MUTATIONS: dict[str, Mutation] = {
    "a wait is dropped": drop_wait,
    "all waits of an instruction are dropped": drop_waits,
    "a wait is for another instruction": other_wait,
    "a wait is for a later instruction": forward_wait,
    "neighbours change places": neighbours,
    "a queue is reordered": queue_order,
    "an instruction is moved": move_far,
    "a step's instruction leaves the loop": out_of_loop,
    "an instruction enters the loop": into_loop,
    "an instruction is there twice": twice,
}
