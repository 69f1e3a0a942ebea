"""The compiler, read from top to bottom.

canonicalise, infer-placement, insert-transfers, hoist, canonicalise, verify-placement, fuse    graph -> graph
lower, schedule, plan-memory                                                                    graph -> program
verify, admit                                                                                   the proof, the fit
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from vxgraph import dsl
from vxgraph.errors import GraphError, InternalError, ProgramError
from vxgraph.ir.graph import Graph, dims_of
from vxgraph.ir.verify import verify
from vxgraph.passes.canonicalise import canonicalise
from vxgraph.passes.fuse import fuse
from vxgraph.passes.hoist import hoist
from vxgraph.passes.infer_placement import infer_placement
from vxgraph.passes.insert_transfers import insert_transfers
from vxgraph.passes.pipeline import Pass, Pipeline
from vxgraph.passes.verify_placement import verify_placement
from vxgraph.program.admission import admit, memory_uses, staged_bytes
from vxgraph.program.lower import lower
from vxgraph.program.memory import Peak, plan_memory
from vxgraph.program.model import Arena, HostInput, Program
from vxgraph.program.schedule import schedule
from vxgraph.program.verify import verify_program
from vxgraph.topology.ids import Topology
from vxgraph.topology.model import Machine
from vxgraph.topology.routes import Router

Mode = Literal["auto", "strict"]


def compile(graph: Graph | dsl.Graph, machine: Machine, *, place: Mode = "auto") -> Program:
    """A proved program that fits `machine`.

    `place="strict"` wants every node pinned. Raises GraphError, PlacementError, MachineError or AdmissionError, with
    the user's file:line, where that cannot be done.
    """
    program = plan(graph, machine, place=place)
    admit(program)
    return program


def plan(graph: Graph | dsl.Graph, machine: Machine, *, place: Mode = "auto") -> Program:
    """A proved program, whether it fits or not: what `check` shows the table of."""
    return program_of(place_graph(graph, machine, place=place), machine)


def pipeline(machine: Machine, *, place: Mode = "auto") -> Pipeline:
    """The passes from the user's graph to a local one."""
    none: frozenset[str] = frozenset()
    placed, local, proved = (frozenset({name}) for name in ("placed", "local", "proved"))
    return Pipeline(
        (
            Pass("canonicalise", canonicalise),
            Pass("infer-placement", partial(infer_placement, machine=machine, strict=place == "strict"), none, placed),
            Pass("insert-transfers", insert_transfers, placed, local),
            Pass("hoist", hoist, local, none),
            Pass("canonicalise-again", canonicalise, local, none),
            Pass("verify-placement", verify_placement, local, proved),
            Pass("fuse", fuse, proved, none),
        )
    )


def place_graph(graph: Graph | dsl.Graph, machine: Machine, *, place: Mode = "auto") -> Graph:
    """The graph with every node placed and every crossing a transfer."""
    built = graph.build() if isinstance(graph, dsl.Graph) else graph
    verify(built)
    _check_symbols(built)
    return pipeline(machine, place=place).run(built)


def _check_symbols(graph: Graph) -> None:
    """GraphError for a symbol that no arg gives a size, and for a param that has one: it is there before any run."""
    for p in graph.params:
        if p.type.symbols:
            raise GraphError(
                f"param %{p.name} is {p.type}, but it is made resident before a run gives {p.type.symbols[0]} its "
                "size; give it fixed dims, or make it an input",
                loc=p.loc,
            )
    bound = {d for i in graph.args for d in i.type.symbols}
    for dim in dims_of(graph):
        if dim.symbolic and dim not in bound:
            raise GraphError(
                f"dim {dim.name} of graph {graph.name!r} has no size at run time: no arg has it in its type"
            )


def program_of(graph: Graph, machine: Machine) -> Program:
    """The program of a placed, local graph."""
    lowered = lower(graph, Router(machine))
    schedule(lowered)
    memory = plan_memory(lowered)
    program = Program(
        name=graph.name,
        machine=machine.name,
        dims=tuple(dims_of(graph)),
        args=tuple(HostInput(i.name, i.type, i.loc) for i in graph.args),
        params=tuple(HostInput(i.name, i.type, i.loc) for i in graph.params),
        arenas=tuple(_arena(t, peak, machine) for t, peak in memory.peaks.items()),
        memories=(),
        slots=memory.slots,
        load=tuple(lowered.load),
        body=tuple(lowered.body),
        results=lowered.results,
        donations=memory.donations,
    )
    program = on_machine(program, machine)
    try:
        verify_program(program)
    except ProgramError as error:
        raise InternalError(f"the plan of {graph.name!r} does not prove: {error}") from error
    return program


def on_machine(program: Program, machine: Machine) -> Program:
    """The same program with the memory table of another machine; MachineError where it lacks a topology."""
    uses = memory_uses(program.arenas, staged_bytes(program, Router(machine)), machine)
    return replace(program, machine=machine.name, memories=uses)


def _arena(topology: Topology, peak: Peak, machine: Machine) -> Arena:
    return Arena(
        topology=topology,
        memory=machine.memory_of(topology).name,
        nbytes=peak.params + peak.kv + peak.transient,
        params=peak.params,
        kv=peak.kv,
        activations=peak.transient - peak.staging,
        staging=peak.staging,
    )
