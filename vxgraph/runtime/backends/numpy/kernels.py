"""From an op to what runs it: C where these types have it, else a NumPy kernel, else the op's own reference.

    kernel = compile_kernel(Add(), ins, outs, GPU[0], pool)
    kernel.run([a, b], [out], sizes)          writes into `out`
    kernel.by                                 "native", "numpy" or "reference"

A kernel of C or NumPy writes straight into the result and keeps its scratch small. A result never overlaps an operand,
except the operand that the op donates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vxgraph.errors import BindError, InternalError
from vxgraph.ir.op import OPS, Effect, Op
from vxgraph.ir.types import Array, Sizes
from vxgraph.runtime.backends.numpy import attention, cache, elementwise, linear, movement, norm, rope, select
from vxgraph.runtime.backends.numpy.native import attention as native_attention
from vxgraph.runtime.backends.numpy.native import cache as native_cache
from vxgraph.runtime.backends.numpy.native import elementwise as native_elementwise
from vxgraph.runtime.backends.numpy.native import linear as native_linear
from vxgraph.runtime.backends.numpy.native import movement as native_movement
from vxgraph.runtime.backends.numpy.native import norm as native_norm
from vxgraph.runtime.backends.numpy.native import rope as native_rope
from vxgraph.runtime.backends.numpy.native import select as native_select
from vxgraph.runtime.backends.numpy.native.call import Compiler
from vxgraph.runtime.backends.numpy.native.launch import Native
from vxgraph.runtime.backends.numpy.native.pool import Pool
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


# The same for C.
_NATIVE: dict[type[Op], Compiler] = {
    **native_attention.COMPILERS,
    **native_cache.COMPILERS,
    **native_elementwise.COMPILERS,
    **native_linear.COMPILERS,
    **native_movement.COMPILERS,
    **native_norm.COMPILERS,
    **native_rope.COMPILERS,
    **native_select.COMPILERS,
}

By = Literal["native", "numpy", "reference"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """An op compiled for this host; `run` takes operands, results to write, and the symbols' sizes."""

    op: Op
    run: Run
    by: By
    native: Native | None = None  # what `run` is of, where it is C


def compile_kernel(op: Op, ins: Types, outs: Types, topology: Topology, pool: Pool | None = None) -> Kernel:
    """The op's kernel, in C only where there is a pool to run it.

    BindError for an op that moves or controls, which no kernel does.
    """
    if op.effect is not Effect.PURE:
        raise BindError(f"{op.name} on {topology}: the NumPy backend has no kernel for it")
    compiler = _COMPILERS.get(type(op))
    fast = compiler(op, ins, outs) if compiler else None
    plain = fast or _from_reference(op)
    native = _NATIVE.get(type(op)) if pool is not None else None
    binder = native(op, ins, outs) if native else None
    if pool is None or binder is None:
        return Kernel(op, plain, "numpy" if fast else "reference")
    in_c = Native(binder, plain, pool)
    return Kernel(op, in_c.run, "native", in_c)


def choices(*, native: bool) -> dict[By, list[str]]:
    """The ops by what runs them where their types allow it, with or without C."""
    found: dict[By, list[str]] = {"native": [], "numpy": [], "reference": []}
    for name, op in sorted(OPS.items()):
        if op.effect is Effect.PURE and not op.alias:
            in_c = native and op in _NATIVE
            found["native" if in_c else "numpy" if op in _COMPILERS else "reference"].append(name)
    return found


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
