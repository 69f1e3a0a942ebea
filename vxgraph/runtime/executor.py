"""Walks a program's instructions and decides nothing.

One arena per topology, one record per instruction. Where two topologies are bound to different backends, a transfer
between them is a download and an upload; everything else is one call of one backend.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Literal, assert_never

import numpy as np

from vxgraph.errors import BindError, HazardError, RunError
from vxgraph.ir.types import Array, Sizes
from vxgraph.program.instructions import Download, Loop, TransferPeer, Upload
from vxgraph.program.model import Program
from vxgraph.runtime.abi import Backend, Buffer, Event, Follower, KernelError, Recovers
from vxgraph.runtime.batch import Batcher
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.params import ParamFeed
from vxgraph.runtime.prepare import Batch, Block, Hand, Launch, Move, Preparer, Repeat
from vxgraph.runtime.record import Execution, count_all, records_of
from vxgraph.runtime.state import Run
from vxgraph.runtime.watch import Watch
from vxgraph.topology.ids import Topology

Emitted = dict[str, Array]
Progress = Callable[[str, int, int], None]  # the param, bytes uploaded, bytes in all


class Executor:
    """A program on its devices, once it is opened. `audit` stops at the first difference from the plan."""

    def __init__(self, program: Program, binding: Binding, *, audit: bool, trace: bool) -> None:
        self.program = program
        self._binding = binding
        self.backends: dict[Topology, Backend] = {t: binding.devices[t][0] for t in program.topologies}
        self._distinct = list({id(b): b for b in self.backends.values()}.values())
        self._followers = [b for b in self._distinct if isinstance(b, Follower)]
        self.names: dict[Topology, str] = {}
        self._watch = Watch(self.backends, audit=audit, trace=trace)
        self._arenas: dict[Topology, Buffer] = {}
        self.closed = False
        self._undo: list[Callable[[], None]] = []  # what closing does, the last first
        self._batcher = Batcher()
        self._last: Run | None = None

    def open(self) -> None:
        """Opens and allocates every arena, and looks every kernel up; where it fails, `drop` undoes what was done."""
        for arena in self.program.arenas:
            self._open(arena.topology)
            self._arenas[arena.topology] = buffer = self.backends[arena.topology].alloc(arena.nbytes, arena.topology)
            self._undo.append(partial(self.backends[arena.topology].free, buffer, arena.topology))
        self._load = Preparer(self.program, self.program.load, self.backends, self._arenas)
        self._body = Preparer(self.program, self.program.body, self.backends, self._arenas)

    def _open(self, topology: Topology) -> None:
        backend, target = self._binding.devices[topology]
        first = all(self.backends[t] is not backend for t in self.names)
        if first:
            self._undo.append(backend.close)
        try:
            self.names[topology] = backend.open(topology, target)
        except BindError:
            if first:  # what is open there is another session's
                self._undo.pop()
            raise

    def close(self) -> None:
        """Frees what was allocated and closes the backends, all of them, and then raises what was found first.

        After an interrupt a second call goes on where the first one ended; a third has nothing left to do.
        """
        self.closed = True
        first: Exception | None = None
        while self._undo:
            try:
                self._undo[-1]()
            except Exception as error:
                first = first or error
            self._undo.pop()
        if first is not None:
            raise first

    def drop(self) -> None:
        """Closes after a first cause: what is found in doing so is not told. One interrupt is gone on from."""
        try:
            with suppress(Exception):
                self.close()
        finally:
            with suppress(Exception):
                self.close()

    def load(self, feed: ParamFeed, progress: Progress | None) -> Execution:
        """Makes the params resident."""
        run = self._begin(self._load, "load", feed, {})
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
        self._last = run = self._begin(self._body, "run", args, sizes)
        return run

    def recover(self) -> str | None:
        """After a run that ended half-way: what that was, if the backends cannot go on; None where they can."""
        run = self._last
        if run is None or run.over:
            return None
        try:
            whole = all(isinstance(b, Recovers) and b.recover() for b in self._distinct)
        except Exception:  # a driver that knows nothing but its error any more
            whole = False
        run.over = whole
        return None if whole else run.cause

    def walk(self, run: Run) -> Generator[Emitted, None, dict[str, Array]]:
        """Runs the body; yields what is emitted and returns the results, all of them the caller's own arrays."""
        steps = self._walk(run)
        # The caller's thread is the caller's between steps, and float errors are the context's: whatever an interrupt
        # keeps from being given back ends with it.
        inside = copy_context()
        try:
            while True:
                yield inside.run(self._step, steps)
        except StopIteration as end:
            return end.value
        finally:
            inside.run(steps.close)

    def _step(self, steps: Generator[Emitted, None, dict[str, Array]]) -> Emitted:
        with self._scope():
            return next(steps)

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
            self._end(run)
            results = self._results(run)
        except BaseException as error:
            run.give_up(error)
            with suppress(Exception):
                self._end(run)
            raise
        run.over = run.execution.finished = True
        return results

    def _begin(
        self, preparer: Preparer, section: Literal["load", "run"], given: Mapping[str, Array], sizes: Sizes
    ) -> Run:
        for follower in self._followers:
            follower.begin(self.program, section)
        instructions = self.program.load if section == "load" else self.program.body
        run = Run(Execution(sizes, records_of(instructions)), preparer, given, count_all(self.backends))
        self._watch.begin(run)
        return run

    def _tell(self, step: Launch | Move) -> None:
        for follower in self._followers:
            follower.issue(step.instr)

    def _tell_loop(self, loop: Loop, at: Literal["enter", "again", "leave"]) -> None:
        for follower in self._followers:
            follower.step(loop, at)

    def _end(self, run: Run) -> None:
        run.execution.counts = count_all(self.backends).since(run.before)
        self._watch.end(run)

    def _steps(self, block: Block, run: Run, group: Emitted | None) -> Generator[Emitted, None, None]:
        """Walks a block. `group` collects what one step of a loop emits; without it, emits are handed over at once."""
        for step in block.steps:
            match step:
                case Launch():
                    self._launch(step, run)
                case Batch():
                    self._launch_batch(step, run)
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
        done, stopped, around = 0, False, run.step
        self._tell_loop(loop, "enter")
        while done < limit and not stopped:
            group: Emitted = {}
            run.step, start = done, perf_counter()
            steady = done > 0 and not self._watch.everything
            block = self._batcher.block(step.block, run.execution.sizes) if steady else step.block
            yield from self._steps(block, run, group)
            run.settle(block.tails)
            self._watch.stepped(loop, run, start)
            self._tell_loop(loop, "again")
            done += 1
            record.steps += 1
            stopped = loop.stop is not None and bool(run.host(loop.stop))
            if group:
                yield group
        self._tell_loop(loop, "leave")
        run.step = around
        record.count += 1
        run.made[loop.steps] = np.array(done, np.int32)

    def _launch(self, step: Launch, run: Run) -> None:
        """Dispatches a kernel and keeps its account. This is the inner loop: an attribute more costs every token."""
        if self._followers:
            self._tell(step)
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
        if self._watch.everything or record.count == 1:
            self._watch.observe(step, run, record, start, seconds)

    def _launch_batch(self, batch: Batch, run: Run) -> None:
        """Dispatches many kernels as one; each keeps its count, and the first one the time of all."""
        step, records = batch.first, run.execution.records
        run.settle(step.foreign)
        start = perf_counter()
        try:
            event = step.backend.dispatch(
                batch.kernel,
                (),
                (),
                step.topology,
                sizes=run.execution.sizes,
                after=[run.events[name] for name in step.after],
            )
        except KernelError as fault:
            raise self._body.named(fault) from fault
        except RunError as error:
            raise _at(step, error) from error
        records[step.index].seconds += perf_counter() - start
        for launch in batch.launches:
            records[launch.index].count += 1
        for name in batch.names:
            run.events[name] = event

    def _move(self, step: Move, run: Run) -> None:
        """Moves, asks the backend how much it moved, and keeps the account."""
        if self._followers:
            self._tell(step)
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
        if self._watch.everything or record.count == 1:
            self._watch.observe(step, run, record, start, seconds)

    def _issue(self, step: Move, run: Run) -> Callable[..., Event]:
        """The backend's call, its host end in hand: a lazy param reads or dequantises before the clock starts."""
        instr, backend = step.instr, step.backend
        match instr:
            case Upload(topology=topology):
                return partial(backend.upload, run.host(instr.src), step.dst, topology)
            case Download(topology=topology):
                out = run.made[instr.dst] = run.empty(instr)
                return partial(backend.download, step.src, topology, out=out)
            case TransferPeer(topology=src, dst_topology=dst):
                if step.pair[0] is None:
                    return partial(self._staged, step, instr, run.empty(instr))
                nbytes = instr.type.nbytes(run.execution.sizes)
                return partial(backend.transfer_peer, step.src, src, dst, nbytes, into=step.dst)

    def _staged(self, step: Move, instr: TransferPeer, host: Array, *, after: Sequence[Event]) -> Event:
        """From one backend to another, through an array on the host."""
        source = self.backends[instr.topology]
        source.wait(source.download(step.src, instr.topology, out=host))
        return step.backend.upload(host, step.dst, instr.dst_topology, after=after)

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
    if isinstance(error, HazardError):
        return error  # names both instructions itself
    return RunError(f"%{step.name}: {error.message}", loc=step.instr.loc, details=error.details)
