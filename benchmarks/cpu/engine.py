"""What an engine is to the benchmark, and how its speed and its logits are taken.

    engine.generate([5, 7, 2], steps=64)          first token, then 64 decoded ones, greedily
    measure(engine, config, tokens=64)            Figures(prefill=8540.0, decode=256.0): tokens per second

Prefill is the time to the first token; decode is the time from the first token to the last. Both are repeated until
they have filled a while, and the middle one counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np
import numpy.typing as npt

from benchmarks.cpu.sizes import PROMPT, SHORT_PROMPT, prompt
from examples.llama2.config import LlamaConfig

F32 = npt.NDArray[np.float32]
Trial = tuple[list[int], F32]  # tokens [1 + steps], and the logits [1 + steps, vocab] that each was the largest of
FILLS = 0.3  # seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """Tokens per second."""

    prefill: float
    decode: float


class Engine(ABC):
    """One model in one engine, batch 1."""

    @abstractmethod
    def generate(self, tokens: Sequence[int], steps: int) -> Iterator[int]:
        """The first token after a prompt, and `steps` more, each the likeliest, as soon as each is known."""

    @abstractmethod
    def trial(self, tokens: Sequence[int], steps: int) -> Trial:
        """The same with the logits."""


class Stepper(Engine):
    """An engine that is called once for the prompt and once for every token."""

    @abstractmethod
    def forward(self, tokens: Sequence[int], position: int) -> F32:
        """Logits [vocab] after tokens that stand at `position` and on; position 0 forgets what was before."""

    def generate(self, tokens: Sequence[int], steps: int) -> Iterator[int]:
        token = int(self.forward(tokens, 0).argmax())
        yield token
        for position in range(len(tokens), len(tokens) + steps):
            token = int(self.forward([token], position).argmax())
            yield token

    def trial(self, tokens: Sequence[int], steps: int) -> Trial:
        logits = [self.forward(tokens, 0).copy()]
        for position in range(len(tokens), len(tokens) + steps):
            logits.append(self.forward([int(logits[-1].argmax())], position).copy())
        return [int(row.argmax()) for row in logits], np.stack(logits)


def measure(engine: Engine, config: LlamaConfig, tokens: int) -> Figures:
    """Prefill of `PROMPT` tokens, and `tokens` decoded after `SHORT_PROMPT`."""
    long, short = prompt(config, PROMPT), prompt(config, SHORT_PROMPT)
    return Figures(
        prefill=PROMPT / _middle(lambda: _seconds_to_first(engine, long)),
        decode=tokens / _middle(lambda: _seconds_after_first(engine, short, tokens)),
    )


def _middle(seconds: Callable[[], float]) -> float:
    taken = [seconds()]
    while sum(taken) < FILLS:
        taken.append(seconds())
    return median(taken)


def _seconds_to_first(engine: Engine, tokens: Sequence[int]) -> float:
    start = perf_counter()
    stream = engine.generate(tokens, 0)
    next(stream)
    seconds = perf_counter() - start
    for _ in stream:
        pass
    return seconds


def _seconds_after_first(engine: Engine, tokens: Sequence[int], steps: int) -> float:
    stream = engine.generate(tokens, steps)
    next(stream)
    start = perf_counter()
    for _ in stream:
        pass
    return perf_counter() - start
