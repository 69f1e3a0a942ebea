"""From planned steps to launches that are ready: functions compiled for the ordinal, addresses packed.

A kernel on the same tensors is prepared once; a replayed step costs one driver call for each of its launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vxgraph.errors import InternalError
from vxgraph.ir.op import Op
from vxgraph.ir.types import Sizes
from vxgraph.runtime.abi import KernelError
from vxgraph.runtime.backends.cupy.device import on
from vxgraph.runtime.backends.cupy.driver import Driver, GemmCall, Stream
from vxgraph.runtime.backends.cupy.kernels import Gemm, Launch, Planner, fault
from vxgraph.runtime.backends.cupy.kernels import plan as plan_op
from vxgraph.runtime.backends.cupy.kernels.launch import Arg, Types
from vxgraph.runtime.backends.cupy.objects import Bound, Kernel, Start, Tensor

KEPT = 8  # bindings of one kernel that stay prepared

Plan = Callable[[Op, Types, Types], Planner]


class Launcher:
    """Plans, prepares and starts kernels. `plan` is what tests replace."""

    def __init__(self, plan: Plan = plan_op) -> None:
        self._plan = plan
        self._sites: list[Kernel] = []

    def plan(self, op: Op, ins: Types, outs: Types) -> Planner:
        """How the op runs; BindError that names it where there is no kernel."""
        return self._plan(op, ins, outs)

    def made(self, kernel: Kernel) -> Kernel:
        """Gives a new kernel the number under which it reports faults."""
        kernel.site = len(self._sites)
        self._sites.append(kernel)
        return kernel

    def forget(self) -> None:
        """Drops every kernel, and the memory that they have beside their tensors."""
        for kernel in self._sites:
            kernel.bound.clear()
        self._sites.clear()

    def run(
        self,
        driver: Driver,
        kernel: Kernel,
        ins: Sequence[Tensor],
        outs: Sequence[Tensor],
        sizes: Sizes,
        stream: Stream,
    ) -> None:
        """Puts the kernel's launches on a stream of its topology; its device is selected."""
        for start in self.ready(driver, kernel, ins, outs, sizes).starts:
            start(stream)

    def ready(
        self, driver: Driver, kernel: Kernel, ins: Sequence[Tensor], outs: Sequence[Tensor], sizes: Sizes
    ) -> Bound:
        """The kernel's launches on these tensors, prepared once for the same tuples of tensors and sizes."""
        ins, outs = tuple(ins), tuple(outs)  # itself where it is one; a list may hold others next time
        key = (id(ins), id(outs))
        found = kernel.bound.get(key)
        if found is not None and found.ins is ins and found.outs is outs and found.sizes == sizes:
            return found
        beside = Beside(driver)
        with on(driver, kernel.state.ordinal.ordinal):
            operands, results = [beside.operand(t) for t in ins], [beside.result(t) for t in outs]
        donated = kernel.op.donates
        same = donated is not None and len(ins) > donated and operands[donated].pointer == results[0].pointer
        steps = kernel.planner.steps([t.shape for t in ins], [t.shape for t in outs], sizes, same=same)
        starts = [self._start(driver, kernel, step, operands, results) for step in steps]
        library = any(isinstance(step, Gemm) for step in steps)
        starts = (*beside.before, *starts, *beside.after)
        found = kernel.bound[key] = Bound(ins, outs, dict(sizes), starts, library, tuple(beside.memory))
        if len(kernel.bound) > KEPT:
            self._forget(kernel, next(iter(kernel.bound)))
        return found

    def _forget(self, kernel: Kernel, key: tuple[int, int]) -> None:
        if kernel.bound[key].memory:
            kernel.state.synchronize()  # it goes with the binding, and launches may be using it
        del kernel.bound[key]

    def _start(
        self, driver: Driver, kernel: Kernel, step: Launch | Gemm, ins: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> Start:
        ordinal = kernel.state.ordinal
        if isinstance(step, Gemm):
            call, handle, workspace = _gemm_call(step, ins, outs), ordinal.handle(), kernel.state.workspace()
            return lambda stream: driver.gemm(handle, workspace, stream, call)
        function = ordinal.function(step.source, step.entry, step.shared)
        arguments = driver.pack(tuple(self._argument(arg, kernel, ins, outs) for arg in step.args))
        return lambda stream: driver.launch(function, step.grid, step.block, step.shared, arguments, stream)

    def _argument(self, arg: Arg, kernel: Kernel, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> Any:
        """An address as an int, a scalar as it is."""
        match arg:
            case ("in", index):
                return ins[index].pointer
            case ("out", index):
                return outs[index].pointer
            case ("error",):
                return kernel.state.error
            case ("site",):
                return np.int64(kernel.site)
            case _:
                return arg

    def complaint(self, words: np.ndarray[Any, np.dtype[np.int64]]) -> KernelError:
        """The error that a topology's fault record stands for."""
        code, site, *values = (int(w) for w in words)
        if not 0 <= site < len(self._sites):
            raise InternalError(f"a kernel's fault record names kernel {site}: it was read before it was written")
        return KernelError(self._sites[site].op.name, fault(code, values), self._sites[site])


class Beside:
    """Copies of the tensors that stand at addresses which kernels cannot use: at an odd offset."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.memory: list[Any] = []
        self.before: list[Start] = []
        self.after: list[Start] = []

    def operand(self, t: Tensor) -> Tensor:
        """The tensor, or its copy, which is made before the kernel runs."""
        if not t.nbytes or t.pointer % t.dtype.itemsize == 0:
            return t
        driver, memory = self._driver, self._driver.alloc(t.nbytes)
        self.memory.append(memory)
        self.before.append(lambda stream: driver.copy(memory.ptr, t.pointer, t.nbytes, stream))
        return Tensor(t.buffer, memory.ptr, t.dtype, t.shape, t.nbytes)

    def result(self, t: Tensor) -> Tensor:
        """The same, copied back once the kernel has run."""
        driver, copy = self._driver, self.operand(t)
        if copy is not t:
            self.after.append(lambda stream: driver.copy(t.pointer, copy.pointer, t.nbytes, stream))
        return copy


def _gemm_call(g: Gemm, ins: Sequence[Tensor], outs: Sequence[Tensor]) -> GemmCall:
    """Row-major C = A B as cuBLAS's column-major C^T = B^T A^T."""
    size = g.dtype.itemsize
    a = ins[g.a[1]].pointer + g.offset_a * size
    b = ins[g.b[1]].pointer + g.offset_b * size
    return GemmCall(
        transpose_a=g.transpose_b,
        transpose_b=False,
        m=g.n,
        n=g.m,
        k=g.k,
        a=b,
        lda=g.k if g.transpose_b else g.n,
        stride_a=g.stride_b,
        b=a,
        ldb=g.k,
        stride_b=g.stride_a,
        c=outs[g.c[1]].pointer + g.offset_c * size,
        ldc=g.n,
        stride_c=g.stride_c,
        batch=g.batch,
        dtype=g.dtype.name,
    )
