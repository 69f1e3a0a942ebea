"""From an op to what runs it: a fast kernel where the table has one, else the op's own reference.

    kernel = compile_kernel(Add(), ins, outs, GPU[0])
    kernel.run([a, b], [out], sizes)          writes into `out`

Both are this backend's NumPy; a fast kernel writes straight into the result and keeps its scratch small. A result never
overlaps an operand, except the operand that the op donates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vxgraph.errors import BindError, InternalError
from vxgraph.ir.op import Effect, Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.runtime.backends.numpy import attention, cache, elementwise, linear, movement, norm, rope, select
from vxgraph.runtime.backends.numpy.run import Run, Types
from vxgraph.topology.ids import Topology

# Each gives a kernel, or None where these types have no fast one.
_COMPILERS: dict[type[Op], Callable[..., Run | None]] = {
    **attention.COMPILERS,
    **cache.COMPILERS,
    **elementwise.COMPILERS,
    **linear.COMPILERS,
    **movement.COMPILERS,
    **norm.COMPILERS,
    **rope.COMPILERS,
    **select.COMPILERS,
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """An op compiled for NumPy; `run` takes operands, results to write, and the symbols' sizes."""

    op: Op
    run: Run


def compile_kernel(op: Op, ins: Types, outs: Types, topology: Topology) -> Kernel:
    """The op's kernel; BindError for an op that moves or controls, which no kernel does."""
    if op.effect is not Effect.PURE:
        raise BindError(f"{op.name} on {topology}: the NumPy backend has no kernel for it")
    compiler = _COMPILERS.get(type(op))
    fast = compiler(op, ins, outs) if compiler else None
    return Kernel(op, fast or _from_reference(op))


def _from_reference(op: Op) -> Run:
    """Computes the results apart, then copies them into place."""

    def run(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
        for result, out in zip(op.reference(sizes, *ins), outs, strict=True):
            if result.shape != out.shape or result.dtype != out.dtype:
                raise InternalError(
                    f"{op.name}: the reference gave {result.dtype}{list(result.shape)}, "
                    f"its typing rule says {out.dtype}{list(out.shape)}"
                )
            np.copyto(out, result)

    return run
