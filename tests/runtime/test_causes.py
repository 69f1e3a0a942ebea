"""What goes wrong in one queue ends the run with the first cause, whatever others say; the next run is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from linecache import getline
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.cupy.fake_driver import FakeDriver
from tests.runtime.cupy.fake_memory import CudaError
from tests.runtime.cupy.fakes import backend_on, nothing_left, targets
from tests.runtime.programs import MACHINE, by_hand, counting, counting_inputs
from vxgraph.errors import RunError
from vxgraph.program.model import Program
from vxgraph.runtime.backends.cupy import CupyBackend
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session

KINDS: list[type[Any]] = [NumpyBackend, SanitizerBackend, CupyBackend]
TARGETS = {NumpyBackend: "numpy", SanitizerBackend: "sanitizer"}


def failing(kind: type[Any]) -> tuple[Any, FakeDriver | None]:
    """A backend whose verb `at` raises `error` at its `left`-th call from now on; then it works again."""

    class Fails(kind):
        at = ""
        left = 0
        raised: list[BaseException]
        error: Callable[[int], BaseException] = RunError

        def _count(self, verb: str, call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
            if verb == self.at:
                self.left -= 1
                if self.left == 0 or (self.left < 0 and self.goes_on):
                    error = self.error(f"{verb} broke {'first' if self.left == 0 else 'afterwards'}")
                    raise error
            return call(*args, **keywords)

        goes_on = False

        def dispatch(self, *args: Any, **keywords: Any) -> Any:
            return self._count("dispatch", super().dispatch, *args, **keywords)

        def upload(self, *args: Any, **keywords: Any) -> Any:
            return self._count("upload", super().upload, *args, **keywords)

        def download(self, *args: Any, **keywords: Any) -> Any:
            return self._count("download", super().download, *args, **keywords)

        def transfer_peer(self, *args: Any, **keywords: Any) -> Any:
            return self._count("transfer_peer", super().transfer_peer, *args, **keywords)

        def wait(self, *args: Any, **keywords: Any) -> Any:
            super().wait(*args, **keywords)  # what it raises, it raises of work that has happened
            return self._count("wait", lambda: None)

        def moved(self, *args: Any, **keywords: Any) -> Any:
            return self._count("moved", super().moved, *args, **keywords)

    if kind is CupyBackend:
        driver = FakeDriver(2)
        return backend_on(driver, Fails), driver
    return Fails(), None


def session_of(backend: Any, driver: FakeDriver | None, program: Program, params: Any = None) -> Session:
    kind = next((k for k in (SanitizerBackend, NumpyBackend) if isinstance(backend, k)), None)
    where = targets(driver, program.topologies) if driver else dict.fromkeys(program.topologies, TARGETS[kind])
    return Session(program, params or {}, Binding({t: (backend, where[t]) for t in where}))


INPUTS = counting_inputs(limit=2)
RIGHT = [3, 5, 7]


def counts(session: Session) -> list[int] | str:
    """What the session gives; or why it is closed."""
    try:
        found = session.run(INPUTS)["count"].tolist()
        assert session.report.conforms()
        return found
    except RunError as error:
        return str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["dispatch", "upload", "download", "transfer_peer", "wait", "moved"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_the_first_error_of_a_backend_is_told_and_the_next_run_is_right(
    kind: type[Any], verb: str, goes_on: bool
) -> None:
    """At each of the verb's calls; `goes_on`: every later call fails, too, also while the run is given up."""
    backend, driver = failing(kind)
    with session_of(backend, driver, counting()) as s:
        s.run(INPUTS)
        backend.goes_on = goes_on
        for k in range(1, 200):
            backend.at, backend.left = verb, k
            try:
                found = s.run(INPUTS)
            except RunError as error:
                told = error
            else:
                assert found["count"].tolist() == RIGHT
                break
            finally:
                backend.at = ""
            assert told.message.removeprefix(f"%{told.message[1:].partition(':')[0]}: ") == f"{verb} broke first"
            if verb not in ("wait", "moved"):
                assert told.message.startswith("%")
                assert str(told.loc).startswith("tests/runtime/programs.py:")
            assert counts(s) == RIGHT
        assert k > 1
    assert driver is None or nothing_left(driver)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["dispatch", "wait"])
def test_a_backend_that_breaks_in_another_way_is_right_again_or_the_session_says_that_it_is_closed(
    kind: type[Any], verb: str
) -> None:
    backend, driver = failing(kind)
    s = session_of(backend, driver, counting())
    s.run(INPUTS)
    backend.error = CudaError
    for k in range(1, 200):
        backend.at, backend.left = verb, k
        try:
            s.run(INPUTS)
            break
        except CudaError as error:
            told = str(error)
        finally:
            backend.at = ""
        assert told == f"{verb} broke first"
        found = counts(s)
        if kind is SanitizerBackend:
            assert found == (
                f"the session of 'counting' is closed: a run ended half-way (CudaError: {verb} broke first), and its "
                "devices cannot go on from there; make a new one"
            )
            s = session_of(backend, driver, counting())
            found = counts(s)
        assert found == RIGHT
    s.close()
    assert driver is None or nothing_left(driver)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [RunError, CudaError])
def test_a_device_that_cannot_be_waited_for_closes_the_session_and_does_not_hide_the_first_cause(
    kind: type[Any], error: type[Exception]
) -> None:
    backend, driver = failing(kind)
    s = session_of(backend, driver, counting())
    backend.at, backend.left, backend.error = "dispatch", 2, error
    backend.wait = backend.recover = gone
    with pytest.raises(error) as e:
        s.run(INPUTS)
    assert str(e.value).endswith("dispatch broke first")
    del backend.wait
    cause = "CudaError: dispatch broke first" if error is CudaError else "CudaError: the device is gone"
    closed = "and its devices cannot go on from there; make a new one"
    assert counts(s) == f"the session of 'counting' is closed: a run ended half-way ({cause}), {closed}"
    s.close()
    assert driver is None or nothing_left(driver)


def gone(*_: Any) -> None:
    raise CudaError("the device is gone")


def appending_twice() -> Program:
    """Two queues write a row at `at`, and at `at` + 9, into caches of 4 rows."""
    with vx.Graph("appending") as g:
        row, at = vx.input("row", vx.f32[1, 4]), vx.input("at", vx.i32[()])
        for k in range(2):
            with vx.on(vx.GPU[k]):
                cache = vx.cache_append(vx.cache_init(vx.f32[4, 4], row), row, at + 9 * k, name=f"cache{k}")
                vx.output(f"y{k}", cache + 1)
    return vx.compile(g, vx.load_machine(MACHINE))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_that_refuses_its_operands_is_told_with_its_value_and_line_and_is_forgotten(kind: type[Any]) -> None:
    backend, driver = failing(kind)
    program = appending_twice()
    row = np.ones((1, 4), np.float32)
    with session_of(backend, driver, program) as s:
        for at, value, refused in ((4, "cache0", 4), (5, "cache0", 5), (-9, "cache0", -9), (0, "cache1", 9)):
            with pytest.raises(RunError) as e:
                s.run({"row": row, "at": np.array(at, np.int32)})
            told = f"%{value}: 1 rows at {refused} do not fit the cache, which has 4 rows"
            assert str(e.value) == f"{e.value.loc}: {told}"
            assert e.value.loc is not None
            assert "cache_append" in getline(e.value.loc.file, e.value.loc.line)
    assert driver is None or nothing_left(driver)


def test_a_program_that_nobody_verified_is_told_what_it_lacks() -> None:
    program, b = by_hand(), {"b": np.ones(4, np.float32)}
    x = {"x": np.ones(4, np.float32)}
    without_download = replace(program, body=program.body[:-1])
    with Session(without_download, b, "numpy") as s, pytest.raises(RunError) as e:
        s.run(x)
    assert str(e.value) == "%z.host is not on the host: nothing downloads it before it is used"
    without_slot = replace(program, slots=program.slots[:-1])
    with Session(without_slot, b, "numpy") as s, pytest.raises(RunError) as e:
        s.run(x)
    assert str(e.value) == "%z has no slot in 'by_hand': no memory is planned for it"
    with pytest.raises(RunError) as e:
        NumpyBackend().dispatched(vx.GPU[0])
    assert str(e.value) == "gpu:0 is not open on the NumPy backend (open: none)"
