"""The page's other pictures: the memory plan as address over positions, the bill, the timelines of queues."""

from __future__ import annotations

from vxgraph.program.instructions import Dispatch, Queued, flatten
from vxgraph.program.lifetimes import lifetimes, memory_over_time, positions, stretches
from vxgraph.program.model import MemoryUse, Program
from vxgraph.program.timeline import Timeline
from vxgraph.tools import prices
from vxgraph.tools.viewer.diagram import Diagram, Json
from vxgraph.topology.model import Machine


def places(program: Program | None, d: Diagram) -> list[Json]:
    """Every place of the drawing, with what the plan holds there."""
    arenas = {str(a.topology): a for a in program.arenas} if program else {}
    found: list[Json] = []
    for name in d.places:
        a = arenas.get(name)
        kinds = ("params", "kv", "activations", "staging")
        use = {**{k: getattr(a, k) for k in kinds}, "arena": a.nbytes} if a else None
        found.append({"name": name, "memory": a.memory if a else None, "use": use})
    return found


def memories(program: Program, d: Diagram) -> list[Json]:
    """The admission table."""
    return [_memory(m, d) for m in program.memories]


def _memory(m: MemoryUse, d: Diagram) -> Json:
    sizes = ("params", "kv", "activations", "staging", "reserved", "capacity")
    held = [d.place_index[str(t)] for t in m.topologies if str(t) in d.place_index]
    return {"name": m.memory, "places": held, **{k: getattr(m, k) for k in sizes}}


def slots(program: Program, d: Diagram) -> Json:
    """The memory plan: where each value's bytes are, and from which position to which."""
    maker = {out: i.name for i, _ in flatten(program.body) if isinstance(i, Dispatch) for out in i.outputs}
    rows = [
        {
            "value": f"%{life.slot.value}",
            "place": d.place_index[str(life.slot.topology)],
            "offset": life.slot.offset,
            "nbytes": life.slot.nbytes,
            "kind": life.slot.kind,
            "type": str(life.slot.type),
            "first": life.first,
            "last": life.last,
            "box": d.box_index.get(maker.get(life.slot.value, life.slot.value), -1),
            "move": d.move_index.get(life.slot.value, -1),
        }
        for life in lifetimes(program)
        if str(life.slot.topology) in d.place_index
    ]
    marks = [{"title": s.title, "first": s.first, "last": s.last} for s in stretches(program)]
    return {"steps": list(positions(program)), "marks": marks, "slots": rows}


def bill(program: Program, machine: Machine | None) -> list[Json]:
    """Transfers of one kind between two places, and which they are; without a machine they have no time."""
    rows = prices.bill(prices.price(program, machine) if machine else prices.unpriced(program))
    return [
        {
            "when": row.when,
            "kind": row.kind,
            "src": prices.show_place(row.src),
            "dst": prices.show_place(row.dst),
            "route": row.route,
            "edges": row.edges,
            "count": row.count,
            "nbytes": row.nbytes,
            "seconds": row.seconds if machine else None,
            "moves": list(row.members),
        }
        for row in rows
    ]


def timeline(run: Timeline, program: Program, d: Diagram) -> Json:
    """A run's slices by track, its loops' steps, and the bytes alive at each place over time."""
    queues = {i.queue for i, _ in flatten(program.body) if isinstance(i, Queued)}
    tracks = sorted(queues, key=lambda q: (q.topology, q.kind))
    number = {q: k for k, q in enumerate(tracks)}
    slices: list[list[object]] = []
    for s in run.slices:
        kind, index = ("b", d.box_index) if isinstance(s.instr, Dispatch) else ("m", d.move_index)
        slices.append([number[s.instr.queue], s.start, s.seconds, kind, index[s.instr.name], s.step])
    arenas = {a.topology: a.params for a in program.arenas}
    live = memory_over_time(run, program)
    return {
        "seconds": run.seconds,
        "clock": run.clock,
        "tracks": [str(q) for q in tracks],
        "slices": slices,
        "left_out": run.left_out,
        "sections": [{"title": s.title, "start": s.start, "end": s.end} for s in run.sections],
        "memory": [
            [d.place_index[str(t)], [[at, arenas[t] + b.kv + b.transient] for at, b in samples]]
            for t, samples in live.items()
            if str(t) in d.place_index
        ],
    }
