"""Ctrl-C at every line of the runtime leaves a session that is right, or one that says that it is closed and why."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fakes import appending, backend_on, branching, branching_inputs, nothing_left, targets
from tests.runtime.interrupts import Interrupt, Place, firsts, lasts
from tests.runtime.programs import by_hand, counting, counting_inputs
from tests.runtime.test_causes import failing, session_of
from vxgraph.errors import RunError
from vxgraph.ir.types import Array
from vxgraph.program.model import Program
from vxgraph.runtime.abi import Backend
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session

CLOSED = (
    "the session of {name!r} is closed: a run ended half-way ({cause}), and its devices cannot go on from there; "
    "make a new one"
)


@pytest.fixture(autouse=True)
def _collected_when_asked() -> Iterator[None]:
    """Otherwise the collector's own calls of `__del__` would come at other lines in each run."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@dataclass
class Devices:
    """A backend, what its topologies are bound to, and whether anything is left of it."""

    backend: Backend
    targets: Callable[[Program], Mapping[Any, str]]
    empty: Callable[[], bool]
    state: Callable[[], Any]  # the calling thread's

    def session(self, program: Program, params: Mapping[str, Array] | None = None) -> Session:
        where = self.targets(program)
        return Session(program, params or {}, Binding({t: (self.backend, where[t]) for t in where}))


def on_numpy() -> Devices:
    backend = NumpyBackend()
    return Devices(backend, lambda p: dict.fromkeys(p.topologies, "numpy"), lambda: not backend._spaces, np.geterr)


def on_sanitizer() -> Devices:
    backend = SanitizerBackend()
    return Devices(
        backend,
        lambda p: dict.fromkeys(p.topologies, "sanitizer"),
        lambda: not backend._spaces and not backend._buffers,
        np.geterr,
    )


def on_fakes() -> Devices:
    driver = FakeDriver(2)
    driver.set_device(1)
    return Devices(
        backend_on(driver),
        lambda p: targets(driver, p.topologies),
        lambda: nothing_left(driver),
        lambda: (np.geterr(), driver.device()),
    )


BEDS = [on_numpy, on_sanitizer, on_fakes]
every_bed = pytest.mark.parametrize("bed", BEDS)
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C in a __del__


@dataclass
class Case:
    """A program, its inputs and params, and what a run gives."""

    program: Program
    inputs: dict[str, Array]
    params: dict[str, Array]

    def __post_init__(self) -> None:
        with Session(self.program, self.params, "numpy") as s:
            self.wanted = s.run(self.inputs)

    def check(self, found: Mapping[str, Array]) -> None:
        assert found.keys() == self.wanted.keys()
        for name, array in self.wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-6)


@cache
def line() -> Case:
    """No loop."""
    return Case(by_hand(), {"x": np.arange(4, dtype=np.float32)}, {"b": np.full(4, 10, np.float32)})


@cache
def count() -> Case:
    """A loop between two devices."""
    return Case(counting(), counting_inputs(limit=2), {})


@cache
def branch() -> Case:
    """A loop with products, which CUDA captures."""
    inputs, params = branching_inputs()
    return Case(branching(steps=3), inputs, params)


def is_right_or_closed(devices: Devices, session: Session, case: Case, where: Place | None) -> bool:
    """Whether the session is open; what it gives is right, or it says that it is closed and has nothing any more."""
    found: Mapping[str, Array] | str
    try:
        found = session.run(case.inputs)
    except RunError as error:
        found = str(error)
    if not isinstance(found, str):
        case.check(found)
        assert session.report.conforms()
        return True
    assert found in (
        f"the session of {case.program.name!r} is closed",
        CLOSED.format(name=case.program.name, cause="KeyboardInterrupt"),
        CLOSED.format(name=case.program.name, cause="an interrupt"),
    ), where
    gc.collect()
    assert devices.empty(), where
    return False


def interrupt_runs(devices: Devices, case: Case, chosen: Iterable[int], *, warm: bool) -> int:
    """How often the session could go on. `warm` interrupts runs for which everything is prepared."""
    session, went_on = devices.session(case.program, case.params), 0
    if warm:
        session.run(case.inputs)
    state = devices.state()
    for n in chosen:
        with Interrupt(after=n) as interrupt:
            session.run(case.inputs)
        assert interrupt.where is not None
        assert devices.state() == state, interrupt.where
        is_open = is_right_or_closed(devices, session, case, interrupt.where)
        went_on += is_open
        if not is_open or not warm:
            session.close()
            session = devices.session(case.program, case.params)
            if warm:
                session.run(case.inputs)
    session.close()
    assert devices.empty()
    return went_on


def places_of(devices: Devices, case: Case) -> tuple[list[Place], list[Place]]:
    """The lines of the first run of a session, and of the next one."""
    with devices.session(case.program, case.params) as session:
        runs: list[list[Place]] = []
        for _ in range(2):
            with Interrupt() as whole:
                session.run(case.inputs)
            runs.append(whole.places)
    return runs[0], runs[1]


@pytest.mark.parametrize(
    ("bed", "cases"), [(on_numpy, [count]), (on_sanitizer, [line, count]), (on_fakes, [branch, count])]
)
def test_a_run_that_is_interrupted_at_any_line_leaves_a_session_that_is_right_or_closed(
    bed: Callable[[], Devices], cases: list[Callable[[], Case]]
) -> None:
    done: set[Place] = set()
    for make in cases:
        case = make()
        first, steady = places_of(bed(), case)
        for places, warm in ((steady, True), (first, False)):
            chosen = firsts(places, done)[:: 1 if warm else 4]
            chosen = chosen[:: 2 if bed is on_sanitizer else 1]  # each of its calls takes a hundred lines
            went_on = interrupt_runs(bed(), case, chosen, warm=warm)
            done.update(places)
            assert bed is on_sanitizer or went_on == len(chosen)
        if bed is not on_sanitizer:
            interrupt_runs(bed(), case, lasts(steady)[::16], warm=True)


@pytest.mark.parametrize(("bed", "step"), [(on_numpy, 2), (on_sanitizer, 25), (on_fakes, 10)])
def test_a_stream_that_is_interrupted_has_ended_and_gave_nothing_wrong(bed: Callable[[], Devices], step: int) -> None:
    case, devices = count(), bed()
    session = devices.session(case.program)
    session.run(case.inputs)
    with Interrupt() as whole:
        wanted = list(session.stream(case.inputs))
    for n in firsts(whole.places)[::step]:
        seen: list[dict[str, Array]] = []
        with Interrupt(after=n) as interrupt:
            stream = session.stream(case.inputs)
            for group in stream:
                seen.append(group)
        assert seen == wanted[: len(seen)], interrupt.where
        if seen:
            assert next(stream, None) is None
            if len(seen) < len(wanted):
                with pytest.raises(RunError) as e:
                    _ = stream.results
                assert str(e.value) == "the stream has no results: its run was ended early"
        if not is_right_or_closed(devices, session, case, interrupt.where):
            session.close()
            session = devices.session(case.program)
    session.close()
    assert devices.empty()


@pytest.mark.parametrize("bed", [on_numpy, on_fakes])
def test_an_interrupted_run_whose_traceback_is_kept_is_in_nobodys_way(bed: Callable[[], Devices]) -> None:
    case, devices = count(), bed()
    with devices.session(case.program) as session:
        session.run(case.inputs)
        with Interrupt() as whole:
            session.run(case.inputs)
        kept: list[BaseException] = []
        for n in (n for n in firsts(whole.places) if whole.places[n][0] in ("/session.py", "/executor.py")):
            try:
                with Interrupt(after=n, swallow=False):
                    session.run(case.inputs)
            except KeyboardInterrupt as error:
                kept.append(error)
            case.check(session.run(case.inputs))
        assert len(kept) > 20  # CPython swallows what comes in a `__del__`


def test_an_interrupt_that_loses_what_a_step_emitted_ends_the_stream() -> None:
    """It comes when the step is done and its caller has nothing yet."""

    class Late:
        def __init__(self, walk: Any) -> None:
            self.walk, self.close = walk, walk.close

        def __next__(self) -> Any:
            next(self.walk)
            raise KeyboardInterrupt

    case = count()
    with on_numpy().session(case.program) as session:
        stream = session.stream(case.inputs)
        next(stream)
        walk = stream._walk
        stream._walk = Late(walk)
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        stream._walk = walk
        assert list(stream) == []
        with pytest.raises(RunError) as e:
            _ = stream.results
        assert str(e.value) == "the stream has no results: its run was ended early"
        case.check(session.run(case.inputs))


@every_bed
def test_an_interrupt_between_two_steps_leaves_the_stream_as_it_is(bed: Callable[[], Devices]) -> None:
    case, devices = count(), bed()
    with devices.session(case.program) as session:
        wanted = list(session.stream(case.inputs))
        seen: list[dict[str, Array]] = []
        stream = session.stream(case.inputs)
        while len(seen) < len(wanted):
            try:
                seen.append(next(stream))
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                pass
        assert seen == wanted
        assert next(stream, None) is None
        case.check(session.run(case.inputs))
    assert devices.empty()


@every_bed
def test_a_session_whose_making_is_interrupted_at_any_line_leaves_nothing_open(bed: Callable[[], Devices]) -> None:
    case, devices = branch(), bed()
    devices.session(case.program, case.params).close()  # what is found out once
    with Interrupt() as whole:
        session = devices.session(case.program, case.params)
    session.close()
    state = devices.state()
    for n in firsts(whole.places):
        session = None
        with Interrupt(after=n) as interrupt:
            session = devices.session(case.program, case.params)
        assert session is None, interrupt.where
        assert interrupt.where is not None
        assert devices.state() == state, interrupt.where
        gc.collect()
        assert devices.empty(), interrupt.where
    with devices.session(case.program, case.params) as session:
        case.check(session.run(case.inputs))


@every_bed
def test_a_session_whose_closing_is_interrupted_at_any_line_is_usable_or_closed(bed: Callable[[], Devices]) -> None:
    case, devices = count(), bed()

    def suspended() -> tuple[Session, Any]:
        session = devices.session(case.program, case.params)
        stream = session.stream(case.inputs)
        next(stream)
        return session, stream

    session, stream = suspended()
    with Interrupt() as whole:
        session.close()
    assert devices.empty()
    state, still_open = devices.state(), 0
    for n in firsts(whole.places):
        session, stream = suspended()
        with Interrupt(after=n) as interrupt:
            session.close()
        assert interrupt.where is not None
        assert devices.state() == state, interrupt.where
        stream.close()
        still_open += is_right_or_closed(devices, session, case, interrupt.where)
        session.close()
        session.close()
        gc.collect()
        assert devices.empty(), interrupt.where
    assert 0 < still_open < len(firsts(whole.places))  # it depends on whether the interrupt came before


@every_bed
def test_a_run_that_fails_and_is_interrupted_besides_leaves_a_session_that_is_right_or_closed(
    bed: Callable[[], Devices],
) -> None:
    row = np.full((1, 4), 2, np.float32)
    case = Case(appending(), {"rows": row, "row": row, "at": np.array(3, np.int32)}, {})
    devices, beyond = bed(), {**case.inputs, "at": np.array(4, np.int32)}

    def fails(session: Session) -> None:
        with pytest.raises(RunError) as e:
            session.run(beyond)
        assert "cache_append: 1 rows at 4 do not fit the cache, which has 4 rows" in e.value.message

    session = devices.session(case.program)
    fails(session)
    with Interrupt() as whole:
        fails(session)
    for n in firsts(whole.places)[:: 8 if bed is on_sanitizer else 2]:
        with Interrupt(after=n) as interrupt:
            fails(session)
        if not is_right_or_closed(devices, session, case, interrupt.where):
            session.close()
            session = devices.session(case.program)
            fails(session)
    session.close()
    assert devices.empty()


@pytest.mark.parametrize("bed", [on_numpy, on_fakes])
def test_a_stream_that_is_dropped_while_ctrl_c_is_pressed_is_in_nobodys_way(
    bed: Callable[[], Devices], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # pytest's keeps the stream
    case, devices = count(), bed()
    session = devices.session(case.program)

    def suspended() -> list[Any]:
        stream = session.stream(case.inputs)
        next(stream)
        return [stream]

    held = suspended()
    with Interrupt() as whole:
        held.clear()
    assert whole.places
    for n in firsts(whole.places):
        held = suspended()
        with Interrupt(after=n) as interrupt:  # CPython tells of it and goes on
            held.clear()
        assert is_right_or_closed(devices, session, case, interrupt.where)
    session.close()
    assert devices.empty()


@pytest.mark.parametrize("kind", [NumpyBackend, SanitizerBackend, CupyBackend])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_second_ctrl_c_while_the_first_is_cleaned_up_after_leaves_a_session_that_is_right_or_closed(
    kind: type[Any], nth: int
) -> None:
    """The first comes in a dispatch, the second in a wait for what was issued before."""
    case = count()
    backend, driver = failing(kind)
    session, interrupts = session_of(backend, driver, case.program), 0

    def wait(event: Any) -> None:
        nonlocal waits
        waits += backend.left <= 0
        if waits == nth:
            raise KeyboardInterrupt("the second")
        kind.wait(backend, event)

    for k in range(1, 9):
        waits = 0
        backend.at, backend.left, backend.error, backend.wait = "dispatch", k, KeyboardInterrupt, wait
        with pytest.raises(KeyboardInterrupt) as e:
            session.run(case.inputs)
        interrupts += str(e.value) == "the second"
        backend.at = ""
        del backend.wait
        if kind is not SanitizerBackend:
            case.check(session.run(case.inputs))
            continue
        with pytest.raises(RunError, match=r"^the session of 'counting' is closed: a run ended half-way \("):
            session.run(case.inputs)

        session = session_of(backend, driver, case.program)
    session.close()
    assert interrupts > 0
    assert driver is None or nothing_left(driver)
