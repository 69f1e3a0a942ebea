"""Text from a Llama: the plan for a model and a placement, and a run of it token by token.

program = plan(config, "disaggregated", machine)
with vx.Session(program, checkpoint.params) as session:
    generation = Generation(session, prompt_ids, Decoding(max_tokens=64), stop_ids=tokenizer.stop_ids)
    for token in generation:                 # the ids, without the one that ends the turn
        print(token)
    generation.ended                         # "end of turn", "max tokens" or "context full"
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

import numpy as np

import vxgraph as vx
from examples.llama2.config import LlamaConfig
from examples.llama2.model import MAX_STOP_IDS, PLACEMENTS, build
from vxgraph.ir.types import bound
from vxgraph.program.instructions import Loop

MAX_CONTEXT = 4096  # positions; caches of a whole long context would take more memory than the weights of a small model
NEVER = -1  # an id that no token has

Ended = Literal["end of turn", "max tokens", "context full"]


def default_max_len(config: LlamaConfig) -> int:
    """Positions that a program has room for unless told otherwise: the model's context, at most MAX_CONTEXT."""
    return min(config.max_len, MAX_CONTEXT)


def plan(
    config: LlamaConfig,
    placement: str,
    machine: vx.Machine,
    *,
    max_len: int | None = None,
    max_prompt: int | None = None,
) -> vx.Program:
    """The program that generates, with the named placement; `max_prompt` is `max_len` unless told otherwise."""
    if placement not in PLACEMENTS:
        raise vx.VxError(f"placement {placement!r} is none of {', '.join(PLACEMENTS)}")
    placed = PLACEMENTS[placement](machine, config.layers)
    length = default_max_len(config) if max_len is None else max_len
    return vx.compile(build(config, placed, max_len=length, max_prompt=max_prompt), machine)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How many tokens, and how they are chosen: greedily at temperature 0, else from the nucleus of `top_p`.

    The same seed gives the same tokens, whatever the placement. Raises `VxError` for values that make no sense.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise vx.VxError(f"max_tokens is {self.max_tokens}, wanted at least 1")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise vx.VxError(f"temperature is {self.temperature}, wanted 0 (greedy) or a number above it")
        if not 0 < self.top_p <= 1:
            raise vx.VxError(f"top_p is {self.top_p}, wanted a number above 0 and up to 1")
        if not -(2**63) <= self.seed < 2**63:
            raise vx.VxError(f"seed is {self.seed}, wanted a 64-bit integer")


class Generation:
    """One run: iterating it yields token ids as they are chosen; `ended` and the times are there afterwards.

    The id that ends the turn is not yielded. Raises `VxError` for a prompt that is empty or longer than the program
    allows, and for more stop ids than it has room for.
    """

    def __init__(
        self,
        session: vx.Session,
        prompt: Sequence[int],
        decoding: Decoding,
        *,
        stop_ids: Sequence[int] = (),
    ) -> None:
        check_prompt(session.program, prompt)
        if len(stop_ids) > MAX_STOP_IDS:
            raise vx.VxError(f"{len(stop_ids)} ids end a turn, the program has room for {MAX_STOP_IDS}")
        self.prompt = tuple(prompt)
        self.ended: Ended | None = None
        self.chosen = 0  # tokens, the one that ended the turn among them
        self.yielded = 0  # tokens, without that one
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0
        self._stops = frozenset(stop_ids)
        self._decoding = decoding
        self._stream = session.stream(_inputs(session.program, prompt, sorted(self._stops), decoding))

    def __iter__(self) -> Iterator[int]:
        began = perf_counter()
        token = NEVER
        # To its end, also after the last token: only a whole run can be held against the plan.
        for emitted in self._stream:
            token = int(emitted["token"])
            self._count(perf_counter() - began)
            if token not in self._stops:
                self.yielded += 1
                yield token
        self.ended = self._why(token)

    def close(self) -> None:
        """Ends the run where it stands; one that is over stays as it is."""
        self._stream.close()

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens per second, up to the first token chosen."""
        return len(self.prompt) / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_rate(self) -> float:
        """Tokens per second after the first."""
        return (self.chosen - 1) / self.decode_seconds if self.decode_seconds else 0.0

    def _count(self, seconds: float) -> None:
        if self.chosen == 0:
            self.prefill_seconds = seconds
        self.decode_seconds = seconds - self.prefill_seconds
        self.chosen += 1

    def _why(self, last: int) -> Ended:
        if last in self._stops:
            return "end of turn"
        return "max tokens" if self.chosen == self._decoding.max_tokens else "context full"


def max_len_of(program: vx.Program) -> int:
    """Positions that the program's caches have room for."""
    return next(i.max_steps for i in program.body if isinstance(i, Loop))


def max_prompt_of(program: vx.Program) -> int:
    """Tokens that a prompt may have."""
    return next(bound(arg.type.dims[0]) for arg in program.args if arg.name == "tokens")


def check_prompt(program: vx.Program, prompt: Sequence[int]) -> None:
    """`VxError` for a prompt that the program has no room for, or that no model or not this one can go on from."""
    if not prompt:
        raise vx.VxError("the prompt is empty: it has no token to go on from")
    if len(prompt) > max_prompt_of(program):
        raise vx.VxError(
            f"the prompt has {len(prompt)} tokens, but {program.name} was compiled for at most "
            f"{max_prompt_of(program)}; shorten it, or compile with a larger max_len or max_prompt"
        )
    vocab = next(bound(p.type.dims[0]) for p in program.params if p.name == "embed")
    if outside := [token for token in prompt if not 0 <= token < vocab]:
        raise vx.VxError(
            f"token id {outside[0]} of the prompt is not in the model's vocabulary of {vocab}; "
            "the tokenizer is another model's"
        )


def _inputs(program: vx.Program, prompt: Sequence[int], stop_ids: Sequence[int], decoding: Decoding) -> dict[str, Any]:
    return {
        "tokens": np.array(prompt, np.int32),
        # The first token is prefill's. What does not fit an i32 would end where the caches are full anyway.
        "steps": np.int32(min(decoding.max_tokens - 1, max_len_of(program))),
        "stop_ids": np.array(stop_ids or [NEVER], np.int32),
        "temperature": np.float32(decoding.temperature),
        "top_p": np.float32(decoding.top_p),
        "seed": np.int64(decoding.seed),
    }
