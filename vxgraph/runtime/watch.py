"""Asks where work really was, as it runs: for the report, for an audit, for a trace."""

from __future__ import annotations

from collections.abc import Mapping

from vxgraph.errors import ConformanceError
from vxgraph.program.instructions import TransferPeer, Upload, label
from vxgraph.runtime.abi import Backend
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
            run.execution.trace.append(Traced(step.instr, start - run.began, seconds, observed))
            run.execution.traced += 1
        if self._audit and difference is not None:
            raise difference
        if self._audit and isinstance(step, Move) and isinstance(step.instr, TransferPeer):
            self._compare_ends(step, step.instr, run)

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
