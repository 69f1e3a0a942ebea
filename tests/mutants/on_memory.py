"""Slots and arenas: shifted, shared too early, too small, elsewhere, of another type."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.mutants.edits import QUEUED, Mutation, pick, sites, swapped, with_slot
from vxgraph.ir.types import TensorType
from vxgraph.program.instructions import Dispatch, TransferPeer, Upload, View, flatten, reads, writes
from vxgraph.program.model import Program, Slot


def _slot(change: Callable[[Slot, Program, random.Random], Slot]) -> Mutation:
    def mutate(program: Program, rng: random.Random) -> Program:
        return with_slot(program, change(pick(rng, program.slots), program, rng))

    return mutate


def shift(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, offset=slot.offset + rng.choice([-256, -1, 1, 16, 256, 512]))


def onto_another(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, offset=rng.choice([s.offset for s in program.slots if s.topology == slot.topology]))


def shrink(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, nbytes=max(0, slot.nbytes - rng.choice([1, 4, 16])))


def elsewhere(slot: Slot, program: Program, rng: random.Random) -> Slot:
    return replace(slot, topology=rng.choice(program.topologies))


def retype(slot: Slot, program: Program, rng: random.Random) -> Slot:
    like = rng.choice(program.slots).type
    return replace(slot, type=like, nbytes=like.max_bytes)


def reused_early(program: Program, rng: random.Random) -> Program:
    """A value gets the bytes of one that is made before it and read after it is made."""
    order = [i for i, _ in flatten((*program.load, *program.body)) if isinstance(i, QUEUED)]
    made = {v: k for k, i in enumerate(order) for v in writes(i)}
    last = {v: k for k, i in enumerate(order) for v in reads(i)}
    pairs = [
        (mine, theirs)
        for mine, k in made.items()
        for theirs, j in made.items()
        if j < k <= last.get(theirs, -1) and mine != theirs
    ]
    slots = program.slot_of
    mine, theirs = pick(rng, (p for p in pairs if _can_share(slots[p[0]], slots[p[1]])))
    return with_slot(program, replace(slots[mine], offset=slots[theirs].offset))


def source_reused(program: Program, rng: random.Random) -> Program:
    """What comes after a transfer is made in the bytes that the transfer still reads."""
    order = [i for i, _ in flatten(program.body) if isinstance(i, QUEUED)]
    slots = program.slot_of
    pairs = [
        (value, t.src)
        for k, t in enumerate(order)
        if isinstance(t, TransferPeer)
        for later in order[k + 1 :]
        if later.queue != t.queue
        for value in writes(later)
    ]
    mine, theirs = pick(rng, (p for p in pairs if p[0] != p[1] and _can_share(slots[p[0]], slots[p[1]])))
    return with_slot(program, replace(slots[mine], offset=slots[theirs].offset))


def over_operand(program: Program, rng: random.Random) -> Program:
    """A result is made in the bytes of an operand that the op does not give away."""
    slots = program.slot_of
    pairs = [
        (out, operand)
        for _, _, i in sites(program, Dispatch)
        for out in i.outputs
        for k, operand in enumerate(i.inputs)
        if k != i.op.donates and _can_share(slots[out], slots[operand])
    ]
    mine, theirs = pick(rng, pairs)
    return with_slot(program, replace(slots[mine], offset=slots[theirs].offset))


def over_param(program: Program, rng: random.Random) -> Program:
    """A run makes a value in a param's bytes, in half of the cases after its own last read of the param."""
    order = [i for i, _ in flatten(program.body) if isinstance(i, QUEUED)]
    slots = program.slot_of
    last = {v: k for k, i in enumerate(order) for v in reads(i)}
    params = [i.dst for _, _, i in sites(replace(program, body=()), Upload)]
    pairs = [
        (mine, param, k > last.get(param, -1))
        for k, i in enumerate(order)
        for mine in writes(i)
        for param in params
        if _can_share(slots[mine], slots[param])
    ]
    late = rng.random() < 0.5 and any(after for _, _, after in pairs)
    mine, param, _ = pick(rng, (p for p in pairs if p[2] or not late))
    return with_slot(program, replace(slots[mine], offset=slots[param].offset))


def _can_share(a: Slot, b: Slot) -> bool:
    """Whether `a` at b's offset is another place in the arena, and inside it."""
    return a.topology == b.topology and a.offset != b.offset and 0 < a.nbytes <= b.nbytes


def missing(program: Program, rng: random.Random) -> Program:
    gone = pick(rng, program.slots)
    return replace(program, slots=tuple(s for s in program.slots if s is not gone))


def small_arena(program: Program, rng: random.Random) -> Program:
    arena = pick(rng, (a for a in program.arenas if a.activations >= 256 or a.staging >= 256))
    part = "activations" if arena.activations >= 256 else "staging"
    small = replace(arena, nbytes=arena.nbytes - 256, **{part: getattr(arena, part) - 256})
    return replace(program, arenas=tuple(small if a is arena else a for a in program.arenas))


def swap_layout(program: Program, rng: random.Random) -> Program:
    """Two dims change places: in a slot, or in it and in what makes it, or in all of it that crosses."""
    slot = pick(rng, (s for s in program.slots if len(set(s.type.dims)) > 1))
    a, b = rng.sample(range(slot.type.rank), 2)
    dims = list(slot.type.dims)
    dims[a], dims[b] = dims[b], dims[a]
    type = TensorType(slot.type.dtype, tuple(dims))
    mutant = with_slot(program, replace(slot, type=type))
    if rng.random() < 0.4:
        return mutant
    for where, path, i in sites(program, *QUEUED, View):
        if isinstance(i, View | TransferPeer) and i.dst == slot.value:
            mutant = swapped(mutant, where, path, replace(i, type=type))
            if isinstance(i, TransferPeer) and rng.random() < 0.5:
                mutant = with_slot(mutant, replace(mutant.slot_of[i.src], type=type))
        elif not isinstance(i, View) and slot.value in writes(i) and hasattr(i, "types"):
            mutant = swapped(mutant, where, path, replace(i, types=(type, *i.types[1:])))
    return mutant


MUTATIONS: dict[str, Mutation] = {
    "a slot is shifted": _slot(shift),
    "a slot lies on another": _slot(onto_another),
    "a slot is reused early": reused_early,
    "a transfer's source is reused while it is read": source_reused,
    "a result lies on its operand": over_operand,
    "a run writes over a param": over_param,
    "a slot is too small": _slot(shrink),
    "a slot is at another place": _slot(elsewhere),
    "a slot has another type": _slot(retype),
    "a slot is missing": missing,
    "an arena is too small": small_arena,
    "a layout is swapped": swap_layout,
}
