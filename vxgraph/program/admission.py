"""Does it fit: peak bytes per memory against what the machine has, before the machine is rented.

llama2-7b does not fit v100-16-x2
  memory   gpu     params      kv          activations  staging   reserved    peak        capacity    headroom
  hbm1     gpu:1   12.55 GiB   4.00 GiB    1.20 MiB     0 B       384.00 MiB  16.93 GiB   16.00 GiB   -949.20 MiB
  on hbm1, kv: 4.00 GiB at model.py:88 (64 values, f16[S, KVHead, D])
  make S (8192) smaller, ...
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from vxgraph.errors import AdmissionError
from vxgraph.ir.types import Dim, describe_dim, f32
from vxgraph.program.instructions import TransferPeer, flatten
from vxgraph.program.model import Arena, MemoryUse, Program, Slot
from vxgraph.topology.ids import Topology
from vxgraph.topology.model import Machine
from vxgraph.topology.routes import Router

MAX_OWNERS = 4
UNITS = ("KiB", "MiB", "GiB", "TiB")
HEADER = ("memory", "used by", "params", "kv", "activations", "staging", "reserved", "peak", "capacity", "headroom")


def memory_uses(arenas: Iterable[Arena], staged: int, machine: Machine) -> tuple[MemoryUse, ...]:
    """A row per memory of `machine` that the arenas (or staging through the host, `staged` bytes) use."""
    by_memory: dict[str, list[Arena]] = defaultdict(list)
    for arena in arenas:
        by_memory[machine.memory_of(arena.topology).name].append(arena)
    if staged:
        by_memory.setdefault(machine.host, [])
    return tuple(_row(machine, name, by_memory[name], staged) for name in sorted(by_memory))


def _row(machine: Machine, name: str, arenas: Sequence[Arena], staged: int) -> MemoryUse:
    memory = machine.memory(name)
    rounding = sum(-arena.nbytes % memory.granule for arena in arenas)
    return MemoryUse(
        memory=name,
        topologies=tuple(a.topology for a in arenas),
        params=sum(a.params for a in arenas),
        kv=sum(a.kv for a in arenas),
        activations=sum(a.activations for a in arenas) + rounding,
        staging=sum(a.staging for a in arenas) + (staged if name == machine.host else 0),
        reserved=memory.reserved,
        capacity=memory.capacity,
    )


def staged_bytes(program: Program, router: Router) -> int:
    """Host bytes that transfers without a direct path on the router's machine pass through: the largest of them."""
    peers = [i for i, _ in flatten(program.body) if isinstance(i, TransferPeer)]
    staged = (i for i in peers if router.route(i.topology, i.dst_topology).kind == "staged")
    return max((i.type.max_bytes for i in staged), default=0)


def admit(program: Program) -> None:
    """AdmissionError with the whole table, the owners of the largest parts, and what to make smaller."""
    full = [use for use in program.memories if use.headroom < 0]
    if not full:
        return
    rows = table_rows(program.memories)
    details = list(_aligned(rows))
    for use in full:
        details += _owners(program, use)
    raise AdmissionError(f"{program.name} does not fit {program.machine}", details=tuple(details), rows=rows)


def table_rows(uses: Iterable[MemoryUse]) -> tuple[tuple[str, ...], ...]:
    """The admission table: its head, and the cells of each memory."""
    return (HEADER, *map(_cells, uses))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()


def _cells(use: MemoryUse) -> tuple[str, ...]:
    sizes = (use.params, use.kv, use.activations, use.staging, use.reserved, use.peak, use.capacity, use.headroom)
    return (use.memory, ", ".join(map(str, use.topologies)) or "staging", *map(show_bytes, sizes))


def show_bytes(nbytes: int) -> str:
    """`1.50 GiB`, `320 B`."""
    sign, size = ("-", -nbytes) if nbytes < 0 else ("", nbytes)
    if size < 1024:
        return f"{sign}{size} B"
    power = min((size.bit_length() - 1) // 10, len(UNITS))
    return f"{sign}{size / 1024**power:.2f} {UNITS[power - 1]}"


def _owners(program: Program, use: MemoryUse) -> list[str]:
    """The source lines that own most of a memory, and what would make it fit."""
    owned = _owned_bytes(program, use)
    largest = sorted(owned.items(), key=lambda item: (-sum(n for _, n in item[1]), item[0]))[:MAX_OWNERS]
    lines = [
        f"on {use.memory}, {kind}: {show_bytes(sum(n for _, n in found))} at {line} "
        f"({len(found)} value{'s' * (len(found) > 1)} such as %{found[0][0].value}: {found[0][0].type})"
        for (kind, line), found in largest
    ]
    return [*lines, _advice(use, [pair for found in owned.values() for pair in found])]


def _advice(use: MemoryUse, owned: Sequence[tuple[Slot, int]]) -> str:
    """What a memory lacks, and only what ends that: a dim or a dtype whose bytes are enough, and other machines."""
    lack, alone = -use.headroom, use.params + use.reserved - use.capacity
    params = f", {show_bytes(alone)} of it for params alone" if alone > 0 else ""
    helps = [f"make {describe_dim(dim)} smaller" for dim in _dims_that_help(lack, owned)[:1]]
    if sum(n // 2 for s, n in owned if s.type.dtype == f32) >= lack:
        helps.append("use f16 or bf16 where it is f32")
    whole = max(owned, key=lambda pair: pair[0].nbytes, default=None)
    if whole is not None and whole[0].nbytes > use.capacity - use.reserved:
        params += f", and %{whole[0].value} is larger than all that programs have of it"
    elif use.topologies:
        helps.append("spread the graph over more devices")
    choice = ", ".join([*helps, "or take a machine with more memory" if helps else "take a machine with more memory"])
    return f"{use.memory} lacks {show_bytes(lack)}{params}: {choice}"


def _dims_that_help(lack: int, owned: Iterable[tuple[Slot, int]]) -> list[Dim]:
    """Dims that free enough at their smallest, the most first; a dim of a param is the model's, and stays."""
    kept: set[Dim] = set()
    freed: dict[Dim, int] = defaultdict(int)
    for slot, nbytes in owned:
        dims = [d for d in slot.type.dims if isinstance(d, Dim)]
        if slot.kind == "param":
            kept.update(dims)
        for d in dims:
            freed[d] += nbytes - nbytes * (d.min if d.symbolic else 1) // d.bound
    enough = [d for d, nbytes in freed.items() if nbytes >= lack and d not in kept]
    return sorted(enough, key=lambda d: (not d.symbolic, -freed[d], d.name))


def _owned_bytes(program: Program, use: MemoryUse) -> dict[tuple[str, str], list[tuple[Slot, int]]]:
    """Per kind and source line, values with the bytes that they own: of those who take turns, the largest does."""
    found: dict[tuple[str, str], list[tuple[Slot, int]]] = defaultdict(list)
    claims: dict[Topology, _Claims] = defaultdict(_Claims)
    slots = (s for s in program.slots if s.topology in use.topologies)
    for slot in sorted(slots, key=lambda s: (-s.nbytes, len(s.type.symbols))):  # what is always that large, first
        if nbytes := claims[slot.topology].claim(slot.offset, slot.end):
            found[slot.kind, str(slot.loc or "an unknown line")].append((slot, nbytes))
    return found


class _Claims:
    """Bytes that have an owner, as disjoint ranges in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def claim(self, start: int, end: int) -> int:
        """Takes [start, end); how much of it had no owner."""
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end, lo=first)
        held = sum(
            min(e, end) - max(s, start) for s, e in zip(self._starts[first:last], self._ends[first:last], strict=True)
        )
        low = min([start, *self._starts[first : first + 1]]) if first < last else start
        high = max([end, *self._ends[last - 1 : last]]) if first < last else end
        self._starts[first:last], self._ends[first:last] = [low], [high]
        return end - start - held
