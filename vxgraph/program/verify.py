"""The proof of a finished plan, by a checker that shares nothing with the planner.

It executes the program on a shadow of every arena. A segment of the shadow knows which values its bytes are, who wrote
them and who has read them since; a vector clock per queue knows what is done when an instruction starts. Every read
must find its value, written before; every write must find bytes that all earlier users are done with. A loop's body
runs twice, so that the second step meets what the first one left (a loop in it, having shown that already, then runs
once), and what it defines is gone after it, for a loop may do no step. What the load section made is there at the end,
for the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

from vxgraph import ops
from vxgraph.errors import GraphError, Loc, ProgramError
from vxgraph.ir.op import Effect
from vxgraph.ir.types import TensorType, bool_, i32
from vxgraph.program.instructions import (
    Dispatch,
    Download,
    Emit,
    Instruction,
    Loop,
    Queue,
    Queued,
    TransferPeer,
    Upload,
    View,
    flatten,
    reads,
    writes,
)
from vxgraph.program.model import ALIGNMENT, Program, Slot
from vxgraph.program.shadow import Order, Point, Segment, Shadow
from vxgraph.topology.ids import Topology


def verify_program(program: Program) -> None:
    """ProgramError that names the instruction and the value where the plan does not prove."""
    _Checker(program).run()


class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.shadows: dict[Topology, Shadow[Segment]] = {a.topology: Shadow() for a in program.arenas}
        self.sizes = {a.topology: a.nbytes for a in program.arenas}
        self.order = Order()
        self.host: dict[str, TensorType] = {p.name: p.type for p in program.params}
        self.emitted: dict[str, TensorType] = {}  # by external name
        self.handed = {r.name for r in program.results}
        self.pending: dict[str, str] = {}  # host value -> the download that makes it
        self.again = False  # a loop around what is checked is in its second step

    def run(self) -> None:
        self._check_dims()
        self._check_names()
        self._check_arenas()
        self._check_slots()
        self._block(self.program.load, "load")
        self.order.barrier()
        self.host = {a.name: a.type for a in self.program.args}
        self.pending = {}
        self._block(self.program.body, "run")
        for r in self.program.results:
            if r.value not in self.host:
                raise ProgramError(f"result {r.name!r} names %{r.value}, which is not on the host at the end")
        self._check_resident()

    def _check_dims(self) -> None:
        for p in self.program.params:
            if p.type.symbols:
                raise ProgramError(f"param %{p.name} is {p.type}, but it is made resident before a run has sizes")
        bound = {d for a in self.program.args for d in a.type.symbols}
        for dim in self.program.dims:
            if dim.symbolic and dim not in bound:
                raise ProgramError(f"dim {dim.name} has no size at run time: no arg has it in its type")

    def _check_names(self) -> None:
        """One name is one value, on the host and on devices together."""
        seen = {i.name for i in (*self.program.args, *self.program.params)}
        for instr, _ in flatten((*self.program.load, *self.program.body)):
            for name in _defines(instr):
                if name in seen and not isinstance(instr, Emit):
                    self._fail(instr, f"defines %{name}, which is defined already")
                seen.add(name)

    def _check_resident(self) -> None:
        """What is loaded once is read by every run, so that a run leaves it as it is."""
        for instr in self.program.load:
            if not isinstance(instr, Upload):
                raise ProgramError("load: the load section uploads params and does nothing else")
            slot = self._slot(instr, instr.dst)
            for segment in self.shadows[slot.topology].overlapping(slot.offset, slot.end):
                if slot.value not in segment.values:
                    names = ", ".join(f"%{v}" for v in sorted(segment.values)) or "other bytes"
                    self._fail(instr, f"is done once, but a run writes {names} over it and the next run reads it")

    def _check_arenas(self) -> None:
        if len(self.sizes) < len(self.program.arenas):
            raise ProgramError("two arenas are at one topology")
        owners = [(m.memory, t) for m in self.program.memories for t in m.topologies]
        if len({m.memory for m in self.program.memories}) < len(self.program.memories):
            raise ProgramError("two memories have one name")
        for a in self.program.arenas:
            if (a.memory, a.topology) not in owners:
                raise ProgramError(
                    f"arena {a.topology} is in memory {a.memory!r}, which is none of the program's there"
                )
            parts = (a.params, a.kv, a.activations, a.staging)
            if min(parts) < 0 or sum(parts) != a.nbytes:
                raise ProgramError(f"arena {a.topology}: {' + '.join(map(str, parts))} is not {a.nbytes} bytes")

    def _check_slots(self) -> None:
        seen: set[str] = set()
        for slot in self.program.slots:
            if slot.value in seen:
                raise ProgramError(f"%{slot.value} has two slots", loc=slot.loc)
            seen.add(slot.value)
            if slot.topology not in self.sizes:
                raise ProgramError(f"%{slot.value} lives on {slot.topology}, which has no arena", loc=slot.loc)
            if slot.nbytes != slot.type.max_bytes:
                raise ProgramError(
                    f"%{slot.value}: {slot.type} takes up to {slot.type.max_bytes} bytes, its slot has {slot.nbytes}",
                    loc=slot.loc,
                )
            if slot.offset % ALIGNMENT:
                raise ProgramError(
                    f"%{slot.value}: its offset {slot.offset} is no multiple of {ALIGNMENT}", loc=slot.loc
                )
            if slot.offset < 0 or slot.end > self.sizes[slot.topology]:
                raise ProgramError(
                    f"%{slot.value}: bytes {slot.offset} to {slot.end} lie outside {slot.topology}'s arena of "
                    f"{self.sizes[slot.topology]} bytes",
                    loc=slot.loc,
                )

    def _block(self, instructions: tuple[Instruction, ...], where: str) -> None:
        emitted: set[str] = set()
        for instr in instructions:
            match instr:
                case Emit():
                    if instr.value not in self.host:
                        raise ProgramError(
                            f"{where}: emit {instr.name_out!r} hands out %{instr.value}, which is not on the host"
                        )
                    if instr.name_out in emitted:
                        raise ProgramError(f"{where}: emit {instr.name_out!r} is there twice")
                    emitted.add(instr.name_out)
                    self._emit(instr, where)
                case View():
                    self._view(instr)
                case Loop():
                    self._loop(instr, where)
                case _:
                    self._queued(instr)

    def _emit(self, instr: Emit, where: str) -> None:
        """A run stacks what is emitted under one name, and hands it out beside the results."""
        type = self.host[instr.value]
        if self.emitted.setdefault(instr.name_out, type) != type:
            raise ProgramError(
                f"{where}: emit {instr.name_out!r} is {type} here and {self.emitted[instr.name_out]} elsewhere"
            )
        if instr.name_out in self.handed:
            raise ProgramError(f"{where}: {instr.name_out!r} is a result and an emit")

    # One queued instruction.

    def _queued(self, instr: Queued) -> None:
        for name in instr.after:
            if name not in self.order.points:
                self._fail(instr, f"waits for %{name}, which is not sure to come before it: it might wait for ever")
        point, done = self.order.issue(instr)
        self._check_types(instr)
        for value in reads(instr):
            self._read(instr, value, point, done)
        match instr:
            case Download():
                self.host[instr.dst] = instr.type
                self.pending[instr.dst] = instr.name
            case Upload():
                self._read_host(instr, done)
                self._write(instr, instr.dst, (), point, done)
            case TransferPeer():
                self._write(instr, instr.dst, (), point, done)
            case Dispatch():
                donated = instr.op.donates
                mine = (instr.inputs[donated],) if donated is not None and len(instr.inputs) > donated else ()
                for out in instr.outputs:
                    self._want_apart(instr, out)
                    self._write(instr, out, mine, point, done)

    def _check_types(self, instr: Queued) -> None:
        match instr:
            case Upload():
                self._expect(instr, instr.dst, instr.type, instr.topology)
            case Download():
                self._expect(instr, instr.src, instr.type, instr.topology)
            case TransferPeer():
                self._expect(instr, instr.src, instr.type, instr.topology)
                self._expect(instr, instr.dst, instr.type, instr.dst_topology)
            case Dispatch():
                for value in instr.inputs:
                    self._expect(instr, value, self._slot(instr, value).type, instr.topology)
                for value, type in zip(instr.outputs, instr.types, strict=True):
                    self._expect(instr, value, type, instr.topology)
                self._check_op(instr)

    def _check_op(self, instr: Dispatch) -> None:
        if instr.op.effect is not Effect.PURE:
            self._fail(instr, "is no kernel")
        operands = [self._slot(instr, v).type for v in instr.inputs]
        try:
            types = instr.op.infer(*operands)
        except GraphError as error:
            self._fail(instr, error.message)
        except TypeError:  # infer's parameters are its operands
            self._fail(instr, f"takes another number of operands than {len(operands)}")
        if types != instr.types:
            self._fail(
                instr, f"gives {', '.join(map(str, types))}, the program says {', '.join(map(str, instr.types))}"
            )

    def _expect(self, instr: Queued, value: str, type: TensorType, topology: Topology) -> None:
        slot = self._slot(instr, value)
        if slot.topology != topology:
            self._fail(instr, f"wants %{value} on {topology}, but it lives on {slot.topology}")
        if slot.type != type:
            self._fail(instr, f"wants %{value} as {type}, but it is {slot.type}")

    def _slot(self, instr: Queued | View | Loop, value: str) -> Slot:
        slot = self.program.slot_of.get(value)
        if slot is None:
            self._fail(instr, f"%{value} has no slot")
        return slot

    def _read_host(self, instr: Upload, done: dict[Queue, int]) -> None:
        if instr.src not in self.host:
            self._fail(instr, f"%{instr.src} is not on the host")
        if self.host[instr.src] != instr.type:
            self._fail(instr, f"%{instr.src} is {self.host[instr.src]}, not {instr.type}")
        if instr.src in self.pending:
            (queue, number), _ = self.order.points[self.pending[instr.src]]
            if done.get(queue, 0) < number:
                self._fail(instr, f"does not wait for %{instr.src}, which is still being downloaded")

    # The shadow.

    def _find(self, instr: Queued | View | Loop, value: str) -> Segment | None:
        """The segment that holds the value; None for one without bytes."""
        slot = self._slot(instr, value)
        if not slot.nbytes:
            return None
        for segment in self.shadows[slot.topology].overlapping(slot.offset, slot.end):
            if value in segment.values and segment.start == slot.offset and segment.end >= slot.end:
                return segment
        held = [s for s in self.shadows[slot.topology].overlapping(slot.offset, slot.end) if s.values]
        if held:
            names = ", ".join(f"%{v}" for s in held for v in sorted(s.values))
            self._fail(instr, f"reads %{value}, but its bytes hold {names}")
        self._fail(instr, f"reads %{value}, which nothing has written")

    def _read(self, instr: Queued, value: str, point: Point, done: dict[Queue, int]) -> None:
        segment = self._find(instr, value)
        if segment is None:
            return
        queue, number = segment.writer
        if done.get(queue, 0) < number:
            self._fail(instr, f"reads %{value}, but does not wait for the instruction on {queue} that writes it")
        segment.users[point[0]] = point[1]

    def _write(self, instr: Queued, value: str, donated: tuple[str, ...], point: Point, done: dict[Queue, int]) -> None:
        slot = self._slot(instr, value)
        if not slot.nbytes:
            return
        shadow = self.shadows[slot.topology]
        for segment in shadow.overlapping(slot.offset, slot.end):
            given = bool(segment.values.intersection(donated)) and segment.start == slot.offset
            for queue, number in segment.users.items():
                own = given and (queue, number) == point
                if not own and done.get(queue, 0) < number:
                    what = ", ".join(f"%{v}" for v in sorted(segment.values)) or "bytes"
                    if (queue, number) == point:
                        self._fail(instr, f"writes %{value} over its own operand {what}")
                    self._fail(instr, f"writes %{value} over {what}, which an instruction on {queue} may still use")
        shadow.replace(Segment(slot.offset, slot.end, {value}, point, {point[0]: point[1]}))

    def _want_apart(self, instr: Dispatch, out: str) -> None:
        """A result lies in none of its operands but the one that its op may write over."""
        written = self._slot(instr, out)
        for k, value in enumerate(instr.inputs):
            read = self._slot(instr, value)
            if k != instr.op.donates and max(read.offset, written.offset) < min(read.end, written.end):
                self._fail(instr, f"writes %{out} over its own operand %{value}")

    def _view(self, instr: View) -> None:
        src, dst = self._slot(instr, instr.src), self._slot(instr, instr.dst)
        if (src.topology, src.offset, src.nbytes) != (dst.topology, dst.offset, dst.nbytes):
            self._fail(instr, f"%{instr.dst} does not lie where %{instr.src} does")
        if (instr.topology, instr.type) != (dst.topology, dst.type):
            self._fail(
                instr, f"says {instr.type} on {instr.topology}, but %{dst.value} is {dst.type} on {dst.topology}"
            )
        try:
            (type,) = ops.Reshape(dims=instr.type.dims).infer(src.type)
        except GraphError as error:
            self._fail(instr, error.message)
        if type != instr.type:
            self._fail(instr, f"gives {instr.type}, but %{instr.src} is {src.type}")
        segment = self._find(instr, instr.src)
        if segment is not None:
            segment.values.add(instr.dst)

    # Loops.

    def _loop(self, loop: Loop, where: str) -> None:
        if loop.limit is not None and self.host.get(loop.limit) != i32[()]:
            self._fail(loop, f"its limit %{loop.limit} is no i32[] on the host")
        outside = dict(self.host)
        self.order.barrier()
        for c in loop.carried:
            self._rename(loop, c.init, c.arg)
        self._step(loop, where)
        if not self.again:  # else loops in loops in loops would take two to the power of their number
            self.again = True
            self._step(loop, where)
            self.again = False
        if loop.stop is not None and self.host.get(loop.stop) != bool_[()]:
            self._fail(loop, f"its stop predicate %{loop.stop} is no bool[] on the host")
        for c in loop.carried:
            self._rename(loop, c.arg, c.out)
        self._forget(loop.body)
        self.host = {**outside, loop.steps: i32[()]}

    def _step(self, loop: Loop, where: str) -> None:
        self._block(loop.body, where)
        self.order.barrier()
        for c in loop.carried:
            if c.next != c.arg:
                self._rename(loop, c.next, c.arg)

    def _forget(self, body: Iterable[Instruction]) -> None:
        """What a body defines is not there after the loop, and nothing can wait for what it does."""
        for instr, _ in flatten(body):
            for value in _defines(instr):
                self.order.points.pop(value, None)
                if value in self.program.slot_of:
                    slot = self.program.slot_of[value]
                    for segment in self.shadows[slot.topology].overlapping(slot.offset, slot.end):
                        segment.values.discard(value)

    def _rename(self, loop: Loop, old: str, new: str) -> None:
        a, b = self._slot(loop, old), self._slot(loop, new)
        if (a.topology, a.offset, a.type) != (b.topology, b.offset, b.type):
            self._fail(loop, f"carries %{old} as %{new}, but they are not the same bytes")
        segment = self._find(loop, old)
        if segment is not None:
            segment.values = {new}

    def _fail(self, instr: Queued | View | Loop, message: str) -> NoReturn:
        raise ProgramError(f"{describe(instr)}: {message}", loc=_loc(instr))


def _defines(instr: Instruction) -> Iterator[str]:
    """The values that an instruction gives a name to, on devices and on the host."""
    match instr:
        case Emit():
            pass
        case View(dst=dst) | Download(dst=dst):
            yield dst
        case Loop():
            yield instr.steps
            for c in instr.carried:
                yield c.arg
                yield c.out
        case _:
            yield from writes(instr)


def describe(instr: Queued | View | Loop) -> str:
    """An instruction in a message: `matmul %y on gpu:1`."""
    match instr:
        case Dispatch():
            return f"{instr.op.name} %{instr.name} on {instr.topology}"
        case Upload():
            return f"upload %{instr.dst} to {instr.topology}"
        case Download():
            return f"download %{instr.dst} from {instr.topology}"
        case TransferPeer():
            return f"transfer_peer %{instr.dst} from {instr.topology} to {instr.dst_topology}"
        case View():
            return f"view %{instr.dst} on {instr.topology}"
        case Loop():
            return f"loop %{instr.steps}"


def _loc(instr: Queued | View | Loop) -> Loc | None:
    return instr.loc
