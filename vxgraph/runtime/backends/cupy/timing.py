"""When work really ran: CUDA timers before and after it, in seconds of the host's clock.

    origin    a timer whose moment on `time.perf_counter` is known to some 10 us: the host records it on an idle stream
              and waits, and takes the middle of the quickest of a few tries; one for each device
    span      timers on the stream of the work, before and after it

Within a device times are right to CUDA's half microsecond. Between devices, and against the host, they are off by what
the origins are off. Where the host is late the first timer of a span stands before the gap, and so counts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from vxgraph.errors import InternalError
from vxgraph.runtime.backends.cupy.device import Origin, State, on
from vxgraph.runtime.backends.cupy.driver import CudaEvent, Driver, Stream
from vxgraph.runtime.backends.cupy.objects import Event

TRIES = 5
REACH = 0.1  # seconds; CUDA tells how long ago the origin was in 32 bits, so it is moved along


def start(driver: Driver, states: Iterable[State]) -> None:
    """Gives each device's topologies one origin; nothing is under way on them."""
    origins: dict[int, Origin] = {}
    for state in states:
        ordinal = state.ordinal.ordinal
        if ordinal not in origins:
            origins[ordinal] = _origin(driver, state)
        state.origin = origins[ordinal]


def stop(states: Iterable[State]) -> None:
    """Takes the origins back."""
    for state in states:
        if state.origin is not None and state.origin.state is state:
            state.timers.append(state.origin.timer)
        state.origin = None


def _origin(driver: Driver, state: State) -> Origin:
    tries: list[tuple[float, CudaEvent, float]] = []
    for _ in range(TRIES):
        timer = state.timer()
        with on(driver, state.ordinal.ordinal):
            before = perf_counter()
            driver.record(timer, state.compute)
            driver.synchronize(timer)
            after = perf_counter()
        tries.append((after - before, timer, (before + after) / 2))
    (_, timer, at), *others = sorted(tries)
    state.timers += [timer for _, timer, _ in others]
    return Origin(state, timer, at)


def mark(driver: Driver, state: State, stream: Stream) -> CudaEvent | None:
    """A timer on the stream, where the topology is timed."""
    if state.origin is None:
        return None
    timer = state.timer()
    with on(driver, state.ordinal.ordinal):
        driver.record(timer, stream)
    return timer


def times(driver: Driver, event: Event) -> tuple[float, float]:
    """Start and end of an event's work on the host's clock; its timers are free again."""
    state, origin = event.state, event.state.origin
    if origin is None or event.span is None:
        raise InternalError(f"{event!r} is asked for its times, but was not timed")
    first, last = event.span
    event.span = None
    after = driver.elapsed(origin.timer, first)
    began = origin.at + after
    ended = began + driver.elapsed(first, last)
    state.timers.append(last)
    if after > REACH:
        origin.state.timers.append(origin.timer)
        origin.state, origin.timer, origin.at = state, first, began
    else:
        state.timers.append(first)
    return began, ended
