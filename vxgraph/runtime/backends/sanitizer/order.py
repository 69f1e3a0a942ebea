"""Which of the legal orders a run takes, as numbers that can be replayed and made smaller.

    Order()                  as late as events allow: nothing runs before somebody waits for it
    Order(seed=7)            a random legal order
    Order(replay=[0, 2])     these choices, then as late as events allow

A choice is a number in 0..n-1; 0 is always the latest and plainest one, so that an order with fewer and smaller
choices is easier to read. `shrink` looks for one that still fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence


class Order:
    """A source of choices. With `keep` it remembers them, and the queues what ran."""

    def __init__(self, *, seed: int | None = None, replay: Sequence[int] = (), keep: bool = False) -> None:
        self.taken: list[int] = []
        self.keep = keep
        self.seed = seed
        self._random = None if seed is None else random.Random(seed)
        self._replay = iter(replay)
        self.late = seed is None and not replay  # every choice is 0

    def pick(self, n: int) -> int:
        """A number in 0..n-1."""
        if self.late or n < 2:
            return 0
        choice = next(self._replay, 0) % n if self._random is None else self._random.randrange(n)
        if self.keep:
            self.taken.append(choice)
        return choice


def shrink(choices: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """The fewest and smallest choices found that still fail, by trying to leave out, zero and lower them."""
    best = list(choices)
    improved = True
    while improved:
        improved = False
        for smaller in _smaller(best):
            if fails(smaller):
                best, improved = smaller, True
                break
    while best and best[-1] == 0:
        best.pop()
    return best


def _smaller(choices: list[int]) -> Iterator[list[int]]:
    """Simpler candidates, the boldest first: stretches zeroed, the end cut, single choices lowered."""
    n = len(choices)
    size = n
    while size:
        for start in range(0, n, size):
            if any(choices[start : start + size]):
                yield [*choices[:start], *[0] * min(size, n - start), *choices[start + size :]]
        size //= 2
    for k, choice in enumerate(choices):
        if choice > 1:
            yield [*choices[:k], choice - 1, *choices[k + 1 :]]
