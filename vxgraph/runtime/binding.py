"""Which backend, and which of its devices, each topology of a program stands for.

    resolve(None, program.topologies)                       GPUs where a backend offers them, else NumPy, with a note
    resolve("numpy", ...)                                   every topology on NumPy
    resolve({"gpu:0": "cuda:0", "gpu:1": "cuda:0"}, ...)    as written; nothing is left out, nothing is guessed

    resolve("sanitizer:7", ...)                             what stands after the device is its backend's to understand

Backends are found through the entry-point group `vxgraph.backends`; NumPy's, CuPy's and the sanitizer are always there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from vxgraph.errors import BindError
from vxgraph.runtime.abi import Backend, DeviceInfo
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.topology.ids import CPU, GPU, Topology, parse_topology

GROUP = "vxgraph.backends"
NUMPY, CUPY, SANITIZER = "numpy", "cupy", "sanitizer"


@dataclass(frozen=True)
class Binding:
    """Topologies on devices. One made by hand binds a backend that is not installed."""

    devices: Mapping[Topology, tuple[Backend, str]]  # the backend and its target
    note: str = ""  # what people should know about the choice, in one line


Bind = str | Mapping[str, str] | Mapping[Topology, str] | Mapping[str | Topology, str] | Binding | None


def find_backends() -> dict[str, Backend]:
    """A fresh instance of every backend that is installed here, by name; BindError for one that does not load."""
    found: dict[str, Backend] = {NUMPY: NumpyBackend(), CUPY: CupyBackend(), SANITIZER: SanitizerBackend()}
    for point in entry_points(group=GROUP):
        if point.name not in found:
            found[point.name] = _load(point)
    return found


def _load(point: EntryPoint) -> Backend:
    try:
        return cast("Backend", point.load()())
    except ImportError as error:
        raise BindError(f"backend {point.name!r} ({point.value}) does not load: {error}") from error


def resolve(
    bind: Bind,
    topologies: tuple[Topology, ...],
    *,
    require_gpu: bool = False,
    backends: Mapping[str, Backend] | None = None,
) -> Binding:
    """What each topology is bound to; BindError where one has no device, or a name is wrong.

    `backends` are those to choose from, by default all that are installed.
    """
    if isinstance(bind, Binding):
        binding = bind
        _want_exactly(set(bind.devices), topologies)
    else:
        offers = _offers(find_backends() if backends is None else backends)
        binding = _automatic(topologies, offers) if bind is None else _as_written(bind, topologies, offers)
    if require_gpu:
        _want_gpus(binding, topologies)
    return binding


Offers = dict[str, tuple[Backend, DeviceInfo]]  # by target


def _offers(backends: Mapping[str, Backend]) -> Offers:
    return {device.target: (backend, device) for backend in backends.values() for device in backend.devices()}


def _as_written(
    bind: str | Mapping[str, str] | Mapping[Topology, str] | Mapping[str | Topology, str],
    topologies: tuple[Topology, ...],
    offers: Offers,
) -> Binding:
    if isinstance(bind, str):
        wanted: dict[Topology, str] = dict.fromkeys(topologies, bind)
    else:
        items = cast("Mapping[str | Topology, str]", bind).items()
        wanted = {parse_topology(k) if isinstance(k, str) else k: target for k, target in items}
    _want_exactly(set(wanted), topologies)
    return Binding({t: _offered(t, wanted[t], offers) for t in topologies})


def _want_exactly(bound: set[Topology], topologies: tuple[Topology, ...]) -> None:
    """Every topology of the program is bound, and no other."""
    needs = f"the program runs on {_names(topologies)}"
    if unknown := [t for t in sorted(bound) if t not in topologies]:
        raise BindError(f"{_names(unknown)} {_is(unknown)} not in the program; {needs}")
    if unbound := [t for t in topologies if t not in bound]:
        raise BindError(
            f"{_names(unbound)} {_is(unbound)} not bound; {needs}, bound: {_names(sorted(bound)) or 'none'}"
        )


def _offered(topology: Topology, target: str, offers: Offers) -> tuple[Backend, str]:
    """The backend that offers the target."""
    scheme = target.partition(":")[0]
    for known in (target, scheme):
        if known in offers:
            return offers[known][0], target
    if scheme == "cuda" and not any(t.partition(":")[0] == scheme for t in offers):
        raise BindError(
            f"{topology}={target}: no CUDA device is found here; with one, pip install 'vxgraph[cuda12]' or "
            f"'vxgraph[cuda13]'; without, bind {topology}=numpy"
        )
    raise BindError(f"{topology}={target}: there is no device {target!r} here; there are {', '.join(sorted(offers))}")


def _automatic(topologies: tuple[Topology, ...], offers: Offers) -> Binding:
    """The i-th gpu topology on the i-th GPU, everything else on NumPy."""
    gpus = [target for target, (_, device) in offers.items() if device.kind == "gpu"]
    wanting = [t for t in topologies if t in GPU]
    if gpus and len(gpus) < len(wanting):
        shared = ", ".join(f"{t}={gpus[0]}" for t in wanting)
        raise BindError(
            f"{_names(wanting)} want {len(wanting)} GPUs but {_count(len(gpus))} here; say which share one: {shared}"
        )
    targets = dict(zip(wanting, gpus, strict=False))
    chosen = {t: _offered(t, targets.get(t, NUMPY), offers) for t in topologies}
    return Binding(chosen, _note([t for t in topologies if t not in CPU and t not in targets]))


def _note(fallen: list[Topology]) -> str:
    """`no GPU here: gpu:0 and gpu:1 run on NumPy`, for those that are not where their name says."""
    groups = {"GPU": [t for t in fallen if t in GPU], "device of its kind": [t for t in fallen if t not in GPU]}
    lines = [f"no {what} here: {_names(ts)} run{'s' * (len(ts) == 1)} on NumPy" for what, ts in groups.items() if ts]
    return "; ".join(lines)


def _want_gpus(binding: Binding, topologies: tuple[Topology, ...]) -> None:
    """What require_gpu asks: the program has gpu topologies, and each is on a GPU."""
    wanting = [t for t in topologies if t in GPU]
    if not wanting:
        raise BindError(f"a GPU is required, but the program runs on {_names(topologies)} only")
    missing = [t for t in wanting if not _on_gpu(*binding.devices[t])]
    if missing:
        raise BindError(f"a GPU is required, but {_names(missing)} would run on {binding.devices[missing[0]][1]}")


def _on_gpu(backend: Backend, target: str) -> bool:
    return any(d.kind == "gpu" for d in backend.devices() if d.target == target)


def _names(topologies: tuple[Topology, ...] | list[Topology]) -> str:
    """`gpu:0, gpu:1 and gpu:2`."""
    names = [str(t) for t in topologies]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _is(topologies: list[Topology]) -> str:
    return "is" if len(topologies) == 1 else "are"


def _count(n: int) -> str:
    return "there is 1" if n == 1 else f"there are {n}"
