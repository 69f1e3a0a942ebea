"""The page's other pictures: the memory plan as address over positions, the bill, the timelines of queues."""

from __future__ import annotations

from collections.abc import Sequence

from vxgraph.program.instructions import Dispatch, Queued, flatten
from vxgraph.program.lifetimes import lifetimes, memory_over_time, positions, stretches
from vxgraph.program.model import MemoryUse, Program, Transfer
from vxgraph.program.timeline import Timeline
from vxgraph.tools.prices import Priced, price
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


def bill(program: Program, machine: Machine | None, d: Diagram) -> list[Json]:
    """Transfers of one kind between two places, and which they are; without a machine they have no time."""
    priced: Sequence[Priced | None] = price(program, machine) if machine else [None] * len(program.transfers)
    rows: dict[tuple[object, ...], list[tuple[int, Transfer, Priced | None]]] = {}
    for k, (transfer, cost) in enumerate(zip(program.transfers, priced, strict=True)):
        key = (transfer.when, transfer.count, cost.kind if cost else transfer.kind, transfer.src, transfer.dst)
        rows.setdefault(key, []).append((k, transfer, cost))
    return [_row(group) for group in rows.values()]


def _row(group: Sequence[tuple[int, Transfer, Priced | None]]) -> Json:
    _, first, cost = group[0]
    costs = [c for _, _, c in group if c is not None]
    return {
        "when": first.when,
        "kind": cost.kind if cost else first.kind,
        "src": "host" if first.src is None else str(first.src),
        "dst": "host" if first.dst is None else str(first.dst),
        "route": cost.route if cost else "",
        "edges": len(group),
        "count": first.count,
        "nbytes": sum(t.nbytes * t.count for _, t, _ in group),
        "seconds": sum(c.seconds for c in costs) if costs else None,
        "moves": [k for k, _, _ in group],
    }


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
