"""Every kind of hazard stops the run with both instructions, their queues, the value and the source line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from tests.runtime.programs import by_hand, counting, counting_inputs
from vxgraph.errors import HazardError, Loc
from vxgraph.ir.types import Array, f32, i32
from vxgraph.ops import Add
from vxgraph.program.instructions import Dispatch, Download, Instruction, Loop, Upload
from vxgraph.program.model import HostInput, Program
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session
from vxgraph.topology.ids import GPU

B = {"b": np.full(4, 10, np.float32)}
X = {"x": np.arange(4, dtype=np.float32)}
G0, G1 = GPU[0], GPU[1]


def on(backend: SanitizerBackend, program: Program) -> Binding:
    """Every place of the program on this backend."""
    return Binding(dict.fromkeys(program.topologies, (backend, "sanitizer")))


def hazard(program: Program, backend: SanitizerBackend | None = None) -> HazardError:
    """What a run of a program like `by_hand` stops with."""
    with (
        pytest.raises(HazardError) as e,
        Session(program, B, on(backend, program) if backend else "sanitizer") as s,
    ):
        s.run(X)
    return e.value


def body(change: Callable[[list[Any]], Sequence[Instruction]]) -> Program:
    """The program of `by_hand`, its five instructions changed."""
    program = by_hand()
    return replace(program, body=tuple(change(list(program.body))))


def without_waits(k: int) -> Program:
    return body(lambda b: [*b[:k], replace(b[k], after=()), *b[k + 1 :]])


def moved(program: Program, value: str, **fields: Any) -> Program:
    """The program with another slot for a value."""
    return replace(program, slots=tuple(replace(s, **fields) if s.value == value else s for s in program.slots))


def test_a_read_that_does_not_wait_for_its_write():
    e = hazard(without_waits(3))
    assert e.kind == "unordered read"
    assert str(e) == (
        "model.py:9: dispatch %z (add) reads %y.1 while transfer_peer %y.1 may still be writing it\n"
        "  read:  dispatch %z (add) on gpu:1.compute (model.py:9)\n"
        "  write: transfer_peer %y.1 on gpu:0.copy (model.py:8)\n"
        "  bytes 64 to 80 of gpu:1; no event orders the two: the read must wait for the write"
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("bind", ["sanitizer", "sanitizer:1", "sanitizer:2"])
def test_any_missing_wait_is_found_in_any_order(k: int, bind: str):
    with pytest.raises(HazardError) as e, Session(without_waits(k), B, bind) as s:
        s.run(X)
    assert e.value.kind == "unordered read"


def test_a_write_over_the_source_of_a_copy_that_is_pending():
    again = Dispatch(Add(), ("b.0", "b.0"), ("q",), (f32[4],), G0, loc=Loc("model.py", 12))
    program = body(lambda b: [*b[:3], again, *b[3:]])
    y = program.slot_of["y"]
    program = replace(program, slots=(*program.slots, replace(y, value="q")))
    e = hazard(program)
    assert e.kind == "overwritten source"
    assert str(e) == (
        "model.py:12: dispatch %q (add) writes %q over bytes that transfer_peer %y.1 may still be reading\n"
        "  write: dispatch %q (add) on gpu:0.compute (model.py:12)\n"
        "  read:  transfer_peer %y.1 on gpu:0.copy (model.py:8)\n"
        "  bytes 128 to 144 of gpu:0, which hold what dispatch %y (add) wrote; no event orders the two: "
        "the write must wait for the read"
    )
    ordered = replace(program, body=(*program.body[:3], replace(again, after=("y.1",)), *program.body[4:]))
    with Session(ordered, B, "sanitizer") as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
        assert s.report.conforms()


def test_a_slot_that_is_given_away_while_a_kernel_may_read_it():
    late = Upload("x", "x.again", f32[4], G0, loc=Loc("model.py", 20))
    program = body(lambda b: [*b[:2], late, *b[2:]])
    x = program.slot_of["x.0"]
    e = hazard(replace(program, slots=(*program.slots, replace(x, value="x.again"))))
    assert e.kind == "slot reused early"
    assert str(e) == (
        "model.py:20: upload %x.again writes %x.again over bytes that dispatch %y (add) may still be reading\n"
        "  write: upload %x.again on gpu:0.copy (model.py:20)\n"
        "  read:  dispatch %y (add) on gpu:0.compute (model.py:7)\n"
        "  bytes 64 to 80 of gpu:0, which hold what upload %x.0 wrote; no event orders the two: "
        "the write must wait for the read"
    )


def test_two_writes_of_which_either_may_be_the_last():
    both = Upload("x", "x.again", f32[4], G1)
    program = body(lambda b: [*b[:3], both, b[4]])
    y = program.slot_of["y.1"]
    program = replace(program, slots=(*program.slots, replace(y, value="x.again")))
    e = hazard(program)
    assert e.kind == "unordered write"
    assert str(e) == (
        "upload %x.again writes %x.again over bytes that transfer_peer %y.1 may still be writing\n"
        "  write: upload %x.again on gpu:1.copy\n"
        "  write: transfer_peer %y.1 on gpu:0.copy (model.py:8)\n"
        "  bytes 64 to 80 of gpu:1; no event orders the two: one must wait for the other"
    )


def test_a_slot_that_holds_another_value_by_then():
    program = by_hand()
    again = Dispatch(Add(), ("b.0", "b.0"), ("q",), (f32[4],), G0)
    program = replace(program, body=(*program.body[:2], again, *program.body[2:]))
    e = hazard(replace(program, slots=(*program.slots, replace(program.slot_of["y"], value="q"))))
    assert e.kind == "stale read"
    assert str(e) == (
        "model.py:8: transfer_peer %y.1 reads %y, but its bytes are what dispatch %q (add) wrote\n"
        "  read:   transfer_peer %y.1 on gpu:0.copy (model.py:8)\n"
        "  wanted: what dispatch %y (add) on gpu:0.compute (model.py:7) wrote\n"
        "  found:  what dispatch %q (add) on gpu:0.compute wrote\n"
        "  bytes 128 to 144 of gpu:0: the slot was given to another value too early"
    )


def test_bytes_that_nothing_has_written():
    e = hazard(body(lambda b: [b[0], b[1], replace(b[3], after=()), b[4]]))
    assert e.kind == "poisoned read"
    assert str(e) == (
        "model.py:9: dispatch %z (add) reads %y.1, 16 bytes of which nothing has written\n"
        "  read: dispatch %z (add) on gpu:1.compute (model.py:9)\n"
        "  bytes 64 to 80 of gpu:1: what makes %y.1 is missing, or writes elsewhere"
    )


def test_an_operand_of_another_place():
    e = hazard(body(lambda b: [*b[:3], replace(b[3], inputs=("y", "b.1"), after=("y",)), b[4]]))
    assert e.kind == "foreign dereference"
    assert str(e) == (
        "model.py:9: dispatch %z (add) wants a tensor float32[4] on gpu:1, but its bytes are on gpu:0\n"
        "  access: dispatch %z (add) on gpu:1.compute (model.py:9)\n"
        "  made by: dispatch %y (add) on gpu:0.compute (model.py:7)\n"
        "  transfer it first: a device cannot read another one's memory"
    )


def test_a_transfer_of_another_size():
    program = by_hand()
    short = replace(program.body[2], type=f32[2])
    e = hazard(replace(program, body=(*program.body[:2], short, *program.body[3:])))
    assert e.kind == "mismatched transfer"
    assert str(e) == (
        "model.py:8: transfer_peer %y.1 moves 8 bytes from float32[4] (16 bytes) to float32[4] (16 bytes)\n"
        "  transfer: transfer_peer %y.1 on gpu:0.copy (model.py:8)\n"
        "  source made by: dispatch %y (add) on gpu:0.compute (model.py:7)\n"
        "  size, dtype and layout of both ends must be those of the transfer"
    )


def test_a_transfer_into_another_layout_of_the_same_bytes():
    e = hazard(moved(by_hand(), "y.1", type=i32[4]))
    assert e.kind == "mismatched transfer"
    assert e.message == "transfer_peer %y.1 moves 16 bytes from float32[4] (16 bytes) to int32[4] (16 bytes)"


def test_a_kernel_whose_operands_do_not_fit_its_op():
    program = moved(by_hand(), "b.1", type=f32[2, 2])
    program = replace(program, load=(program.load[0], Upload("c", "b.1", f32[2, 2], G1)))
    program = replace(program, params=(*program.params, HostInput("c", f32[2, 2])))
    with pytest.raises(HazardError) as e, Session(program, {**B, "c": np.zeros((2, 2), np.float32)}, "sanitizer") as s:
        s.run(X)
    assert e.value.kind == "mismatched operands"
    assert str(e.value) == (
        "model.py:9: dispatch %z (add) has operands that do not fit: "
        "f32[4] does not broadcast with f32[2, 2]: 4 met 2\n"
        "  kernel: dispatch %z (add) on gpu:1.compute (model.py:9)\n"
        "  its slots' types must be those that the op infers"
    )


def test_a_kernel_whose_result_is_of_another_type():
    program = moved(by_hand(), "z", type=i32[4])
    program = replace(program, body=(*program.body[:4], replace(program.body[4], type=i32[4])))
    e = hazard(program)
    assert e.kind == "mismatched operands"
    assert e.message == "dispatch %z (add) has f32[4] where its results are i32[4]"


def test_a_wait_for_what_comes_later():
    e = hazard(body(lambda b: [b[0], replace(b[1], after=("x.0", "z")), *b[2:]]))
    assert e.kind == "deadlock"
    assert str(e) == (
        "model.py:7: deadlock: dispatch %y (add) waits for %z, which nothing before it makes\n"
        "  waiting: dispatch %y (add) on gpu:0.compute (model.py:7)\n"
        "  %z must come before it in program order, in the same step"
    )


def test_a_result_on_its_own_operand():
    program = by_hand()
    e = hazard(moved(program, "y", offset=program.slot_of["x.0"].offset))
    assert e.kind == "slot reused early"
    assert str(e) == (
        "model.py:7: dispatch %y (add) writes %y over its own operand %x.0\n"
        "  both:  dispatch %y (add) on gpu:0.compute (model.py:7)\n"
        "  bytes 64 to 80 and 64 to 80 of gpu:0 overlap, and the op does not donate %x.0"
    )


def test_a_carried_value_that_the_step_did_not_make():
    program = counting()
    (k,) = [k for k, i in enumerate(program.body) if isinstance(i, Loop)]
    loop = program.body[k]
    assert isinstance(loop, Loop)
    (carried,) = loop.carried
    lost = replace(loop, body=tuple(i for i in loop.body if getattr(i, "name", "") != carried.next))
    with (
        pytest.raises(HazardError) as e,
        Session(replace(program, body=(*program.body[:k], lost)), {}, "sanitizer") as s,
    ):
        s.run(counting_inputs())
    assert e.value.kind in ("deadlock", "stale read")


# The backend's own lies.


class Lossy(SanitizerBackend):
    """Transfers between places never happen."""

    def transfer_peer(self, *args: Any, **keywords: Any) -> Any:
        event = super().transfer_peer(*args, **keywords)
        self._queues._pending.pop(event.work.serial, None)
        return event


def test_a_message_that_is_lost_names_the_edge():
    program = by_hand()
    with (
        pytest.raises(HazardError) as e,
        Session(
            replace(program, load=(Upload("b", "b.0", f32[4], G0), Upload("b", "b.1", f32[4], G1))),
            B,
            on(Lossy(), program),
        ) as s,
    ):
        s.run(X)
    assert e.value.kind == "deadlock"
    assert str(e.value) == (
        "model.py:8: deadlock: transfer_peer %y.1 never happens, and what waits for it waits for ever\n"
        "  lost: transfer_peer %y.1 on gpu:0.copy (model.py:8)"
    )


def test_who_waits_for_a_lost_message_is_named_too():
    backend = Lossy()
    for place in (G0, G1):
        backend.open(place, "sanitizer")
    a, b = (backend.tensor(backend.alloc(16, t), 0, f32, (4,), t) for t in (G0, G1))
    sent = backend.transfer_peer(a, G0, G1, 16, into=b, after=[backend.upload(X["x"], a, G0)])
    arrived = backend.download(b, G1, out=np.zeros(4, np.float32), after=[sent])
    with pytest.raises(HazardError) as e:
        backend.wait(arrived)
    assert e.value.details == ("lost: transfer_peer on gpu:0.copy", "waiting: download on gpu:1.copy")


class Halves(SanitizerBackend):
    """The second copy stops half way."""

    copies = 0

    def deliver(self, src: Array, dst: Array) -> None:
        self.copies += 1
        n = len(src) // 2 if self.copies == 2 else len(src)
        super().deliver(src[:n], dst[:n])


def test_a_copy_that_did_not_arrive():
    program = by_hand()
    with pytest.raises(HazardError) as e:
        Session(program, B, on(Halves(), program))
    assert e.value.kind == "undelivered transfer"
    assert str(e.value) == (
        "transfer_peer %b.1 is done, but 8 of its 16 bytes did not arrive\n  transfer: transfer_peer %b.1 on gpu:0.copy"
    )


class Scribbles(SanitizerBackend):
    """Kernels write into their first operand."""

    def kernel(self, *args: Any) -> Any:
        kernel = super().kernel(*args)

        def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Any) -> None:
            ins[0][...] = 0
            kernel.run(ins, outs, sizes)

        return replace(kernel, run=run)


def test_a_kernel_that_writes_into_its_operand():
    program = by_hand()
    e = hazard(program, Scribbles())
    assert e.kind == "overwritten operand"
    assert str(e) == (
        "model.py:7: dispatch %y (add) writes into one of its operands\n"
        "  kernel: dispatch %y (add) on gpu:0.compute (model.py:7)\n"
        "  a kernel writes its results, and the operand that its op donates"
    )


class Forgets(SanitizerBackend):
    """Kernels leave the end of their results as it was."""

    def kernel(self, *args: Any) -> Any:
        kernel = super().kernel(*args)
        return replace(kernel, run=lambda ins, outs, sizes: kernel.run([i[:3] for i in ins], [outs[0][:3]], sizes))


def test_a_kernel_that_does_not_write_all_of_its_result():
    e = hazard(by_hand(), Forgets())
    assert e.kind == "unwritten result"
    assert str(e) == (
        "model.py:7: dispatch %y (add) is done, but 1 elements of its result float32[4] were not written\n"
        "  kernel: dispatch %y (add) on gpu:0.compute (model.py:7)"
    )


def test_a_result_that_looks_like_poison_is_a_result():
    minus_one = np.full(4, -1, np.int32)
    with vx.Graph("minus") as g:
        x = vx.input("x", vx.i32[4])
        with vx.on(G0):
            vx.output("y", vx.maximum(x, -1))
    with Session(vx.compile(g, vx.load_machine("h200-x2")), {}, "sanitizer") as s:
        np.testing.assert_array_equal(s.run({"x": minus_one})["y"], minus_one)


# Memory.


def test_memory_that_was_not_freed_is_a_leak():
    program, backend = by_hand(), SanitizerBackend()
    s = Session(program, B, on(backend, program))
    s.run(X)
    backend.alloc(100, G1)
    with pytest.raises(HazardError) as e:
        s.close()
    assert e.value.kind == "leak"
    assert str(e.value) == (
        "closed with memory that was not freed: 100 bytes of gpu:1\n"
        "  what allocates a buffer frees it before the backend is closed"
    )


def test_memory_that_is_freed_twice():
    backend = SanitizerBackend()
    backend.open(G0, "sanitizer")
    buffer = backend.alloc(16, G0)
    backend.free(buffer, G0)
    with pytest.raises(HazardError) as e:
        backend.free(buffer, G0)
    assert e.value.kind == "freed twice"
    assert str(e.value) == "free on gpu:0: the buffer was freed"


def test_memory_that_is_freed_under_a_call():
    backend = SanitizerBackend()
    backend.open(G0, "sanitizer")
    buffer = backend.alloc(16, G0)
    tensor = backend.tensor(buffer, 0, f32, (4,), G0)
    backend.upload(X["x"], tensor, G0)
    with pytest.raises(HazardError) as e:
        backend.free(buffer, G0)
    assert e.value.kind == "freed in use"
    assert str(e.value) == (
        "a buffer of gpu:0 is freed while upload may still use it\n"
        "  user: upload on gpu:0.copy\n"
        "  wait for it before the buffer is freed"
    )


def test_calls_are_checked_where_no_program_is_followed():
    backend = SanitizerBackend()
    backend.open(G0, "sanitizer")
    tensor = backend.tensor(backend.alloc(16, G0), 0, f32, (4,), G0)
    event = backend.upload(X["x"], tensor, G0)
    out = np.zeros(4, np.float32)
    with pytest.raises(HazardError, match=r"^download reads float32\[4\] while|^dispatch"):
        backend.dispatch(backend.kernel(Add(), (f32[4],) * 2, (f32[4],), G0), [tensor, tensor], [tensor], G0, sizes={})
    backend.wait(backend.download(tensor, G0, out=out, after=[event]))
    np.testing.assert_array_equal(out, X["x"])


def test_what_the_host_has_waited_for_needs_no_event():
    program = by_hand()
    again = Upload("z.host", "z.back", f32[4], G1)  # over %y.1, which %z has read: the host has its result
    program = replace(
        program,
        body=(*program.body, again, Download("z.back", "z.again", f32[4], G1)),
        slots=(*program.slots, replace(program.slot_of["y.1"], value="z.back")),
    )
    with Session(program, B, "sanitizer") as s:
        np.testing.assert_array_equal(s.run(X)["z"], [20, 21, 22, 23])
