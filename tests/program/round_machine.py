"""A machine whose numbers make times that can be added up by hand, and the little programs that are timed on it.

Every device has 1,000 FLOP/s and 1,000 B/s; every link takes 1 s and 100 B/s, from the host to each and back. A tensor
of 25 f32 (100 bytes) crosses a link in 2 s, and relu of it takes 0.2 s (100 bytes read, 100 written) and a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import vxgraph as vx
from vxgraph.program.predict import LAUNCH_SECONDS
from vxgraph.program.timeline import Slice, Timeline
from vxgraph.topology.model import Device, Link, Machine, Memory

A, B, C = vx.GPU[0], vx.GPU[1], vx.GPU[2]
LINK = 2.0  # seconds that X takes over a link
RELU = 0.2 + LAUNCH_SECONDS
X = vx.f32[25]


def machine(*, peers: Sequence[tuple[int, int]] = ()) -> Machine:
    """Three GPUs on one host, with direct links between `peers`."""
    names = ["host", "m0", "m1", "m2"]
    pairs = [("host", m) for m in names[1:]] + [(m, "host") for m in names[1:]]
    pairs += [(f"m{a}", f"m{b}") for a, b in peers]
    return Machine(
        name="round",
        source="round.toml",
        host="host",
        devices=tuple(
            Device(t, m, (m,), {"f32": 1000.0, "f16": 2000.0}) for t, m in zip((A, B, C), names[1:], strict=True)
        ),
        memories=tuple(Memory(n, 1 << 40, 1000.0, 1, 0) for n in names),
        links=tuple(Link(src, dst, 100.0, 1.0) for src, dst in pairs),
        origins={},
    )


def compiled(build: Callable[[], None], on: Machine) -> vx.Program:
    """The program of a function that builds into the current graph."""
    with vx.Graph(build.__name__) as graph:
        build()
    return vx.compile(graph, on)


def times(timeline: Timeline) -> dict[str, tuple[float, float]]:
    """Start and end of each instruction's first slice, by name, to the nanosecond."""
    found: dict[str, Slice] = {}
    for s in timeline.slices:
        found.setdefault(s.instr.name, s)
    return {name: (round(s.start, 9), round(s.end, 9)) for name, s in found.items()}


def at(*seconds: float) -> tuple[float, ...]:
    """Seconds as `times` has them."""
    return tuple(round(s, 9) for s in seconds)
