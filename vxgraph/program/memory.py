"""Where each value lives: one arena per topology, three regions in it.

    gpu:0   params       13.5 GB   resident, uploaded once
            kv            2.1 GB   caches
            transient     0.9 GB   activations and arrived copies, reused when provably free

Values that share bytes (a reshape, what a loop carries, a donated operand) are one group with one slot. A group takes
bytes that another one left only if everything that touched them is known to be done when its first writer starts: the
same arithmetic of queues and waits as in `schedule`, proved again by `program.verify`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vxgraph import ops
from vxgraph.program.instructions import (
    Dispatch,
    Emit,
    Instruction,
    Loop,
    Queue,
    Queued,
    TransferPeer,
    Upload,
    View,
    flatten,
    reads,
    touched,
    writes,
)
from vxgraph.program.lower import Lowered
from vxgraph.program.model import ALIGNMENT, Donation, Slot, SlotKind
from vxgraph.program.schedule import Clock, Clocks
from vxgraph.topology.ids import Topology


@dataclass
class Group:
    """Values of one slot, with their life in instruction positions."""

    topology: Topology
    values: list[str]
    nbytes: int
    kind: SlotKind
    first: int = -1
    last: int = -1
    touched: Clock = field(default_factory=dict[Queue, int])  # the last instruction of each queue that used it
    offset: int = -1


@dataclass(frozen=True)
class Peak:
    """One topology's regions in bytes, and the staging in the transient region where that is fullest."""

    params: int
    kv: int
    transient: int
    staging: int


@dataclass(frozen=True)
class Plan:
    """Slots of all values, peaks per topology, and what became of each possible donation."""

    slots: tuple[Slot, ...]
    peaks: dict[Topology, Peak]
    donations: tuple[Donation, ...]


def plan_memory(lowered: Lowered) -> Plan:
    """The arena plan of a scheduled program."""
    groups = _Groups(lowered)
    groups.life()
    donations = groups.donate()
    groups.life()
    return _place(lowered, groups, donations)


class _Groups:
    """Union-find of values, each root with its Group."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.parent = {v: v for v in lowered.values}
        self.order: list[tuple[int, Instruction]] = []  # with positions; a loop's end has one of its own
        self.loops: list[tuple[Loop, int, int]] = []  # with the positions of its start and its end
        self._number([*lowered.load, *lowered.body], 0)
        self.resident = {i.dst for i in lowered.load if isinstance(i, Upload)}
        self.kinds = self._kinds()
        for a, b in lowered.same:
            self._union(a, b)
        self.groups: dict[str, Group] = {}

    def _number(self, instructions: Iterable[Instruction], at: int) -> int:
        for instr in instructions:
            self.order.append((at, instr))
            at += 1
            if isinstance(instr, Loop):
                end = self._number(instr.body, at)
                self.loops.append((instr, at - 1, end))
                at = end + 1
        return at

    def _kinds(self) -> dict[str, SlotKind]:
        kinds: dict[str, SlotKind] = {}
        for _, instr in self.order:
            match instr:
                case Upload(dst=dst):
                    kinds[dst] = "param" if dst in self.resident else "staging"
                case TransferPeer(dst=dst):
                    kinds[dst] = "staging"
                case Dispatch(op=ops.CacheInit() | ops.CacheAppend(), outputs=outputs):
                    kinds[outputs[0]] = "kv"
                case _:
                    pass
        return kinds

    def find(self, value: str) -> str:
        root = value
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[value] != root:
            self.parent[value], value = root, self.parent[value]
        return root

    def _union(self, a: str, b: str) -> None:
        self.parent[self.find(b)] = self.find(a)

    def life(self) -> None:
        """Groups with their first and last position; what a loop reads from outside lives through the loop."""
        self.groups = {}
        for value, v in self.lowered.values.items():
            root = self.find(value)
            group = self.groups.setdefault(root, Group(v.topology, [], 0, "activation"))
            group.values.append(value)
            group.nbytes = max(group.nbytes, v.type.max_bytes)
            group.kind = _stronger(group.kind, self.kinds.get(value, "activation"))
        for position, instr in self.order:
            for value in touched(instr):
                self._extend(self.groups[self.find(value)], position)
        for loop, start, end in self.loops:
            self._extend_over(loop, start, end)

    def _extend(self, group: Group, position: int) -> None:
        if group.first < 0:
            group.first = position
        group.last = max(group.last, position)

    def _extend_over(self, loop: Loop, start: int, end: int) -> None:
        """What the loop carries, and what its body reads but does not define, is alive until the loop's end."""
        for instr, _ in flatten(loop.body):
            for value in touched(instr):
                group = self.groups[self.find(value)]
                if group.first < start:
                    group.last = max(group.last, end)
        for c in loop.carried:
            group = self.groups[self.find(c.arg)]
            group.last = max(group.last, end)

    def donate(self) -> tuple[Donation, ...]:
        """Unites results with operands whose bytes nobody needs any more; says why where it cannot."""
        found: list[Donation] = []
        readers: dict[str, list[tuple[int, Queued, str]]] = defaultdict(list)
        for position, instr in self.order:
            if not isinstance(instr, Emit | Loop | View):
                for value in reads(instr):
                    readers[self.find(value)].append((position, instr, value))
        for position, instr in self.order:
            if not isinstance(instr, Dispatch) or instr.op.donates is None or len(instr.inputs) <= instr.op.donates:
                continue
            operand = instr.inputs[instr.op.donates]
            root, target = self.find(operand), self.find(instr.name)
            if root == target:
                found.append(Donation(instr.name, operand, True))
                continue
            why = self._obstacle(operand, position, instr, readers[root])
            found.append(Donation(instr.name, operand, not why, why))
            if not why:
                self._merge(root, target)
                readers[self.find(root)] = readers[root] + readers[target]
        return tuple(found)

    def _merge(self, root: str, target: str) -> None:
        into, other = self.groups[root], self.groups.pop(target)
        self._union(root, target)
        into.values += other.values
        into.last = max(into.last, other.last)

    def _obstacle(self, operand: str, position: int, instr: Dispatch, readers: list[tuple[int, Queued, str]]) -> str:
        """Why the operand's bytes must stay, or nothing."""
        root = self.find(operand)
        group = self.groups[root]
        if group.kind == "param":
            return f"%{operand} is resident"
        twice = sum(self.find(i) == root for i in instr.inputs) > 1
        for at, reader, value in readers:
            what = f"%{operand}" if value == operand else f"%{operand}, as %{value},"
            if at > position or (at == position and twice):
                return f"{what} is read later by %{reader.name}"
            if at < position and reader.queue != instr.queue:
                return f"{what} may still be read by %{reader.name} on {reader.queue}"
        if group.last > position:
            return f"%{operand} is needed again in the next step"
        if self.groups[self.find(instr.name)].first < position:
            return f"%{instr.name} goes into bytes that are in use before it is made"
        return ""


def _stronger(a: SlotKind, b: SlotKind) -> SlotKind:
    order: list[SlotKind] = ["activation", "staging", "kv", "param"]
    return max(a, b, key=order.index)


# Placing.


@dataclass
class _Block:
    """Free bytes and who may still be using them."""

    offset: int
    nbytes: int
    touched: Clock

    @property
    def end(self) -> int:
        return self.offset + self.nbytes

    def joins(self, after: _Block) -> bool:
        return self.end == after.offset and self.touched.keys() == after.touched.keys()

    def joined(self, after: _Block) -> _Block:
        last = {queue: max(number, after.touched[queue]) for queue, number in self.touched.items()}
        return _Block(self.offset, self.nbytes + after.nbytes, last)


class _Region:
    """Best fit over runs of neighbouring free blocks that are provably done with; grows at the end.

    Only blocks that the same queues used are joined: one that a slow queue may still be using would spoil the others.
    """

    def __init__(self) -> None:
        self.size = 0
        self.free: list[_Block] = []  # by offset

    def take(self, nbytes: int, clock: Clock) -> int:
        if not nbytes:
            return 0
        best: tuple[int, int, int] | None = None  # bytes, first block, blocks
        for first, count, total in self._runs(clock):
            at_end = self.free[first + count - 1].end == self.size
            if (total >= nbytes or at_end) and (
                best is None or (total >= nbytes, -total) > (best[0] >= nbytes, -best[0])
            ):
                best = (total, first, count)
        if best is None:
            self.size += nbytes
            return self.size - nbytes
        total, first, count = best
        offset = self.free[first].offset
        self.size = max(self.size, offset + nbytes)
        self._cut(first, count, offset + nbytes)
        return offset

    def _runs(self, clock: Clock) -> Iterator[tuple[int, int, int]]:
        """Neighbouring blocks that are done with: the first one's index, how many, their bytes."""
        first, count, total = 0, 0, 0
        for k, block in enumerate(self.free):
            done = _done(block.touched, clock)
            if count and (not done or self.free[k - 1].end != block.offset):
                yield first, count, total
                count, total = 0, 0
            if done:
                first, count, total = (first if count else k), count + 1, total + block.nbytes
        if count:
            yield first, count, total

    def _cut(self, first: int, count: int, end: int) -> None:
        """Takes the bytes up to `end` out of a run of blocks."""
        rest = [b for b in self.free[first : first + count] if b.end > end]
        if rest and rest[0].offset < end:
            rest[0] = _Block(end, rest[0].end - end, rest[0].touched)
        self.free[first : first + count] = rest

    def give(self, offset: int, nbytes: int, touched: Clock) -> None:
        """Frees bytes; joined with neighbours that the same queues used, which keeps the list short."""
        new = _Block(offset, nbytes, dict(touched))
        at = bisect_left(self.free, offset, key=lambda b: b.offset)
        if at < len(self.free) and new.joins(self.free[at]):
            new = new.joined(self.free.pop(at))
        if at and self.free[at - 1].joins(new):
            at -= 1
            new = self.free.pop(at).joined(new)
        self.free.insert(at, new)


def _done(touched: Clock, clock: Clock) -> bool:
    return all(clock.get(queue, 0) >= number for queue, number in touched.items())


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _place(lowered: Lowered, groups: _Groups, donations: tuple[Donation, ...]) -> Plan:
    placer = _Placer(lowered, groups)
    placer.params()
    placer.walk(lowered.load)
    placer.clocks.barrier()
    placer.walk(lowered.body)
    return Plan(placer.slots(), placer.peaks(), donations)


class _Placer:
    """Gives offsets in program order, with the clocks running alongside."""

    def __init__(self, lowered: Lowered, groups: _Groups) -> None:
        self.lowered = lowered
        self.groups = groups
        self.clocks = Clocks()
        self.position = 0
        self.regions: dict[tuple[Topology, str], _Region] = defaultdict(_Region)
        self.ending: dict[int, list[Group]] = defaultdict(list)
        for group in groups.groups.values():
            self.ending[group.last].append(group)
        self.live: dict[Topology, int] = defaultdict(int)  # staging bytes alive now
        self.fullest: dict[Topology, tuple[int, int]] = {}  # size of the transient region when it last grew, staging

    def params(self) -> None:
        for group in self.groups.groups.values():
            if group.kind == "param":
                self._take(group, {})

    def walk(self, instructions: Iterable[Instruction]) -> None:
        for instr in instructions:
            position = self.position
            self.position += 1
            match instr:
                case Emit() | View():
                    pass
                case Loop():
                    self.clocks.barrier()
                    self._begin(touched(instr), self.clocks.floor)
                    self.walk(instr.body)
                    self.position += 1
                    self.clocks.barrier()
                case _:
                    clock = self.clocks.start(instr, instr.after)
                    self._begin(writes(instr), clock)
                    self._touch(instr)
            self._end(position)
            if isinstance(instr, Loop):
                self._end(self.position - 1)

    def _begin(self, values: tuple[str, ...], clock: Clock) -> None:
        for value in values:
            group = self.groups.groups[self.groups.find(value)]
            if group.offset < 0:
                self._take(group, clock)

    def _touch(self, instr: Queued) -> None:
        number = self.clocks.issued[instr.queue]
        for value in (*reads(instr), *writes(instr)):
            self.groups.groups[self.groups.find(value)].touched[instr.queue] = number

    def _region(self, group: Group) -> _Region:
        name = group.kind if group.kind in ("param", "kv") else "transient"
        return self.regions[group.topology, name]

    def _take(self, group: Group, clock: Clock) -> None:
        region = self._region(group)
        before = region.size
        group.offset = region.take(_aligned(group.nbytes), clock)
        if group.kind == "staging":
            self.live[group.topology] += _aligned(group.nbytes)
        if group.kind in ("activation", "staging") and region.size > before:
            self.fullest[group.topology] = (region.size, self.live[group.topology])

    def _end(self, position: int) -> None:
        for group in self.ending.pop(position, ()):
            if group.kind == "staging":
                self.live[group.topology] -= _aligned(group.nbytes)
            if group.kind != "param" and group.offset >= 0 and group.nbytes:
                self._region(group).give(group.offset, _aligned(group.nbytes), group.touched)

    def peaks(self) -> dict[Topology, Peak]:
        topologies = sorted({v.topology for v in self.lowered.values.values()})
        return {
            t: Peak(
                self.regions[t, "param"].size,
                self.regions[t, "kv"].size,
                self.regions[t, "transient"].size,
                self.fullest.get(t, (0, 0))[1],
            )
            for t in topologies
        }

    def slots(self) -> tuple[Slot, ...]:
        base: dict[tuple[Topology, str], int] = {}
        for t, peak in self.peaks().items():
            base[t, "param"], base[t, "kv"], base[t, "transient"] = 0, peak.params, peak.params + peak.kv
        found: list[Slot] = []
        for value, v in self.lowered.values.items():
            group = self.groups.groups[self.groups.find(value)]
            name = group.kind if group.kind in ("param", "kv") else "transient"
            offset = base[group.topology, name] + max(group.offset, 0)
            found.append(Slot(value, v.type, v.topology, offset, v.type.max_bytes, group.kind, v.loc))
        return tuple(found)
