"""The contract of a backend: every entry point that touches memory or runs work names its topology.

A backend owns one state per topology (an address space, queues, a library handle per device). Buffers, tensors, kernels
and events are its own opaque objects; the executor only hands them back. `observe` answers where bytes or work really
are, asked of the machine and not of our records. tests/conformance holds the definition: the same assertions for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from vxgraph.errors import RunError
from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, DType, Sizes, TensorType
from vxgraph.program.instructions import Loop, Queued
from vxgraph.program.model import Program
from vxgraph.topology.ids import Topology

Buffer = Any  # memory on one topology
Tensor = Any  # a shaped view of a buffer's bytes
Kernel = Any  # an op compiled for one topology
Event = Any  # a point in a queue


@dataclass(frozen=True, slots=True)
class Observation:
    """Where something really is: the topologies that could be meant, and the device as its driver names it."""

    topologies: tuple[Topology, ...]  # several where several are bound to one device
    device: str  # "numpy:gpu:1", "cuda:0 (0000:3b:00.0)"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device that a topology can be bound to."""

    target: str  # what a binding says: "numpy", "cuda:0"
    kind: Literal["cpu", "gpu"]
    name: str  # as its driver names it
    memory: int  # bytes


class KernelError(RunError):
    """What a kernel found wrong as it ran, told by whoever waits for it. `found` says it without the op's name."""

    def __init__(self, op: str, found: RunError, kernel: Kernel) -> None:
        super().__init__(f"{op}: {found.message}", details=found.details)
        self.found = found
        self.kernel = kernel


class Backend(Protocol):
    """One kind of machine. Every method raises BindError or RunError (VxError) for what its caller got wrong."""

    def devices(self) -> tuple[DeviceInfo, ...]:
        """What is here to bind to; empty where the driver or the hardware is missing. Opens nothing."""
        ...

    def open(self, topology: Topology, target: str) -> str:
        """Creates the topology's state on `target` ("numpy", "cuda:0"); returns the device's full name for people."""
        ...

    def close(self) -> None:
        """Frees every state; the backend can be opened again."""
        ...

    def scope(self) -> AbstractContextManager[None]:
        """What a stretch of calls runs in: the calling thread's state (current device, float errors) is given back."""
        ...

    def alloc(self, nbytes: int, topology: Topology) -> Buffer:
        """Fresh memory on the topology, poisoned where the backend can afford it."""
        ...

    def free(self, buffer: Buffer, topology: Topology) -> None:
        """Gives memory back; refuses a buffer that does not live on `topology`, or was freed."""
        ...

    def tensor(self, buffer: Buffer, offset: int, dtype: DType, shape: tuple[int, ...], topology: Topology) -> Tensor:
        """A dense row-major view at a byte offset; refuses what lies outside the buffer."""
        ...

    def upload(self, array: Array, into: Tensor, topology: Topology, *, after: Sequence[Event] = ()) -> Event:
        """Host to device, of any strides; the host array may be reused when the call returns."""
        ...

    def download(self, tensor: Tensor, topology: Topology, *, out: Array, after: Sequence[Event] = ()) -> Event:
        """Device to host; `out` is filled once the event is waited for."""
        ...

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
        """Device to device. Leaves the source intact; refuses a tensor that is not where the caller says."""
        ...

    def kernel(self, op: Op, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...], topology: Topology) -> Kernel:
        """The op's kernel on this topology; BindError that names the op where there is none."""
        ...

    def dispatch(
        self,
        kernel: Kernel,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        topology: Topology,
        *,
        sizes: Sizes,
        after: Sequence[Event] = (),
    ) -> Event:
        """Runs a kernel; refuses tensors that live on another topology. An output may be an input (donation).

        `sizes` holds the sizes of the symbols in this run.
        """
        ...

    def batch(
        self, launches: Sequence[tuple[Kernel, Sequence[Tensor], Sequence[Tensor]]], topology: Topology, *, sizes: Sizes
    ) -> Kernel | None:
        """Dispatches on these tensors as one kernel without operands, run many times (a captured graph).

        None where the backend gains nothing by it. Each of them counts as dispatched.
        """
        ...

    def wait(self, event: Event) -> None:
        """Returns when the event has happened, or raises what its work complains of (KernelError): then it has, too."""
        ...

    def observe(self, thing: Buffer | Tensor | Event) -> Observation:
        """Where a buffer's bytes are, or where an event's work ran."""
        ...

    def moved(self, src: Topology | None, dst: Topology | None) -> int:
        """Bytes copied from `src` to `dst` so far (None is the host), counted where they are copied."""
        ...

    def dispatched(self, topology: Topology) -> int:
        """Kernels run on the topology so far, counted where they are run."""
        ...


@runtime_checkable
class Follower(Protocol):
    """What a backend may be besides: one that is told what its calls are for, in program order."""

    def begin(self, program: Program, section: Literal["load", "run"]) -> None:
        """The load section, or a run of the body, starts."""
        ...

    def issue(self, instr: Queued) -> None:
        """The next call is for this instruction, if it is at one of this backend's topologies."""
        ...

    def step(self, loop: Loop, at: Literal["enter", "again", "leave"]) -> None:
        """A loop is entered, has done a step, or is left."""
        ...


@runtime_checkable
class Timed(Protocol):
    """What a backend may be besides: one whose calls return before the work is done, and that knows when it ran.

    Without this a trace has the host's times of the calls, which are right where a call returns when its work is done.
    """

    def start_timing(self, topologies: Sequence[Topology]) -> None:
        """From now on events on these topologies keep when their work ran; nothing is under way there."""
        ...

    def stop_timing(self, topologies: Sequence[Topology]) -> None:
        """No longer."""
        ...

    def times(self, event: Event) -> tuple[float, float]:
        """Start and end of an event's work in seconds, as `time.perf_counter` counts them; asked once, when the event
        has happened."""
        ...


@runtime_checkable
class Recovers(Protocol):
    """What a backend may be besides: one that goes on after a call that ended half-way (Ctrl-C, a driver's error).

    A session whose backends are not all of this kind closes after such a run.
    """

    def recover(self) -> bool:
        """Returns when all that was issued is done, whoever asked for it; whether the backend can go on."""
        ...
