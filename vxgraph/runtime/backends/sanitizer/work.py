"""One call of a verb, from the moment it is asked for: its queue, what is done when it starts, what it waits for.

dispatch %z (add)    gpu:1.compute 3    after transfer_peer %y.1 (gpu:0.copy 2)    model.py:9
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vxgraph.errors import Loc
from vxgraph.program.instructions import Queue

Clock = Mapping[Queue, int]  # per queue, how many of its calls are done


@dataclass(eq=False, slots=True)
class Work:
    """A call: `clock` is what is known to be done when it starts, `before` what still has to run first."""

    what: str  # "dispatch %z (add)"
    queue: Queue
    number: int  # its place in its queue, from 1
    serial: int  # its place among all calls
    clock: Clock
    loc: Loc | None
    before: list[Work]
    run: Callable[[], None] | None = None
    done: bool = False
    error: Exception | None = field(default=None, repr=False)  # what it ended with, or what it waited for did

    def knows(self, other: Work) -> bool:
        """Whether the other call is done whenever this one starts."""
        return self.clock.get(other.queue, 0) >= other.number

    def __str__(self) -> str:
        line = f" ({self.loc})" if self.loc else ""
        return f"{self.what} on {self.queue}{line}"


def joined(*clocks: Clock) -> dict[Queue, int]:
    """What is done where all of these are."""
    result: dict[Queue, int] = {}
    for clock in clocks:
        for queue, number in clock.items():
            if result.get(queue, 0) < number:
                result[queue] = number
    return result
