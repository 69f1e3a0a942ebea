"""A batch of dispatches as one CUDA graph, with a branch for each that may run beside others.

The compute stream is captured; other lanes fork from it and join it again, and an event stands for each edge between
lanes. cuBLAS calls share the ordinal's workspace, so they follow one another whatever they read and write.
"""

from __future__ import annotations

from collections.abc import Sequence

from vxgraph.ir.types import Sizes
from vxgraph.runtime.backends.cupy.device import State, on
from vxgraph.runtime.backends.cupy.driver import CudaEvent, Driver, Graph
from vxgraph.runtime.backends.cupy.lanes import Placed, Span, place
from vxgraph.runtime.backends.cupy.launch import Launcher
from vxgraph.runtime.backends.cupy.objects import Bound, Kernel, Tensor

Dispatches = Sequence[tuple[Kernel, Sequence[Tensor], Sequence[Tensor]]]
WORKSPACE: Span = (-1, 0)  # stands for cuBLAS's workspace among the bytes that a dispatch writes


def capture(driver: Driver, launcher: Launcher, state: State, dispatches: Dispatches, sizes: Sizes) -> Graph:
    """The graph of the dispatches: compiled and packed first, so that nothing but launches happens while it records."""
    placed = place([_touches(launcher.ready(driver, *d, sizes)) for d in dispatches])
    waited = {n for p in placed for n in p.waits} | set(_tails(placed))
    lanes = [state.lane(k) for k in range(1 + max(p.lane for p in placed))]
    events: dict[int, CudaEvent] = {n: state.event() for n in waited}
    fork = state.event()
    with on(driver, state.ordinal.ordinal):
        driver.begin_capture(state.compute)
        try:
            driver.record(fork, state.compute)
            for lane in lanes[1:]:
                driver.stream_wait(lane, fork)
            for k, (p, (kernel, ins, outs)) in enumerate(zip(placed, dispatches, strict=True)):
                for n in p.waits:
                    driver.stream_wait(lanes[p.lane], events[n])
                launcher.run(driver, kernel, ins, outs, sizes, lanes[p.lane])
                if k in events:
                    driver.record(events[k], lanes[p.lane])
            for n in _tails(placed):
                driver.stream_wait(state.compute, events[n])
        finally:
            graph = driver.end_capture(state.compute)
    for event in (fork, *events.values()):
        state.recycle(event)
    return graph


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
