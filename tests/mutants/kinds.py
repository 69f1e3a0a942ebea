"""Every kind of mutation, and the kinds that are there for what they cost and not for what they give."""

from __future__ import annotations

from tests.mutants import on_memory, on_moves, on_order, on_values
from tests.mutants.edits import Mutation

MUTATIONS: dict[str, Mutation] = {
    **on_order.MUTATIONS,
    **on_moves.MUTATIONS,
    **on_memory.MUTATIONS,
    **on_values.MUTATIONS,
}

# These change what is moved, and never a result: the transfer bill shows them.
COSTS = (
    "a transfer takes another route",
    "an upload is there twice",
    "an upload is there again under another name",
    "a transfer is there again under another name",
    "a hoisted move is made in every step",
)

# These break what the program states and not what it does: bytes are where they were. The proof refuses them.
FORMAL = (
    "a view is dropped",
    "a slot is too small",
    "a loop carries another value",
    "a loop carries one value less",
    "an instruction is there twice",
)

# These make a right program for another graph: only the graph, or the digest of a file, can tell.
MEANING = (
    "an emit is dropped",
    "a loop's bound is off by one",
    "an op has another attribute",
)

# Bytes are read too early, or written over too early: the sanitizer alone sees each of these.
RACES = (
    "a wait is dropped",
    "all waits of an instruction are dropped",
    "a wait is for another instruction",
    "a slot is reused early",
    "a result lies on its operand",
    "a run writes over a param",
    "something else is moved into a value's bytes",
    "a replica is that of the step before",
)
