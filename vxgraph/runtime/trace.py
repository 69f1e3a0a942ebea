"""A traced run as a timeline: what was observed, in the form that predictions have too."""

from __future__ import annotations

from vxgraph.errors import RunError
from vxgraph.program.timeline import Slice, Timeline
from vxgraph.runtime.record import Execution


def timeline_of(run: Execution | None) -> Timeline:
    """The run's slices by start, the last ones where they are too many; RunError where nothing was traced."""
    if run is None or not run.traced:
        raise RunError("nothing was traced; make the session with trace=True and run it")
    slices = (Slice(e.instr, e.start, e.seconds, e.step, e.observed.device) for e in run.trace)
    return Timeline(
        source="observed",
        clock=run.clock,
        seconds=run.seconds,
        slices=tuple(sorted(slices, key=lambda s: s.start)),
        sections=tuple(run.sections),
        left_out=run.traced - len(run.trace),
        sizes=dict(run.sizes),
    )
