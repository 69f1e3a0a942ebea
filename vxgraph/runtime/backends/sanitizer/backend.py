"""NumPy's kernels and isolated spaces, under queues that run as late as events allow, watched by vector clocks.

    Session(program, params, bind="sanitizer")       nothing runs before somebody waits for it
    Session(program, params, bind="sanitizer:7")     a random legal order, seeded with 7

    model.py:9: dispatch %z (add) reads %y.1 while transfer_peer %y.1 may still be writing it
      read:  dispatch %z (add) on gpu:1.compute (model.py:9)
      write: transfer_peer %y.1 on gpu:0.copy (model.py:8)
      bytes 0 to 16 of gpu:1; no event orders the two: the read must wait for the write

Every call is checked when it is asked for: against what is known of its bytes (`memory`), what it should find there
(`values`), and what is sure to be done (`queues`). Then it is queued, and really runs as late, or in as odd an order,
as the plan allows: results are poisoned before a kernel writes them, operands are read-only, copies are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from vxgraph.errors import BindError, GraphError, HazardError, VxError
from vxgraph.ir.types import Array, Sizes
from vxgraph.program.instructions import Dispatch, Download, Loop, Queue, Queued, TransferPeer, Upload, label
from vxgraph.program.model import Program
from vxgraph.runtime.abi import DeviceInfo
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.numpy.backend import PLAIN
from vxgraph.runtime.backends.numpy.batch import Batch
from vxgraph.runtime.backends.numpy.kernels import Kernel
from vxgraph.runtime.backends.numpy.space import Buffer, Event, Tensor, address_of
from vxgraph.runtime.backends.sanitizer import behaviour, hazards
from vxgraph.runtime.backends.sanitizer.access import Access
from vxgraph.runtime.backends.sanitizer.memory import Memory
from vxgraph.runtime.backends.sanitizer.order import Order
from vxgraph.runtime.backends.sanitizer.queues import Queues
from vxgraph.runtime.backends.sanitizer.values import Values
from vxgraph.runtime.backends.sanitizer.work import Work
from vxgraph.topology.ids import Topology

TARGET = "sanitizer"


class Pending(Event):
    """Work that happens when the order says so."""

    __slots__ = ("work",)

    def __init__(self, tensors: tuple[Tensor, ...], work: Work) -> None:
        super().__init__(tensors)
        self.work = work


class SanitizerBackend(NumpyBackend):
    """The Backend protocol on NumPy, and a Follower: it knows which instruction of the program a call is for."""

    def __init__(self, order: Order | None = None) -> None:
        super().__init__()
        self._given = order
        self._target = TARGET
        self.order = order or Order()
        self._queues = Queues(self.order)
        self._memories: dict[Topology, Memory] = {}
        self._buffers: dict[int, Buffer] = {}  # that are allocated, by address
        self._values = Values()
        self._instr: Queued | None = None  # what the next call is for
        self._asked: set[str] = set()  # names of instructions of this section
        self._fitting: set[str] = set()  # those whose types were found to fit
        self._following = False
        self._found = False  # a hazard: what is wrong afterwards is its consequence

    # What is there, and what is followed.

    def devices(self) -> tuple[DeviceInfo, ...]:
        """The host, once more."""
        (host,) = super().devices()
        return (DeviceInfo(TARGET, "cpu", "NumPy under late queues, vector clocks and poison", host.memory),)

    def open(self, topology: Topology, target: str) -> str:
        """A space with a shadow; `sanitizer:SEED` runs in a random order, the same for all topologies."""
        stated = _order_of(topology, target)
        order = self._given or stated
        if not self._spaces:
            self._target, self.order, self._queues = target, order, Queues(order)
        elif target != self._target:
            raise BindError(f"{topology}={target}: places share one order, and {self._target!r} is open already")
        super().open(topology, PLAIN)
        self._memories[topology] = Memory()
        return f"{TARGET}:{topology}"

    def close(self) -> None:
        """Drops every space; HazardError for what a program's run did not free, where nothing else was wrong before."""
        leaks = [f"{b.block.nbytes} bytes of {b.space.topology}" for b in self._buffers.values() if b.space]
        wrong = self._following and not self._found
        self._buffers.clear()
        self._memories.clear()
        self._following = False
        super().close()
        if leaks and wrong:
            raise hazards.leaked(leaks)

    def begin(self, program: Program, section: Literal["load", "run"]) -> None:
        """A section's instructions are about to be issued."""
        self._values.begin(program, section)
        self._queues.start_over()
        self._asked = {i.name for i in program.load if isinstance(i, Queued)} if section == "run" else set()
        self._instr, self._following, self._found = None, True, False
        self._fitting.clear()

    def issue(self, instr: Queued) -> None:
        """Remembers what the next call is for; a wait for what was not issued would be for ever."""
        for name in instr.after:
            if name not in self._asked:
                raise self._say(hazards.never(self._queues.ask(label(instr), instr.queue, (), instr.loc), name))
        self._asked.add(instr.name)
        self._instr = instr

    def step(self, loop: Loop, at: Literal["enter", "again", "leave"]) -> None:
        """Follows what the loop carries."""
        self._values.step(loop, at)

    def recover(self) -> bool:
        """A call that ended half-way may be in the shadows and in no queue: what is found afterwards means nothing."""
        return False

    @property
    def calls(self) -> int:
        """Calls that were queued since the first place was opened."""
        return self._queues.count

    @property
    def checked(self) -> int:
        """Pairs of accesses to the same bytes that were checked."""
        return sum(memory.checked for memory in self._memories.values())

    @property
    def ran(self) -> list[str]:
        """What ran, in its order, where the order is kept."""
        return self._queues.ran

    # Memory.

    def alloc(self, nbytes: int, topology: Topology) -> Buffer:
        """A poisoned block of which nothing is known."""
        buffer = super().alloc(nbytes, topology)
        start = address_of(buffer.block)
        self._memories[topology].forget(start, start + nbytes)
        self._buffers[start] = buffer
        return buffer

    def free(self, buffer: Buffer, topology: Topology) -> None:
        """Gives a block back; HazardError where a call may still use it, or where it was given back before."""
        if buffer.space is None:
            raise self._say(hazards.freed_twice(topology))
        space = self._own(buffer, topology, "free")
        start, end = address_of(buffer.block), address_of(buffer.block) + buffer.block.nbytes
        memory = self._memories[topology]
        users = [w for w in memory.users(start, end) if not self._queues.known(w)]
        super().free(buffer, topology)
        self._buffers.pop(start, None)
        memory.forget(start, end)
        if users and not self._found:
            raise self._say(hazards.freed_in_use(f"a buffer of {space.topology}", users[0]))

    # Verbs: each is checked and counted by NumPy's, then by the shadow, then queued.

    def upload(self, array: Array, into: Tensor, topology: Topology, *, after: Sequence[Event] = ()) -> Event:
        """Keeps a copy, for the caller may reuse the array at once."""
        work = self._ask("upload", Queue(topology, "copy"), after)
        self._want_home(work, topology, into)
        super().upload(array, into, topology)
        kept = array.copy()
        return self._put(work, (), (into,), lambda: self._deliver(kept, into.view, work), (into,))

    def download(self, tensor: Tensor, topology: Topology, *, out: Array, after: Sequence[Event] = ()) -> Event:
        """Fills `out` when the order says so."""
        work = self._ask("download", Queue(topology, "copy"), after)
        self._want_home(work, topology, tensor)
        super().download(tensor, topology, out=out)
        return self._put(work, (tensor,), (), lambda: self._deliver(tensor.view, out, work), (tensor,))

    def transfer_peer(
        self,
        src: Tensor,
        src_topology: Topology,
        dst_topology: Topology,
        nbytes: int,
        *,
        into: Tensor,
        after: Sequence[Event] = (),
    ) -> Event:
        """Compares both ends once it has happened."""
        work = self._ask("transfer_peer", Queue(src_topology, "copy"), after)
        self._want_home(work, src_topology, src)
        self._want_home(work, dst_topology, into)
        self._want_match(work, src, into, nbytes)
        super().transfer_peer(src, src_topology, dst_topology, nbytes, into=into)
        return self._put(work, (src,), (into,), lambda: self._deliver(src.view, into.view, work), (into,))

    def copy(self, src: Array, dst: Array, src_topology: Topology | None, dst_topology: Topology | None) -> None:
        """Counts what was asked for, as a driver's queue does; the bytes go when the order says so."""
        self._moved[src_topology, dst_topology] += dst.nbytes

    def deliver(self, src: Array, dst: Array) -> None:
        """The copy itself."""
        np.copyto(dst, src, casting="no")

    def _deliver(self, src: Array, dst: Array, work: Work) -> None:
        self.deliver(src, dst)
        behaviour.want_delivered(src, dst, work)

    def dispatch(
        self,
        kernel: Kernel | Batch,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        topology: Topology,
        *,
        sizes: Sizes,
        after: Sequence[Event] = (),
    ) -> Event:
        """Runs on read-only operands, into poisoned results."""
        assert isinstance(kernel, Kernel)  # `batch` makes none
        space = self._space(topology)
        work = self._ask(f"dispatch {kernel.op.name}", Queue(topology, "compute"), after)
        self._want_home(work, topology, *ins, *outs)
        self._want_fit(work)
        for tensor in (*ins, *outs):
            self._own(tensor.buffer, topology, f"dispatch {kernel.op.name}")
        donated = kernel.op.donates
        own = ins[donated] if donated is not None and donated < len(ins) else None
        space.dispatches += 1
        return self._put(work, ins, outs, lambda: behaviour.compute(kernel, ins, outs, sizes, work), tuple(outs), own)

    def batch(
        self, launches: Sequence[tuple[Kernel, Sequence[Tensor], Sequence[Tensor]]], topology: Topology, *, sizes: Sizes
    ) -> None:
        """Never: each call is checked, and has a place of its own in the order."""

    def wait(self, event: Event) -> None:
        """Runs it, and what it waits for, unless it ran already."""
        assert isinstance(event, Pending)
        with np.errstate(all="ignore"):
            try:
                self._queues.wait(event.work)
            except HazardError as error:
                raise self._say(error) from error.__cause__

    # Checks.

    def _ask(self, what: str, queue: Queue, after: Sequence[Event]) -> Work:
        """The call as work, under the name of the instruction that it is for."""
        instr, loc = self._instr, None
        if instr is not None:
            what, loc = label(instr), instr.loc
        return self._queues.ask(what, queue, [e.work for e in after if isinstance(e, Pending)], loc)

    def _put(
        self,
        work: Work,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        run: Callable[[], None],
        touched: tuple[Tensor, ...],
        own: Tensor | None = None,
    ) -> Event:
        """Checks the call's accesses, tells the shadows, and queues it. `own` is the operand that it may overwrite."""
        instr, self._instr = self._instr, None
        reading = [self._access(t, name) for t, name in zip(ins, _names(instr, "in", len(ins)), strict=True)]
        writing = [self._access(t, name) for t, name in zip(outs, _names(instr, "out", len(outs)), strict=True)]
        try:
            for tensor, access in zip(ins, reading, strict=True):
                self._memory(tensor).read(work, access)
            for tensor, access in zip(outs, writing, strict=True):
                _want_apart(work, access, [a for t, a in zip(ins, reading, strict=True) if t is not own])
                self._memory(tensor).write(work, access)
        except HazardError as error:
            raise self._say(error) from None
        for access in writing if instr is not None else ():
            self._values.make(access.name.removeprefix("%"), work)
        work.run = _guarded(run, work, f"%{instr.name}" if instr else work.what)
        self._queues.put(work)
        return Pending(touched, work)

    def _access(self, tensor: Tensor, name: str | None) -> Access:
        start = tensor.address
        base, end = address_of(tensor.buffer.block), start + tensor.view.nbytes
        if name is None:
            return Access(f"{tensor.view.dtype}{list(tensor.view.shape)}", start, end, base)
        return Access(f"%{name}", start, end, base, self._values.maker(name), followed=True)

    def _memory(self, tensor: Tensor) -> Memory:
        assert tensor.buffer.space is not None
        return self._memories[tensor.buffer.space.topology]

    def _want_home(self, work: Work, topology: Topology, *tensors: Tensor) -> None:
        """A followed call whose tensor is elsewhere is a hazard; the plain refusal of NumPy's verbs comes after it."""
        if self._instr is None:
            return
        for tensor in tensors:
            space = tensor.buffer.space
            if space is not None and space.topology != topology and self._spaces.get(space.topology) is space:
                start = tensor.address
                writer = next(self._memory(tensor).writers(start, start + tensor.view.nbytes), None)
                name = f"a tensor {tensor.view.dtype}{list(tensor.view.shape)}"
                raise self._say(hazards.foreign(work, name, str(space.topology), writer))

    def _want_fit(self, work: Work) -> None:
        """The op gives what the instruction and its slots say, asked of the op's own typing rule, once in a run."""
        instr = self._instr
        if not isinstance(instr, Dispatch) or instr.name in self._fitting:
            return
        try:
            gives = instr.op.infer(*self._values.types(*instr.inputs))
        except (GraphError, TypeError) as error:  # infer's parameters are its operands
            raise self._say(hazards.misfit(work, f"operands that do not fit: {error}")) from None
        for said in (instr.types, tuple(self._values.types(*instr.outputs))):
            if said != gives:
                shown = (", ".join(map(str, types)) for types in (gives, said))
                raise self._say(hazards.misfit(work, "{} where its results are {}".format(*shown)))
        self._fitting.add(instr.name)

    def _want_match(self, work: Work, src: Tensor, into: Tensor, nbytes: int) -> None:
        if not isinstance(self._instr, TransferPeer):
            return
        a, b = (f"{t.view.dtype}{list(t.view.shape)}" for t in (src, into))
        if a != b or src.view.nbytes != nbytes:
            ends = f"{nbytes} bytes from {a} ({src.view.nbytes} bytes) to {b} ({into.view.nbytes} bytes)"
            raise self._say(hazards.mismatch(work, self._values.maker(self._instr.src), ends))
        slots = self._values.types(self._instr.src, self._instr.dst)
        if slots and set(slots) != {self._instr.type}:
            ends = f"{self._instr.type} from {slots[0]} to {slots[1]}"
            raise self._say(hazards.mismatch(work, self._values.maker(self._instr.src), ends))

    def _say(self, error: HazardError) -> HazardError:
        self._found = True
        return error


def _order_of(topology: Topology, target: str) -> Order:
    scheme, _, seed = target.partition(":")
    if scheme != TARGET or (seed and not seed.isdecimal()) or target.endswith(":"):
        raise BindError(
            f"{topology}={target}: wanted {TARGET!r} (as late as events allow) or '{TARGET}:SEED' (a random order)"
        )
    return Order(seed=int(seed)) if seed else Order()


def _names(instr: Queued | None, side: Literal["in", "out"], n: int) -> Sequence[str | None]:
    """The values that an instruction reads or writes; a transfer to another backend comes here with one end."""
    match instr:
        case Dispatch(inputs=inputs, outputs=outputs):
            return inputs if side == "in" else outputs
        case TransferPeer() | Upload() | Download():
            return (instr.src if side == "in" else instr.dst,)[:n]
        case None:
            return (None,) * n


def _want_apart(work: Work, out: Access, operands: Sequence[Access]) -> None:
    for operand in operands:
        if operand.start < out.end and out.start < operand.end:
            raise hazards.over_operand(work, out, operand)


def _guarded(run: Callable[[], None], work: Work, name: str) -> Callable[[], None]:
    """The work, its errors under its name: it may run long after it was asked for."""

    def guarded() -> None:
        try:
            run()
        except HazardError:
            raise
        except VxError as error:
            raise type(error)(f"{name}: {error.message}", loc=work.loc, details=error.details) from error

    return guarded
