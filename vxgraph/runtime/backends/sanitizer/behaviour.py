"""What a call does when it runs, and what it came to.

Results are poisoned before a kernel writes them, operands are read-only, what was copied is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import CacheInit
from vxgraph.runtime.backends.numpy.kernels import Kernel
from vxgraph.runtime.backends.numpy.space import POISON, Tensor, address_of
from vxgraph.runtime.backends.sanitizer import hazards
from vxgraph.runtime.backends.sanitizer.work import Work

OTHER = ~POISON & 0xFF


def want_delivered(src: Array, dst: Array, work: Work) -> None:
    """HazardError where a copy's destination is not its source."""
    a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (src, dst))
    if wrong := int(np.count_nonzero(a != b)):
        raise hazards.undelivered(work, wrong, a.nbytes)


def compute(kernel: Kernel, ins: Sequence[Tensor], outs: Sequence[Tensor], sizes: Sizes, work: Work) -> None:
    """Runs a kernel; HazardError where it writes into an operand, or leaves a part of a result as it was."""
    homes = {t.address for t in ins}
    fresh = [out for out in outs if out.address not in homes]
    for out in fresh:
        _bytes_of(out)[...] = POISON
    results = {t.address for t in outs}
    operands = [t.view if t.address in results else _read_only(t.view) for t in ins]
    try:
        kernel.run(operands, [t.view for t in outs], sizes)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise hazards.scribbled(work) from error
    # The rows of a cache that it was not given stay what they were; an operand that is taken over has no poison.
    if len(fresh) == len(outs) and not isinstance(kernel.op, CacheInit):
        _want_written(kernel, operands, outs, sizes, work)


def _want_written(kernel: Kernel, operands: Sequence[Array], outs: Sequence[Tensor], sizes: Sizes, work: Work) -> None:
    """Poison may also be a result: what still looks like it is computed again over other bytes."""
    suspects = [_filled_with(POISON, out.view) for out in outs]
    if not any(s.any() for s in suspects):
        return
    views: list[Array] = [
        np.full(out.view.nbytes, OTHER, np.uint8).view(out.view.dtype).reshape(out.view.shape) for out in outs
    ]
    kernel.run(operands, views, sizes)
    for out, suspect, view in zip(outs, suspects, views, strict=True):
        if missing := int(np.count_nonzero(suspect & _filled_with(OTHER, view))):
            raise hazards.unwritten(work, f"{out.view.dtype}{list(out.view.shape)}", missing)


def _bytes_of(tensor: Tensor) -> Array:
    start = tensor.address - address_of(tensor.buffer.block)
    return tensor.buffer.block[start : start + tensor.view.nbytes]


def _filled_with(byte: int, view: Array) -> Array:
    """Which elements have nothing but this byte."""
    raw = np.ascontiguousarray(view).reshape(-1).view(np.uint8)
    return (raw.reshape(-1, view.dtype.itemsize) == byte).all(axis=1)


def _read_only(view: Array) -> Array:
    still: Any = view.view()
    still.flags.writeable = False
    return still
