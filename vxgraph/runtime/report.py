"""What happened in a session's load and last run, next to what was planned.

report.dispatches        {gpu:0: 412, gpu:1: 9850}        by observed place
report.transfers         (%k.gpu1 gpu:0 -> gpu:1, planned 30720 bytes, observed 30720, once), ...
report.conforms()        True, or a ConformanceError that names the first difference
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vxgraph.display import Displayed
from vxgraph.errors import ConformanceError
from vxgraph.program.chrome import chrome_trace
from vxgraph.program.instructions import Dispatch, Download, Instruction, Loop, TransferPeer, Upload
from vxgraph.program.model import Program
from vxgraph.program.timeline import Timeline
from vxgraph.runtime.abi import Observation
from vxgraph.runtime.conformance import check_execution
from vxgraph.runtime.record import Execution, Record, expected_counts
from vxgraph.runtime.trace import timeline_of
from vxgraph.topology.ids import Topology


@dataclass(frozen=True, slots=True)
class Moved:
    """What one instruction of a run moved, all its executions together; `src` or `dst` None is the host."""

    name: str  # the value it defines
    value: str  # the value it moves
    src: Topology | None
    dst: Topology | None
    planned_bytes: int
    observed_bytes: int
    count: int
    seconds: float
    observed_src: Topology | None
    observed_dst: Topology | None


@dataclass(frozen=True, slots=True)
class Resident:
    """A replica of a param: how often it was uploaded, and how much of it."""

    param: str
    topology: Topology
    count: int
    nbytes: int
    observed: Topology | None


@dataclass(frozen=True, slots=True)
class Executed:
    """An instruction of the last run: how often it ran, the seconds in the backend's calls, where it was observed."""

    instr: Instruction
    count: int
    seconds: float
    observed: Topology | None


@dataclass(frozen=True)
class Report(Displayed):
    """The load and the last run of a session; `run` is None before there is one."""

    program: Program
    devices: Mapping[Topology, str]
    load: Execution | None
    run: Execution | None

    @property
    def dispatches(self) -> dict[Topology, int]:
        """Kernels run in the last run, per observed topology; places that ran none are there with 0."""
        found = dict.fromkeys(self.program.topologies, 0)
        for record in self._records:
            place = _place(record.observed, record.instr.topology) if isinstance(record.instr, Dispatch) else None
            if place is not None:
                found[place] = found.get(place, 0) + record.count
        return found

    @property
    def transfers(self) -> tuple[Moved, ...]:
        """Every upload, download and transfer of the last run, in program order."""
        if self.run is None:
            return ()
        expected = expected_counts(self.program.body, self.run.records)
        return tuple(
            _moved(record, record.instr, times * record.instr.type.nbytes(self.run.sizes))
            for record, times in zip(self.run.records, expected, strict=True)
            if isinstance(record.instr, Upload | Download | TransferPeer)
        )

    @property
    def uploads(self) -> tuple[Resident, ...]:
        """Every replica of a param that the load made resident."""
        records = self.load.records if self.load else []
        return tuple(
            Resident(i.src, i.topology, r.count, r.nbytes, _place(r.observed, i.topology))
            for r in records
            if isinstance(i := r.instr, Upload)
        )

    @property
    def steps(self) -> dict[str, int]:
        """Steps done by each loop of the last run."""
        return {r.instr.name: r.steps for r in self._records if isinstance(r.instr, Loop)}

    @property
    def instructions(self) -> tuple[Executed, ...]:
        """Every dispatch and transfer of the last run, in program order."""
        return tuple(
            Executed(i, r.count, r.seconds, _place(r.observed, i.topology))
            for r in self._records
            if isinstance(i := r.instr, Dispatch | Upload | Download | TransferPeer)
        )

    def __str__(self) -> str:
        """A line per place and per pair that bytes crossed between: planned, and observed."""
        places = (f"{t} on {self.devices[t]}: {n} dispatches" for t, n in self.dispatches.items())
        pairs: dict[tuple[str, str], list[Moved]] = {}
        for m in self.transfers:
            pairs.setdefault((str(m.src or "host"), str(m.dst or "host")), []).append(m)
        crossings = (
            f"{src} -> {dst}: {sum(m.count for m in moved)} transfers, "
            f"planned {sum(m.planned_bytes for m in moved):,} bytes, observed {sum(m.observed_bytes for m in moved):,}"
            for (src, dst), moved in pairs.items()
        )
        return "\n".join((*places, *crossings))

    def conforms(self) -> bool:
        """True; ConformanceError where the load or the run is not the plan, is incomplete, or there was none."""
        if self.load is None or self.run is None:
            raise ConformanceError("nothing ran: there is nothing to compare with the plan")
        if not self.run.finished:
            raise ConformanceError("the run did not finish: only a whole run can be compared with the plan")
        check_execution(self.program.load, self.load)
        check_execution(self.program.body, self.run)
        return True

    def timeline(self) -> Timeline:
        """When everything in the last run ran; RunError without a session with `trace=True`."""
        return timeline_of(self.run)

    def chrome_trace(self) -> dict[str, Any]:
        """The same as Chrome trace events (chrome://tracing, Perfetto)."""
        timeline = self.timeline()
        return chrome_trace(timeline, self.program, self.devices)

    @property
    def _records(self) -> list[Record]:
        return self.run.records if self.run else []


def _moved(record: Record, instr: Upload | Download | TransferPeer, planned: int) -> Moved:
    match instr:
        case Upload(topology=to):
            src, dst, seen = None, to, (None, _place(record.observed, to))
        case Download(topology=at):
            src, dst, seen = at, None, (_place(record.source, at), None)
        case TransferPeer(topology=at, dst_topology=to):
            src, dst, seen = at, to, (_place(record.source, at), _place(record.observed, to))
    return Moved(instr.dst, instr.src, src, dst, planned, record.nbytes, record.count, record.seconds, *seen)


def _place(observed: Observation | None, planned: Topology) -> Topology | None:
    """The observed topology; the planned one where several are bound to that device and it is one of them."""
    if observed is None or not observed.topologies:
        return None
    return planned if planned in observed.topologies else observed.topologies[0]
