"""The CUDA kernels, compiled for this CPU and run thread by thread, give what the references give."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.runtime.cupy.cases import Case, Fault, Maker, all_cases, fault_cases, init_cases
from tests.runtime.cupy.machine import Host, check_fault, check_init, launches_of, run_case

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None, reason="needs g++, which compiles the kernels for this CPU"
)

CASES = [case for case in all_cases(large=False) if case.brief]
INITS = list(init_cases(Maker()))
FAULTS = list(fault_cases(Maker()))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    cases = [*CASES, *INITS, *(f.case for f in FAULTS)]
    return Host((launch for case in cases for launch in launches_of(case)), tmp_path_factory.mktemp("host"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_gives_its_reference(host: Host, case: Case) -> None:
    ran = run_case(host, case)
    assert not any(ran.fault)
    case.check(ran.outs[0])


@pytest.mark.parametrize("case", INITS, ids=lambda case: case.name)
def test_a_new_cache_starts_with_its_rows(host: Host, case: Case) -> None:
    check_init(host, case)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case.name)
def test_a_fault_is_reported_in_the_reference_s_words_and_nothing_is_written(host: Host, fault: Fault) -> None:
    check_fault(host, fault)


def test_the_first_fault_stands_and_later_ones_leave_it(host: Host) -> None:
    record = np.zeros(5, np.int64)
    first, second = FAULTS[0].case, FAULTS[-1].case
    run_case(host, first, record=record)
    before = record.copy()
    run_case(host, second, record=record)
    np.testing.assert_array_equal(record, before)
    assert record[0] == 1
