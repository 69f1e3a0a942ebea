"""From a local graph to instructions in program order.

    upload of a param                ->  the load section
    reshape                          ->  a view: the same bytes, nothing runs
    a capture                        ->  the outer value itself
    a carried value                  ->  one slot for init, arg, next and out; a copy where that cannot be
    everything else                  ->  one instruction on one queue

`Lowered` also says which values share bytes; the memory plan gives each group one slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from vxgraph import ops
from vxgraph.errors import GraphError, InternalError, Loc
from vxgraph.ir.graph import Graph, Node, Result
from vxgraph.ir.types import TensorType
from vxgraph.passes.rewrite import FreshNames
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
    reads,
)
from vxgraph.topology.ids import Topology
from vxgraph.topology.routes import Router


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """A value in device memory."""

    type: TensorType
    topology: Topology
    loc: Loc | None


@dataclass
class Lowered:
    """Instructions without `after`, and what the memory plan must know of values."""

    load: list[Instruction] = field(default_factory=list[Instruction])
    body: list[Instruction] = field(default_factory=list[Instruction])
    results: tuple[Result, ...] = ()
    values: dict[str, DeviceValue] = field(default_factory=dict[str, DeviceValue])
    same: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # values that must share a slot
    waits: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])  # beyond reading: by name


def lower(graph: Graph, router: Router) -> Lowered:
    """Instructions of a graph whose every operand is local."""
    return _Lower(graph, router).run()


class _Lower:
    def __init__(self, graph: Graph, router: Router) -> None:
        self.graph = graph
        self.router = router
        self.fresh = FreshNames(graph)
        self.params = {p.name: p for p in graph.params}
        self.uploads: dict[str, list[Upload]] = {name: [] for name in self.params}
        self.out = Lowered()
        self.alias: dict[str, str] = {}  # captures -> outer values

    def run(self) -> Lowered:
        self.out.body = self._instructions(self.graph)
        # A param's replicas one after the other: the host holds its array from the first upload to the last.
        self.out.load = [upload for replicas in self.uploads.values() for upload in replicas]
        self.out.results = tuple(Result(r.name, self._host(r.value, f"result {r.name!r}")) for r in self.graph.results)
        return self.out

    def _name(self, value: str) -> str:
        while value in self.alias:
            value = self.alias[value]
        return value

    def _host(self, value: str, what: str) -> str:
        """The name of a value that a run reads on the host; GraphError for a param, which is there at load only."""
        name = self._name(value)
        if name in self.params:
            raise GraphError(
                f"{what} is param %{name} itself, which a run has on devices only; "
                "send it to one first, value.to(vx.CPU[0]) say, and use what that gives",
                loc=self.params[name].loc,
            )
        return name

    def _define(self, name: str, type: TensorType, topology: Topology, loc: Loc | None) -> None:
        self.out.values[name] = DeviceValue(type, topology, loc)

    def _instructions(self, graph: Graph) -> list[Instruction]:
        found: list[Instruction] = []
        readers = _last_reads(graph)
        emits: dict[str, list[str]] = {}
        for r in graph.emits:
            emits.setdefault(r.value, []).append(r.name)
        for i in graph.inputs:  # what comes in on the host is emitted at once
            found += [Emit(name, self._host(i.name, f"emit {name!r}")) for name in emits.get(i.name, [])]
        for position, node in enumerate(graph.nodes):
            found += self._node(node, graph, position, readers)
            for out in node.outputs:
                found += [Emit(name, out) for name in emits.get(out, [])]
        return found

    def _node(self, node: Node, graph: Graph, position: int, readers: dict[str, int]) -> Iterable[Instruction]:
        match node.op:
            case ops.Upload(dst=dst):
                return self._upload(node, dst)
            case ops.Download(src=src):
                source = self._name(node.inputs[0])
                return [Download(source, node.name, node.types[0], src, (), node.why, node.loc)]
            case ops.TransferPeer(src=src, dst=dst):
                return [self._transfer(node, src, dst)]
            case ops.Loop():
                return self._loop(node, node.op, graph, position, readers)
            case _:
                return self._dispatch(node)

    def _upload(self, node: Node, dst: Topology) -> Iterable[Instruction]:
        source = self._name(node.inputs[0])
        self._define(node.name, node.types[0], dst, node.loc)
        instr = Upload(source, node.name, node.types[0], dst, (), node.why, node.loc)
        if source in self.params:
            self.uploads[source].append(instr)
            return []
        return [instr]

    def _transfer(self, node: Node, src: Topology, dst: Topology) -> Instruction:
        self._define(node.name, node.types[0], dst, node.loc)
        kind = self.router.route(src, dst).kind
        source = self._name(node.inputs[0])
        return TransferPeer(source, node.name, node.types[0], src, dst, kind, (), node.why, node.loc)

    def _dispatch(self, node: Node) -> Iterable[Instruction]:
        if node.place is None:
            raise InternalError(f"lower: %{node.name} has no place")
        for out, type in zip(node.outputs, node.types, strict=True):
            self._define(out, type, node.place, node.loc)
        inputs = tuple(self._name(i) for i in node.inputs)
        if node.op.alias:
            self.out.same.append((inputs[0], node.name))
            return [View(inputs[0], node.name, node.types[0], node.place, node.loc)]
        return [Dispatch(node.op, inputs, node.outputs, node.types, node.place, (), node.why, node.loc)]

    # Loops.

    def _loop(
        self, node: Node, loop: ops.Loop, graph: Graph, position: int, readers: dict[str, int]
    ) -> Iterable[Instruction]:
        before: list[Instruction] = []
        captured = node.inputs[loop.carried : len(loop.body.args)]
        self.alias.update((a.name, v) for a, v in zip(loop.captures, captured, strict=True))
        inits = node.inputs[: loop.carried]
        carried: list[Carried] = []
        for k, (arg, init, out) in enumerate(zip(loop.carried_args, inits, node.outputs, strict=False)):
            if arg.place is None:
                raise InternalError(f"lower: carried %{arg.name} has no place")
            self._define(arg.name, arg.type, arg.place, arg.loc)
            self._define(out, arg.type, arg.place, node.loc)
            name = self._name(init)
            lives_on = readers.get(init, -1) > position or name in map(self._name, (*captured, *inits[:k]))
            if lives_on or init in self.alias or self._is_resident(name) or self._is_alias(name):
                copy = self._copy(
                    name, f"{arg.name}.init", arg.type, arg.place, "the loop changes its own copy", node.loc
                )
                before.append(copy)
                name = copy.name
            carried.append(Carried(name, arg.name, "", out))
        body = self._instructions(loop.body)
        carried = self._close(loop, carried, body)
        body = self._host_last(body, carried)
        for c in carried:
            self.out.same += [(c.init, c.arg), (c.arg, c.next), (c.arg, c.out)]
        steps = node.outputs[-1]
        limit = self._host(node.inputs[-1], f"the limit of loop %{steps}") if loop.limited else None
        stop = self._host(loop.stop, f"the stop predicate of loop %{steps}") if loop.stop is not None else None
        return [*before, Loop(steps, tuple(carried), tuple(body), loop.max_steps, limit, stop, node.loc)]

    def _is_resident(self, name: str) -> bool:
        return any(upload.dst == name for replicas in self.uploads.values() for upload in replicas)

    def _is_alias(self, name: str) -> bool:
        return any(name in pair for pair in self.out.same)

    def _copy(self, source: str, base: str, type: TensorType, place: Topology, why: str, loc: Loc | None) -> Dispatch:
        name = self.fresh(base)
        self._define(name, type, place, loc)
        return Dispatch(ops.Copy(), (source,), (name,), (type,), place, (), why, loc)

    def _close(self, loop: ops.Loop, carried: list[Carried], body: list[Instruction]) -> list[Carried]:
        """The step's end: every next value in its arg's slot, through a copy where it cannot be made there."""
        nexts = [self._name(v) for v in loop.next_values]
        views = {i.dst: i.src for i in body if isinstance(i, View)}
        makers = [_origin(value, views) for value in nexts]  # the value of which the next one is a view
        defined = {out for instr in body for out in _defines(instr)}
        for k, (c, value) in enumerate(zip(carried, nexts, strict=True)):
            if value != c.arg and (makers[k] not in defined or makers[k] in makers[:k]):
                nexts[k] = makers[k] = self._append_copy(c, value, body, "handed on unchanged")
        step = _Step(body)
        for k, (c, value) in enumerate(zip(carried, nexts, strict=True)):
            if value != c.arg and not self._takes_over(c.arg, makers[k], step):
                self.out.waits.pop(value, None)  # a copy that another one follows does not write the arg's bytes
                nexts[k] = self._append_copy(c, value, body, f"%{c.arg} is still read when %{value} is made")
        return [Carried(c.init, c.arg, value, c.out) for c, value in zip(carried, nexts, strict=True)]

    def _host_last(self, body: list[Instruction], carried: Iterable[Carried]) -> list[Instruction]:
        """What the host waits for at a step's end goes last, so that a device has the whole step before anyone waits.

        A download stays where it is if the step reads it again, or if it reads what the step began with; and all stay
        in a step that holds a loop, which takes over values that it is given.
        """
        if any(isinstance(i, Loop) for i in body):
            return body
        begun = set[str]().union(*(self._group(c.arg) for c in carried))
        again = {i.src for i in body if isinstance(i, Upload)}
        last = {i.dst for i in body if isinstance(i, Download) and i.dst not in again and i.src not in begun}
        late = [i for i in body if isinstance(i, Emit) or (isinstance(i, Download) and i.dst in last)]
        moved = set(map(id, late))
        return [*(i for i in body if id(i) not in moved), *late]

    def _append_copy(self, c: Carried, value: str, body: list[Instruction], why: str) -> str:
        v = self.out.values[c.arg]
        copy = self._copy(value, f"{c.arg}.next", v.type, v.topology, why, v.loc)
        group = self._group(c.arg)
        readers = (i for i in body if isinstance(i, Download | TransferPeer) and i.src in group)
        self.out.waits[copy.name] = tuple(i.name for i in readers if i.topology == v.topology)
        body.append(copy)
        return copy.name

    def _group(self, value: str) -> set[str]:
        """The values that share the value's bytes so far."""
        group = {value}
        for a, b in self.out.same:
            if a in group or b in group:
                group |= {a, b}
        return group

    def _takes_over(self, arg: str, value: str, step: _Step) -> bool:
        """Whether `value` can be made in the arg's slot: the arg's last reader is done, on the same queue."""
        group = self._group(arg)
        topology = self.out.values[arg].topology
        made = step.maker[value]
        if not _on_compute(step.body[made], topology):
            return False
        for k in {k for v in group for k in step.readers[v]}:
            instr = step.body[k]
            if k > made or not _on_compute(instr, topology):
                return False
            if k == made and not _donates(instr, group):
                return False
        return True


class _Step:
    """A loop's body with who makes and who reads each value, by position."""

    def __init__(self, body: list[Instruction]) -> None:
        self.body = body
        self.maker = {out: k for k, instr in enumerate(body) for out in _defines(instr)}
        self.readers: dict[str, list[int]] = defaultdict(list)
        for k, instr in enumerate(body):
            for value in _reads(instr):
                self.readers[value].append(k)


def _origin(value: str, views: Mapping[str, str]) -> str:
    while value in views:
        value = views[value]
    return value


def _last_reads(graph: Graph) -> dict[str, int]:
    """The position of the last node that reads each value; past the end for what leaves the graph."""
    last = {i: k for k, node in enumerate(graph.nodes) for i in node.inputs}
    last.update((r.value, len(graph.nodes)) for r in graph.outlets)
    return last


def _defines(instr: Instruction) -> tuple[str, ...]:
    match instr:
        case Dispatch(outputs=outputs):
            return outputs
        case Upload(dst=dst) | TransferPeer(dst=dst):
            return (dst,)
        case _:
            return ()


def _reads(instr: Instruction) -> Iterator[str]:
    """The device values that an instruction reads, a loop's body included."""
    match instr:
        case Emit() | View():
            pass
        case Loop():
            yield from (c.init for c in instr.carried)
            for inner in instr.body:
                yield from _reads(inner)
        case _:
            yield from reads(instr)


def _on_compute(instr: Instruction, topology: Topology) -> bool:
    return isinstance(instr, Dispatch) and instr.topology == topology


def _donates(instr: Instruction, values: set[str]) -> bool:
    """Whether the instruction reads `values` only as the operand that its op may overwrite."""
    if not isinstance(instr, Dispatch) or instr.op.donates is None:
        return False
    others = instr.inputs[: instr.op.donates] + instr.inputs[instr.op.donates + 1 :]
    return instr.inputs[instr.op.donates] in values and not any(v in values for v in others)
