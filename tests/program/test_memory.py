"""The arena plan: nothing alive is overwritten, bytes are used again, caches stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import vxgraph as vx
from examples.llama2.config import preset
from examples.llama2.model import PLACEMENTS
from examples.llama2.model import build as llama
from tests.program.samples import SAMPLES, A, B, D, ramp
from tests.strategies import graphs
from vxgraph.errors import ProgramError
from vxgraph.ir.graph import Graph
from vxgraph.program.instructions import Emit, Instruction, Loop, Queued, TransferPeer, View, flatten, reads, writes
from vxgraph.program.model import ALIGNMENT, Program
from vxgraph.program.verify import verify_program

MACHINE = vx.load_machine("cpu-x8")
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# Overlaps, found by brute force: the order of all instructions as reachability, every pair of uses of a byte compared.


@dataclass
class Unrolled:
    """Instructions with loops done twice, each with the set of those that are done when it starts."""

    instrs: list[Queued] = field(default_factory=list[Queued])
    before: list[set[int]] = field(default_factory=list[set[int]])
    floor: set[int] = field(default_factory=set[int])
    by_name: dict[str, int] = field(default_factory=dict[str, int])
    last: dict[object, int] = field(default_factory=dict[object, int])

    def walk(self, instructions: Iterable[Instruction]) -> None:
        for instr in instructions:
            match instr:
                case Emit() | View():
                    pass
                case Loop():
                    for _ in range(2):
                        self.barrier()
                        self.walk(instr.body)
                    self.barrier()
                case _:
                    self.add(instr)

    def add(self, instr: Queued) -> None:
        done = set(self.floor)
        earlier = [self.by_name[a] for a in instr.after]
        if instr.queue in self.last:
            earlier.append(self.last[instr.queue])
        for k in earlier:
            done |= self.before[k] | {k}
        self.by_name[instr.name] = self.last[instr.queue] = len(self.instrs)
        self.instrs.append(instr)
        self.before.append(done)

    def barrier(self) -> None:
        self.floor = set(range(len(self.instrs)))


def unordered_conflicts(program: Program) -> Iterator[str]:
    """Pairs of instructions that use the same byte, one writing it, with no order between them."""
    plan = Unrolled()
    plan.walk(program.load)
    plan.barrier()
    plan.walk(program.body)
    uses = [
        (k, program.slot_of[v], write)
        for k, i in enumerate(plan.instrs)
        for values, write in ((reads(i), False), (writes(i), True))
        for v in values
    ]
    for n, (k, a, a_writes) in enumerate(uses):
        for m, b, b_writes in uses[n + 1 :]:
            shared = a.topology == b.topology and max(a.offset, b.offset) < min(a.end, b.end)
            if k != m and shared and (a_writes or b_writes) and k not in plan.before[m] and m not in plan.before[k]:
                yield f"%{plan.instrs[k].name} and %{plan.instrs[m].name}"


@pytest.mark.parametrize("name", SAMPLES)
def test_two_uses_of_a_byte_of_which_one_writes_are_ordered(name: str) -> None:
    assert list(unordered_conflicts(SAMPLES[name].program())) == []


@given(graphs())
@QUICK
def test_in_any_graph_two_uses_of_a_byte_of_which_one_writes_are_ordered(graph: Graph) -> None:
    assert list(unordered_conflicts(vx.compile(graph, MACHINE))) == []


def alive_together(program: Program) -> Iterator[str]:
    """Pairs of values of a straight program that are both yet to be read, in bytes that they share."""
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    of: dict[str, str] = {}  # a view -> whose bytes it is
    for k, (i, _) in enumerate(flatten((*program.load, *program.body))):
        if isinstance(i, View):
            of[i.dst] = of.get(i.src, i.src)
        elif isinstance(i, Queued):
            for v in reads(i):
                dies[of.get(v, v)] = k
            for v in writes(i):
                born[v] = k
    values = [v for v in born if v in dies]
    for n, a in enumerate(values):
        for b in values[n + 1 :]:
            s, t = program.slot_of[a], program.slot_of[b]
            shared = s.topology == t.topology and max(s.offset, t.offset) < min(s.end, t.end)
            donated = any(d.donated and {d.value, d.operand} == {a, b} for d in program.donations)
            if shared and born[a] < dies[b] and born[b] < dies[a] and not donated:
                yield f"%{a} and %{b}"


@given(graphs(loops=0, max_steps=16))
@QUICK
def test_no_two_values_that_are_both_yet_to_be_read_share_a_byte(graph: Graph) -> None:
    assert list(alive_together(vx.compile(graph, MACHINE))) == []


@given(graphs())
@QUICK
def test_arenas_add_up_and_slots_are_aligned_and_inside(graph: Graph) -> None:
    _arenas_add_up(vx.compile(graph, MACHINE))


def test_a_param_of_no_bytes_shares_its_offset_with_the_next_one_and_takes_none_of_the_arena() -> None:
    for sizes in ((0, 3), (3, 0), (0, 0, 3)):
        with vx.Graph("g") as graph, vx.on(A):
            for k, n in enumerate(sizes):
                vx.output(f"o{k}", vx.silu(vx.param(f"p{k}", vx.f32[n, D])))
        program = vx.compile(graph, vx.load_machine("h200-x2"))
        _arenas_add_up(program)
        assert program.arenas[0].params == ALIGNMENT


def _arenas_add_up(program: Program) -> None:
    for a in program.arenas:
        slots = [s for s in program.slots if s.topology == a.topology]
        assert a.params + a.kv + a.activations + a.staging == a.nbytes
        assert all(s.offset % ALIGNMENT == 0 and s.offset >= 0 and s.end <= a.nbytes for s in slots)
        assert a.nbytes - max(s.end for s in slots) < ALIGNMENT
        # A set of both: a param of no bytes is where the next one is.
        resident = {(s.offset, s.nbytes) for s in slots if s.kind == "param"}
        assert sum(-(-nbytes // ALIGNMENT) * ALIGNMENT for _, nbytes in resident) == a.params


# Donation.


def test_a_cache_is_one_buffer_from_the_transfer_that_hands_it_over_to_the_read_after_the_loop() -> None:
    program = SAMPLES["hand_over"].program()
    names = ("mul.gpu1", "cache_init", "cache_init.step", "cache_append", "loop.1")
    assert {(program.slot_of[n].topology, program.slot_of[n].offset) for n in names} == {(B, 0)}
    assert [(d.value, d.operand, d.donated) for d in program.donations] == [
        ("cache_init", "mul.gpu1", True),
        ("cache_append", "cache_init.step", True),
    ]
    assert next(a for a in program.arenas if a.topology == B).kv == 8 * 2 * 4 * 4


def test_llama_s_hand_over_lands_in_the_caches_and_no_step_copies_one() -> None:
    config, machine = preset("smollm2-135m"), vx.load_machine("h200-x2")
    placement = PLACEMENTS["disaggregated"](machine, config.layers)
    program = vx.compile(llama(config, placement, max_len=256), machine)
    caches = [d for d in program.donations if d.value.startswith("handover.")]
    landings = {i.dst: i for i in program.body if isinstance(i, TransferPeer)}
    assert len(caches) == 2 * config.layers
    for d in caches:
        assert d.donated
        assert program.slot_of[landings[d.operand].dst].offset == program.slot_of[d.value].offset
    assert all(d.donated for d in program.donations)
    assert program.memory[1].kv == 2 * config.layers * 256 * config.kv_heads * config.head_dim * 4


def cache_graph(body: Callable[[vx.Value, vx.Value, vx.Value], None]) -> Program:
    """`body(cache, row, at)` on one place; the cache is made from an arg."""
    with vx.Graph("g") as graph, vx.on(A):
        rows, row = vx.input("rows", vx.f32[8, D]), vx.input("row", vx.f32[1, D])
        body(vx.cache_init(vx.f32[8, D], rows, name="c"), row, vx.input("at", vx.i32[()]))
    return vx.compile(graph, vx.load_machine("h200-x2"))


def read_later(c: vx.Value, row: vx.Value, at: vx.Value) -> None:
    new = vx.cache_append(c, row, at, name="new")
    vx.output("y", new - c)


def read_in_the_next_step(c: vx.Value, row: vx.Value, at: vx.Value) -> None:
    def step(x: vx.Value) -> list[vx.Value]:
        return [vx.cache_append(c, row, at, name="new")[:4] + x]

    vx.output("y", vx.loop(step, [row.reshape(D) * vx.cast(at, vx.f32) + c[:4]], max_steps=2)[0][0])


def read_by_a_copy_queue(c: vx.Value, row: vx.Value, at: vx.Value) -> None:
    vx.output("y", c)
    vx.output("z", vx.cache_append(c, row, at, name="new"))


def resident(c: vx.Value, row: vx.Value, at: vx.Value) -> None:
    vx.output("y", vx.cache_append(vx.param("w", vx.f32[8, D]), row, at, name="new"))


def two_in_a_step(c: vx.Value, row: vx.Value, at: vx.Value) -> None:
    def step(c: vx.Value) -> list[vx.Value]:
        return [vx.cache_append(vx.cache_append(c, row, at, name="new"), row, at + 1, name="next")]

    vx.output("y", vx.loop(step, [c], max_steps=2)[0][0])


CANNOT = (read_later, read_in_the_next_step, read_by_a_copy_queue, resident, two_in_a_step)


@pytest.mark.parametrize("body", CANNOT, ids=lambda f: f.__name__)
def test_it_says_where_a_cache_cannot_be_taken_over_and_why(
    body: Callable[[vx.Value, vx.Value, vx.Value], None], golden: Callable[..., None]
) -> None:
    lines = [line.strip() for line in cache_graph(body).text().splitlines()]
    golden("\n".join(line for line in lines if line.startswith(("copy %", "donation %"))) + "\n")


@pytest.mark.parametrize("body", CANNOT, ids=lambda f: f.__name__)
def test_a_cache_that_cannot_be_taken_over_is_copied_and_right(
    body: Callable[[vx.Value, vx.Value, vx.Value], None],
) -> None:
    program = cache_graph(body)
    new = next(d for d in program.donations if d.value == "new")
    assert not new.donated
    inputs = {"rows": ramp(8, 4), "row": -ramp(1, 4), "at": np.int32(2)}
    with vx.Session(program, {"w": ramp(8, 4)} if body is resident else {}, bind="numpy") as session:
        first, second = session.run(inputs), session.run(inputs)
    cache = ramp(8, 4)
    cache[2:3] = -ramp(1, 4)
    if body is read_later:
        cache -= ramp(8, 4)
    if body is two_in_a_step:
        cache[3:4] = -ramp(1, 4)
    for found in (first, second):
        if body is read_in_the_next_step:
            want = (-ramp(1, 4) * 2 + ramp(8, 4)[:4]) + 2 * cache[:4]
            np.testing.assert_allclose(found["y"], want, rtol=1e-6)
        else:
            np.testing.assert_array_equal(found["z" if "z" in found else "y"], cache)


def test_a_cache_is_not_taken_over_by_an_append_of_rows_that_are_the_same_bytes() -> None:
    """A reshape is the same bytes under another name."""
    with vx.Graph("g") as graph, vx.on(A):
        rows = vx.input("rows", vx.f32[8, 4])
        cache = rows.reshape(32).reshape(8, 4, name="cache")
        vx.output("y", vx.cache_append(cache, rows, vx.constant(0), name="new"))
    program = vx.compile(graph, vx.load_machine("h200"))
    assert [(d.value, d.donated, d.why) for d in program.donations] == [
        ("new", False, "%cache is read later by %new"),
    ]
    slots = program.slot_of
    new = replace(slots["new"], offset=slots["cache"].offset)
    over = replace(program, slots=tuple(new if s.value == "new" else s for s in program.slots))
    with pytest.raises(ProgramError) as error:
        verify_program(over)
    assert error.value.message == "cache_append %new on gpu:0: writes %new over its own operand %rows.gpu0"


# Reuse.


def chain(length: int) -> Program:
    with vx.Graph("chain") as graph, vx.on(A):
        x = vx.input("x", vx.f32[16, 16])
        for _ in range(length):
            x = vx.softmax(x)
        vx.output("y", x)
    return vx.compile(graph, vx.load_machine("h200"))


def test_a_long_chain_needs_no_more_than_a_short_one() -> None:
    assert chain(200).arenas[0].nbytes == chain(4).arenas[0].nbytes == 2 * 16 * 16 * 4


def test_a_long_chain_that_changes_places_needs_no_more_than_a_short_one() -> None:
    def zigzag(length: int) -> list[int]:
        with vx.Graph("zigzag") as graph:
            x = vx.input("x", vx.f32[16, 16])
            for k in range(length):
                with vx.on((A, B)[k % 2]):
                    x = vx.softmax(x)
            vx.output("y", x)
        return [a.nbytes for a in vx.compile(graph, vx.load_machine("h200-x2")).arenas]

    assert zigzag(100) == zigzag(8)


def test_a_value_that_a_loop_s_every_step_reads_is_not_overwritten_in_one() -> None:
    def step(y: vx.Value) -> list[vx.Value]:
        for _ in range(6):
            y = vx.softmax(y)
        return [y + kept]

    with vx.Graph("g") as graph, vx.on(A):
        x = vx.input("x", vx.f32[4, 4])
        kept = x * 2
        (y,), _ = vx.loop(step, [x + 1], max_steps=3)
        vx.output("y", y)
    program = vx.compile(graph, vx.load_machine("h200"))
    keeper = program.slot_of["mul"]
    loop = next(i for i in program.body if isinstance(i, Loop))
    for i, _ in flatten(loop.body):
        for v in writes(i) if isinstance(i, Queued) else ():
            assert program.slot_of[v].end <= keeper.offset or keeper.end <= program.slot_of[v].offset


def test_values_without_elements_take_no_bytes_and_run() -> None:
    with vx.Graph("empty") as graph:
        x, w = vx.input("x", vx.f32[0, 4]), vx.param("w", vx.f32[4, 0])
        with vx.on(A):
            h = x @ w
            k = w @ x
        with vx.on(B):
            vx.output("h", h + 1)
            vx.output("k", k + 1)
    program = vx.compile(graph, vx.load_machine("h200-x2"))
    assert {s.value: s.nbytes for s in program.slots if s.value in ("matmul", "x.gpu0", "matmul.1")} == {
        "x.gpu0": 0,
        "matmul": 0,
        "matmul.1": 64,
    }
    with vx.Session(program, {"w": np.zeros((4, 0), np.float32)}, bind="numpy", audit=True) as session:
        found = session.run({"x": np.zeros((0, 4), np.float32)})
        assert session.report.conforms()
    assert found["h"].shape == (0, 0)
    np.testing.assert_array_equal(found["k"], np.ones((4, 4), np.float32))


def test_four_places_have_four_arenas_with_what_each_holds() -> None:
    with vx.Graph("four") as graph:
        x = vx.input("x", vx.f32[16, 16])
        for k in range(4):
            with vx.on(vx.CPU[k]):
                x = x @ vx.param(f"w{k}", vx.f32[16, 16])
        vx.output("y", x)
    program = vx.compile(graph, MACHINE)
    assert [(str(a.topology), a.memory, a.params, a.staging, a.activations) for a in program.arenas] == [
        (f"cpu:{k}", f"ram{k}", 1024, 1024, 1024) for k in range(4)
    ]
