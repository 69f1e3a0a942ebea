"""How long the bytes of each value are its own, counted in instructions.

    %w.gpu0        param       0 .. 9     to the end
    %x.gpu0        staging     1 .. 3     to its last reader
    %k             kv          4 .. 8     carried: as long as the loop

Positions are instructions in program order: the load section, then the run, a loop before its body, which counts once.
They are the planner's time: what is alive at one position has bytes apart, unless it is the same bytes on purpose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vxgraph.program.instructions import (
    Instruction,
    Loop,
    Queued,
    TransferPeer,
    Upload,
    View,
    flatten,
    label,
    touched,
)
from vxgraph.program.model import Program, Slot
from vxgraph.program.timeline import Timeline, loop_around
from vxgraph.topology.ids import Topology


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The first and the last position at which the bytes of a slot hold its value."""

    slot: Slot
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of positions with a title: `load`, `run`, `loop %steps`."""

    title: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Live:
    """Bytes alive at a position on one topology, beside its params."""

    kv: int
    transient: int


def positions(program: Program) -> tuple[str, ...]:
    """What stands at each position: `upload %w.gpu0`, `dispatch %h (matmul)`, `loop %steps`."""
    return tuple(label(instr) for instr, _ in _walk(program))


def stretches(program: Program) -> tuple[Stretch, ...]:
    """The load section and the run, where they are not empty, and every loop with its body."""
    loads = sum(1 for _ in flatten(program.load))
    total = loads + sum(1 for _ in flatten(program.body))
    parts = [Stretch("load", 0, loads - 1), Stretch("run", loads, total - 1)]
    loops = [Stretch(label(loop), first, last) for loop, first, last in _loops(program)]
    return tuple(s for s in (*parts, *loops) if s.first <= s.last)


def lifetimes(program: Program) -> tuple[Lifetime, ...]:
    """One for each slot, in the order of `program.slots`."""
    return _Lives(program).found()


def same_bytes(program: Program) -> dict[str, str]:
    """For each device value the first of those that are its bytes on purpose: views, donations, what is carried."""
    parent = {slot.value: slot.value for slot in program.slots}

    def find(value: str) -> str:
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    for a, b in _pairs(program):
        parent[find(b)] = find(a)
    return {value: find(value) for value in parent}


def live_bytes(program: Program) -> dict[Topology, tuple[Live, ...]]:
    """For each topology and position the bytes that are alive; values that are the same bytes count once."""
    count = len(positions(program))
    root = same_bytes(program)
    groups: dict[str, list[Lifetime]] = defaultdict(list)
    for life in lifetimes(program):
        if life.slot.kind != "param":
            groups[root[life.slot.value]].append(life)
    changes: dict[Topology, list[list[int]]] = {a.topology: [[0, 0] for _ in range(count + 1)] for a in program.arenas}
    for lives in groups.values():
        kind = 0 if lives[0].slot.kind == "kv" else 1
        nbytes = max(life.slot.nbytes for life in lives)
        at = changes[lives[0].slot.topology]
        at[min(life.first for life in lives)][kind] += nbytes
        at[max(life.last for life in lives) + 1][kind] -= nbytes
    return {t: tuple(_running(found[:count])) for t, found in changes.items()}


def memory_over_time(timeline: Timeline, program: Program) -> dict[Topology, tuple[tuple[float, Live], ...]]:
    """Each topology's bytes from a second on, where they change: those at the furthest position that has started.

    What is alive is what the plan keeps, so this is the plan in time, whatever a kernel really touches.
    """
    live = live_bytes(program)
    position = {i.name: at for at, (i, _) in enumerate(_walk(program)) if isinstance(i, Queued)}
    loops = loop_around(program)
    furthest: dict[Topology, tuple[tuple[str, int], int]] = {}
    found: dict[Topology, list[tuple[float, Live]]] = {t: [(0.0, Live(0, 0))] for t in live}
    for s in timeline.slices:
        turn = (loops.get(s.instr.name, ""), s.step)
        for t in {s.instr.topology, s.instr.dst_topology if isinstance(s.instr, TransferPeer) else s.instr.topology}:
            before, at = furthest.get(t, (turn, 0))
            at = max(position[s.instr.name], at if before == turn else 0)  # a step begins again at its loop's start
            furthest[t] = (turn, at)
            if found[t][-1][0] == s.start:
                found[t].pop()
            if not found[t] or live[t][at] != found[t][-1][1]:
                found[t].append((s.start, live[t][at]))
    return {t: tuple(samples) for t, samples in found.items()}


def _running(changes: Iterable[list[int]]) -> Iterator[Live]:
    kv = transient = 0
    for more_kv, more_transient in changes:
        kv, transient = kv + more_kv, transient + more_transient
        yield Live(kv, transient)


def _walk(program: Program) -> Iterator[tuple[Instruction, int]]:
    return flatten((*program.load, *program.body))


def _loops(program: Program) -> list[tuple[Loop, int, int]]:
    """Each loop with its own position and the last one of its body, in program order."""
    found: list[tuple[Loop, int, int]] = []
    for at, (instr, _) in enumerate(_walk(program)):
        if isinstance(instr, Loop):
            found.append((instr, at, at + sum(1 for _ in flatten(instr.body))))
    return found


def _pairs(program: Program) -> Iterator[tuple[str, str]]:
    for instr, _ in _walk(program):
        match instr:
            case View(src=src, dst=dst):
                yield src, dst
            case Loop(carried=carried):
                for c in carried:
                    yield from ((c.init, c.arg), (c.arg, c.next), (c.arg, c.out))
            case _:
                pass
    yield from ((d.operand, d.value) for d in program.donations if d.donated)


class _Lives:
    """First and last positions, found in one walk and then stretched: through loops around readers, and by views."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.walk = [instr for instr, _ in _walk(program)]

    def found(self) -> tuple[Lifetime, ...]:
        for at, instr in enumerate(self.walk):
            self._touch(at, touched(instr))
        for loop, start, end in _loops(self.program):
            self._through(loop, start, end)
        for instr in reversed(self.walk):  # what is read through a view is read
            if isinstance(instr, View):
                self._touch(self.last[instr.dst], (instr.src,))
        self._touch(len(self.walk) - 1, (i.dst for i in self.program.load if isinstance(i, Upload)))
        return tuple(
            Lifetime(s, self.first[s.value], self.last[s.value]) for s in self.program.slots if s.value in self.first
        )

    def _touch(self, at: int, values: Iterable[str]) -> None:
        for value in values:
            self.first.setdefault(value, at)
            self.last[value] = max(self.last.get(value, at), at)

    def _through(self, loop: Loop, start: int, end: int) -> None:
        """What a step reads and no step makes is there for all steps, and so is what is carried."""
        for instr, _ in flatten(loop.body):
            self._touch(end, (v for v in touched(instr) if self.first[v] < start))
        for c in loop.carried:
            self._touch(end, (c.arg, c.next))
            self._begin_late(c.out, end)

    def _begin_late(self, out: str, end: int) -> None:
        """What a loop leaves is there after its last step."""
        self.first[out] = end
        self.last[out] = max(self.last[out], end)
