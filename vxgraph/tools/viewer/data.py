"""All that the page shows, as JSON: the same text for the same program, whatever the process.

    {"title": "mlp for h200-x2", "places": [...], "groups": [...], "boxes": [...], "edges": [...], "moves": [...],
     "memories": [...], "slots": [...], "bill": [...], "timelines": {"predicted": {...}, "observed": null}}

Numbers in it are positions in its lists, seconds (of one execution where it is an instruction's), and bytes at the
symbols' bounds. Names are the program's own, whatever is in them; the page writes them as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from vxgraph.ir.graph import Graph
from vxgraph.program.model import Program
from vxgraph.program.timeline import Timeline
from vxgraph.tools.version import installed_version
from vxgraph.tools.viewer import plan
from vxgraph.tools.viewer.diagram import Json, boxes, diagram, edges, groups, mean_seconds, moves
from vxgraph.topology.model import Machine


def page_data(
    shown: Graph | Program,
    machine: Machine | None = None,
    *,
    predicted: Timeline | None = None,
    observed: Timeline | None = None,
    notes: Sequence[str] = (),
) -> Json:
    """The page's data; `machine` prices the transfers, the timelines are of this program."""
    d = diagram(shown)
    program = shown if isinstance(shown, Program) else None
    times = [
        mean_seconds((s.instr.name, s.seconds) for s in run.slices) if run else {} for run in (predicted, observed)
    ]
    return {
        "version": installed_version(),
        "title": d.sketch.title,
        "kind": "program" if program else "graph",
        "name": shown.name,
        "machine": program.machine if program else None,
        "digest": program.digest if program else None,
        "notes": list(notes),
        "places": plan.places(program, d),
        "memories": plan.memories(program, d) if program else [],
        "groups": groups(d),
        "boxes": boxes(d, *times),
        "edges": edges(d),
        "moves": moves(d, *times),
        "bill": plan.bill(program, machine) if program else [],
        **(plan.slots(program, d) if program else {"steps": [], "marks": [], "slots": []}),
        "timelines": {
            name: plan.timeline(run, program, d) if run and program else None
            for name, run in (("predicted", predicted), ("observed", observed))
        },
    }


def as_json(data: Json) -> str:
    """JSON that can stand in a script element: nothing in it ends that, or begins a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
