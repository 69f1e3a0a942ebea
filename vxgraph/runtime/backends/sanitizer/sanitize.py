"""One program in many legal orders.

    found = vx.sanitize(program, inputs, params, orders=20)
    found.results["y"]; print(found)      no hazard in 21 orders: the latest and 20 random ones from seed 0; ...

The vector clocks need one run: where every two accesses to the same bytes are ordered, all orders give the same. The
other orders are for what clocks can't see, say a kernel that keeps something between calls; where one of them gives
another result, it is made smaller until only what matters is early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vxgraph.display import Displayed
from vxgraph.errors import HazardError
from vxgraph.ir.types import Array
from vxgraph.program.model import Program
from vxgraph.runtime.backends.sanitizer.backend import TARGET, SanitizerBackend
from vxgraph.runtime.backends.sanitizer.order import Order, shrink
from vxgraph.runtime.binding import Binding
from vxgraph.runtime.session import Session

Progress = Callable[[int, int], None]  # orders done, orders in all


@dataclass(frozen=True, slots=True)
class Sanitized(Displayed):
    """What was tried and checked, none of it with a hazard."""

    results: Mapping[str, Array]
    orders: int  # the latest one, and random ones
    seed: int
    calls: int  # of one run and its load
    checked: int  # pairs of accesses to the same bytes, in one run and its load

    def __str__(self) -> str:
        random = self.orders - 1
        tried = f"{self.orders} orders: the latest and {random} random from seed {self.seed}"
        counts = f"{self.calls:,} calls and {self.checked:,} pairs of accesses to the same bytes in each"
        return f"no hazard in {tried if random else 'the latest order'}; {counts}"


def sanitize(
    program: Program,
    inputs: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    *,
    orders: int = 20,
    seed: int = 0,
    progress: Progress | None = None,
    backend: Callable[[Order], SanitizerBackend] = SanitizerBackend,
) -> Sanitized:
    """Runs the program as late as events allow, and in `orders` random legal orders.

    Raises HazardError for the first hazard, and for a result that depends on the order; RunError for wrong inputs;
    ConformanceError where a run was not the plan. `backend` makes what it runs on.
    """
    late = _run(program, inputs, params, backend(Order(keep=True)))
    for k in range(orders):
        if progress is not None:
            progress(k, orders)
        order = Order(seed=seed + k, keep=True)
        other = _run(program, inputs, params, backend(order))
        if name := _difference(late.results, other.results):
            raise _depends(program, inputs, params, name, order, late, backend)
    if progress is not None:
        progress(orders, orders)
    return Sanitized(late.results, orders + 1, seed, late.calls, late.checked)


@dataclass(frozen=True, slots=True)
class _Ran:
    results: dict[str, Array]
    ran: list[str]
    calls: int
    checked: int


def _run(
    program: Program, inputs: Mapping[str, Any], params: Mapping[str, Any] | None, backend: SanitizerBackend
) -> _Ran:
    binding = Binding(dict.fromkeys(program.topologies, (backend, TARGET)))
    with Session(program, params, binding) as session:
        results = session.run(inputs)
        session.report.conforms()
        return _Ran(results, backend.ran, backend.calls, backend.checked)


def _difference(a: Mapping[str, Array], b: Mapping[str, Array]) -> str | None:
    """The first result that differs in a bit."""
    return next((name for name in a if a[name].tobytes() != b[name].tobytes()), None)


def _depends(
    program: Program,
    inputs: Mapping[str, Any],
    params: Mapping[str, Any] | None,
    name: str,
    order: Order,
    late: _Ran,
    backend: Callable[[Order], SanitizerBackend],
) -> HazardError:
    """The smallest order found that gives another result, and what runs early in it."""

    def fails(choices: Any) -> bool:
        return (
            _difference(late.results, _run(program, inputs, params, backend(Order(replay=choices))).results) is not None
        )

    least = shrink(order.taken, fails)
    ran = _run(program, inputs, params, backend(Order(replay=least, keep=True))).ran
    pairs = enumerate(zip(ran, late.ran, strict=True), 1)
    where = next((f"call {k} is {a}, and not {b} as in the latest order" for k, (a, b) in pairs if a != b), None)
    return HazardError(
        f"result {name!r} depends on the order, though every two accesses to the same bytes are ordered",
        kind="order dependence",
        details=(
            f"it differs where {where}" if where else "it differs between two runs in the same order",
            f"choices that show it: {least} (the smallest found, from seed {order.seed})",
            "a kernel may use what is neither its operand nor its result",
        ),
    )
