"""Two devices that send to each other at once: every run ends, and a message that is lost is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.programs import bound_to, crossing, crossing_result
from tests.runtime.test_deferred import Deferred
from vxgraph.errors import ConformanceError, HazardError, ProgramError
from vxgraph.ir.types import Array
from vxgraph.program.instructions import TransferPeer
from vxgraph.program.model import Program
from vxgraph.program.verify import verify_program
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.binding import Binding
from vxgraph.topology.ids import Topology

BEDS: dict[str, Callable[[Program], Binding | str]] = {
    "at once": lambda program: bound_to(NumpyBackend(), program),
    "late": lambda program: bound_to(Deferred(), program),
    "each late on its own": lambda program: Binding({t: (Deferred(), "numpy") for t in program.topologies}),
    "as late as events allow": lambda program: "sanitizer",
}


def inputs(k: int) -> dict[str, Array]:
    return {"a": np.full(16, k, np.float32), "b": np.arange(16, dtype=np.float32)}


@pytest.mark.case("R11")
@pytest.mark.parametrize("bed", BEDS)
def test_three_crossings_end_and_are_right_a_thousand_times(bed: str) -> None:
    program = crossing()
    peers = [(i.topology, i.dst_topology) for i in program.body if isinstance(i, TransferPeer)]
    assert peers == [(vx.GPU[0], vx.GPU[1]), (vx.GPU[1], vx.GPU[0])] * 3
    with vx.Session(program, {}, BEDS[bed](program)) as s:
        for k in range(1000):
            found = s.run(inputs(k))
            for name, wanted in crossing_result(**inputs(k)).items():
                np.testing.assert_array_equal(found[name], wanted)
        assert s.report.conforms()


@pytest.mark.case("R11")
@pytest.mark.parametrize("seed", range(20))
def test_random_legal_orders_of_three_crossings_end_and_are_right(seed: int) -> None:
    with vx.Session(crossing(), {}, f"sanitizer:{seed}") as s:
        for k in range(50):
            found = s.run(inputs(k))
            for name, wanted in crossing_result(**inputs(k)).items():
                np.testing.assert_array_equal(found[name], wanted)
        assert s.report.conforms()


@pytest.mark.case("R11")
def test_neither_of_two_opposite_transfers_waits_for_the_other() -> None:
    waits = {i.name: i.after for i in crossing().body if isinstance(i, TransferPeer)}
    assert waits == {
        "a0.gpu1": ("a0",),
        "b0.gpu0": ("b0",),
        "a1.gpu1": ("a1",),
        "b1.gpu0": ("b1",),
        "a2.gpu1": ("a2",),
        "b2.gpu0": ("b2",),
    }


def refusal(program: Program) -> str:
    with pytest.raises(ProgramError) as e:
        verify_program(program)
    return e.value.message


def lost_message() -> Program:
    """b1 is not sent."""
    program = crossing()
    return replace(program, body=tuple(i for i in program.body if i.name != "b1.gpu0"))


def deaf(program: Program) -> Program:
    """a2 waits for nothing."""
    return replace(program, body=tuple(replace(i, after=()) if i.name == "a2" else i for i in program.body))


@pytest.mark.case("R11")
def test_a_message_that_is_never_sent_is_refused_with_its_reader() -> None:
    lost = lost_message()
    assert refusal(lost) == (
        "add %a2 on gpu:0: waits for %b1.gpu0, which is not sure to come before it: it might wait for ever"
    )
    assert refusal(deaf(lost)) == "add %a2 on gpu:0: reads %b1.gpu0, which nothing has written"


READER = "dispatch %a2 (add) on gpu:0.compute (tests/runtime/programs.py:N)"


@pytest.mark.case("R11")
@pytest.mark.parametrize("bind", ["sanitizer", "sanitizer:3"])
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            lost_message(),
            "tests/runtime/programs.py:N: deadlock: dispatch %a2 (add) waits for %b1.gpu0, which nothing before it "
            f"makes\n  waiting: {READER}\n  %b1.gpu0 must come before it in program order, in the same step",
        ),
        (
            deaf(crossing()),
            "tests/runtime/programs.py:N: dispatch %a2 (add) reads %b1.gpu0 while transfer_peer %b1.gpu0 may still be "
            f"writing it\n  read:  {READER}\n"
            "  write: transfer_peer %b1.gpu0 on gpu:1.copy (tests/runtime/programs.py:N)\n"
            "  bytes 768 to 832 of gpu:0; no event orders the two: the read must wait for the write",
        ),
    ],
    ids=["never sent", "not waited for"],
)
def test_a_run_ends_at_a_message_that_never_comes_and_names_both_its_ends(
    program: Program, message: str, bind: str
) -> None:
    with vx.Session(program, {}, bind) as s, pytest.raises(HazardError) as e:
        s.run(inputs(0))
    assert re.sub(r"py:\d+", "py:N", str(e.value)) == message


@pytest.mark.case("R11")
def test_two_transfers_that_wait_for_each_other_are_refused() -> None:
    program = crossing()
    waits = {"a1.gpu1": ("a1", "b1.gpu0"), "b1.gpu0": ("b1", "a1.gpu1")}
    locked = tuple(
        replace(i, after=waits[i.name]) if isinstance(i, TransferPeer) and i.name in waits else i for i in program.body
    )
    assert refusal(replace(program, body=locked)) == (
        "transfer_peer %a1.gpu1 from gpu:0 to gpu:1: waits for %b1.gpu0, which is not sure to come before it: "
        "it might wait for ever"
    )


class Loses(NumpyBackend):
    """The third message from gpu:1 does not arrive."""

    sent = 0

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        if (src_topology, dst_topology) == (vx.GPU[1], vx.GPU[0]):
            self.sent += 1
            if self.sent == 3:
                return
        super().copy(src, dst, src_topology, dst_topology)


@pytest.mark.case("R11")
def test_a_message_that_does_not_arrive_is_named_with_both_its_ends() -> None:
    program = crossing()
    with vx.Session(program, {}, bound_to(Loses(), program), audit=True) as s, pytest.raises(ConformanceError) as e:
        s.run(inputs(0))
    assert e.value.message == "transfer_peer %b2.gpu0: the bytes on gpu:0 are not those on gpu:1"
