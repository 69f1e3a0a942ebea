"""The CUDA kernels on a CUDA device give what the references give, launched without the backend."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.runtime.cupy.cases import Case, Fault, Maker, all_cases, fault_cases, init_cases, scalar
from tests.runtime.cupy.machine import Device, check_fault, check_init, execute, launches_of, place, run_case
from vxgraph.ir.types import bf16
from vxgraph.ops import Attention
from vxgraph.runtime.backends.cupy.kernels import FAULT_WORDS


def why_not() -> str:
    """Why nothing here can run; empty where it can."""
    try:
        import cupy
    except ImportError:
        return "needs CuPy: pip install vxgraph[cuda13]"
    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else "needs a CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"needs a CUDA device: {error}"


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(why_not()), reason=why_not() or "a device is here")]


@pytest.fixture(scope="module")
def machine() -> Device:
    return Device()


@pytest.fixture
def device(machine: Device) -> Iterator[Device]:
    yield machine
    machine.forget()


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_a_kernel_gives_its_reference(device: Device, case: Case) -> None:
    ran = run_case(device, case)
    assert not any(ran.fault)
    case.check(ran.outs[0])


@pytest.mark.parametrize("case", list(init_cases(Maker())), ids=lambda case: case.name)
def test_a_new_cache_starts_with_its_rows(device: Device, case: Case) -> None:
    check_init(device, case)


@pytest.mark.parametrize("fault", list(fault_cases(Maker())), ids=lambda fault: fault.case.name)
def test_a_fault_is_reported_in_the_reference_s_words_and_nothing_is_written(device: Device, fault: Fault) -> None:
    check_fault(device, fault)


DECODE = [c for c in all_cases() if c.name.startswith("decode-bf16")]


@pytest.mark.parametrize("case", DECODE, ids=lambda case: case.name)
def test_the_same_launch_gives_the_same_bits(device: Device, case: Case) -> None:
    first, second = (run_case(device, case).outs[0].tobytes() for _ in range(2))
    assert first == second


def test_one_captured_decode_attends_at_every_length(device: Device) -> None:
    import cupy

    some = Maker()
    q, k, v = some(bf16, 1, 32, 128), some(bf16, 256, 8, 128), some(bf16, 256, 8, 128)
    case = Case("captured", Attention(), (q, k, v, scalar(1)))
    (step,) = launches_of(case)
    ins = [place(device, np.ascontiguousarray(a).tobytes(), a.itemsize, 0, 0) for a in case.operands]
    out = place(device, bytes(q.nbytes), 2, 0, 0)
    record = place(device, bytes(8 * FAULT_WORDS), 8, 0, 0)
    device.function(step)  # compiled before the capture
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        execute(device, step, ins, [out], record)
        graph = stream.end_capture()
    for length in (1, 2, 17, 255, 256):
        cupy.cuda.runtime.memcpy(ins[3].address, scalar(length).ctypes.data, 4, 1)  # host to device
        graph.launch(stream)
        stream.synchronize()
        found = np.frombuffer(device.get(out.address, q.nbytes), q.dtype).reshape(q.shape)
        Case("captured", Attention(), (q, k, v, scalar(length))).check(found)
