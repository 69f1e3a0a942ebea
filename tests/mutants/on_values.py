"""Which value is meant: operands, results, what a loop carries, how long it runs, and what an op is."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

from tests.mutants.edits import QUEUED, Mutation, NowhereError, Site, pick, sites, swapped, with_new_slot, with_slot
from vxgraph.ir.graph import Result
from vxgraph.program.instructions import Dispatch, Download, Emit, Loop, TransferPeer, Upload, View
from vxgraph.program.model import Program


def host_names(program: Program) -> list[str]:
    """Everything that is on the host at some time."""
    given = [i.name for i in (*program.args, *program.params)]
    return given + [d.dst for _, _, d in sites(program, Download)] + [lp.steps for _, _, lp in sites(program, Loop)]


def other_operand(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, *QUEUED, View))
    if isinstance(i, Upload):
        return swapped(program, where, path, replace(i, src=rng.choice(host_names(program))))
    other = pick(rng, program.slots).value
    if not isinstance(i, Dispatch):
        return swapped(program, where, path, replace(i, src=other))
    k = pick(rng, range(len(i.inputs)))
    return swapped(program, where, path, replace(i, inputs=(*i.inputs[:k], other, *i.inputs[k + 1 :])))


def operands_swapped(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, (s for s in sites(program, Dispatch) if len(s[2].inputs) > 1))
    k = rng.randrange(len(i.inputs) - 1)
    inputs = (*i.inputs[:k], i.inputs[k + 1], i.inputs[k], *i.inputs[k + 2 :])
    return swapped(program, where, path, replace(i, inputs=inputs))


def other_output(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, Upload, TransferPeer, Dispatch, View))
    other = pick(rng, program.slots).value
    new = replace(i, outputs=(other, *i.outputs[1:])) if isinstance(i, Dispatch) else replace(i, dst=other)
    return swapped(program, where, path, new)


def other_type(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, sites(program, *QUEUED, View))
    like = pick(rng, program.slots).type
    new = replace(i, types=(like, *i.types[1:])) if isinstance(i, Dispatch) else replace(i, type=like)
    return swapped(program, where, path, new)


def other_emit(program: Program, rng: random.Random) -> Program:
    where, path, e = pick(rng, sites(program, Emit))
    return swapped(program, where, path, replace(e, value=pick(rng, host_names(program))))


def drop_emit(program: Program, rng: random.Random) -> Program:
    where, path, _ = pick(rng, sites(program, Emit))
    return swapped(program, where, path)


def other_result(program: Program, rng: random.Random) -> Program:
    k = pick(rng, range(len(program.results)))
    new = Result(program.results[k].name, pick(rng, host_names(program)))
    return replace(program, results=(*program.results[:k], new, *program.results[k + 1 :]))


def _carrying(program: Program, n: int) -> list[Site]:
    return [s for s in sites(program, Loop) if len(s[2].carried) >= n]


def other_carry(program: Program, rng: random.Random) -> Program:
    where, path, loop = pick(rng, _carrying(program, 1))
    k = rng.randrange(len(loop.carried))
    new = replace(loop.carried[k], **{rng.choice(["init", "arg", "next", "out"]): pick(rng, program.slots).value})
    return swapped(program, where, path, replace(loop, carried=(*loop.carried[:k], new, *loop.carried[k + 1 :])))


def crossed_carry(program: Program, rng: random.Random) -> Program:
    """Two carried values take each other's place, and in half of the cases each other's bytes too."""
    where, path, loop = pick(rng, _carrying(program, 2))
    carried = list(loop.carried)
    j, k = rng.sample(range(len(carried)), 2)
    part = rng.choice(["init", "arg", "next", "out"])
    mine, theirs = getattr(carried[j], part), getattr(carried[k], part)
    carried[j], carried[k] = replace(carried[j], **{part: theirs}), replace(carried[k], **{part: mine})
    mutant = swapped(program, where, path, replace(loop, carried=tuple(carried)))
    if rng.random() < 0.5:
        return mutant
    a, b = program.slot_of[mine], program.slot_of[theirs]
    return with_slot(with_slot(mutant, replace(a, offset=b.offset)), replace(b, offset=a.offset))


def lost_carry(program: Program, rng: random.Random) -> Program:
    """A step's new value is made in other bytes than those that the next step reads."""
    _, _, loop = pick(rng, _carrying(program, 1))
    name = pick(rng, (c.next for c in loop.carried if c.next != c.arg))
    slot = program.slot_of[name]
    moved = with_new_slot(program, slot, f"{name}.elsewhere")
    offset = moved.slot_of[f"{name}.elsewhere"].offset
    kept = replace(moved, slots=tuple(s for s in moved.slots if s.value != f"{name}.elsewhere"))
    return with_slot(kept, replace(slot, offset=offset))


def drop_carry(program: Program, rng: random.Random) -> Program:
    where, path, loop = pick(rng, _carrying(program, 1))
    k = rng.randrange(len(loop.carried))
    return swapped(program, where, path, replace(loop, carried=loop.carried[:k] + loop.carried[k + 1 :]))


def drop_loop(program: Program, rng: random.Random) -> Program:
    where, path, _ = pick(rng, sites(program, Loop))
    return swapped(program, where, path)


def other_steps(program: Program, rng: random.Random) -> Program:
    """One step more or less than the loop may do."""
    where, path, loop = pick(rng, sites(program, Loop))
    return swapped(program, where, path, replace(loop, max_steps=max(0, loop.max_steps + rng.choice((-1, 1)))))


def other_end(program: Program, rng: random.Random) -> Program:
    """Another limit or stop predicate, or none."""
    where, path, loop = pick(rng, (s for s in sites(program, Loop) if s[2].limit or s[2].stop))
    part = pick(rng, (p for p in ("limit", "stop") if getattr(loop, p)))
    return swapped(program, where, path, replace(loop, **{part: rng.choice([None, *host_names(program)])}))


def other_attribute(program: Program, rng: random.Random) -> Program:
    where, path, i = pick(rng, (s for s in sites(program, Dispatch) if fields(s[2].op)))
    field = pick(rng, fields(i.op))
    op = replace(i.op, **{field.name: _changed(getattr(i.op, field.name), rng)})
    return swapped(program, where, path, replace(i, op=op))


def _changed(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + rng.choice((-1, 1))
        case float():
            return 2 * value + 1
        case tuple() if value:
            k = rng.randrange(len(value))
            return (*value[:k], _changed(value[k], rng), *value[k + 1 :])
        case _:
            raise NowhereError


MUTATIONS: dict[str, Mutation] = {
    "another operand": other_operand,
    "two operands are swapped": operands_swapped,
    "another output": other_output,
    "an instruction has another type": other_type,
    "an emit hands out another value": other_emit,
    "an emit is dropped": drop_emit,
    "a result is another value": other_result,
    "a loop carries another value": other_carry,
    "two carried values are crossed": crossed_carry,
    "a carried value is made elsewhere": lost_carry,
    "a loop carries one value less": drop_carry,
    "a loop is dropped": drop_loop,
    "a loop's bound is off by one": other_steps,
    "a loop ends at another value": other_end,
    "an op has another attribute": other_attribute,
}
