"""Queues that run nothing before an order says so, and the vector clocks of what is done when.

A call starts after the call before it in its queue, after the events that it was told to wait for, and after all that
the host had waited for when it asked. Nothing else is sure, and nothing else is assumed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence

from vxgraph.errors import HazardError, Loc
from vxgraph.program.instructions import Queue
from vxgraph.runtime.backends.sanitizer.order import Order
from vxgraph.runtime.backends.sanitizer.work import Work, joined


class Queues:
    """Every queue of every topology, and the host that fills them."""

    def __init__(self, order: Order) -> None:
        self.ran: list[str] = []  # what ran, in its order, where the order is kept
        self._order = order
        self._host: dict[Queue, int] = {}  # what the host has waited for
        self._last: dict[Queue, Work] = {}
        self._pending: dict[int, Work] = {}  # by serial
        self.count = 0  # calls so far

    def ask(self, what: str, queue: Queue, after: Iterable[Work], loc: Loc | None) -> Work:
        """A call that is about to be put in its queue."""
        last = self._last.get(queue)
        before = [*after] if last is None else [*after, last]
        clock = joined(self._host, *(_stamp(w) for w in before))
        number = 1 if last is None else last.number + 1
        return Work(what, queue, number, self.count + 1, clock, loc, [w for w in before if not w.done or w.error])

    def put(self, work: Work) -> None:
        """Puts it at the end of its queue; the order may run something now."""
        self.count = work.serial
        self._last[work.queue] = work
        self._pending[work.serial] = work
        self._stir()

    def wait(self, work: Work) -> None:
        """Returns when it is done; the order chooses among what must run before it."""
        self._stir()
        if not work.done:
            self._run_until(work)
        self._host = joined(self._host, _stamp(work))
        if work.error is not None:
            raise work.error

    def start_over(self) -> None:
        """What ended an earlier run ends no other one."""
        for last in self._last.values():
            if last.done:
                last.error = None

    def known(self, work: Work) -> bool:
        """Whether the host has waited for it."""
        return self._host.get(work.queue, 0) >= work.number

    def _stir(self) -> None:
        """Runs calls that nobody waits for yet, as many as the order likes."""
        while not self._order.late and (ready := self._ready()):
            choice = self._order.pick(len(ready) + 1)
            if choice == 0:
                return
            self._run(ready[choice - 1])

    def _ready(self) -> list[Work]:
        return [w for w in self._pending.values() if all(b.done for b in w.before)]

    def _run_until(self, work: Work) -> None:
        """Runs a call and all that it waits for, oldest first where the order does not mind."""
        missing: dict[Work, int] = {}
        readers: dict[Work, list[Work]] = {}
        todo = [work]
        while todo:
            w = todo.pop()
            if w in missing:
                continue
            earlier = {b for b in w.before if not b.done}
            missing[w] = len(earlier)
            for b in earlier:
                readers.setdefault(b, []).append(w)
            todo += earlier
        ready = sorted((w for w, n in missing.items() if n == 0), key=_age)
        while not work.done:
            chosen = ready.pop(self._order.pick(len(ready)))
            if chosen.serial not in self._pending:
                raise _lost(chosen, work)
            self._run(chosen)
            for w in readers.get(chosen, ()):
                missing[w] -= 1
                if missing[w] == 0:
                    insort(ready, w, key=_age)

    def _run(self, work: Work) -> None:
        """Runs one call. What it waited for and failed ends it too, with the first cause."""
        del self._pending[work.serial]
        if self._order.keep:
            self.ran.append(work.what)
        run, work.run = work.run, None
        causes = [b.error for b in work.before if b.error is not None]
        work.before = []
        try:
            if causes:
                work.error = causes[0]
            elif run is not None:
                run()
        except Exception as error:
            work.error = error
        finally:
            work.done = True


def _age(work: Work) -> int:
    return work.serial


def _stamp(work: Work) -> dict[Queue, int]:
    """What is done when the call is."""
    return {**work.clock, work.queue: work.number}


def _lost(work: Work, waiting: Work) -> HazardError:
    details: Sequence[str] = () if work is waiting else (f"waiting: {waiting}",)
    return HazardError(
        f"deadlock: {work.what} never happens, and what waits for it waits for ever",
        kind="deadlock",
        loc=work.loc,
        details=(f"lost: {work}", *details),
    )
