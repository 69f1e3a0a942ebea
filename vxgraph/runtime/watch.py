"""Asks where work really was, as it runs: for the report, for an audit, for a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter

from vxgraph.errors import ConformanceError
from vxgraph.program.instructions import Loop, TransferPeer, Upload, label
from vxgraph.program.timeline import Section
from vxgraph.runtime.abi import Backend, Event, Timed
from vxgraph.runtime.conformance import check_place
from vxgraph.runtime.prepare import Launch, Move
from vxgraph.runtime.record import Record, Traced
from vxgraph.runtime.state import Run
from vxgraph.topology.ids import Topology


class Watch:
    """`audit` stops at the first difference from the plan, `trace` keeps events; both observe every execution."""

    def __init__(self, backends: Mapping[Topology, Backend], *, audit: bool, trace: bool) -> None:
        self._backends = backends
        self._audit = audit
        self._trace = trace
        self.everything = audit or trace
        self._timed: dict[int, tuple[Timed, list[Topology]]] = {}
        for t, backend in backends.items() if trace else ():
            if isinstance(backend, Timed):
                self._timed.setdefault(id(backend), (backend, []))[1].append(t)
        self._pending: list[tuple[Timed, Event, Traced]] = []

    def begin(self, run: Run) -> None:
        """A run starts."""
        self._pending.clear()  # of one that ended half-way
        for backend, topologies in self._timed.values():
            backend.start_timing(topologies)
            run.execution.clock = "device"

    def stepped(self, loop: Loop, run: Run, start: float) -> None:
        """A loop's step, begun at `start`, is done."""
        if self._trace:
            self._settle(run)
            times = start - run.began, perf_counter() - run.began
            run.execution.sections.append(Section(loop.name, run.step, run.step, *times))

    def end(self, run: Run) -> None:
        """Everything in a run is done."""
        run.execution.seconds = perf_counter() - run.began
        self._settle(run)
        for backend, topologies in self._timed.values():
            backend.stop_timing(topologies)

    def _settle(self, run: Run) -> None:
        """Asks devices when their work ran, now that it is done."""
        for backend, event, traced in self._pending:
            start, end = backend.times(event)
            run.execution.trace.append(replace(traced, start=start - run.began, seconds=end - start))
        self._pending.clear()

    def observe(self, step: Launch | Move, run: Run, record: Record, start: float, seconds: float) -> None:
        """Asks where the work really was. The first difference stays in the record; an audit stops at it."""
        observed = step.backend.observe(run.events[step.name])
        source = None
        if isinstance(step, Move) and not isinstance(step.instr, Upload):
            source = self._backends[step.instr.topology].observe(step.src)
        difference = check_place(step.instr, observed, source)
        if record.difference is None:
            record.observed, record.source, record.difference = observed, source, difference
        if self._trace:
            self._keep(step, run, Traced(step.instr, start - run.began, seconds, run.step, observed))
        if self._audit and difference is not None:
            raise difference
        if self._audit and isinstance(step, Move) and isinstance(step.instr, TransferPeer):
            self._compare_ends(step, step.instr, run)

    def _keep(self, step: Launch | Move, run: Run, traced: Traced) -> None:
        run.execution.traced += 1
        # What goes from one backend to another goes through the host, which waits for it.
        through_host = isinstance(step, Move) and isinstance(step.instr, TransferPeer) and step.pair[0] is None
        if id(step.backend) in self._timed and not through_host:
            self._pending.append((self._timed[id(step.backend)][0], run.events[step.name], traced))
        else:
            run.execution.trace.append(traced)

    def _compare_ends(self, step: Move, instr: TransferPeer, run: Run) -> None:
        """A transfer may count its bytes and still not deliver them. What the audit itself moves is not the plan's."""
        step.backend.wait(run.events[step.name])
        ends: list[bytes] = []
        for tensor, place in ((step.src, instr.topology), (step.dst, instr.dst_topology)):
            backend, out = self._backends[place], run.empty(instr)
            before = backend.moved(place, None)
            backend.wait(backend.download(tensor, place, out=out))
            run.before.moved[place, None] += backend.moved(place, None) - before
            ends.append(out.tobytes())
        if ends[0] != ends[1]:
            raise ConformanceError(
                f"{label(instr)}: the bytes on {instr.dst_topology} are not those on {instr.topology}", loc=instr.loc
            )
