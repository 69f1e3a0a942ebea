"""What ran against what was planned.

    model.py:12: dispatch %h (matmul): planned on gpu:1, observed on numpy:gpu:0

Three independent sources have to agree: the plan; the executor's account of each instruction; and what the backends
observed and counted themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from vxgraph.errors import ConformanceError
from vxgraph.program.instructions import (
    Dispatch,
    Download,
    Emit,
    Instruction,
    Loop,
    Queued,
    TransferPeer,
    Upload,
    label,
)
from vxgraph.runtime.abi import Observation
from vxgraph.runtime.record import Execution, Pair, Record, expected_counts
from vxgraph.topology.ids import Topology


def check_execution(instructions: Iterable[Instruction], execution: Execution) -> None:
    """ConformanceError that names the first difference: a place, a count, or bytes."""
    expected = expected_counts(instructions, execution.records)
    for record, times in zip(execution.records, expected, strict=True):
        if record.difference is not None:
            raise record.difference
        _check_count(record, times)
        _check_bytes(record, times, execution)
    _check_totals(execution, expected)


def check_place(instr: Queued, observed: Observation, source: Observation | None) -> ConformanceError | None:
    """The difference between where an instruction was planned and where it was observed, if there is one."""
    match instr:
        case TransferPeer(topology=src, dst_topology=dst):
            pairs = [("to", dst, observed), ("from", src, source)]
        case Download(topology=src):
            pairs = [("from", src, source)]
        case Upload(topology=dst):
            pairs = [("to", dst, observed)]
        case Dispatch(topology=at):
            pairs = [("on", at, observed)]
    for preposition, planned, seen in pairs:
        if seen is not None and planned not in seen.topologies:
            return _difference(instr, f"planned {preposition} {planned}, observed {preposition} {seen.device}")
    return None


def _check_count(record: Record, times: int) -> None:
    if record.count != times:
        raise _difference(record.instr, f"planned {_times(times)}, ran {_times(record.count)}")
    if isinstance(record.instr, Loop) and record.steps > times * record.instr.max_steps:
        raise _difference(record.instr, f"planned at most {record.instr.max_steps} steps, did {record.steps}")


def _check_bytes(record: Record, times: int, execution: Execution) -> None:
    if isinstance(record.instr, Upload | Download | TransferPeer):
        planned = times * record.instr.type.nbytes(execution.sizes)
        if record.nbytes != planned:
            raise _difference(record.instr, f"planned {planned} bytes, observed {record.nbytes}")


def _check_totals(execution: Execution, expected: Sequence[int]) -> None:
    """The plan's sums against the backends' counters, which also see what no instruction asked for."""
    assert execution.counts is not None
    moved: Counter[Pair] = Counter()
    dispatched: Counter[Topology] = Counter()
    for record, times in zip(execution.records, expected, strict=True):
        instr = record.instr
        if isinstance(instr, Dispatch):
            dispatched[instr.topology] += times
        elif isinstance(instr, Upload | Download | TransferPeer):
            for pair in _hops(instr, execution):
                moved[pair] += times * instr.type.nbytes(execution.sizes)
    for pair, counted in execution.counts.moved.items():
        if counted != moved[pair]:
            raise ConformanceError(f"{_pair(pair)}: planned {moved[pair]} bytes in all, the backend counted {counted}")
    for topology, counted in execution.counts.dispatched.items():
        if counted != dispatched[topology]:
            raise ConformanceError(
                f"{topology}: planned {dispatched[topology]} dispatches in all, the backend counted {counted}"
            )


def _hops(instr: Upload | Download | TransferPeer, execution: Execution) -> list[Pair]:
    """The counters that its bytes stand under: two where the ends are on different backends."""
    match instr:
        case Upload(topology=dst):
            return [(None, dst)]
        case Download(topology=src):
            return [(src, None)]
        case TransferPeer(topology=src, dst_topology=dst):
            assert execution.counts is not None
            return [(src, dst)] if (src, dst) in execution.counts.moved else [(src, None), (None, dst)]


def _difference(instr: Instruction, what: str) -> ConformanceError:
    loc = None if isinstance(instr, Emit) else instr.loc
    return ConformanceError(f"{label(instr)}: {what}", loc=loc)


def _pair(pair: Pair) -> str:
    src, dst = (str(end) if end is not None else "the host" for end in pair)
    return f"{src} to {dst}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"
