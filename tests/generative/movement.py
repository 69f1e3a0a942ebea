"""Steps that move or rearrange elements, and those that make values from nothing."""

from __future__ import annotations

import vxgraph as vx
from tests.generative.arithmetic import DTYPES, number_of
from tests.generative.pool import LARGEST, Hollow, Picker, elements, least, symbolic
from tests.generative.recipe import HEAD, Step
from vxgraph.ir.types import Dim, DimLike


class Movement(Picker):
    """One step per method: the value, or None where nothing fits."""

    def to(self, step: Step) -> vx.Value | Hollow | None:
        if self.pool.hollow and step.picks[2] % 4 == 0:
            hollow = self.among(self.pool.hollow, step.picks[0])
            return Hollow(hollow.value.to(self.place(step.picks[1])), hollow.rows)
        value = self.any(step.picks[0])
        return None if value is None else value.to(self.place(step.picks[1]))

    def reshape(self, step: Step) -> vx.Value | None:
        x = self.any(step.picks[0])
        found = None if x is None else self.reshaped(x, step)
        if x is None or found is None or step.picks[1] % 3:
            return found
        return found.reshape(*x.dims)  # there and back: other bytes are shared, of the same type

    def reshaped(self, x: vx.Value, step: Step) -> vx.Value | None:
        _, b, c, which = step.picks
        symbols = [d for d in x.dims if isinstance(d, Dim) and d.symbolic]
        rest = elements([d for d in x.dims if d not in symbols])
        match which % 4:
            case 0:
                return x.reshape(*x.dims[: b % (x.type.rank + 1)], 1, *x.dims[b % (x.type.rank + 1) :])
            case 1 if rest % 2 == 0:
                return x.reshape(*symbols, rest // 2, 2)
            case 2 if rest == 8 and c % 2:
                named = [d for d in x.dims if d in symbols or d == HEAD]
                in_order = HEAD not in named or named == [*symbols, HEAD]  # else it is a transpose, and refused
                return x.reshape(*symbols, HEAD, 4) if in_order else None
            case _:
                return x.reshape(*symbols, rest) if len(symbols) < 2 else None

    def transpose(self, step: Step) -> vx.Value | None:
        x = self.any(step.picks[0], rank=1)
        if x is None:
            return None
        turn = step.picks[1] % x.type.rank
        axes = list(range(x.type.rank))
        return x.transpose(*(reversed(axes) if turn == 0 else axes[turn:] + axes[:turn]))

    def slice(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a, rank=1)
        if x is None:
            return None
        axis = b % x.type.rank
        start, stop, stride = _span(x.dims[axis], c, which)
        return vx.slice(x, axis=axis, start=start, stop=stop, step=stride)

    def concat(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a, rank=1)
        if x is None:
            return None
        axis = c % x.type.rank
        if symbolic(x.dims[axis]) or 3 * elements(x.dims) > LARGEST:
            return None
        y = self.pick(b, lambda v: v.type == x.type)
        assert y is not None
        return vx.concat([(x,), (x, y), (y, x, y)][which % 3], axis=axis)

    def constant(self, step: Step) -> vx.Value:
        a, b, c, which = step.picks
        dtype = DTYPES[which % len(DTYPES)]
        values = [number_of(dtype, a + k * (b + 1)) for k in range(4)]
        return vx.constant([values[0], values[:3], [values, values[::-1]], []][c % 4], dtype)

    def iota(self, step: Step) -> vx.Value:
        dims = (*self.symbols, 4, 0, 3)
        return vx.iota(dims[step.picks[0] % len(dims)], (vx.i32, vx.i32, vx.f32, vx.u8, vx.f16)[step.picks[3] % 5])

    def size(self, step: Step) -> vx.Value | None:
        return vx.size(self.symbols[step.picks[0] % len(self.symbols)]) if self.symbols else None


def _span(d: DimLike, a: int, which: int) -> tuple[int, int | None, int]:
    """Start, stop and stride of a slice that is legal for the dim."""
    n = least(d)
    if symbolic(d):
        k = 1 + a % n if n else 0
        return ((-1, None, -1), (0, k, 1), (-k, None, 1) if k else (0, None, 1))[which % 3]
    if not n:
        return 0, None, 1
    first, second = a % n, which % n
    match which // 8 % 4:
        case 0:
            return -1, None, -1
        case 1:
            return first, None, 1 + which % 2
        case 2:
            return n - 1 - first, None, -1 - which % 3
        case _:
            return min(first, second), max(first, second), 1
