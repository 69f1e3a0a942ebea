"""A run as a timeline in the Chrome trace event format: one track per queue, with the observed device on every event.

Format: "Trace Event Format" (Chromium project), complete events (`ph` X), times in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vxgraph.errors import RunError
from vxgraph.ir.types import Sizes
from vxgraph.program.instructions import Dispatch, Queued, label
from vxgraph.program.model import Program
from vxgraph.runtime.record import Execution, Traced
from vxgraph.topology.ids import Topology


def chrome_trace(program: Program, devices: Mapping[Topology, str], run: Execution | None) -> dict[str, Any]:
    """The JSON object, as Python; RunError where nothing was traced."""
    if run is None or not run.traced:
        raise RunError("nothing was traced; make the session with trace=True and run it")
    tracks = {str(event.instr.queue): 0 for event in run.trace}
    tracks = {queue: k for k, queue in enumerate(sorted(tracks), 1)}
    names = [_metadata("process_name", 0, program.name), *(_metadata("thread_name", k, q) for q, k in tracks.items())]
    return {
        "traceEvents": [*names, *(_event(e, tracks[str(e.instr.queue)], run.sizes) for e in run.trace)],
        "displayTimeUnit": "ms",
        "otherData": {
            "program": program.name,
            "devices": {str(t): name for t, name in devices.items()},
            "events dropped": run.traced - len(run.trace),
        },
    }


def _metadata(what: str, tid: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}


def _event(event: Traced, tid: int, sizes: Sizes) -> dict[str, Any]:
    return {
        "name": label(event.instr),
        "cat": event.instr.queue.kind,
        "ph": "X",
        "pid": 1,
        "tid": tid,
        "ts": event.start * 1e6,
        "dur": event.seconds * 1e6,
        "args": {"planned": str(event.instr.topology), "observed": event.observed.device, **_bytes(event.instr, sizes)},
    }


def _bytes(instr: Queued, sizes: Sizes) -> dict[str, int]:
    return {} if isinstance(instr, Dispatch) else {"bytes": instr.type.nbytes(sizes)}
