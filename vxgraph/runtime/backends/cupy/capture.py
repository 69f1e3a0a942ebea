"""A batch of dispatches as one CUDA graph, with a branch for each that may run beside others.

The compute stream is captured; other lanes fork from it and join it again, and an event stands for each edge between
lanes. cuBLAS calls share the ordinal's workspace, so they follow one another whatever they read and write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from vxgraph.runtime.backends.cupy.device import State, on
from vxgraph.runtime.backends.cupy.driver import CudaEvent, Driver, Graph, Stream
from vxgraph.runtime.backends.cupy.lanes import Placed, Span, place
from vxgraph.runtime.backends.cupy.objects import Bound, Tensor

WORKSPACE: Span = (-1, 0)  # stands for cuBLAS's workspace among the bytes that a dispatch writes


def capture(driver: Driver, state: State, dispatches: Sequence[Bound]) -> Graph:
    """The graph of the dispatches, which are compiled and packed: nothing but launches happens while it records."""
    placed = place([_touches(bound) for bound in dispatches])
    lanes = [state.lane(k) for k in range(1 + max(p.lane for p in placed))]
    events = {n: state.event() for n in {n for p in placed for n in p.waits} | set(_tails(placed))}
    fork = state.event()
    with on(driver, state.ordinal.ordinal):
        try:
            driver.begin_capture(state.compute)
            _record(driver, placed, dispatches, lanes, fork, events)
            state.graphs.append(graph := driver.end_capture(state.compute))
        except BaseException:
            with suppress(Exception):  # half of a graph is no graph; what is to be told is the first error
                driver.destroy_graph(driver.end_capture(state.compute))
            raise
        finally:
            for event in (fork, *events.values()):
                state.recycle(event)
    return graph


def _record(
    driver: Driver,
    placed: Sequence[Placed],
    dispatches: Sequence[Bound],
    lanes: Sequence[Stream],
    fork: CudaEvent,
    events: Mapping[int, CudaEvent],
) -> None:
    """Forks the lanes, puts each dispatch on its own, and joins them."""
    driver.record(fork, lanes[0])
    for lane in lanes[1:]:
        driver.stream_wait(lane, fork)
    for k, (p, bound) in enumerate(zip(placed, dispatches, strict=True)):
        for n in p.waits:
            driver.stream_wait(lanes[p.lane], events[n])
        for start in bound.starts:
            start(lanes[p.lane])
        if k in events:
            driver.record(events[k], lanes[p.lane])
    for n in _tails(placed):
        driver.stream_wait(lanes[0], events[n])


def _tails(placed: Sequence[Placed]) -> tuple[int, ...]:
    """The last dispatch of each lane beside the compute stream."""
    last = {p.lane: k for k, p in enumerate(placed)}
    return tuple(k for lane, k in sorted(last.items()) if lane)


def _touches(bound: Bound) -> tuple[list[Span], list[Span]]:
    """The bytes that a dispatch reads and writes."""
    writes = [_span(t) for t in bound.outs]
    return [_span(t) for t in bound.ins], [*writes, WORKSPACE] if bound.library else writes


def _span(tensor: Tensor) -> Span:
    return tensor.pointer, tensor.pointer + tensor.nbytes
