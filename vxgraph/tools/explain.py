"""One value's story: where it is and why, what reads it, what moves for it, and what would end the move.

%silu: f32[1, 256], from mlp.py:10
  made      silu(%matmul) on gpu:0: pinned by vx.on
  bytes     1.00 KiB in hbm0 at offset 66816, activation
  read by   %silu.gpu1 (a transfer)
  moves     %silu.gpu1: gpu:0 to gpu:1 direct, 1.00 KiB, once per run, 3.2 us: read by %matmul.1
  to end it pin %matmul.1 (mlp.py:12) to gpu:0: 1.00 KiB less between devices per run
            then %w2 (64.00 KiB) is resident on gpu:0, not on gpu:1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from vxgraph import ops
from vxgraph.ir.graph import Graph
from vxgraph.program.admission import show_bytes
from vxgraph.program.compile import Mode, program_of
from vxgraph.program.instructions import Dispatch, Download, Emit, Instruction, Loop, TransferPeer, Upload, View
from vxgraph.program.model import HostInput, Program
from vxgraph.tools.index import Index, Transferring, index_of
from vxgraph.tools.prices import show_place, show_seconds
from vxgraph.tools.target import TargetError
from vxgraph.tools.trail import Trail, trail_of
from vxgraph.tools.what_if import Pinned, pinned
from vxgraph.topology.ids import Topology
from vxgraph.topology.model import Machine
from vxgraph.topology.routes import Router

Row = tuple[str, str]  # a label, and what it labels
MAX_READERS = 8
MAX_MOVES = 4


@dataclass(frozen=True)
class Explainer:
    """A program and, where there is one, the graph that it was compiled from and the machine to try changes on."""

    program: Program
    machine: Machine | None
    trail: Trail | None
    mode: Mode
    index: Index

    def explain(self, name: str) -> Iterator[Row]:
        """Rows of text; TargetError for a name that neither the program nor the graph knows."""
        value = self._value(name.removeprefix("%"))
        gone = self.trail.gone.get(value) if self.trail and value not in self.index.maker else None
        if gone is not None:
            yield ("", f"%{value}: the compiler's pass {gone.by} took it away{self._instead(value)}")
            if gone.within is None:
                return
            value = gone.within
        if value not in self.index.maker:
            raise self._unknown(name)
        yield from self._facts(value)
        yield from self._moves(value)

    def _value(self, name: str) -> str:
        """The value that a name stands for: its own, or a result's or an emit's external name."""
        known = name in self.index.maker or (self.trail is not None and name in self.trail.gone)
        outlets = {r.name: r.value for r in self.program.results}
        return name if known else outlets.get(name, name)

    def _unknown(self, name: str) -> TargetError:
        known = [*self.index.maker, *(self.trail.gone if self.trail else ())]
        near = ", ".join(f"%{n}" for n in get_close_matches(name.removeprefix("%"), known, 3))
        return TargetError(
            f"{self.program.name} has no value %{name.removeprefix('%')}",
            details=(f"names like it: {near}" if near else "the names are in the text that 'vxgraph show' prints",),
        )

    def _instead(self, value: str) -> str:
        assert self.trail is not None
        within = self.trail.gone[value].within
        if within is not None:
            return f": it is computed as a part of %{within}"
        readers = [n for _, n in self.trail.graph.walk() if value in n.inputs]
        if not readers:
            return ": nothing reads it"
        kept = [n.name for n in readers if n.name in self.index.maker]
        if not kept:
            return ", with what reads it"
        maker = self.index.maker[kept[0]]
        operands = maker.inputs if isinstance(maker, Dispatch) else ()
        return f": %{kept[0]} reads {', '.join(f'%{i}' for i in operands) or 'nothing'} instead"

    # What it is.

    def _facts(self, value: str) -> Iterator[Row]:
        type, loc = self.index.type_of(value), self.index.loc_of(value)
        yield ("", f"%{value}: {type or 'i32[]'}{f', from {loc}' if loc else ''}")
        yield ("made", self._made(value))
        slot = self.program.slot_of.get(value)
        if slot is not None:
            memory = next(a.memory for a in self.program.arenas if a.topology == slot.topology)
            yield ("bytes", f"{show_bytes(slot.nbytes)} in {memory} at offset {slot.offset}, {slot.kind}")
        for d in self.program.donations:
            if d.value == value:
                took = f"takes over the bytes of %{d.operand}"
                yield ("donation", took if d.donated else f"none, %{d.operand} is copied: {d.why}")
        yield ("read by", self._readers(value))

    def _made(self, value: str) -> str:
        match self.index.maker[value]:
            case HostInput():
                arg = any(a.name == value for a in self.program.args)
                return (
                    "given per call, in the caller's memory"
                    if arg
                    else "a param: given once, resident where it is read"
                )
            case Dispatch(op=op, inputs=inputs, topology=at, why=why):
                return f"{op.name}({', '.join(f'%{i}' for i in inputs)}) on {at}: {why or 'no reason is recorded'}"
            case Upload(src=src, topology=at, why=why):
                return f"a copy of %{src} on {at}: {why}"
            case Download(src=src, why=why):
                return f"a copy of %{src} in the caller's memory: {why}"
            case TransferPeer(src=src, dst_topology=at, why=why):
                return f"a copy of %{src} on {at}: {why}"
            case View(src=src, topology=at):
                return f"the bytes of %{src} on {at} under another shape; nothing runs"
            case Loop() as loop:
                return _from_loop(loop, value)
            case Emit():
                return "an emit"

    def _readers(self, value: str) -> str:
        shown = [_reader(i) for i in self.index.readers.get(value, ())]
        shown += [f'result "{r.name}"' for r in self.program.results if r.value == value]
        more = [f"{len(shown) - MAX_READERS} more"] if len(shown) > MAX_READERS else []
        return ", ".join([*shown[:MAX_READERS], *more]) or "nothing"

    # What moves.

    def _moves(self, value: str) -> Iterator[Row]:
        moves = self.index.moves_of(value)
        if not moves:
            yield ("moves", "nothing: it is read where it is")
        for move in sorted(moves, key=lambda m: -m.type.max_bytes)[:MAX_MOVES]:
            yield ("moves", self._move(move))
            if isinstance(move, TransferPeer):
                yield from self._ends(move)
        if len(moves) > MAX_MOVES:
            yield ("", f"and {len(moves) - MAX_MOVES} smaller moves")

    def _move(self, move: Transferring) -> str:
        src, dst = _ends_of(move)
        how = f" {move.route}" if isinstance(move, TransferPeer) else ""
        time = "" if self.machine is None else _seconds(self.machine, src, dst, move.type.max_bytes)
        size = show_bytes(move.type.max_bytes)
        return (
            f"%{move.dst}: {show_place(src)} to {show_place(dst)}{how}, {size}, {self._often(move)}{time}: {move.why}"
        )

    def _often(self, move: Transferring) -> str:
        if move in self.program.load:
            return "once, to load"
        count = self.index.steps[move.dst]
        return "once per run" if count == 1 else f"up to {count} times per run"

    def _ends(self, move: TransferPeer) -> Iterator[Row]:
        if self.trail is None or self.machine is None:
            yield ("to end it", "give the graph and a machine, not a saved program, to have other pins tried")
            return
        if self._is_written(move):
            yield (
                "to end it",
                f"take out the .to({move.dst_topology}) that asks for it: one that is written is always kept",
            )
            return
        tried = [found for names, place in self._candidates(move) if (found := self._pinned(names, place))]
        for found in tried:
            yield from self._tried(found)
        if not any(found.saved > 0 for found in tried):
            yield ("to end it", "no single pin that was tried saves bytes between devices")

    def _is_written(self, move: TransferPeer) -> bool:
        assert self.trail is not None
        return any(isinstance(n.op, ops.To) and n.name == move.dst for _, n in self.trail.graph.walk())

    def _candidates(self, move: TransferPeer) -> Iterator[tuple[tuple[str, ...], Topology]]:
        """Readers to the source's place, or the maker to the readers'."""
        read = [i.name for i in self.index.readers.get(move.dst, ()) if isinstance(i, Dispatch)]
        if read:
            yield tuple(read), move.topology
        maker = self.index.maker.get(move.src)
        if isinstance(maker, Dispatch):
            yield (maker.name,), move.dst_topology

    def _pinned(self, names: tuple[str, ...], place: Topology) -> Pinned | None:
        assert self.trail is not None
        assert self.machine is not None
        nodes = tuple(part for name in names for part in self.trail.parts_of(name))
        found = pinned(self.trail.graph, self.program, nodes, place, self.machine, self.mode)
        return None if found is None or found.saved == 0 else found

    def _tried(self, found: Pinned) -> Iterator[Row]:
        shown = ", ".join(self._at(name) for name in found.names[:3]) + (", ..." if len(found.names) > 3 else "")
        saved = found.saved
        effect = f"{show_bytes(abs(saved))} {'less' if saved > 0 else 'more'} between devices per run"
        yield ("to end it" if saved > 0 else "no gain", f"pin {shown} to {found.place}: {effect}")
        if saved > 0:
            yield from (("", effect) for effect in found.effects())

    def _at(self, name: str) -> str:
        assert self.trail is not None
        loc = next((n.loc for _, n in self.trail.graph.walk() if n.name == name), None)
        return f"%{name} ({loc})" if loc else f"%{name}"


def explainer(made: Graph | Program, machine: Machine | None, mode: Mode) -> Explainer:
    """For a graph, which needs a machine, or a compiled program."""
    if isinstance(made, Program):
        return Explainer(made, machine, None, mode, index_of(made))
    if machine is None:
        raise TargetError("a graph is placed on a machine first; give one, like -m h200-x2")
    trail = trail_of(made, machine, mode)
    program = program_of(trail.placed, machine)
    return Explainer(program, machine, trail, mode, index_of(program))


def _from_loop(loop: Loop, value: str) -> str:
    for c in loop.carried:
        if value == c.arg:
            return f"carried through loop %{loop.name}: %{c.init} first, then the last step's %{c.next}"
        if value == c.out:
            return f"what loop %{loop.name} carried last: %{c.next}"
    return "the number of steps that the loop did"


def _reader(instr: Instruction) -> str:
    match instr:
        case Dispatch(op=op, topology=at, loc=loc):
            return f"%{instr.name} = {op.name} on {at}" + (f" ({loc})" if loc else "")
        case Upload(dst=dst) | Download(dst=dst) | TransferPeer(dst=dst):
            return f"%{dst} (its copy)"
        case View(dst=dst):
            return f"%{dst} (a view)"
        case Emit(name_out=name):
            return f'emit "{name}"'
        case Loop(steps=steps):
            return f"loop %{steps}"


def _ends_of(move: Transferring) -> tuple[Topology | None, Topology | None]:
    match move:
        case Upload(topology=dst):
            return None, dst
        case Download(topology=src):
            return src, None
        case TransferPeer(topology=src, dst_topology=dst):
            return src, dst


def _seconds(machine: Machine, src: Topology | None, dst: Topology | None, nbytes: int) -> str:
    return f", {show_seconds(Router(machine).route(src, dst).seconds(nbytes))}"
