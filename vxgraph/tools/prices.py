"""What a program's transfers cost on a machine, one by one and summed up.

when  kind    from   to     transfers  bytes      time
run   direct  gpu:0  gpu:1         64  2.00 GiB   4.8 ms
step  upload  host   gpu:1     1 x 63  252 B      630 us
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vxgraph.program.model import Program, Transfer, When
from vxgraph.topology.ids import Topology
from vxgraph.topology.model import Machine
from vxgraph.topology.routes import Router


@dataclass(frozen=True, slots=True)
class Priced:
    """A transfer with its way over a machine. Bytes and seconds of all its executions, at most, at the symbols' bounds:
    per load for `when` load, else per run."""

    transfer: Transfer
    kind: str
    route: str
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BillRow:
    """Transfers of one kind between two places, summed up: `edges` instructions, each run `count` times."""

    when: When
    kind: str
    src: Topology | None
    dst: Topology | None
    route: str
    edges: int
    count: int  # of each edge
    nbytes: int
    seconds: float
    members: tuple[int, ...]  # which of the transfers that were summed up


def price(program: Program, machine: Machine) -> tuple[Priced, ...]:
    """Every transfer of a program, priced on a machine; MachineError where two places are not joined."""
    router = Router(machine)
    return tuple(_priced(t, router) for t in program.transfers)


def unpriced(program: Program) -> tuple[Priced, ...]:
    """Every transfer where no machine is known: no way over one, and no time."""
    return tuple(Priced(t, t.kind, "", t.nbytes * t.count, 0.0) for t in program.transfers)


def _priced(t: Transfer, router: Router) -> Priced:
    route = router.route(t.src, t.dst)
    between_devices = t.src is not None and t.dst is not None
    kind = route.kind if between_devices else t.kind
    return Priced(t, kind, str(route), t.nbytes * t.count, route.seconds(t.nbytes) * t.count)


def bill(priced: Iterable[Priced]) -> tuple[BillRow, ...]:
    """The rows of a bill, in the order of their first transfer."""
    groups: dict[tuple[object, ...], list[tuple[int, Priced]]] = {}
    for k, p in enumerate(priced):
        t = p.transfer
        groups.setdefault((t.when, t.count, p.kind, t.src, t.dst), []).append((k, p))
    return tuple(_row([p for _, p in group], tuple(k for k, _ in group)) for group in groups.values())


def _row(group: list[Priced], members: tuple[int, ...]) -> BillRow:
    first = group[0]
    t = first.transfer
    return BillRow(
        when=t.when,
        kind=first.kind,
        src=t.src,
        dst=t.dst,
        route=first.route,
        edges=len(group),
        count=t.count,
        nbytes=sum(p.nbytes for p in group),
        seconds=sum(p.seconds for p in group),
        members=members,
    )


def sections(priced: Iterable[Priced]) -> dict[str, list[Priced]]:
    """The transfers of the `load`, of a `run`, and those of a run `between_devices`."""
    found: dict[str, list[Priced]] = {"load": [], "run": [], "between_devices": []}
    for p in priced:
        t = p.transfer
        found["load" if t.when == "load" else "run"].append(p)
        if t.when != "load" and t.src is not None and t.dst is not None:
            found["between_devices"].append(p)
    return found


def largest(priced: Iterable[Priced], count: int) -> list[Priced]:
    """The transfers of a run (not of the load) that move most, largest first."""
    in_run = [p for p in priced if p.transfer.when != "load"]
    return sorted(in_run, key=lambda p: -p.nbytes)[:count]


def peer_bytes(program: Program) -> int:
    """Bytes between devices per run, at most."""
    return sum(t.nbytes * t.count for t in program.transfers if t.src is not None and t.dst is not None)


def show_seconds(seconds: float) -> str:
    """`4.79 ms`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * scale:  # what would be 1e+03 of the next unit is 1 of this one
            return f"{seconds / scale:.3g} {unit}" if seconds < 999.5 * scale else f"{seconds / scale:.0f} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def show_place(place: Topology | None) -> str:
    """`gpu:0`, or `host`."""
    return "host" if place is None else str(place)
