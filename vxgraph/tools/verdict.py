"""Whether a machine takes a target: the program, the refusal if there is one, and its priced transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vxgraph.errors import AdmissionError, GraphError, TextError, VxError
from vxgraph.program.admission import admit
from vxgraph.program.compile import Mode
from vxgraph.program.model import MemoryUse, Program
from vxgraph.tools.prices import BillRow, Priced, bill, price, sections, show_place
from vxgraph.tools.target import Target, TargetError
from vxgraph.tools.user_code import UserCodeError
from vxgraph.topology.model import Machine


@dataclass(frozen=True)
class Verdict:
    """What `check` says of one machine. `program` is None where there is none, as for a pin that the machine lacks."""

    machine: Machine
    program: Program | None
    refusal: VxError | None
    advice: tuple[str, ...]  # of an admission error: owners and what to make smaller
    priced: tuple[Priced, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it, with keys in a fixed order; sizes in bytes, times in seconds."""
        return {
            "machine": self.machine.name,
            "source": self.machine.source,
            "fits": self.refusal is None,
            "refusal": None if self.refusal is None else str(self.refusal),
            "advice": list(self.advice),
            "program": None if self.program is None else self.program.name,
            "digest": None if self.program is None else self.program.digest,
            "dims": {} if self.program is None else {d.name: d.bound for d in self.program.dims},
            "memory": [_memory(use) for use in (self.program.memories if self.program else ())],
            "bill": [_bill_row(row) for row in bill(self.priced)],
            "transfers": [_transfer(p) for p in self.priced],
            **{section: _total(priced) for section, priced in sections(self.priced).items()},
        }


def judge(target: Target, machine: Machine, place: Mode) -> Verdict:
    """The verdict of one machine. Raises what is wrong with the target itself, whatever the machine."""
    try:
        program = target.program(machine, place=place)
        priced = price(program, machine)
    except (GraphError, TextError, TargetError, UserCodeError):
        raise
    except VxError as error:
        return Verdict(machine, None, error, (), ())
    try:
        admit(program)
    except AdmissionError as error:
        return Verdict(machine, program, AdmissionError(error.message), error.details[len(error.rows) :], priced)
    return Verdict(machine, program, None, (), priced)


def _memory(use: MemoryUse) -> dict[str, Any]:
    return {
        "memory": use.memory,
        "topologies": [str(t) for t in use.topologies],
        "params": use.params,
        "kv": use.kv,
        "activations": use.activations,
        "staging": use.staging,
        "reserved": use.reserved,
        "peak": use.peak,
        "capacity": use.capacity,
        "headroom": use.headroom,
    }


def _bill_row(row: BillRow) -> dict[str, Any]:
    return {
        "when": row.when,
        "kind": row.kind,
        "src": show_place(row.src),
        "dst": show_place(row.dst),
        "route": row.route,
        "edges": row.edges,
        "count": row.count,
        "nbytes": row.nbytes,
        "seconds": row.seconds,
    }


def _transfer(p: Priced) -> dict[str, Any]:
    t = p.transfer
    return {
        "value": t.value,
        "type": str(t.type),
        "src": show_place(t.src),
        "dst": show_place(t.dst),
        "when": t.when,
        "kind": p.kind,
        "route": p.route,
        "count": t.count,
        "nbytes": p.nbytes,
        "seconds": p.seconds,
        "why": t.reason,
        "loc": None if t.loc is None else str(t.loc),
    }


def _total(priced: list[Priced]) -> dict[str, Any]:
    return {"nbytes": sum(p.nbytes for p in priced), "seconds": sum(p.seconds for p in priced)}
