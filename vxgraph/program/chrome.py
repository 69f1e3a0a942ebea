"""A timeline in the Chrome trace event format, which Perfetto and chrome://tracing open.

    process  gpu:0 on cuda:0 NVIDIA H200        threads  gpu:0.compute, gpu:0.copy        counter  memory
    process  loops                              threads  loop %steps

One slice for each execution, one arrow for each transfer, from who made the value through the transfer to its first
reader. Format: "Trace Event Format" (Chromium project): `ph` X, M, C and s, t, f; times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vxgraph.ir.types import Sizes
from vxgraph.program.instructions import Dispatch, Queue, TransferPeer, Upload, label, reads, writes
from vxgraph.program.lifetimes import memory_over_time, same_bytes
from vxgraph.program.model import Program
from vxgraph.program.timeline import Section, Slice, Timeline
from vxgraph.topology.ids import Topology

LOOPS = "loops"
FIRST_THREAD = 1000  # above every process: a thread of its process's number would be shown as the main one
RESOLUTION = 1000  # nanoseconds; CUDA's is half of that
FORMAT = 1  # of what is beside the format's own keys, for who reads it back
Event = dict[str, Any]


def chrome_trace(timeline: Timeline, program: Program, devices: Mapping[Topology, str] | None = None) -> dict[str, Any]:
    """The JSON object, as Python. `devices` names what topologies are bound to."""
    tracks = _Tracks(program, devices or {}, timeline.sections)
    return {
        "traceEvents": [
            *tracks.names(),
            *(_section(s, tracks) for s in timeline.sections),
            *(_slice(s, tracks, timeline.sizes) for s in timeline.slices),
            *_arrows(timeline, program, tracks),
            *_counters(timeline, program, tracks),
        ],
        "displayTimeUnit": "ms",
        "otherData": {
            "format": FORMAT,
            "program": program.name,
            "machine": program.machine,
            "digest": program.digest,
            "source": timeline.source,
            "clock": timeline.clock,
            "seconds": timeline.seconds,
            "sizes": dict(sorted(timeline.sizes.items())),
            "devices": {str(t): name for t, name in (devices or {}).items()},
            "events dropped": timeline.left_out,
        },
    }


class _Tracks:
    """A process per topology and one for loops; a thread per queue and per loop. No two threads share a number."""

    def __init__(self, program: Program, devices: Mapping[Topology, str], sections: Iterable[Section]) -> None:
        self.processes = {t: pid for pid, t in enumerate(program.topologies, 2)}
        self.titles = {t: f"{t} on {devices[t]}" if t in devices else str(t) for t in program.topologies}
        queues = [Queue(t, kind) for t in program.topologies for kind in ("compute", "copy")]
        self.queues = {queue: tid for tid, queue in enumerate(queues, FIRST_THREAD)}
        loops = dict.fromkeys(s.loop for s in sections)
        self.loops = {loop: tid for tid, loop in enumerate(loops, FIRST_THREAD + len(queues))}
        self.ends: dict[int, int] = {}  # of each thread's last slice, in nanoseconds

    def names(self) -> Iterator[Event]:
        if self.loops:
            yield from _named("process", 1, 0, LOOPS, 0)
        for t, pid in self.processes.items():
            yield from _named("process", pid, 0, self.titles[t], pid)
        for loop, tid in self.loops.items():
            yield from _named("thread", 1, tid, f"loop %{loop}", tid)
        for queue, tid in self.queues.items():
            yield from _named("thread", self.processes[queue.topology], tid, str(queue), tid)

    def of(self, s: Slice) -> dict[str, int]:
        """Where a slice stands."""
        return {"pid": self.processes[s.instr.topology], "tid": self.queues[s.instr.queue]}

    def place(self, pid: int, tid: int, start: float, end: float) -> Event:
        """The next slice of a thread, in whole nanoseconds, which are what Perfetto keeps.

        It drops a slice that begins before the last one has ended, if only by a clock's rounding.
        """
        first, last, before = round(start * 1e9), round(end * 1e9), self.ends.get(tid, 0)
        if 0 < before - first <= RESOLUTION:
            first, last = before, max(before, last)
        self.ends[tid] = last
        return {"pid": pid, "tid": tid, "ts": first / 1e3, "dur": (last - first) / 1e3}


def _named(what: str, pid: int, tid: int, name: str, order: int) -> Iterator[Event]:
    yield {"name": f"{what}_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
    yield {"name": f"{what}_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": order}}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e9) / 1e3


def _slice(s: Slice, tracks: _Tracks, sizes: Sizes) -> Event:
    instr = s.instr
    args: dict[str, Any] = {"instruction": f"%{instr.name}", "planned": str(instr.topology)}
    if isinstance(instr, TransferPeer):
        args["to"] = str(instr.dst_topology)
    if s.device:
        args["observed"] = s.device
    if not isinstance(instr, Dispatch):
        args["bytes"] = instr.type.nbytes(sizes)
    if s.step >= 0:
        args["step"] = s.step
    if instr.why:
        args["reason"] = instr.why
    if instr.loc:
        args["source"] = str(instr.loc)
    place = tracks.place(**tracks.of(s), start=s.start, end=s.end)
    return {"name": label(instr), "cat": instr.queue.kind, "ph": "X", **place, "args": args}


def _section(s: Section, tracks: _Tracks) -> Event:
    args = {"loop": f"%{s.loop}", "first": s.first, "last": s.last}
    place = tracks.place(1, tracks.loops[s.loop], s.start, s.end)
    return {"name": s.title, "cat": "loop", "ph": "X", **place, "args": args}


# Arrows.


def _arrows(timeline: Timeline, program: Program, tracks: _Tracks) -> Iterator[Event]:
    # A slice of no time is one that no arrow can stand on.
    flows = (stations for stations in _flows(timeline, program) if all(s.seconds > 2e-9 for s in stations))
    for number, stations in enumerate(flows, 1):
        for k, s in enumerate(stations):
            phase = {0: "s", len(stations) - 1: "f"}.get(k, "t")
            # In the middle of its slice, so that no reader takes it for the neighbour's.
            event: Event = {"name": "transfer", "cat": "transfer", "ph": phase, "id": number, **tracks.of(s)}
            event["ts"] = _microseconds(s.start + s.seconds / 2)
            yield {**event, "bp": "e"} if phase == "f" else event


def _flows(timeline: Timeline, program: Program) -> Iterator[tuple[Slice, ...]]:
    """For each transfer its maker's slice, its own, and its first reader's, as far as they are there."""
    root = same_bytes(program)
    made: dict[str, Slice] = {}  # host values stand under their own names
    coming: dict[str, tuple[Slice, ...]] = {}
    for s in timeline.slices:
        read = [root[v] for v in reads(s.instr)]
        for value in read:
            if value in coming:
                yield (*coming.pop(value), s)
        if isinstance(s.instr, Dispatch):
            made |= dict.fromkeys((root[v] for v in writes(s.instr)), s)
            continue
        source = made.get(s.instr.src if isinstance(s.instr, Upload) else read[0])
        way = (source, s) if source is not None else (s,)
        target = next((root[v] for v in writes(s.instr)), s.instr.dst)
        made[target] = s
        if writes(s.instr):
            coming[target] = way
        elif len(way) > 1:
            yield way


# Memory.


def _counters(timeline: Timeline, program: Program, tracks: _Tracks) -> Iterator[Event]:
    params = {a.topology: a.params for a in program.arenas}
    for t, samples in memory_over_time(timeline, program).items():
        for at, live in samples:
            args = {"params": params[t], "kv": live.kv, "transient": live.transient}
            yield {"name": "memory", "ph": "C", "pid": tracks.processes[t], "ts": _microseconds(at), "args": args}
