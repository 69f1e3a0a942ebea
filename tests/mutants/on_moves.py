"""Transfers, uploads and downloads: gone, too short, elsewhere, too often, or of something old."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from tests.mutants.edits import (
    QUEUED,
    Block,
    Mutation,
    edited,
    everywhere,
    pick,
    sites,
    swapped,
    with_new_slot,
    with_slot,
)
from vxgraph.ir.types import TensorType, bound
from vxgraph.program.instructions import (
    Dispatch,
    Download,
    Instruction,
    Loop,
    TransferPeer,
    Upload,
    View,
    flatten,
    reads,
)
from vxgraph.program.model import Program

MOVES = (Upload, Download, TransferPeer)


def dropped(*kinds: type) -> Mutation:
    """An instruction of these kinds; others wait for it no more in half of the cases."""

    def mutate(program: Program, rng: random.Random) -> Program:
        where, path, gone = pick(rng, sites(program, *kinds))
        without = swapped(program, where, path)
        return without if rng.random() < 0.5 else unwaited(without, _name(gone))

    return mutate


def _name(instr: Any) -> str:
    return instr.dst if isinstance(instr, View) else instr.name


def unwaited(program: Program, name: str) -> Program:
    """Nothing waits for `name`."""
    return everywhere(
        program,
        lambda i: replace(i, after=tuple(a for a in i.after if a != name)) if isinstance(i, QUEUED) else i,
    )


def shorter(*kinds: type) -> Mutation:
    """A move of one row less, with the slots of both its ends, or only the one that it writes, as short."""

    def mutate(program: Program, rng: random.Random) -> Program:
        where, path, move = pick(rng, (s for s in sites(program, *kinds) if any(bound(d) > 1 for d in s[2].type.dims)))
        k = pick(rng, (k for k, d in enumerate(move.type.dims) if bound(d) > 1))
        type = TensorType(
            move.type.dtype, (*move.type.dims[:k], bound(move.type.dims[k]) - 1, *move.type.dims[k + 1 :])
        )
        mutant = swapped(program, where, path, replace(move, type=type))
        ends = [v for v in (move.src, move.dst) if v in program.slot_of]
        for value in ends if rng.random() < 0.6 else ends[-1:]:
            mutant = with_slot(mutant, replace(program.slot_of[value], type=type, nbytes=type.max_bytes))
        return mutant

    return mutate


def _retyped(end: str) -> Mutation:
    def mutate(program: Program, rng: random.Random) -> Program:
        values = [getattr(t, end) for _, _, t in sites(program, TransferPeer)]
        read = {v for _, _, i in sites(program, Dispatch) for v in i.inputs}  # else no kernel is misled
        slot = program.slot_of[pick(rng, [v for v in values if v in read] or values)]
        type = pick(rng, dict.fromkeys(s.type for s in program.slots if s.type != slot.type))
        return with_slot(program, replace(slot, type=type, nbytes=type.max_bytes))

    return mutate


def swap_places(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, TransferPeer))
    return swapped(program, where, path, replace(i, topology=i.dst_topology, dst_topology=i.topology))


def other_target(program: Program, rng: random.Random) -> Program:
    """A transfer goes elsewhere, the slot of what it makes too or not."""
    where, path, i = pick(rng, sites(program, TransferPeer))
    to = pick(rng, (t for t in program.topologies if t != i.dst_topology))
    mutant = swapped(program, where, path, replace(i, dst_topology=to))
    return with_slot(mutant, replace(program.slot_of[i.dst], topology=to)) if rng.random() < 0.5 else mutant


def other_place(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, *QUEUED))
    to = pick(rng, (t for t in program.topologies if t != i.topology))
    return swapped(program, where, path, replace(i, topology=to))


def swap_topologies(program: Program, rng: random.Random) -> Program:
    """Two topologies change places: in every instruction, or in every slot, but not in both."""
    a = pick(rng, program.topologies)
    b = pick(rng, (t for t in program.topologies if t != a))
    other = {a: b, b: a}
    if rng.random() < 0.5:
        return replace(
            program, slots=tuple(replace(s, topology=other.get(s.topology, s.topology)) for s in program.slots)
        )

    def change(i: Instruction) -> Instruction:
        match i:
            case TransferPeer():
                ends = (other.get(t, t) for t in (i.topology, i.dst_topology))
                return replace(i, topology=next(ends), dst_topology=next(ends))
            case Upload() | Download() | Dispatch() | View():
                return replace(i, topology=other.get(i.topology, i.topology))
            case _:
                return i

    return everywhere(program, change)


def reroute(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, TransferPeer))
    return swapped(
        program, where, path, replace(i, route=pick(rng, (r for r in ("local", "direct", "staged") if r != i.route)))
    )


def same_name_again(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, Upload))
    return swapped(program, where, path, i, i)


def fresh_name_again(*kinds: type) -> Mutation:
    """A second replica in bytes of its own; one reader reads it, or nobody does."""

    def mutate(program: Program, rng: random.Random) -> Program:
        where, path, i = pick(rng, sites(program, *kinds))
        name = f"{i.dst}.again"
        mutant = with_new_slot(swapped(program, where, path, i, replace(i, dst=name)), program.slot_of[i.dst], name)
        readers = [s for s in sites(mutant, Dispatch) if i.dst in s[2].inputs]
        if not readers or rng.random() < 0.3:
            return mutant
        where, path, reader = rng.choice(readers)
        after = tuple(name if a == i.dst else a for a in reader.after)
        inputs = tuple(name if v == i.dst else v for v in reader.inputs)
        return swapped(mutant, where, path, replace(reader, inputs=inputs, after=after))

    return mutate


def in_every_step(program: Program, rng: random.Random) -> Program:
    """A move that stands before a loop, with waits as they should be, is made again by each of its steps."""
    where, path, loop = pick(rng, sites(program, Loop))
    inside = {v for i, _ in flatten(loop.body) if isinstance(i, QUEUED) for v in reads(i)}

    def change(block: Block, k: int) -> Block:
        j = pick(rng, (j for j in range(k) if isinstance(block[j], Upload | TransferPeer) and block[j].dst in inside))
        body = _with_move(replace(block[j], after=()), loop.body)
        return (*block[:j], *block[j + 1 : k], replace(loop, body=body), *block[k + 1 :])

    return edited(program, where, path, change)


def in_every_run(program: Program, rng: random.Random) -> Program:
    """A param is uploaded by each run."""
    _, path, upload = pick(rng, (s for s in sites(program, Upload) if s[0] == "load"))
    return replace(swapped(program, "load", path), body=_with_move(upload, program.body))


def _with_move(move: Any, block: Block) -> Block:
    """The move, then the block, whose readers wait for it."""

    def waiting(i: Instruction) -> Instruction:
        mine = isinstance(i, QUEUED) and move.dst in reads(i) and move.name not in i.after
        return replace(i, after=(*i.after, move.name)) if mine else i

    return (move, *map(waiting, block))


def late_in_a_step(program: Program, rng: random.Random) -> Program:
    """A step reads the replica of the step before: the transfer comes after its readers, and once before the loop."""
    where, path, loop = pick(rng, sites(program, Loop))
    moves = [(k, i) for k, i in enumerate(loop.body) if isinstance(i, TransferPeer | Upload)]
    k, move = pick(rng, moves)
    rest = [
        replace(i, after=tuple(a for a in i.after if a != move.name)) if isinstance(i, QUEUED) else i for i in loop.body
    ]
    del rest[k]
    readers = tuple(dict.fromkeys(i.name for i in rest if isinstance(i, QUEUED) and move.dst in reads(i)))
    late = replace(move, after=tuple(dict.fromkeys((*move.after, *readers))))
    init = {c.arg: c.init for c in loop.carried}.get(move.src)
    body = replace(loop, body=(*rest, late))
    if init is None:
        return swapped(program, where, path, body)
    first = replace(move, src=init, dst=f"{move.dst}.first", after=())
    slot = replace(program.slot_of[move.dst], value=first.dst)
    return replace(swapped(program, where, path, first, body), slots=(*program.slots, slot))


def other_version(program: Program, rng: random.Random) -> Program:
    """A reader reads what its value, or the original of its replica, was made from; or the other way round."""
    slots = program.slot_of
    pairs: list[tuple[str, str]] = []  # new, old
    for _, _, i in sites(program, Dispatch, Loop):
        if isinstance(i, Loop):
            pairs += [pair for c in i.carried for pair in ((c.next, c.arg), (c.out, c.init)) if pair[0] != pair[1]]
        else:
            pairs += [(i.outputs[0], v) for v in i.inputs if slots[v].type == slots[i.outputs[0]].type]
    replicas = {(i.src, i.dst_topology): i.dst for _, _, i in sites(program, TransferPeer)}
    places = program.topologies
    pairs += [
        (replicas[new, t], replicas[old, t])
        for new, old in pairs
        for t in places
        if (new, t) in replicas and (old, t) in replicas
    ]
    pairs += [(old, new) for new, old in pairs]
    found = [(s, a, b) for s in sites(program, *QUEUED) for a, b in pairs if a in reads(s[2])]
    (where, path, reader), value, version = pick(rng, found)
    return swapped(program, where, path, _reading(reader, value, version))


def replica_of_another(program: Program, rng: random.Random) -> Program:
    """A reader reads another replica of that type at its place."""
    replicas: dict[tuple[Any, Any], list[str]] = {}
    for _, _, i in sites(program, Upload, TransferPeer):
        slot = program.slot_of[i.dst]
        replicas.setdefault((slot.topology, slot.type), []).append(i.dst)
    group = pick(rng, (g for g in replicas.values() if len(g) > 1))
    (where, path, reader), value = pick(
        rng, ((s, v) for s in sites(program, *QUEUED) for v in reads(s[2]) if v in group)
    )
    return swapped(program, where, path, _reading(reader, value, pick(rng, (v for v in group if v != value))))


def into_anothers_bytes(program: Program, rng: random.Random) -> Program:
    """One more move, of something that is there, into bytes that are another value's."""
    where, path, move = pick(rng, sites(program, Upload, TransferPeer))
    slot = program.slot_of[move.dst]
    victims = [s for s in program.slots if s.topology == slot.topology and s.nbytes >= slot.nbytes > 0]
    victim = pick(rng, (s for s in victims if s.offset != slot.offset))
    again = replace(move, dst=f"{move.dst}.stray")

    def change(block: Block, k: int) -> Block:
        at = rng.randrange(k + 1, len(block) + 1)
        return (*block[:at], again, *block[at:])

    mutant = edited(program, where, path, change)
    return replace(mutant, slots=(*program.slots, replace(slot, value=again.dst, offset=victim.offset)))


def downloaded_again(program: Program, rng: random.Random) -> Program:
    """An upload takes what was downloaded before it, without a wait."""
    found = sites(program, Upload, Download)
    pairs = [
        (site, d.dst)
        for k, site in enumerate(found)
        for w, p, d in found[:k]
        if isinstance(site[2], Upload) and isinstance(d, Download) and (w, p[:-1]) == (site[0], site[1][:-1])
        if d.type == site[2].type
    ]
    if not pairs:
        return _echo(program, rng)
    (where, path, upload), host = rng.choice(pairs)
    return swapped(program, where, path, replace(upload, src=host))


def _echo(program: Program, rng: random.Random) -> Program:
    """A replica of a value goes down to the host and up to its bytes again before its reader reads it."""
    where, path, reader = pick(rng, (s for s in sites(program, Dispatch) if s[0] == "body" and s[2].inputs))
    slot = program.slot_of[rng.choice(reader.inputs)]
    down = Download(slot.value, f"{slot.value}.echo.host", slot.type, slot.topology, reader.after)
    up = Upload(down.dst, f"{slot.value}.echo", slot.type, slot.topology)
    reading = replace(_reading(reader, slot.value, up.dst), after=(*reader.after, up.name))
    return with_new_slot(swapped(program, where, path, down, up, reading), slot, up.dst)


def _reading(reader: Any, old: str, new: str) -> Any:
    if isinstance(reader, Dispatch):
        return replace(reader, inputs=tuple(new if v == old else v for v in reader.inputs))
    return replace(reader, src=new)


MUTATIONS: dict[str, Mutation] = {
    "a transfer is dropped": dropped(TransferPeer),
    "an upload is dropped": dropped(Upload),
    "a download is dropped": dropped(Download),
    "a dispatch is dropped": dropped(Dispatch),
    "a view is dropped": dropped(View),
    "a transfer is shorter": shorter(TransferPeer),
    "an upload is shorter": shorter(Upload),
    "a download is shorter": shorter(Download),
    "a transfer's source has another type": _retyped("src"),
    "a transfer's result has another type": _retyped("dst"),
    "a transfer's places are swapped": swap_places,
    "a transfer goes elsewhere": other_target,
    "an instruction is at another place": other_place,
    "two topologies are swapped": swap_topologies,
    "a transfer takes another route": reroute,
    "an upload is there twice": same_name_again,
    "an upload is there again under another name": fresh_name_again(Upload),
    "a transfer is there again under another name": fresh_name_again(TransferPeer),
    "a hoisted move is made in every step": in_every_step,
    "a param is uploaded in every run": in_every_run,
    "a replica is that of the step before": late_in_a_step,
    "another version is read": other_version,
    "another value's replica is read": replica_of_another,
    "something else is moved into a value's bytes": into_anothers_bytes,
    "an upload takes what is being downloaded": downloaded_again,
}
