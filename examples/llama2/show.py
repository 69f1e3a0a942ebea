"""What the command line says on standard error: how a generation ended, where it ran, and what crossed.

end of turn: 24 tokens; prefill 38 tokens at 63.4 tokens/s, decode 24 steps at 23.1 tokens/s
hand-over gpu:0 -> gpu:1: 60 K and V transfers, planned 1,751,040 B, observed 1,751,040 B
the run conforms to the plan
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

import vxgraph as vx
from examples.llama2.generate import Generation
from vxgraph.ir.types import Dim
from vxgraph.runtime.report import Moved, Report
from vxgraph.tools.tables import placement_summary


def summary(session: vx.Session, generation: Generation) -> Iterator[RenderableType]:
    """What is said after a run that conforms."""
    yield ""
    yield speed(generation)
    yield ""
    yield placement_summary(session.report)
    yield ""
    yield from handover(session.report)
    yield Text("the run conforms to the plan: places, counts and bytes were observed, and are as planned", "green")


def speed(generation: Generation) -> str:
    """How it ended, how much it said, and how fast."""
    prefill = f"prefill {_tokens(len(generation.prompt))} at {generation.prefill_rate:.1f} tokens/s"
    steps = generation.chosen - 1
    decode = f", decode {steps} step{'s' * (steps != 1)} at {generation.decode_rate:.1f} tokens/s" if steps else ""
    return f"{generation.ended}: {_tokens(generation.yielded)}; {prefill}{decode}"


def _tokens(n: int) -> str:
    return f"{n} token{'s' * (n != 1)}"


def handover(report: Report) -> Iterator[str]:
    """One line for each pair of places between which K and V rows went; the placement says if there are any."""
    pairs: dict[tuple[vx.Topology | None, vx.Topology | None], list[Moved]] = {}
    for moved in kv_transfers(report):
        pairs.setdefault((moved.src, moved.dst), []).append(moved)
    for (src, dst), moves in pairs.items():
        planned, observed = sum(m.planned_bytes for m in moves), sum(m.observed_bytes for m in moves)
        yield (
            f"hand-over {src} -> {dst}: {len(moves)} K and V transfers, planned {planned:,} B, observed {observed:,} B"
        )


def kv_transfers(report: Report) -> list[Moved]:
    """The transfers between places of the last run whose values have a KVHead dim: K and V rows and nothing else."""
    slots = report.program.slot_of
    between = (m for m in report.transfers if m.src is not None and m.dst is not None)
    return [m for m in between if any(isinstance(d, Dim) and d.name == "KVHead" for d in slots[m.name].type.dims)]
