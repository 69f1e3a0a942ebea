"""The lies of backends: what each changes, and what of that which a user can turn on notices it.

suite         tests/conformance, which every backend has to pass
conforms      `report.conforms()` after each run
audit         `Session(audit=True)`
sanitizer     the same lie under the sanitizer's checks
probe         the CuPy backend's probe of each pair of devices, which also heals
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import vxgraph as vx
from tests.conformance.bed import PLACES, Bed
from tests.mutants import cuda_liars, liars
from tests.mutants.suite import failures
from tests.runtime import programs
from tests.runtime.cupy import fakes
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.test_found_out import AllocatesOnZero, MakesHandlesOnZero, OnAnothersStream, SelectsNothing
from vxgraph.errors import VxError
from vxgraph.ir.types import Array
from vxgraph.program.model import Program
from vxgraph.runtime.abi import Backend
from vxgraph.runtime.backends.cupy.peer import PeerWarning
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session

NOTICES = ("suite", "conforms", "audit", "sanitizer", "probe")
ATOL = 1e-4


@dataclass(frozen=True, eq=False)
class Lie:
    """A lie on one kind of machine: backends that tell it, and the same under the sanitizer or behind the probe."""

    name: str
    machine: str
    backend: Callable[[], Backend]
    targets: Callable[[tuple[vx.Topology, ...]], dict[vx.Topology, str]]
    sanitized: Callable[[], Backend] | None = None
    probed: Callable[[], Backend] | None = None


@dataclass(frozen=True)
class Exposed:
    """What a lie does, and who notices."""

    lie: Lie
    changes: bool  # a result of one of the programs, or there is none
    noticed: tuple[str, ...]
    crash: str = ""  # the first exception beside VxError that a session raised


class Reread(Mapping[str, Array]):
    """Params read into one buffer, as a checkpoint does that is read piece by piece."""

    def __init__(self, params: Mapping[str, Array]) -> None:
        self.params = params
        self.buffer = np.zeros(max((p.size for p in params.values()), default=0), np.float32)

    def __getitem__(self, name: str) -> Array:
        found = self.params[name]
        view = self.buffer[: found.size].reshape(found.shape)
        view[...] = found
        return view

    def __iter__(self) -> Iterator[str]:
        return iter(self.params)

    def __len__(self) -> int:
        return len(self.params)


@cache
def ordinary() -> tuple[tuple[Program, dict[str, Array], tuple[dict[str, Array], ...]], ...]:
    """Programs with two calls of each: params on two places, transfers to and fro, six pairs, a loop."""
    x = np.linspace(1, 2, 64, dtype=np.float32)
    b = {"b": np.full(4, 10, np.float32)}
    row = x.reshape(1, 64)
    counts = (programs.counting_inputs(start=3), programs.counting_inputs(start=5, limit=2))
    return (
        (programs.by_hand(), b, ({"x": x[:4]}, {"x": -x[:4]})),
        (programs.mlp(), programs.mlp_params(), ({"x": row}, {"x": -row})),
        (fakes.all_pairs(64), {}, ({"x": x}, {"x": -x})),
        (programs.crossing(2), {}, ({"a": x[:16], "b": x[16:32]}, {"a": x[32:48], "b": x[:16]})),
        (programs.counting(), {}, counts),
    )


@cache
def right() -> tuple[tuple[dict[str, Array], ...], ...]:
    """What they give."""
    found: list[tuple[dict[str, Array], ...]] = []
    for program, params, calls in ordinary():
        with Session(program, params, "numpy") as s:
            found.append(tuple(s.run(inputs) for inputs in calls))
    return tuple(found)


def expose(lie: Lie) -> Exposed:
    """Tells the lie to everybody."""
    changes, crash = _changes(lie, lie.backend)
    noticed = {
        "suite": next(failures(lambda: _bed(lie)), None) is not None,
        "conforms": _refused(lie, lie.backend, conforms=True),
        "audit": _refused(lie, lie.backend, audit=True),
        "sanitizer": lie.sanitized is not None and _refused(lie, lie.sanitized),
        "probe": lie.probed is not None and changes and _healed(lie, lie.probed),
    }
    return Exposed(lie, changes, tuple(n for n in NOTICES if noticed[n]), crash)


def _bed(lie: Lie) -> Bed:
    return Bed(lie.backend(), lie.targets(PLACES))


def _sessions(lie: Lie, make: Callable[[], Backend], **keywords: Any) -> Iterator[tuple[Session, int]]:
    for k, (program, params, _) in enumerate(ordinary()):
        backend = make()
        where = lie.targets(program.topologies)
        if isinstance(backend, SanitizerBackend):
            where = dict.fromkeys(where, "sanitizer")
        session = Session(program, Reread(params), Binding({t: (backend, where[t]) for t in where}), **keywords)
        try:
            yield session, k
        finally:
            with suppress(Exception):  # what a lie leaves behind is not what is asked for here
                session.close()


def _changes(lie: Lie, make: Callable[[], Backend]) -> tuple[bool, str]:
    """Whether any result is another, and the first exception that is no VxError."""
    changes, crash = False, ""
    try:
        for session, k in _sessions(lie, make):
            for inputs, wanted in zip(ordinary()[k][2], right()[k], strict=True):
                found = session.run(inputs)
                changes = changes or not all(_close(found[n], a) for n, a in wanted.items())
    except Exception as error:
        changes, crash = True, "" if isinstance(error, VxError) else f"{type(error).__name__}: {error}"
    return changes, crash


def _close(found: Array, wanted: Array) -> bool:
    return found.shape == wanted.shape and np.allclose(found, wanted, rtol=ATOL, atol=ATOL)


def _refused(lie: Lie, make: Callable[[], Backend], *, conforms: bool = False, **keywords: Any) -> bool:
    """Whether a VxError stops a session, or its report."""
    try:
        for session, k in _sessions(lie, make, **keywords):
            for inputs in ordinary()[k][2]:
                session.run(inputs)
                if conforms:
                    session.report.conforms()
            session.close()
    except VxError:
        return True
    except Exception:
        return False
    return False


def _healed(lie: Lie, make: Callable[[], Backend]) -> bool:
    """Whether there is a warning, and every result is right."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        changes, _ = _changes(lie, make)
    return not changes and any(w.category is PeerWarning for w in found)


# The table.


def on_numpy(kind: type[Any]) -> Lie:
    """Over NumPy; what counts copies is not told to the sanitizer, which counts what is asked for."""

    def numpy(places: tuple[vx.Topology, ...]) -> dict[vx.Topology, str]:
        return dict.fromkeys(places, "numpy")

    if kind in liars.ON_COUNTS:
        return Lie(kind.__name__, "numpy", kind, numpy)
    if kind in liars.ON_PLACES:
        return Lie(kind.__name__, "numpy", kind, numpy, liars.told(kind, SanitizerBackend))
    over = liars.Eager if issubclass(kind, liars.Meddler) else liars.Queued
    return Lie(kind.__name__, "numpy", liars.told(kind, over), numpy, liars.told(kind, liars.Late))


def on_cuda(name: str, driver: Callable[[], FakeDriver], **keywords: Any) -> Lie:
    """Over three CUDA devices, trusting peer copies; and again with each pair probed."""

    def cuda(places: tuple[vx.Topology, ...]) -> dict[vx.Topology, str]:
        return {place: f"cuda:{k}" for k, place in enumerate(places)}

    def backend(peer: str) -> Callable[[], Backend]:
        return lambda: fakes.backend_on(driver(), peer=peer, **keywords)

    return Lie(name, "cuda", backend("direct"), cuda, probed=backend("probe"))


PEER_LIES: dict[str, Any] = {
    "Zeroes": "zeros",
    "Halves": "half",
    "SendsNothing": "nothing",
    "FirstIsWrong": "first is wrong",
    "OnlyFirstIsRight": "only first is right",
}
DRIVERS = (
    *(SelectsNothing, AllocatesOnZero, MakesHandlesOnZero, cuda_liars.LeavesAnError, cuda_liars.ForgetsWaits),
    *(cuda_liars.SaysDoneTooEarly, cuda_liars.KeepsTheCallersArray, cuda_liars.WritesIntoOperands),
    cuda_liars.Miscalculates,
)


def lies() -> tuple[Lie, ...]:
    """All of them."""
    pairs = [(a, b) for a in range(3) for b in range(3)]
    peers = (
        on_cuda(name, lambda mode=mode: FakeDriver(3, lies=dict.fromkeys(pairs, mode)))
        for name, mode in PEER_LIES.items()
    )
    return (
        *map(on_numpy, (*liars.ON_COPIES_AND_KERNELS, *liars.ON_COUNTS, *liars.ON_PLACES, *liars.ON_ORDER)),
        *peers,
        on_cuda("OneBadPair", lambda: FakeDriver(3, lies={(2, 0): "zeros"})),
        *(on_cuda(kind.__name__, lambda kind=kind: kind(3)) for kind in DRIVERS),
        on_cuda("OnAnothersStream", lambda: FakeDriver(3), kind=OnAnothersStream),
    )
