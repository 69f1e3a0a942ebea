"""A backend that lies is noticed by something that a user can turn on: here is by what, for every lie."""

from __future__ import annotations

import pytest

from tests.conformance.bed import PLACES, Bed
from tests.mutants import liars
from tests.mutants.cuda_liars import CarelessDriver
from tests.mutants.lies import NOTICES, Lie, expose, lies, on_cuda, on_numpy
from tests.mutants.suite import failures
from tests.runtime.cupy.fake_driver import FakeDriver
from vxgraph.runtime.backends.numpy import NumpyBackend

NOTICED = {
    "numpy Zeroes": "suite audit sanitizer",
    "numpy Halves": "suite audit sanitizer",
    "numpy SendsNothing": "suite audit sanitizer",
    "numpy FirstIsWrong": "suite audit sanitizer",
    "numpy OnlyFirstIsRight": "suite audit sanitizer",
    "numpy OneBadPair": "suite audit sanitizer",
    "numpy ScribblesOnSources": "suite audit sanitizer",
    "numpy GarblesUploads": "suite sanitizer",
    "numpy GarblesDownloads": "suite sanitizer",
    "numpy LosesKernels": "suite sanitizer",
    "numpy WritesIntoOperands": "suite sanitizer",
    "numpy Miscalculates": "suite",
    "numpy SkipsCopies": "suite conforms audit",
    "numpy HalvesCopies": "suite conforms audit",
    "numpy CopiesTwice": "suite conforms",
    "numpy CopiesBehindTheBack": "suite conforms",
    "numpy CountsTwice": "suite conforms",
    "numpy CountsNothing": "suite conforms",
    "numpy SelectsNothing": "suite conforms audit sanitizer",
    "numpy AllocatesElsewhere": "suite conforms audit",
    "numpy DispatchesElsewhere": "suite conforms audit sanitizer",
    "numpy DispatchesTwice": "suite conforms sanitizer",
    "numpy ObservesItsRecords": "suite",
    "numpy ForgetsWaits": "suite sanitizer",
    "numpy SaysDoneTooEarly": "suite audit sanitizer",
    "numpy FillsDownloadsLater": "suite audit sanitizer",
    "numpy KeepsTheCallersArray": "suite",
    "cuda Zeroes": "suite audit probe",
    "cuda Halves": "suite audit probe",
    "cuda SendsNothing": "suite audit probe",
    "cuda FirstIsWrong": "suite audit probe",
    "cuda OnlyFirstIsRight": "suite audit probe",
    "cuda OneBadPair": "suite audit probe",
    "cuda SelectsNothing": "suite conforms audit",
    "cuda AllocatesOnZero": "suite audit",
    "cuda MakesHandlesOnZero": "suite",
    "cuda LeavesAnError": "suite",
    "cuda ForgetsWaits": "suite",
    "cuda SaysDoneTooEarly": "suite",
    "cuda KeepsTheCallersArray": "suite",
    "cuda WritesIntoOperands": "suite",
    "cuda Miscalculates": "suite",
    "cuda OnAnothersStream": "suite",
}
HARMLESS = {  # these give right results in the wrong place, with the wrong accounts, or at twice the cost
    *("numpy CopiesTwice", "numpy CopiesBehindTheBack", "numpy CountsTwice", "numpy CountsNothing"),
    *("numpy SelectsNothing", "numpy AllocatesElsewhere", "numpy DispatchesElsewhere", "numpy DispatchesTwice"),
    *("numpy ObservesItsRecords", "cuda SelectsNothing"),
}
RAISED = {  # the run ends with the driver's own exception, or over a complaint of a kernel's that is none: no VxError
    "cuda AllocatesOnZero": {"CudaError"},
    "cuda MakesHandlesOnZero": {"CudaError"},
    "cuda LeavesAnError": {"CudaError"},
    "cuda OnAnothersStream": {"CudaError"},
    "cuda SaysDoneTooEarly": {"InternalError"},
}


def key(lie: Lie) -> str:
    return f"{lie.machine} {lie.name}"


@pytest.mark.parametrize("lie", lies(), ids=key)
def test_a_lie_is_noticed(lie: Lie) -> None:
    exposed = expose(lie)
    assert " ".join(exposed.noticed) == NOTICED[key(lie)]
    assert exposed.changes == (key(lie) not in HARMLESS)
    assert exposed.crash.partition(":")[0] in RAISED.get(key(lie), {""})


def test_every_lie_has_its_row_and_none_goes_unnoticed() -> None:
    assert [key(lie) for lie in lies()] == list(NOTICED)
    assert all(NOTICED.values())
    assert HARMLESS | RAISED.keys() <= NOTICED.keys()
    assert set(" ".join(NOTICED.values()).split()) == set(NOTICES)


class Copies(liars.Meddler):
    """No lie."""


class Queues:
    """No lie."""


HONEST = {
    "numpy": on_numpy(Copies),
    "deferred": on_numpy(Queues),
    "cuda": on_cuda("Honest", lambda: FakeDriver(3)),
    "careless cuda": on_cuda("Honest", lambda: CarelessDriver(3)),
}


@pytest.mark.parametrize("lie", HONEST.values(), ids=HONEST)
def test_nobody_complains_of_a_backend_that_does_not_lie(lie: Lie) -> None:
    """Each bed that a lie is told on passes everything as long as nobody lies."""
    exposed = expose(lie)
    assert (exposed.changes, exposed.noticed, exposed.crash) == (False, (), "")


def test_the_suite_as_a_function_runs_every_test_of_the_suite() -> None:
    class Refuses(NumpyBackend):
        def alloc(self, *args: object) -> object:
            raise RuntimeError("no")

    failed = set(failures(lambda: Bed(Refuses(), dict.fromkeys(PLACES, "numpy"))))
    assert len(failed) >= 20
    assert "test_memory_is_given_back_when_a_session_closes" not in failed  # this bed does not count its memory
