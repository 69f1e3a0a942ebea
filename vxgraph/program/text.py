"""Programs as text, both ways, and files of it.

    program "mlp" version 1 for "h200-x2" {
      dim T <= 2048 min 1
      arg %x : f32[T, 64]
      memory "hbm0" [gpu:0] [65536, 0, 512, 256, 536870912, 150754820096]
      arena gpu:0 in "hbm0" [66304, 65536, 0, 512, 256]
      slot %x.gpu0 : f32[T, 64] @gpu:0 [65536, 256] staging
      load {
        %w.gpu0 = upload(%w) : f32[64, 256] @gpu:0
      }
      run {
        %x.gpu0 = upload(%x) : f32[T, 64] @gpu:0
        %h = matmul(%x.gpu0, %w.gpu0) : f32[T, 256] @gpu:0 after %x.gpu0 why "pinned by vx.on" loc "model.py:9"
        %h.gpu1 = transfer_peer(%h) : f32[T, 256] @gpu:0 -> gpu:1 direct after %h
        %q = view(%h.gpu1) : f32[T, 4, 64] @gpu:1
        %steps = loop max_steps 64 limit %n stop %done.host {
          carry %t0 -> %t -> %t.next -> %t.out
          emit "token" = %t.host
        }
      }
      result "y" = %y.host
      donation %c.1 from %c                    or: copy %c.1 of %c why "%c is read later by %z"
      digest "sha256:..."
    }

Numbers of bytes: in a memory params, kv, activations, staging, reserved, capacity; in an arena the total, then params,
kv, activations, staging; in a slot its offset and its size. The digest covers all but reasons, source lines and itself.
Reading verifies the digest and proves the plan again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from vxgraph.errors import Loc, ProgramError
from vxgraph.ir.graph import Result
from vxgraph.ir.lexer import Reader, quote
from vxgraph.ir.literal import (
    Dims,
    literal,
    make_op,
    print_dim,
    print_op,
    read_dims,
    read_literal,
    read_op_head,
    read_place,
    read_type,
)
from vxgraph.ir.text import check_steps, read_loc
from vxgraph.ir.verify import MAX_NESTING, too_deep
from vxgraph.program.files import whole_file
from vxgraph.program.instructions import (
    Carried,
    Dispatch,
    Download,
    Emit,
    Instruction,
    Loop,
    TransferPeer,
    Upload,
    View,
)
from vxgraph.program.model import Arena, Donation, HostInput, MemoryUse, Program, Slot, SlotKind
from vxgraph.program.verify import verify_program
from vxgraph.topology.ids import Topology

VERSION = 1
MAX_PLACES = 256  # the proof keeps a clock of as many queues for each instruction
ROUTES = ("local", "direct", "staged")


# Printing.


def print_program(program: Program) -> str:
    """The program's text, with reasons, source lines and digest."""
    lines = [*_lines(program, full=True), f"  digest {quote(program.digest)}", "}"]
    return "\n".join(lines) + "\n"


def print_instruction(instr: Instruction) -> str:
    """One instruction as a program's text has it; a loop without its body."""
    return next(_instruction(instr, "", True))


def digest_of(program: Program) -> str:
    """`sha256:` and the hash of the text without reasons and source lines."""
    text = "\n".join(_lines(program, full=False))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _lines(program: Program, *, full: bool) -> Iterator[str]:
    yield f"program {quote(program.name)} version {VERSION} for {quote(program.machine)} {{"
    yield from ("  " + print_dim(d) for d in program.dims)
    for kind, inputs in (("arg", program.args), ("param", program.params)):
        yield from (f"  {kind} %{i.name} : {i.type}{_loc(i.loc, full)}" for i in inputs)
    for m in program.memories:
        sizes = (m.params, m.kv, m.activations, m.staging, m.reserved, m.capacity)
        yield f"  memory {quote(m.memory)} {literal(m.topologies)} {literal(sizes)}"
    for a in program.arenas:
        sizes = (a.nbytes, a.params, a.kv, a.activations, a.staging)
        yield f"  arena {a.topology} in {quote(a.memory)} {literal(sizes)}"
    for s in program.slots:
        yield f"  slot %{s.value} : {s.type} @{s.topology} [{s.offset}, {s.nbytes}] {s.kind}{_loc(s.loc, full)}"
    for name, block in (("load", program.load), ("run", program.body)):
        yield f"  {name} {{"
        for instr in block:
            yield from _instruction(instr, "    ", full)
        yield "  }"
    yield from (f"  result {quote(r.name)} = %{r.value}" for r in program.results)
    for d in program.donations:
        yield (
            f"  donation %{d.value} from %{d.operand}"
            if d.donated
            else f"  copy %{d.value} of %{d.operand}" + (f" why {quote(d.why)}" if full and d.why else "")
        )


def _instruction(instr: Instruction, indent: str, full: bool) -> Iterator[str]:
    match instr:
        case Emit():
            yield f"{indent}emit {quote(instr.name_out)} = %{instr.value}"
        case View():
            yield f"{indent}%{instr.dst} = view(%{instr.src}) : {instr.type} @{instr.topology}{_loc(instr.loc, full)}"
        case Loop():
            yield from _loop(instr, indent, full)
        case Upload() | Download():
            verb = "upload" if isinstance(instr, Upload) else "download"
            yield f"{indent}%{instr.dst} = {verb}(%{instr.src}) : {instr.type} @{instr.topology}{_tail(instr, full)}"
        case TransferPeer():
            where = f"@{instr.topology} -> {instr.dst_topology} {instr.route}"
            yield f"{indent}%{instr.dst} = transfer_peer(%{instr.src}) : {instr.type} {where}{_tail(instr, full)}"
        case Dispatch():
            outs = ", ".join(f"%{o}" for o in instr.outputs)
            types = ", ".join(map(str, instr.types))
            head = f"{indent}{outs} = {print_op(instr.op, instr.inputs)}"
            yield f"{head} : {types} @{instr.topology}{_tail(instr, full)}"


def _loop(loop: Loop, indent: str, full: bool) -> Iterator[str]:
    limit = f" limit %{loop.limit}" if loop.limit is not None else ""
    stop = f" stop %{loop.stop}" if loop.stop is not None else ""
    yield f"{indent}%{loop.steps} = loop max_steps {loop.max_steps}{limit}{stop} {{"
    for c in loop.carried:
        yield f"{indent}  carry %{c.init} -> %{c.arg} -> %{c.next} -> %{c.out}"
    for instr in loop.body:
        yield from _instruction(instr, indent + "  ", full)
    yield indent + "}" + _loc(loop.loc, full)


def _tail(instr: Upload | Download | TransferPeer | Dispatch, full: bool) -> str:
    after = " after " + ", ".join(f"%{a}" for a in instr.after) if instr.after else ""
    why = f" why {quote(instr.why)}" if full and instr.why else ""
    return after + why + _loc(instr.loc, full)


def _loc(loc: Loc | None, full: bool) -> str:
    return f" loc {quote(str(loc))}" if full and loc else ""


# Files.


def save_program(program: Program, path: Path) -> None:
    """Writes the text whole or not at all. ProgramError where the folder does not take it."""
    try:
        with whole_file(path) as file:
            file.write(program.text().encode())
    except OSError as error:
        raise ProgramError(f"{path}: cannot write: {error.strerror}") from None


def load_program(path: str | Path) -> Program:
    """Reads a program file. ProgramError or TextError with file:line where it cannot be read or does not prove."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ProgramError(f"{path}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProgramError(f"{path}: is no text; wanted a program that 'vxgraph compile -o' wrote") from None
    except ValueError as error:  # a NUL in the path
        raise ProgramError(f"{path}: cannot read: {error}") from None
    return parse_program(text, str(path))


def parse_program(text: str, source: str = "<program>") -> Program:
    """Reads a program, checks its digest and proves it."""
    program = _ProgramReader(Reader(text, source)).read()
    verify_program(program)
    return program


# Reading.


class _ProgramReader:
    def __init__(self, reader: Reader) -> None:
        self.r = reader
        self.dims: Dims = {}
        self.steps: list[int] = []  # at most, of each loop around what is read

    def read(self) -> Program:
        r = self.r
        r.expect("program", "the start")
        name = r.string("the program's name")
        self._version()
        r.expect("for", "the version")
        machine = r.string("the machine's name")
        r.expect("{", "the machine's name")
        self.dims = read_dims(r)
        program = Program(
            name=name,
            machine=machine,
            dims=tuple(self.dims.values()),
            args=self._inputs("arg"),
            params=self._inputs("param"),
            memories=tuple(self._memories()),
            arenas=tuple(self._arenas()),
            slots=tuple(self._slots()),
            load=self._block("load"),
            body=self._block("run"),
            results=tuple(self._results()),
            donations=tuple(self._donations()),
        )
        self._end(program)
        return program

    def _version(self) -> None:
        self.r.expect("version", "the program's name")
        loc = self.r.loc
        version = self.r.integer("the format's version")
        if version != VERSION:
            self.r.fail(f"the program is in format {version}, this vxgraph reads {VERSION}; compile it again", loc=loc)

    def _end(self, program: Program) -> None:
        r = self.r
        if r.accept("digest"):
            loc = r.loc
            stated = r.string("a digest")
            if stated != program.digest:
                raise ProgramError(
                    "the digest is not that of this text, so it was edited; compile again, or delete the digest line "
                    "to have the edited program proved and loaded",
                    loc=loc,
                )
        r.expect("}", "the program's lines")
        if r.kind != "end":
            r.fail(f"expected the end after the program, found {r.text!r}")

    def _inputs(self, keyword: str) -> tuple[HostInput, ...]:
        found: list[HostInput] = []
        while self.r.accept(keyword):
            here = self.r.loc
            name = self.r.value()
            self.r.expect(":", f"%{name}")
            found.append(HostInput(name, read_type(self.r, self.dims), read_loc(self.r) or here))
        return tuple(found)

    def _numbers(self, count: int, what: str) -> list[int]:
        loc = self.r.loc
        found = read_literal(self.r, self.dims)
        if not isinstance(found, tuple) or len(found) != count or any(type(n) is not int for n in found):  # type: ignore[arg-type]
            self.r.fail(f"expected {count} integers: {what}", loc=loc)
        return list(found)  # type: ignore[arg-type]  # checked above

    def _memories(self) -> Iterator[MemoryUse]:
        while self.r.accept("memory"):
            name, loc = self.r.string("a memory's name"), self.r.loc
            topologies: Any = read_literal(self.r, self.dims)
            if not isinstance(topologies, tuple) or not all(isinstance(t, Topology) for t in topologies):  # type: ignore[arg-type]
                self.r.fail("expected a list of topologies", loc=loc)
            sizes = self._numbers(6, "params, kv, activations, staging, reserved, capacity")
            if min(sizes) < 0:
                self.r.fail(f"memory {quote(name)} has {min(sizes)} bytes of something", loc=loc)
            yield MemoryUse(name, topologies, *sizes)  # type: ignore[arg-type]  # checked above

    def _arenas(self) -> Iterator[Arena]:
        count = 0
        while self.r.accept("arena"):
            count += 1
            if count > MAX_PLACES:
                self.r.fail(f"more than {MAX_PLACES} arenas")
            topology = read_place(self.r)
            self.r.expect("in", f"arena {topology}")
            memory = self.r.string("a memory's name")
            yield Arena(topology, memory, *self._numbers(5, "total, params, kv, activations, staging"))

    def _slots(self) -> Iterator[Slot]:
        while self.r.accept("slot"):
            here = self.r.loc
            name = self.r.value()
            self.r.expect(":", f"slot %{name}")
            type = read_type(self.r, self.dims)
            self.r.expect("@", "the slot's type")
            topology = read_place(self.r)
            offset, nbytes = self._numbers(2, "offset, size")
            loc = self.r.loc
            kind: Any = self.r.word("a slot's kind")
            if kind not in get_args(SlotKind):
                self.r.fail(f"{kind!r} is no kind of slot; there are {', '.join(get_args(SlotKind))}", loc=loc)
            yield Slot(name, type, topology, offset, nbytes, kind, read_loc(self.r) or here)

    def _results(self) -> Iterator[Result]:
        while self.r.accept("result"):
            name = self.r.string("an external name")
            self.r.expect("=", f"result {quote(name)}")
            yield Result(name, self.r.value())

    def _donations(self) -> Iterator[Donation]:
        while self.r.text in ("donation", "copy"):
            donated = self.r.word("a word") == "donation"
            value = self.r.value()
            self.r.expect("from" if donated else "of", f"%{value}")
            operand = self.r.value()
            why = self.r.string("a reason") if not donated and self.r.accept("why") else ""
            yield Donation(value, operand, donated, why)

    def _block(self, keyword: str) -> tuple[Instruction, ...]:
        self.r.expect(keyword, "the slots" if keyword == "load" else "the load section")
        self.r.expect("{", keyword)
        found: list[Instruction] = []
        while not self.r.accept("}"):
            found.append(self._instruction())
        return tuple(found)

    def _instruction(self) -> Instruction:
        r = self.r
        here = r.loc
        if r.accept("emit"):
            name = r.string("an external name")
            r.expect("=", f"emit {quote(name)}")
            return Emit(name, r.value())
        outputs = r.values()
        if not outputs:
            r.fail(f"expected an instruction, found {r.text!r}")
        r.expect("=", f"%{outputs[-1]}")
        if r.text in ("loop", "upload", "download", "transfer_peer", "view"):
            verb = r.word("an instruction")
            first, *more = outputs
            if more:
                r.fail(f"{verb} defines one value, not {', '.join(f'%{o}' for o in outputs)}", loc=here)
            return self._loop(first, here) if verb == "loop" else self._move(verb, first, here)
        cls, inputs, attributes = read_op_head(r, self.dims)
        op = make_op(r, cls, attributes)
        r.expect(":", f"{op.name}'s operands")
        types = [read_type(r, self.dims)]
        while r.accept(","):
            types.append(read_type(r, self.dims))
        if len(types) != len(outputs):
            r.fail(f"{len(outputs)} outputs, but {len(types)} types", loc=here)
        return Dispatch(op, inputs, outputs, tuple(types), self._place(), *self._tail(here))

    def _place(self) -> Topology:
        self.r.expect("@", "the type")
        return read_place(self.r)

    def _tail(self, here: Loc) -> tuple[tuple[str, ...], str, Loc]:
        after: tuple[str, ...] = ()
        if self.r.accept("after"):
            after = self.r.values() or (self.r.value(),)
        why = self.r.string("a reason") if self.r.accept("why") else ""
        return after, why, read_loc(self.r) or here

    def _move(self, verb: str, dst: str, here: Loc) -> Instruction:
        r = self.r
        r.expect("(", verb)
        src = r.value()
        r.expect(")", f"%{src}")
        r.expect(":", f"{verb}'s operand")
        type, topology = read_type(r, self.dims), self._place()
        if verb == "view":
            return View(src, dst, type, topology, read_loc(r) or here)
        if verb != "transfer_peer":
            cls = Upload if verb == "upload" else Download
            return cls(src, dst, type, topology, *self._tail(here))
        r.expect("->", f"@{topology}")
        to, loc = read_place(r), r.loc
        route: Any = r.word("a route")
        if route not in ROUTES:
            r.fail(f"{route!r} is no route; there are {', '.join(ROUTES)}", loc=loc)
        return TransferPeer(src, dst, type, topology, to, route, *self._tail(here))

    def _loop(self, steps: str, here: Loc) -> Loop:
        r = self.r
        r.expect("max_steps", "loop")
        max_steps = r.integer("the largest number of steps")
        if max_steps < 1:
            r.fail(f"max_steps is {max_steps}, wanted 1 or more", loc=here)
        limit = r.value() if r.accept("limit") else None
        stop = r.value() if r.accept("stop") else None
        r.expect("{", "the loop's head")
        carried: list[Carried] = []
        while r.accept("carry"):
            names = [r.value()]
            for _ in range(3):
                r.expect("->", f"%{names[-1]}")
                names.append(r.value())
            carried.append(Carried(*names))
        return Loop(
            steps, tuple(carried), self._loop_body(max_steps, here), max_steps, limit, stop, read_loc(r) or here
        )

    def _loop_body(self, max_steps: int, here: Loc) -> tuple[Instruction, ...]:
        self.steps.append(max_steps)
        if len(self.steps) > MAX_NESTING:
            self.r.fail(too_deep(), loc=here)
        check_steps(self.r, self.steps, here)
        body: list[Instruction] = []
        while not self.r.accept("}"):
            body.append(self._instruction())
        self.steps.pop()
        return tuple(body)
