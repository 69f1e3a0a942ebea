"""Instructions with everything looked up: the backend, the kernel and the tensors that each works on.

What depends on no symbol is prepared once; the rest once per set of its symbols' sizes, of which the last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

from vxgraph.errors import BindError, RunError
from vxgraph.ir.types import Sizes, TensorType, dims_in
from vxgraph.program.instructions import (
    Dispatch,
    Download,
    Emit,
    Instruction,
    Loop,
    Queued,
    TransferPeer,
    Upload,
    View,
    flatten,
    reads,
    writes,
)
from vxgraph.program.model import Program, Slot
from vxgraph.runtime.abi import Backend, Buffer, Kernel, KernelError, Tensor
from vxgraph.runtime.record import Pair
from vxgraph.topology.ids import Topology

KEPT = 4  # sets of sizes whose steps are kept
Moving = Upload | Download | TransferPeer
Tail = tuple[Backend, str]  # an instruction, by name, and the backend that its event belongs to


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Launch:
    """A dispatch, ready. `index` is its record's; `after` are events of its own backend, `foreign` those of others."""

    index: int
    name: str
    instr: Dispatch
    backend: Backend
    topology: Topology
    kernel: Kernel
    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    after: tuple[str, ...]
    foreign: tuple[Tail, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Move:
    """An upload, a download or a transfer, ready; `pair` is what its backend counts the bytes under."""

    index: int
    name: str
    instr: Moving
    backend: Backend  # the destination's, where there are two
    pair: Pair
    src: Tensor  # None from the host
    dst: Tensor  # None to the host
    after: tuple[str, ...]
    foreign: tuple[Tail, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive dispatches on one topology that the backend takes as one; others wait for `names`."""

    launches: tuple[Launch, ...]
    kernel: Kernel
    names: tuple[str, ...]

    @property
    def first(self) -> Launch:
        """The launch whose waits are the batch's."""
        return self.launches[0]


@dataclass(frozen=True, slots=True)
class Hand:
    """An emit."""

    index: int
    instr: Emit


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop, its body ready; `before` must be done when it starts."""

    index: int
    instr: Loop
    before: tuple[Tail, ...]
    block: Block


@dataclass(frozen=True, slots=True)
class Block:
    """Steps in program order, and the last instruction of each queue: when those are done, the block is."""

    steps: tuple[Step, ...]
    tails: tuple[Tail, ...]


Step = Launch | Batch | Move | Hand | Repeat


class Preparer:
    """Prepares a program's body (or its load section) on the arenas that it is given."""

    def __init__(
        self,
        program: Program,
        instructions: tuple[Instruction, ...],
        backends: Mapping[Topology, Backend],
        arenas: Mapping[Topology, Buffer],
    ) -> None:
        self._name = program.name
        self._slots = program.slot_of
        self._instructions = instructions
        self._backends = backends
        self._arenas = arenas
        flat = [instr for instr, _ in flatten(instructions)]
        self._owner = {i.name: self._event_backend(i) for i in flat if isinstance(i, Queued)}
        self._dispatches = {k: i for k, i in enumerate(flat) if isinstance(i, Dispatch)}
        self._kernels = {k: self._kernel(i) for k, i in self._dispatches.items()}
        self._steps: WeakValueDictionary[tuple[int, ...], Launch | Move] = WeakValueDictionary()  # of blocks kept
        self._symbols: dict[int, tuple[str, ...]] = {}
        self._blocks: OrderedDict[tuple[tuple[str, int], ...], Block] = OrderedDict()

    def block(self, sizes: Sizes) -> Block:
        """The steps for one run's sizes."""
        key = tuple(sorted(sizes.items()))
        if key not in self._blocks:
            self._blocks[key], _ = self._block(self._instructions, sizes, 0)
            if len(self._blocks) > KEPT:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(key)
        return self._blocks[key]

    def event_backend(self, name: str) -> Backend:
        """The backend that the event of a queued instruction belongs to."""
        return self._owner[name]

    def named(self, fault: KernelError) -> RunError:
        """What a kernel found wrong, with the instruction that it is the kernel of, and the user's line."""
        instr = next((self._dispatches[k] for k, kernel in self._kernels.items() if kernel is fault.kernel), None)
        if instr is None:
            return fault
        return RunError(f"%{instr.name}: {fault.found.message}", loc=instr.loc, details=fault.details)

    def _block(self, instructions: Iterable[Instruction], sizes: Sizes, index: int) -> tuple[Block, int]:
        """The block, and the index after its last instruction."""
        steps: list[Step] = []
        last: dict[tuple[Topology, str], Tail] = {}
        for instr in instructions:
            match instr:
                case Emit():
                    steps.append(Hand(index, instr))
                case Loop():
                    body, end = self._block(instr.body, sizes, index + 1)
                    steps.append(Repeat(index, instr, tuple(last.values()), body))
                    index = end - 1
                case View():
                    pass  # its bytes are there already
                case _:
                    steps.append(self._queued(instr, sizes, index))
                    last[instr.queue.topology, instr.queue.kind] = (self._owner[instr.name], instr.name)
            index += 1
        return Block(tuple(steps), tuple(last.values())), index

    def _queued(self, instr: Queued, sizes: Sizes, index: int) -> Launch | Move:
        key = (index, *(sizes[name] for name in self._symbols_of(instr, index)))
        step = self._steps.get(key)
        if step is None:
            step = self._launch(instr, sizes, index) if isinstance(instr, Dispatch) else self._move(instr, sizes, index)
            self._steps[key] = step
        return step

    def _symbols_of(self, instr: Queued, index: int) -> tuple[str, ...]:
        """The symbols that the instruction depends on, through its values' types or its op's attributes."""
        if index not in self._symbols:
            types = (self._slot(v).type for v in (*reads(instr), *writes(instr)))
            found = {d.name for t in types for d in t.symbols}
            if isinstance(instr, Dispatch):
                found.update(d.name for value in vars(instr.op).values() for d in dims_in(value) if d.symbolic)
            self._symbols[index] = tuple(sorted(found))
        return self._symbols[index]

    def _launch(self, instr: Dispatch, sizes: Sizes, index: int) -> Launch:
        backend = self._backends[instr.topology]
        ins = tuple(self._tensor(v, sizes) for v in instr.inputs)
        outs = tuple(self._tensor(v, sizes) for v in instr.outputs)
        kernel = self._kernels[index]
        return Launch(index, instr.name, instr, backend, instr.topology, kernel, ins, outs, *self._waits(instr))

    def _move(self, instr: Moving, sizes: Sizes, index: int) -> Move:
        src = None if isinstance(instr, Upload) else self._tensor(instr.src, sizes)
        dst = None if isinstance(instr, Download) else self._tensor(instr.dst, sizes)
        pair = self._pair(instr)
        return Move(index, instr.name, instr, self._owner[instr.name], pair, src, dst, *self._waits(instr))

    def _pair(self, instr: Moving) -> Pair:
        match instr:
            case Upload(topology=topology):
                return None, topology
            case Download(topology=topology):
                return topology, None
            case TransferPeer(topology=src, dst_topology=dst):
                return (src if self._backends[src] is self._backends[dst] else None), dst

    def _waits(self, instr: Queued) -> tuple[tuple[str, ...], tuple[Tail, ...]]:
        """What it waits for on its own backend and on others; what the load section did is done."""
        mine = self._owner[instr.name]
        before = [(self._owner[name], name) for name in instr.after if name in self._owner]
        own = tuple(name for backend, name in before if backend is mine)
        return own, tuple(tail for tail in before if tail[0] is not mine)

    def _slot(self, value: str) -> Slot:
        if value not in self._slots:
            raise RunError(f"%{value} has no slot in {self._name!r}: no memory is planned for it")
        return self._slots[value]

    def _tensor(self, value: str, sizes: Sizes) -> Tensor:
        slot = self._slot(value)
        t = slot.topology
        return self._backends[t].tensor(self._arenas[t], slot.offset, slot.type.dtype, slot.type.shape(sizes), t)

    def _kernel(self, instr: Dispatch) -> Kernel:
        ins: tuple[TensorType, ...] = tuple(self._slot(v).type for v in instr.inputs)
        try:
            return self._backends[instr.topology].kernel(instr.op, ins, instr.types, instr.topology)
        except BindError as error:
            raise BindError(f"%{instr.name}: {error.message}", loc=instr.loc, details=error.details) from error

    def _event_backend(self, instr: Queued) -> Backend:
        return self._backends[instr.dst_topology if isinstance(instr, TransferPeer) else instr.topology]
