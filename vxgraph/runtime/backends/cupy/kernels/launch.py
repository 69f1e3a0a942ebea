"""A kernel as pure data: what to compile, how to launch it, what to hand it. Nothing here touches a device.

    planner = plan(op, ins, outs)                              at load; BindError where there is no kernel
    planner.steps(in_shapes, out_shapes, sizes, same=False)    per bound shapes: (Launch(...), Gemm(...), ...)

The steps of one plan run in order on one stream. They allocate nothing and read nothing on the host, so they can be
captured in a CUDA graph: what may differ from replay to replay (positions, lengths, ids) is read from device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from vxgraph.errors import BindError
from vxgraph.ir.op import Op
from vxgraph.ir.types import DType, Sizes, TensorType

Types = tuple[TensorType, ...]
Shape = tuple[int, ...]

In = tuple[Literal["in"], int]  # the address of operand i
Out = tuple[Literal["out"], int]  # the address of result i
# ("error",) is the address of the topology's fault record (see faults.py); ("site",) is an int64 that the caller picks
# for this launch, and finds in the record when this launch is what failed.
Fault = tuple[Literal["error", "site"]]
Scalar = np.int32 | np.int64 | np.uint64 | np.float32  # passed by value, of exactly this type
Arg = In | Out | Fault | Scalar

RESULT: Out = ("out", 0)
FAULT: tuple[Fault, Fault] = (("error",), ("site",))
NULL = np.uint64(0)  # the address of an operand that is not there

Block = tuple[int, int, int]


def no_kernel(op: Op, ins: Types, outs: Types) -> BindError:
    """What an op is refused with, in these types."""
    dtypes = ", ".join(dict.fromkeys(t.dtype.name for t in (*ins, *outs))) or "any dtype"
    return BindError(f"cupy has no kernel for {op.name} in {dtypes}; bind its topology to numpy, or leave it out")


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. `source` is CUDA C++17 without includes, complete: it is the key of a cache of modules."""

    source: str
    entry: str  # the extern "C" name
    grid: Block  # blocks, none of them 0
    block: Block  # threads
    args: tuple[Arg, ...]
    shared: int = 0  # bytes of dynamic shared memory; above 48 KiB the function's own limit must be raised first


@dataclass(frozen=True, slots=True)
class Gemm:
    """Row-major C[M, N] = A[M, K] @ B[K, N] for each of a batch; no size is 0, all in `dtype`, f32 accumulation.

    B is [N, K] with transpose_b. Offsets and strides from one of the batch to the next are in elements; a stride of 0
    reads one matrix for all. cuBLAS is column-major, so it is asked for C^T = B^T A^T: operands (b, a), m=n, n=m, k=k,
    opA = T if transpose_b else N, opB = N, lda = k if transpose_b else n, ldb = k, ldc = n, compute type 32F.
    """

    a: In
    b: In
    c: Out
    m: int
    n: int
    k: int
    dtype: DType  # f32, f16 or bf16
    transpose_b: bool
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    offset_a: int = 0
    offset_b: int = 0
    offset_c: int = 0


Step = Launch | Gemm
Steps = tuple[Step, ...]


class Bound(NamedTuple):
    """What is known when shapes are: of operands and results, the symbols' sizes, and whether the donation happened."""

    ins: Sequence[Shape]
    outs: Sequence[Shape]
    sizes: Sizes
    same: bool  # the result is the donated operand's own memory


@dataclass(frozen=True, slots=True)
class Planner:
    """An op that has a kernel for its types."""

    op: Op
    make: Callable[[Bound], Steps] = field(repr=False)

    def steps(
        self, in_shapes: Sequence[Shape], out_shapes: Sequence[Shape], sizes: Sizes, *, same: bool = False
    ) -> Steps:
        """What to run for these shapes; nothing where there is nothing to write. RunError where they cannot be."""
        return self.make(Bound(in_shapes, out_shapes, sizes, same))


def operand(index: int) -> In:
    """The address of an operand."""
    return ("in", index)


def flat(source: str, entry: str, threads: int, *args: Arg, block: int = 128) -> Launch:
    """A launch of at least `threads` threads in a row."""
    return Launch(source, entry, (-(-threads // block), 1, 1), (block, 1, 1), args)
