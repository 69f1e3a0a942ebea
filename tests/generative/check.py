"""What must hold of every recipe, and which of it does not.

    1. results      four ways to the same bits: the graph's own meaning, the plan in any legal order, the NumPy backend
                    audited, and the sanitizer in a random legal order
    2. texts        graph, placed graph and program read back from their texts, equal and with equal texts
    3. conformance  what ran is what was planned; the sanitizer reports no hazard
    4. digest       a hash of all texts, for another process with other hash seeds to find again

The graph's meaning is its ops' references on one device. The plan, simulated with the references, must give it bit for
bit: no pass and no schedule may change a bit. The NumPy backend's kernels promise the bits of the references only where
arithmetic has one answer; so its run is held, bit for bit, against its own kernels applied one after the other to the
placed graph, and each kernel there against its reference on the same operands, within `near`. An error that is within
the tolerance can then not grow, or tip a comparison, on its way to the result.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

import vxgraph as vx
from tests.generative.build import arrays, build, machine_of, params
from tests.generative.recipe import Recipe
from tests.program.interpret import interpret
from tests.program.simulate import simulate_calls
from vxgraph import ops
from vxgraph.ir.graph import Graph, Node
from vxgraph.ir.types import Array, Sizes, TensorType
from vxgraph.program.admission import admit
from vxgraph.program.compile import place_graph, program_of
from vxgraph.program.instructions import Dispatch, Loop, flatten
from vxgraph.program.model import Program
from vxgraph.runtime.backends.numpy import NumpyBackend
from vxgraph.runtime.backends.numpy.kernels import By, Kernel, compile_kernel
from vxgraph.runtime.backends.numpy.native.library import Library, library
from vxgraph.runtime.backends.numpy.native.pool import Pool
from vxgraph.runtime.backends.sanitizer import SanitizerBackend
from vxgraph.runtime.backends.sanitizer.order import Order
from vxgraph.runtime.binding import Binding

Results = dict[str, Array]
Item = TypeVar("Item")


class CheckError(AssertionError):
    """A check that does not hold."""


@dataclass(frozen=True)
class Checked:
    """What a recipe came to: its texts' digest and what the report counts."""

    digest: str
    counts: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Choices:
    """A schedule written down: the queue that goes on is `order`'s next number, modulo those that can."""

    order: tuple[int, ...]
    at: int = 0

    def choice(self, seq: Sequence[Item], /) -> Item:
        if not self.order:
            return seq[0]
        self.at += 1
        return seq[self.order[self.at % len(self.order)] % len(seq)]


@dataclass(frozen=True)
class Compiled:
    """A recipe's graph, placed graph and program."""

    graph: Graph
    placed: Graph
    program: Program

    @cached_property
    def texts(self) -> tuple[str, str, str]:
        """Their texts, none of which may depend on the process."""
        return self.graph.text(), self.placed.text(), self.program.text()

    @property
    def digest(self) -> str:
        """Of all three texts."""
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()


def compiled(recipe: Recipe) -> Compiled:
    """What `vx.compile` does, with the placed graph kept. Compiling proves the program (`verify_program`)."""
    machine = machine_of(recipe.machine)
    graph = build(recipe)
    placed = place_graph(graph, machine)
    program = program_of(placed, machine)
    admit(program)
    return Compiled(graph, placed, program)


def check(recipe: Recipe) -> Checked:
    """CheckError, or whatever error came up, where something does not hold."""
    c = compiled(recipe)
    program = read_back(c, both=recipe.data % 4 == 0)
    given = params(c.graph, recipe.data)
    runs = [arrays(c.graph, sizes, recipe.data + k) for k, sizes in enumerate(recipe.runs)]
    with np.errstate(all="ignore"):
        wanted = [interpret(c.graph, inputs, given) for inputs in runs]
        same("the plan in a legal order", wanted, simulate_calls(c.program, runs, given, Choices(recipe.order)))
        by_kernels = [interpret(c.placed, inputs, given, by_kernel) for inputs in runs]
    if recipe.data % 2 == 0:  # the sanitizer runs the same kernels
        same("the NumPy backend", by_kernels, on(NumpyBackend(), "numpy:plain", c.program, runs, given))
    sanitizer = SanitizerBackend(Order(replay=recipe.order * 16))
    same("the sanitizer, on the program read back", by_kernels, on(sanitizer, "sanitizer", program, runs, given))
    return Checked(c.digest, counts_of(c, recipe))


# Texts.


def read_back(c: Compiled, *, both: bool) -> Program:
    """The program from its text; CheckError where a text does not say all there is. `both`: the user's graph, too."""
    graphs = [("the placed graph", c.placed, c.texts[1])]
    if both:  # the placed graph has the same ops, and more
        graphs.append(("the graph", c.graph, c.texts[0]))
    for what, graph, text in graphs:
        again = vx.parse_graph(text)
        if again != graph or again.text() != text:
            raise CheckError(f"{what} does not read back from its text:\n{text}\n{again.text()}")
    text = c.texts[2]
    program = vx.parse_program(text)
    if program != c.program or program.text() != text:
        raise CheckError(f"the program does not read back from its text:\n{text}\n{program.text()}")
    return program


# Results.


def on(
    backend: NumpyBackend, target: str, program: Program, runs: Iterable[Mapping[str, Any]], given: Mapping[str, Any]
) -> list[Results]:
    """The runs' results on a backend, audited; ConformanceError or HazardError where it was luck."""
    binding = Binding(dict.fromkeys(program.topologies, (backend, target)))
    found: list[Results] = []
    with vx.Session(program, given, binding, audit=target == "numpy:plain") as session:
        for inputs in runs:
            found.append(session.run(inputs))
            session.report.conforms()
    return found


def same(how: str, wanted: Sequence[Results], found: Sequence[Results]) -> None:
    """CheckError where results differ in a bit; all NaNs are one, and an emit that never came is an empty array."""
    for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
        for name in a.keys() | b.keys():
            if name not in a and len(b[name]) == 0:
                continue
            if name not in a or name not in b or not same_bits(a[name], b[name]):
                raise CheckError(f"{how}, run {k}: {name!r} is {show(b.get(name))}, wanted {show(a.get(name))}")


def show(x: Array | None) -> str:
    return "not there" if x is None else f"{x.dtype}{list(x.shape)} {x.ravel()[:12].tolist()}"


def same_bits(a: Array, b: Array) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "iub":
        return False
    odd = np.isnan(a) & np.isnan(b)
    return bool((odd | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}"))).all())


# Kernels.


@lru_cache(maxsize=4096)
def kernel_of(op: ops.Op, ins: tuple[TensorType, ...], outs: tuple[TensorType, ...]) -> Kernel:
    return compile_kernel(op, ins, outs, vx.CPU[0])


@cache
def pool() -> Pool | None:
    found = library()
    return Pool(found, threads=1) if isinstance(found, Library) else None  # each core has a process of its own


def by_kernel(node: Node, types: tuple[TensorType, ...], sizes: Sizes, operands: list[Array]) -> tuple[Array, ...]:
    """NumPy's kernel on operands of its own; CheckError where it, or C's, is not near the op's reference."""
    wanted = node.op.reference(sizes, *operands)
    in_c = compile_kernel(node.op, types, node.types, vx.CPU[0], pool())
    if in_c.by == "native":
        ran(in_c, node, sizes, operands, wanted)
    return ran(compile_kernel(node.op, types, node.types, vx.CPU[0]), node, sizes, operands, wanted)


def ran(
    kernel: Kernel, node: Node, sizes: Sizes, operands: list[Array], wanted: tuple[Array, ...]
) -> tuple[Array, ...]:
    """What one kernel gives."""
    outs = [np.zeros(t.shape(sizes), t.dtype.numpy) for t in node.types]
    kernel.run([np.asarray(x, order="C") for x in operands], outs, sizes)
    for out, value in zip(outs, wanted, strict=True):
        if isinstance(node.op, ops.CacheInit):  # the other rows are unspecified
            rows = len(operands[0]) if operands else 0
            out, value = out[:rows], value[:rows]
        if not near(node.op, value, out, operands, kernel.by):
            raise CheckError(
                f"%{node.name}: the {kernel.by} kernel of {node.op.name} gives {show(out)}, its reference {show(value)}"
            )
    return tuple(outs)


# Ops whose kernels add, or round, in another order than the reference.
INEXACT = (
    ops.MatMul,
    ops.QuantizedMatMul,
    ops.Attention,
    ops.RmsNorm,
    ops.Rope,
    ops.Softmax,
)
INEXACT_IN_C = (*INEXACT, ops.Exp, ops.Silu, ops.Gelu, ops.Rsqrt, ops.Fused, ops.Sum, ops.Mean, ops.QuantizedMatMul)
TOLERANCE = {2: 1e-2, 4: 1e-5}  # relative to the largest operand or result; by itemsize
LARGE = 1e15  # sums of larger products overflow in one order and not in another


def near(op: ops.Op, wanted: Array, found: Array, operands: Sequence[Array], by: By) -> bool:
    """Equal, with 0.0 equal to -0.0, or (for INEXACT ops of moderate operands) within TOLERANCE."""
    if same_bits(wanted, found) or (found.dtype.kind == "f" and np.array_equal(wanted, found, equal_nan=True)):
        return True
    if not isinstance(op, INEXACT_IN_C if by == "native" else INEXACT) or wanted.dtype.kind in "iub":
        return False
    sizes = [np.abs(x.astype(np.float64)).max(initial=0) for x in operands]
    if not all(size < LARGE for size in sizes):
        return True
    scale = max(1.0, *sizes) * max(1.0, sizes[-1])
    loose = TOLERANCE[wanted.itemsize]
    wide = [x.astype(np.float64) for x in (found, wanted)]
    return np.allclose(*wide, rtol=loose if by == "native" else 0, atol=scale * loose, equal_nan=by == "native")


# What the report counts.


def counts_of(c: Compiled, recipe: Recipe) -> Counter[str]:
    """Ops, places, loops, sizes and so on, each under `what:which`."""
    flat = [(i, depth) for i, depth in flatten((*c.program.load, *c.program.body))]
    found: Counter[str] = Counter()
    found.update({f"op:{n.op.name}" for g in (c.graph, c.placed) for _, n in g.walk()})
    loops = sum(isinstance(i, Loop) for i, _ in flat)
    found[f"places:{len(c.program.topologies)}"] += 1
    found[f"loops:{loops if loops < 4 else '4 and more'}"] += 1
    found[f"depth:{max((depth + isinstance(i, Loop) for i, depth in flat), default=0)}"] += 1
    found[f"instructions:{_bin(len(flat))}"] += 1
    found[f"machine:{recipe.machine}"] += 1
    found["runs"] += len(recipe.runs)
    found["runs with T = 0"] += sum(t == 0 for t, _ in recipe.runs)
    found["dispatches"] += sum(isinstance(i, Dispatch) for i, _ in flat)
    found["transfers"] += len(c.program.transfers)
    found["donations"] += sum(d.donated for d in c.program.donations)
    found["waits"] += sum(len(i.after) for i, _ in flat if hasattr(i, "after"))
    return found


def _bin(n: int) -> str:
    low = 0
    while n > (high := max(4, 2 * low)):
        low = high
    return f"{low + 1 if low else 0} to {high}"
