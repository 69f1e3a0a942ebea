"""The device code of the CuPy backend and how it is launched, as data: this package never imports CuPy.

    planner = plan(MatMul(transpose_b=True), (bf16[1, 4096], bf16[32000, 4096]), (bf16[1, 32000],))
    planner.steps([(1, 4096), (32000, 4096)], [(1, 32000)], {})
        -> (Launch(source=..., entry="vx_gemv", grid=(4000, 1, 1), block=(128, 1, 1), args=(("in", 0), ...)),)

A kernel computes halves in f32 and rounds once, integers wrap, and a kernel that finds its run-time operands wrong (a
cache row past the end, an id that is not there) reports it in the topology's fault record and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from vxgraph.ir.op import Op
from vxgraph.runtime.backends.cupy.kernels import (
    attention,
    cache,
    create,
    elementwise,
    linear,
    movement,
    norm,
    reduce,
    rope,
    select,
)
from vxgraph.runtime.backends.cupy.kernels.faults import FAULT_WORDS, Code, fault
from vxgraph.runtime.backends.cupy.kernels.launch import FAULT, NULL, Arg, Gemm, Launch, Planner, Step, Types, no_kernel

__all__ = ["FAULT", "FAULT_WORDS", "NULL", "Arg", "Code", "Gemm", "Launch", "Planner", "Step", "fault", "plan"]

_PLANNERS: dict[type[Op], Callable[..., Planner]] = {
    **attention.PLANNERS,
    **cache.PLANNERS,
    **create.PLANNERS,
    **elementwise.PLANNERS,
    **linear.PLANNERS,
    **movement.PLANNERS,
    **norm.PLANNERS,
    **reduce.PLANNERS,
    **rope.PLANNERS,
    **select.PLANNERS,
}


def plan(op: Op, ins: Types, outs: Types) -> Planner:
    """How the op runs in these types; BindError that names both where there is no kernel."""
    planner = _PLANNERS.get(type(op))
    if planner is None:
        raise no_kernel(op, ins, outs)
    return planner(op, ins, outs)
