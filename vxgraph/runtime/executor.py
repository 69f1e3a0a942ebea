"""Walks a program's instructions and decides nothing.

One arena per topology, one record per instruction. Where two topologies are bound to different backends, a transfer
between them is a download and an upload; everything else is one call of one backend.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import assert_never

import numpy as np

from vxgraph.errors import ConformanceError, RunError
from vxgraph.ir.types import Array, Sizes
from vxgraph.program.instructions import Download, Instruction, TransferPeer, Upload
from vxgraph.program.model import Program
from vxgraph.runtime.abi import Backend, Buffer, Event
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.conformance import check_place, label
from vxgraph.runtime.params import ParamFeed
from vxgraph.runtime.prepare import Block, Hand, Launch, Move, Preparer, Repeat, Tail
from vxgraph.runtime.record import Counts, Execution, Record, Traced, count_all, records_of
from vxgraph.topology.ids import Topology

Emitted = dict[str, Array]
Progress = Callable[[str, int, int], None]  # the param, bytes uploaded, bytes in all


@dataclass(slots=True)
class Run:
    """The state of one walk."""

    execution: Execution
    preparer: Preparer
    given: Mapping[str, Array]  # args, or params
    before: Counts
    began: float = field(default_factory=perf_counter)
    made: dict[str, Array] = field(default_factory=dict[str, Array])  # host values that the run itself made
    events: dict[str, Event] = field(default_factory=dict[str, Event])

    def host(self, name: str) -> Array:
        """A host value, once it has arrived."""
        if name not in self.made:
            return self.given[name]
        if name in self.events:
            self.preparer.event_backend(name).wait(self.events[name])
        return self.made[name]

    def settle(self, tails: Iterable[Tail]) -> None:
        """Returns when these instructions are done."""
        for backend, name in tails:
            backend.wait(self.events[name])


class Executor:
    """A program on its devices. `audit` stops at the first difference from the plan."""

    def __init__(self, program: Program, binding: Binding, *, audit: bool, trace: bool) -> None:
        self.program = program
        self.backends: dict[Topology, Backend] = {t: binding.devices[t][0] for t in program.topologies}
        self._distinct = list({id(b): b for b in self.backends.values()}.values())
        self.names: dict[Topology, str] = {}
        self._audit = audit
        self._trace = trace
        self._observes_all = audit or trace
        self._arenas: dict[Topology, Buffer] = {}
        try:
            self._open(binding)
            self._load = Preparer(program, program.load, self.backends, self._arenas)
            self._body = Preparer(program, program.body, self.backends, self._arenas)
        except BaseException:
            self.close()
            raise

    def _open(self, binding: Binding) -> None:
        for arena in self.program.arenas:
            backend, target = binding.devices[arena.topology]
            self.names[arena.topology] = backend.open(arena.topology, target)
            self._arenas[arena.topology] = backend.alloc(arena.nbytes, arena.topology)

    def close(self) -> None:
        """Closes the backends, and with them everything that is resident."""
        for backend in self._distinct:
            backend.close()

    def load(self, feed: ParamFeed, progress: Progress | None) -> Execution:
        """Makes the params resident."""
        run = self._begin(self._load, self.program.load, feed, {})
        block = self._load.block({})
        total = sum(i.type.nbytes() for i in self.program.load if isinstance(i, Upload))
        done = 0
        for step in block.steps:
            assert isinstance(step, Move)  # load makes params resident and does nothing else
            self._move(step, run)
            if progress is not None and isinstance(step.instr, Upload):
                done += step.instr.type.nbytes()
                progress(step.instr.src, done, total)
        run.settle(block.tails)
        run.execution.finished = True
        self._end(run)
        return run.execution

    def begin(self, args: Mapping[str, Array], sizes: Sizes) -> Run:
        """A run that is about to start."""
        return self._begin(self._body, self.program.body, args, sizes)

    def walk(self, run: Run) -> Generator[Emitted, None, dict[str, Array]]:
        """Runs the body; yields what is emitted and returns the results, all of them the caller's own arrays."""
        steps = self._walk(run)
        try:
            while True:
                with self._scope():  # left before each yield: the caller's thread is the caller's
                    emitted = next(steps)
                yield emitted
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    @contextmanager
    def _scope(self) -> Generator[None]:
        with ExitStack() as stack:
            for backend in self._distinct:
                stack.enter_context(backend.scope())
            yield

    def _walk(self, run: Run) -> Generator[Emitted, None, dict[str, Array]]:
        try:
            block = self._body.block(run.execution.sizes)
            yield from self._steps(block, run, None)
            run.settle(block.tails)
            results = self._results(run)
            run.execution.finished = True
        finally:
            self._end(run)
        return results

    def _begin(
        self, preparer: Preparer, instructions: Iterable[Instruction], given: Mapping[str, Array], sizes: Sizes
    ) -> Run:
        return Run(Execution(sizes, records_of(instructions)), preparer, given, count_all(self.backends))

    def _end(self, run: Run) -> None:
        run.execution.counts = count_all(self.backends).since(run.before)

    def _steps(self, block: Block, run: Run, group: Emitted | None) -> Generator[Emitted, None, None]:
        """Walks a block. `group` collects what one step of a loop emits; without it, emits are handed over at once."""
        for step in block.steps:
            match step:
                case Launch():
                    self._launch(step, run)
                case Move():
                    self._move(step, run)
                case Hand(index, instr):
                    run.execution.records[index].count += 1
                    emitted = run.host(instr.value).copy()
                    if group is None:
                        yield {instr.name_out: emitted}
                    else:
                        group[instr.name_out] = emitted
                case Repeat():
                    yield from self._repeat(step, run)
                case _:
                    assert_never(step)

    def _repeat(self, step: Repeat, run: Run) -> Generator[Emitted, None, None]:
        loop, record = step.instr, run.execution.records[step.index]
        run.settle(step.before)
        limit = loop.max_steps if loop.limit is None else min(loop.max_steps, int(run.host(loop.limit)))
        done, stopped = 0, False
        while done < limit and not stopped:
            group: Emitted = {}
            yield from self._steps(step.block, run, group)
            run.settle(step.block.tails)
            done += 1
            record.steps += 1
            stopped = loop.stop is not None and bool(run.host(loop.stop))
            if group:
                yield group
        record.count += 1
        run.made[loop.steps] = np.array(done, np.int32)

    def _launch(self, step: Launch, run: Run) -> None:
        """Dispatches a kernel and keeps its account. This is the inner loop: an attribute more costs every token."""
        if step.foreign:
            run.settle(step.foreign)
        events, execution = run.events, run.execution
        after = [events[name] for name in step.after] if step.after else ()
        record = execution.records[step.index]
        start = perf_counter()
        try:
            event = step.backend.dispatch(
                step.kernel, step.ins, step.outs, step.topology, sizes=execution.sizes, after=after
            )
        except RunError as error:
            raise _at(step, error) from error
        seconds = perf_counter() - start
        record.seconds += seconds
        record.count += 1
        events[step.name] = event
        if self._observes_all or record.count == 1:
            self._observe(step, run, record, start, seconds)

    def _move(self, step: Move, run: Run) -> None:
        """Moves, asks the backend how much it moved, and keeps the account."""
        run.settle(step.foreign)
        record = run.execution.records[step.index]
        issue = self._issue(step, run)
        before = step.backend.moved(*step.pair)
        start = perf_counter()
        try:
            run.events[step.name] = issue(after=[run.events[name] for name in step.after])
        except RunError as error:
            raise _at(step, error) from error
        seconds = perf_counter() - start
        record.seconds += seconds
        record.nbytes += step.backend.moved(*step.pair) - before
        record.count += 1
        if self._observes_all or record.count == 1:
            self._observe(step, run, record, start, seconds)

    def _issue(self, step: Move, run: Run) -> Callable[..., Event]:
        """The backend's call, its host end in hand: a lazy param reads or dequantises before the clock starts."""
        instr, backend = step.instr, step.backend
        match instr:
            case Upload(topology=topology):
                return partial(backend.upload, run.host(instr.src), step.dst, topology)
            case Download(topology=topology):
                out = run.made[instr.dst] = _empty(instr, run)
                return partial(backend.download, step.src, topology, out=out)
            case TransferPeer(topology=src, dst_topology=dst):
                if step.pair[0] is None:
                    return partial(self._staged, step, instr, _empty(instr, run))
                nbytes = instr.type.nbytes(run.execution.sizes)
                return partial(backend.transfer_peer, step.src, src, dst, nbytes, into=step.dst)

    def _staged(self, step: Move, instr: TransferPeer, host: Array, *, after: Sequence[Event]) -> Event:
        """From one backend to another, through an array on the host."""
        source = self.backends[instr.topology]
        source.wait(source.download(step.src, instr.topology, out=host))
        return step.backend.upload(host, step.dst, instr.dst_topology, after=after)

    def _observe(self, step: Launch | Move, run: Run, record: Record, start: float, seconds: float) -> None:
        """Asks where the work really was. The first difference stays in the record; an audit stops at it."""
        observed = step.backend.observe(run.events[step.name])
        source = None
        if isinstance(step, Move) and not isinstance(step.instr, Upload):
            source = self.backends[step.instr.topology].observe(step.src)
        difference = check_place(step.instr, observed, source)
        if record.difference is None:
            record.observed, record.source, record.difference = observed, source, difference
        if self._trace:
            run.execution.trace.append(Traced(step.instr, start - run.began, seconds, observed))
            run.execution.traced += 1
        if self._audit and difference is not None:
            raise difference
        if self._audit and isinstance(step, Move) and isinstance(step.instr, TransferPeer):
            self._compare_ends(step, step.instr, run)

    def _compare_ends(self, step: Move, instr: TransferPeer, run: Run) -> None:
        """A transfer may count its bytes and still not deliver them. What the audit itself moves is not the plan's."""
        step.backend.wait(run.events[step.name])
        ends: list[bytes] = []
        for tensor, place in ((step.src, instr.topology), (step.dst, instr.dst_topology)):
            backend, out = self.backends[place], _empty(instr, run)
            before = backend.moved(place, None)
            backend.wait(backend.download(tensor, place, out=out))
            run.before.moved[place, None] += backend.moved(place, None) - before
            ends.append(out.tobytes())
        if ends[0] != ends[1]:
            raise ConformanceError(
                f"{label(instr)}: the bytes on {instr.dst_topology} are not those on {instr.topology}", loc=instr.loc
            )

    def _results(self, run: Run) -> dict[str, Array]:
        """The results; a copy of what is the caller's already, or was handed out under another name."""
        results: dict[str, Array] = {}
        handed: set[str] = set()
        for result in self.program.results:
            array = run.host(result.value)
            own = result.value in run.made and result.value not in handed
            results[result.name] = array if own else array.copy()
            handed.add(result.value)
        return results


def _at(step: Launch | Move, error: RunError) -> RunError:
    """What a kernel or a copy refused, with the instruction and the user's line that it comes from."""
    return RunError(f"%{step.name}: {error.message}", loc=step.instr.loc, details=error.details)


def _empty(instr: Download | TransferPeer, run: Run) -> Array:
    return np.empty(instr.type.shape(run.execution.sizes), instr.type.dtype.numpy)
