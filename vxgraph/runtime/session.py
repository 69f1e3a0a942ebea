"""A program on its devices, ready to be called.

with Session(program, params, bind="numpy") as s:
    y = s.run({"x": x})["y"]                     results, and what was emitted, stacked over the steps
    for step in s.stream({"tokens": t}): ...     what is emitted, as it is emitted
    s.report.conforms()
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import nullcontext, suppress
from inspect import GEN_CLOSED, getgeneratorstate
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet, ref

import numpy as np

from vxgraph.errors import RunError, VxError
from vxgraph.ir.types import Array, Sizes, TensorType, i32
from vxgraph.program.instructions import Download, Emit, Loop, flatten
from vxgraph.program.model import Program
from vxgraph.runtime.binding import Bind, resolve
from vxgraph.runtime.executor import Emitted, Executor, Progress
from vxgraph.runtime.inputs import check_args
from vxgraph.runtime.params import ParamFeed
from vxgraph.runtime.record import Execution
from vxgraph.runtime.report import Report
from vxgraph.runtime.turns import Turn, Turns
from vxgraph.topology.ids import Topology


class Session:
    """Binds topologies, makes params resident, and runs; a context manager. One run at a time.

    `params` maps names to arrays and may be lazy. `bind` is None (automatic), "numpy", {"gpu:0": "cuda:0", ...} or a
    Binding. `require_gpu` refuses a gpu topology that is not on a GPU. `audit` observes every execution of every
    instruction, compares both ends of every transfer, and stops at the first difference; without it each instruction is
    observed once. `trace` keeps events for `report.chrome_trace()`. After every upload `progress` is called with the
    param, the bytes done and the bytes in all.

    After Ctrl-C in a run the session runs again, or where a backend cannot go on from the middle of a call it is closed
    and says so; Ctrl-C while it is made or closed leaves nothing open.

    Raises BindError where a topology has no device or an op no kernel, RunError where params do not fit.
    """

    def __init__(
        self,
        program: Program,
        params: Mapping[str, Any] | None = None,
        bind: Bind = None,
        *,
        require_gpu: bool = False,
        audit: bool = False,
        trace: bool = False,
        progress: Progress | None = None,
    ) -> None:
        binding = resolve(bind, program.topologies, require_gpu=require_gpu)
        feed = ParamFeed(program, params or {})
        self.program = program
        self.note = binding.note
        self._turns = Turns()
        self._why = ""  # it is closed
        self._streams: WeakSet[Stream] = WeakSet()
        self._run: Execution | None = None
        self._executor = Executor(program, binding, audit=audit, trace=trace)
        try:
            self._executor.open()
            self._load = self._executor.load(feed, progress)
        except BaseException:
            self._executor.drop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        # What ends the block is the first cause; what closing finds after it is not.
        with suppress(VxError) if error is not None else nullcontext():
            self.close()

    def close(self) -> None:
        """Ends streams that were not exhausted and frees the devices; a second call does nothing.

        RunError where another thread is in the middle of a step.
        """
        for stream in list(self._streams):
            stream.close()
        try:
            self._executor.close()
        finally:
            self._executor.drop()  # what an interrupt left

    @property
    def bindings(self) -> dict[Topology, str]:
        """The device that each topology is bound to, as the backend names it."""
        return dict(self._executor.names)

    @property
    def report(self) -> Report:
        """The load and the last run."""
        return Report(self.program, self.bindings, self._load, self._run)

    def run(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Array]:
        """Results by name, and under its name what was emitted: [emissions, ...], top-level emits first.

        RunError where the inputs do not fit, a kernel refuses its operands, or another run is in progress.
        """
        stream = self.stream(inputs)
        emitted: dict[str, list[Array]] = {name: [] for name in self._emits}
        try:
            for group in stream:
                for name, array in group.items():
                    emitted[name].append(array)
        finally:
            stream.close()
        return {**stream.results, **{name: self._stack(name, found, stream.sizes) for name, found in emitted.items()}}

    def stream(self, inputs: Mapping[str, Any] | None = None) -> Stream:
        """Starts a run whose emits come one by one: each top-level emit, and all emits of a loop's step together.

        The inputs are checked at once; nothing runs before the first iteration. They must not change until the end.
        """
        args, sizes = check_args(self.program, inputs or {})
        turn = Turn()
        turn.walk = self._walk(turn, args, sizes)
        stream = Stream(turn.walk, sizes)
        turn.holder = ref(stream)
        self._streams.add(stream)
        return stream

    def _walk(self, turn: Turn, args: dict[str, Array], sizes: Sizes) -> Generator[Emitted, None, dict[str, Array]]:
        self._want_open()
        if not self._turns.take(turn):
            raise RunError(
                f"the session of {self.program.name!r} is running already; exhaust or close its stream, "
                "or make a second session"
            )
        if (cause := self._executor.recover()) is not None:
            self._why = f": a run ended half-way ({cause}), and its devices cannot go on from there; make a new one"
            self._executor.drop()
            self._want_open()
        run = self._executor.begin(args, sizes)
        self._run = run.execution
        return (yield from self._executor.walk(run))

    def _want_open(self) -> None:
        if self._executor.closed:
            raise RunError(f"the session of {self.program.name!r} is closed{self._why}")

    @property
    def _emits(self) -> dict[str, str]:
        """The host value of each emit, by external name."""
        return {i.name_out: i.value for i, _ in flatten(self.program.body) if isinstance(i, Emit)}

    def _stack(self, name: str, found: list[Array], sizes: Sizes) -> Array:
        if found:
            return np.stack(found)
        type = _host_type(self.program, self._emits[name])
        return np.empty((0, *type.shape(sizes)), type.dtype.numpy)


class Stream(Iterator[Emitted]):
    """What a run emits, as it is emitted; `results` once it is exhausted. Closing it early ends the run, and so does an
    exception in a step."""

    def __init__(self, walk: Generator[Emitted, None, dict[str, Array]], sizes: Sizes) -> None:
        self.sizes = sizes
        self._walk = walk
        self._results: dict[str, Array] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Emitted:
        try:
            return next(self._walk)
        except StopIteration as end:
            if self._results is None:
                self._results = end.value
            raise StopIteration from None
        except BaseException:
            self.close()  # an interrupt may have come when the step was done, and lost what it emitted
            raise

    def __del__(self) -> None:
        with suppress(AttributeError):  # an interrupt came before it had its run
            self._walk.close()

    def close(self) -> None:
        """Ends the run where it stands; the session can run again. RunError where another thread is in a step of it."""
        try:
            self._walk.close()
        except ValueError:  # the generator is being executed
            raise RunError("the stream is in the middle of a step in another thread: end it there, or wait") from None

    @property
    def results(self) -> dict[str, Array]:
        """The results by name; RunError before the run has ended, and where it was ended early."""
        if self._results is None:
            ended = getgeneratorstate(self._walk) == GEN_CLOSED
            raise RunError(
                "the stream has no results: its run was ended early"
                if ended
                else "the stream has no results yet: iterate it to its end"
            )
        return self._results


def run(
    program: Program, inputs: Mapping[str, Any], params: Mapping[str, Any] | None = None, bind: Bind = None
) -> dict[str, Array]:
    """One call: a session for one run."""
    with Session(program, params, bind) as session:
        return session.run(inputs)


def _host_type(program: Program, value: str) -> TensorType:
    """The type of a host value that is emitted."""
    types = {i.name: i.type for i in (*program.args, *program.params)}
    for instr, _ in flatten(program.body):
        if isinstance(instr, Download):
            types[instr.dst] = instr.type
        elif isinstance(instr, Loop):
            types[instr.steps] = i32[()]
    return types[value]
