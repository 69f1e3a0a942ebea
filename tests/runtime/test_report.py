"""A report as people read it."""

from __future__ import annotations

import numpy as np

from tests.runtime.programs import mlp, mlp_params
from vxgraph.runtime.session import Session


def test_a_report_prints_a_line_per_place_and_per_crossing() -> None:
    program = mlp()
    with Session(program, mlp_params(), "numpy") as s:
        s.run({i.name: np.ones(i.type.shape({d.name: 2 for d in i.type.symbols}), np.float32) for i in program.args})
        lines = str(s.report).splitlines()
    places = [f"{t} on numpy:{t}: {n} dispatches" for t, n in s.report.dispatches.items()]
    assert lines[: len(places)] == places
    peer = sum(t.nbytes for t in program.transfers if t.src is not None and t.dst is not None)
    assert f"gpu:0 -> gpu:1: 1 transfers, planned {peer:,} bytes, observed {peer:,}" in lines
