"""Steps that compute element by element, or along one axis."""

from __future__ import annotations

import vxgraph as vx
from tests.generative.pool import Picker, broadcasts, fits_together, least
from tests.generative.recipe import Step

FLOATS = (vx.f32, vx.f16, vx.bf16)
DTYPES = (*FLOATS, vx.i8, vx.i32, vx.i64, vx.u8, vx.bool)
NUMBERS = (0.0, 1.0, -0.5, 2.0, -0.0, 0.25, -3.0, 1.0, float("inf"), float("nan"), -1e-3, 1e4)


def number_of(dtype: vx.DType, k: int) -> bool | int | float:
    if dtype.kind == "bool":
        return k % 2 == 0
    if dtype.kind == "int":
        return (0, 1, 3, 2, 250 if dtype != vx.i8 else -100, 7)[k % 6]
    return NUMBERS[k % len(NUMBERS)]


class Arithmetic(Picker):
    """One step per method: the value, or None where nothing fits."""

    def unary(self, step: Step) -> vx.Value | None:
        a, _, _, which = step.picks
        if which % 4 == 0:
            value = self.pick(a, lambda v: v.type.dtype.kind != "bool")
            return None if value is None else (vx.neg, vx.relu)[which // 4 % 2](value)
        value = self.floats(a)
        f = (vx.neg, vx.exp, vx.sqrt, vx.rsqrt, vx.silu, vx.gelu, vx.relu)[which % 7]
        return None if value is None else f(value)

    def binary(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        y = self.partner(x, b)
        return self.arithmetic(x, y, which)

    def arithmetic(self, x: vx.Operand, y: vx.Operand, which: int) -> vx.Value:
        kind = next(v.type.dtype.kind for v in (x, y) if isinstance(v, vx.Value))
        every = (vx.maximum, vx.minimum, vx.add, vx.sub, vx.mul, vx.div)
        return every[which % {"bool": 2, "int": 5, "float": 6}[kind]](x, y)

    def number(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        number = number_of(x.type.dtype, b)
        return self.arithmetic(number, x, which) if c % 2 else self.arithmetic(x, number, which)

    def compare(self, step: Step) -> vx.Value | None:
        a, b, _, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        y = self.partner(x, b)
        return vx.compare(x, y, ("eq", "ne", "lt", "le", "gt", "ge")[which % 6])

    def where(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        y = self.partner(x, b)
        cond = self.pick(c, lambda v: v.type.dtype == vx.bool and all(broadcasts(v.type, u.type) for u in (x, y)))
        if cond is None:
            cond = vx.compare(x, x, "eq")
        if not fits_together(cond.type, x.type, y.type):
            y = x
        return vx.where(cond, x, number_of(x.type.dtype, b) if which % 3 == 0 else y)

    def cast(self, step: Step) -> vx.Value | None:
        a, _, _, which = step.picks
        x = self.any(a)
        if x is None:
            return None
        dtype = DTYPES[which % len(DTYPES)]
        if x.type.dtype.kind == "float" and dtype.kind == "int":
            x = vx.where(vx.compare(x, x, "eq"), vx.minimum(vx.maximum(x, 0.0), 100.0), 0.0)  # else it is unspecified
        return x.cast(dtype)

    def reduce(self, step: Step) -> vx.Value | None:
        a, b, c, which = step.picks
        f = (vx.max, vx.sum, vx.mean)[which % 3]
        wanted = {vx.max: ("float", "int", "bool"), vx.sum: ("float", "int"), vx.mean: ("float",)}[f]
        x = self.pick(a, lambda v: v.type.rank > 0 and v.type.dtype.kind in wanted)
        if x is None:
            return None
        axis = b % x.type.rank
        if f is vx.max and not least(x.dims[axis]):
            return None
        return f(x, axis=axis - x.type.rank if c % 2 else axis, keepdims=which % 2 == 0)

    def softmax(self, step: Step) -> vx.Value | None:
        x = self.floats(step.picks[0], rank=1)
        return (
            None if x is None else vx.softmax(x, axis=step.picks[1] % x.type.rank - (step.picks[2] % 2) * x.type.rank)
        )
