"""The backend's opaque objects: buffers, tensors, events, kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from vxgraph.errors import RunError
from vxgraph.ir.op import Op
from vxgraph.ir.types import DType, Sizes
from vxgraph.runtime.backends.cupy.device import State
from vxgraph.runtime.backends.cupy.driver import CudaEvent, Pointer, Stream
from vxgraph.runtime.backends.cupy.kernels.launch import Planner


class Opaque:
    """What the host cannot read."""

    __slots__ = ()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise RunError(f"{self!r} is not readable from the host; download it")


class Buffer(Opaque):
    """An allocation of the state's; `state` is None once it is freed."""

    __slots__ = ("nbytes", "pointer", "state")

    def __init__(self, state: State | None, pointer: Pointer, nbytes: int) -> None:
        self.state = state
        self.pointer = pointer
        self.nbytes = nbytes

    def __repr__(self) -> str:
        return f"a buffer of {self.state.topology}" if self.state else "a freed buffer"


class Tensor(Opaque):
    """A dense row-major view of a buffer's bytes."""

    __slots__ = ("buffer", "dtype", "nbytes", "pointer", "shape")

    def __init__(self, buffer: Buffer, pointer: Pointer, dtype: DType, shape: tuple[int, ...], nbytes: int) -> None:
        self.buffer = buffer
        self.pointer = pointer
        self.dtype = dtype
        self.shape = shape
        self.nbytes = nbytes

    def __repr__(self) -> str:
        return f"a tensor {self.dtype}[{', '.join(map(str, self.shape))}] in {self.buffer!r}"


class Event(Opaque):
    """A point in a stream. The CUDA event behind it is recorded when somebody first waits: later on the same stream,
    so it covers the work all the same, and most instructions never need one. `touched` are addresses that the work
    wrote (a download: read); `ran` says that it was a kernel's; `arrive` is what the host does once it has happened;
    `happened` says that it has; `span` are timers before and after the work, where it is timed."""

    __slots__ = ("arrive", "happened", "ran", "span", "state", "stream", "touched")

    def __init__(
        self,
        state: State,
        stream: Stream,
        touched: tuple[Pointer, ...],
        arrive: Callable[[], None] | None = None,
        *,
        ran: bool = False,
    ) -> None:
        self.state = state
        self.stream = stream
        self.touched = touched
        self.ran = ran
        self.arrive = arrive
        self.happened = False
        self.span: tuple[CudaEvent, CudaEvent] | None = None

    def __repr__(self) -> str:
        return f"an event of {self.state.topology}"


Start = Callable[[Stream], None]  # puts one launch on a stream


class Bound(NamedTuple):
    """A kernel on certain tensors, ready to launch; `library` says that it uses cuBLAS, and so its workspace, and
    `memory` is what it has beside the tensors."""

    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    sizes: Sizes
    starts: tuple[Start, ...]
    library: bool
    memory: tuple[Any, ...]


@dataclass
class Kernel:
    """An op on one topology.

    `bound` keeps what is ready to launch, with the tensors that it was made for; `site` is the number under which its
    launches report faults.
    """

    op: Op
    state: State
    planner: Planner
    site: int = -1
    bound: dict[tuple[int, int], Bound] = field(default_factory=dict[tuple[int, int], Bound])


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Captured:
    """Many dispatches recorded as one graph; `bound` are kept for the memory that they have."""

    state: State
    graph: Any
    bound: tuple[Bound, ...]
    touched: tuple[Pointer, ...]
    op: Op
