"""The functions of the DSL: inputs, outputs, one function per op, and the loop.

Names are NumPy's and ONNX's where they exist there. Every function takes `name=` for the value's name in text, errors,
drawings and traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from vxgraph import ops
from vxgraph.dsl.trace import Frame, Handle, Within, frame, local_name, made
from vxgraph.dsl.value import Operand, Value, apply, binary, literal, scalar
from vxgraph.errors import GraphError, Loc, user_loc
from vxgraph.ir.builder import GraphBuilder, check_name
from vxgraph.ir.graph import Input, Result
from vxgraph.ir.types import Dim, DimLike, DType, TensorType, bool_, dtype_of, f32, i32
from vxgraph.ir.verify import MAX_NESTING, too_deep
from vxgraph.ops.loop import STOP

_PYTHON_KINDS = {"f": f32, "i": i32, "b": bool_}


def input(name: str, type: TensorType) -> Value:
    """A per-call input. Inside `on(place)` its home is that place; outside, it goes wherever it is read."""
    here, loc = frame(), user_loc()
    _check_input(here, name, type, loc)
    full = here.builder.arg(here.scope + name, type, place=here.place, loc=loc)
    return Value(here.builder, full, type)


def param(name: str, type: TensorType) -> Value:
    """A resident input: staged once, when a session opens, wherever it is read."""
    here, loc = frame(), user_loc()
    _check_input(here, name, type, loc)
    full = here.builder.param(here.scope + name, type, place=here.place, loc=loc)
    return Value(here.builder, full, type)


def _check_input(here: Frame, name: str, type: object, loc: Loc) -> None:
    if not isinstance(type, TensorType):
        raise GraphError(
            f"%{name}: {type!r} is no type; wanted one such as vx.f32[4, 64] (a scalar: vx.f32[()])", loc=loc
        )
    if here.outer is not None:
        raise GraphError(
            f"%{name} is declared inside a loop's body; declare it before vx.loop and use it there", loc=loc
        )


def output(name: str, value: Handle) -> None:
    """Hands a value to the caller under a name, when the run ends."""
    here, loc = frame(), user_loc()
    if here.outer is not None:
        raise GraphError("vx.output inside a loop's body; use vx.emit, or carry the value out of the loop", loc=loc)
    here.builder.result(name, local_name(value, here, loc), loc=loc)


def emit(name: str, value: Handle) -> None:
    """Hands a value to the caller under a name as soon as it is there; in a loop's body, once per step."""
    here, loc = frame(), user_loc()
    here.builder.emit(name, local_name(value, here, loc), loc=loc)


def stop(when: Handle) -> None:
    """Inside a loop's body: ends the loop after this step if `when` (bool[]) is true."""
    here, loc = frame(), user_loc()
    if here.outer is None:
        raise GraphError("vx.stop belongs inside a loop's body", loc=loc)
    if here.builder.results:
        raise GraphError("vx.stop is called twice in one loop's body; join the two with vx.maximum", loc=loc)
    value = local_name(when, here, loc)
    if when.type != bool_[()]:
        raise GraphError(f"vx.stop wants bool[], found {when!r}", loc=loc)
    here.builder.result(STOP, value, loc=loc)


def loop(
    body: Callable[..., Sequence[Handle]],
    init: Sequence[Handle],
    *,
    max_steps: int,
    steps: Handle | None = None,
    name: str = "loop",
) -> tuple[tuple[Value, ...], Value]:
    """Runs `body(*carried) -> next carried` up to `max_steps` times; the last carried values and the steps done.

    `steps` (i32[]) bounds the number of steps at run time; `vx.stop(when)` in the body ends the loop early. Values from
    outside that the body uses are captured.
    """
    here, loc = frame(), user_loc()
    _check_depth(here, loc)
    check_name(here.scope + name, loc)
    inner = GraphBuilder(here.scope + name, names=here.builder.names, dims=here.builder.dims)
    inits = [local_name(v, here, loc) for v in _sequence(init, "vx.loop's init", loc)]
    args = [_carry(inner, outer, here.builder.types[outer], loc) for outer in inits]
    with Within(lambda here: replace(here, builder=inner, outer=here)):
        nexts = _sequence(body(*args), "what the loop's body returns", loc)
        if len(nexts) != len(args):
            raise GraphError(f"the loop carries {len(args)} values, but its body returns {len(nexts)}", loc=loc)
        inside = frame()
        carried = [Result(a.name, local_name(v, inside, loc)) for a, v in zip(args, nexts, strict=True)]
    inner.results = [*carried, *inner.results]
    attributes = {"body": inner.build(), "carried": len(args), "max_steps": max_steps, "limited": steps is not None}
    op = made(ops.Loop, attributes, loc)
    limit = () if steps is None else (local_name(steps, here, loc),)
    node = here.builder.add(op, [*inits, *inner.captures, *limit], base=here.scope + name, loc=loc)
    *outs, done = (Value(here.builder, o, t) for o, t in zip(node.outputs, node.types, strict=True))
    return tuple(outs), done


def _check_depth(here: Frame, loc: Loc) -> None:
    depth, around = 1, here.outer
    while around is not None:
        depth, around = depth + 1, around.outer
    if depth > MAX_NESTING:
        raise GraphError(too_deep(), loc=loc)


def _sequence(values: object, what: str, loc: Loc) -> Sequence[Handle]:
    if not isinstance(values, (tuple, list)):
        raise GraphError(f"{what} is {values!r}, wanted a tuple of values, like (x,)", loc=loc)
    return values  # type: ignore[reportUnknownVariableType]  # local_name asks each what it is


def _carry(inner: GraphBuilder, outer: str, type: TensorType, loc: Loc) -> Value:
    """The body's arg for one carried value."""
    name = inner.names.fresh(f"{outer}.step", loc)
    inner.args.append(Input(name, type, None, loc))
    inner.types[name] = type
    return Value(inner, name, type)


def add(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a + b`, elementwise with broadcasting."""
    return binary(ops.Add, a, b, name=name)


def sub(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a - b`, elementwise with broadcasting."""
    return binary(ops.Sub, a, b, name=name)


def mul(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a * b`, elementwise with broadcasting."""
    return binary(ops.Mul, a, b, name=name)


def div(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a / b`, elementwise with broadcasting."""
    return binary(ops.Div, a, b, name=name)


def maximum(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """The larger of two, elementwise; `or` of bools."""
    return binary(ops.Maximum, a, b, name=name)


def minimum(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """The smaller of two, elementwise; `and` of bools."""
    return binary(ops.Minimum, a, b, name=name)


def compare(
    a: Operand, b: Operand, kind: Literal["eq", "ne", "lt", "le", "gt", "ge"], *, name: str | None = None
) -> Value:
    """`a == b` and its kin, elementwise with broadcasting: bool."""
    return binary(ops.Compare, a, b, name=name, kind=kind)


def neg(x: Handle, *, name: str | None = None) -> Value:
    """`-x`."""
    return apply(ops.Neg, x, name=name)


def exp(x: Handle, *, name: str | None = None) -> Value:
    """e to the x."""
    return apply(ops.Exp, x, name=name)


def sqrt(x: Handle, *, name: str | None = None) -> Value:
    """The square root."""
    return apply(ops.Sqrt, x, name=name)


def rsqrt(x: Handle, *, name: str | None = None) -> Value:
    """One over the square root."""
    return apply(ops.Rsqrt, x, name=name)


def silu(x: Handle, *, name: str | None = None) -> Value:
    """`x * sigmoid(x)` (ONNX Swish)."""
    return apply(ops.Silu, x, name=name)


def gelu(x: Handle, *, name: str | None = None) -> Value:
    """`x * Phi(x)`, exact (by erf)."""
    return apply(ops.Gelu, x, name=name)


def relu(x: Handle, *, name: str | None = None) -> Value:
    """`max(x, 0)`."""
    return apply(ops.Relu, x, name=name)


def matmul(a: Handle, b: Handle, *, name: str | None = None) -> Value:
    """`a @ b`: [..., M, K] by [..., K, N]; a of f32 takes a b of f16 or bf16 too."""
    return apply(ops.MatMul, a, b, name=name)


def quantized_matmul(x: Handle, weight: Handle, scale: Handle, *, name: str | None = None) -> Value:
    """x f32 [..., K] by a weight of i8 [N, K] whose rows are `scale` f32 [N] times their integers: f32 [..., N]."""
    return apply(ops.QuantizedMatMul, x, weight, scale, name=name)


def embed(table: Handle, ids: Handle, *, name: str | None = None) -> Value:
    """Rows of `table` [V, ...] at `ids` (ONNX Gather, axis 0)."""
    return apply(ops.Embed, table, ids, name=name)


def rmsnorm(x: Handle, weight: Handle, *, eps: float, name: str | None = None) -> Value:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last axis."""
    return apply(ops.RmsNorm, x, weight, name=name, eps=eps)


def rope(
    x: Handle,
    positions: Handle,
    *,
    theta: float,
    interleaved: bool,
    scaling: tuple[float, float, float, int] | None = None,
    name: str | None = None,
) -> Value:
    """Rotary embedding of x [T, Head, D] at `positions` [T]; pairs (2i, 2i+1) if interleaved, else (i, i + D/2)."""
    return apply(ops.Rope, x, positions, name=name, theta=theta, interleaved=interleaved, scaling=scaling)


def softmax(x: Handle, *, axis: int = -1, name: str | None = None) -> Value:
    """exp(x) / sum(exp(x)) over an axis."""
    return apply(ops.Softmax, x, name=name, axis=axis)


def attention(
    q: Handle,
    k: Handle,
    v: Handle,
    *,
    length: Handle | None = None,
    causal: bool = True,
    scale: float | None = None,
    name: str | None = None,
) -> Value:
    """Attention of q [Tq, Head, D] over k and v [Tk, KVHead, D]; only their first `length` (i32[]) rows exist."""
    extra = () if length is None else (length,)
    return apply(ops.Attention, q, k, v, *extra, name=name, causal=causal, scale=scale)


def cache_init(type: TensorType, rows: Handle | None = None, *, name: str | None = None) -> Value:
    """A cache [S, KVHead, D] that starts with `rows` [T, KVHead, D]; the rest is unspecified."""
    return apply(ops.CacheInit, *(() if rows is None else (rows,)), name=name, type=type)


def cache_append(cache: Handle, rows: Handle, at: Handle, *, name: str | None = None) -> Value:
    """A new cache: `cache` with `rows` written from row `at` (i32[]) on. In place where the plan can prove it."""
    return apply(ops.CacheAppend, cache, rows, at, name=name)


def reshape(x: Handle, dims: Sequence[DimLike], *, name: str | None = None) -> Value:
    """The same elements, row-major, under other dims."""
    return apply(ops.Reshape, x, name=name, dims=_tuple(dims))


def _tuple(values: Any) -> Any:
    """A list as the tuple that an attribute is; anything else as it is, for the op to refuse."""
    return tuple(values) if isinstance(values, list) else values  # type: ignore[reportUnknownVariableType]


def transpose(x: Handle, perm: Sequence[int], *, name: str | None = None) -> Value:
    """Dims in another order."""
    return apply(ops.Transpose, x, name=name, perm=_tuple(perm))


def slice(
    x: Handle, *, axis: int, start: int = 0, stop: int | None = None, step: int = 1, name: str | None = None
) -> Value:
    """`x[start:stop:step]` along one axis."""
    return apply(ops.Slice, x, name=name, axis=axis, start=start, stop=stop, step=step)


def concat(values: Sequence[Handle], *, axis: int, name: str | None = None) -> Value:
    """Values one after the other along an axis."""
    return apply(ops.Concat, *values, name=name, axis=axis)


def cast(x: Handle, dtype: DType, *, name: str | None = None) -> Value:
    """Converts to another dtype, rounding to nearest even."""
    return apply(ops.Cast, x, name=name, dtype=dtype)


def argmax(x: Handle, *, axis: int = -1, name: str | None = None) -> Value:
    """The index of the largest along an axis, the first of equals: i32."""
    return apply(ops.ArgMax, x, name=name, axis=axis)


def sum(x: Handle, *, axis: int, keepdims: bool = False, name: str | None = None) -> Value:
    """The sum along an axis."""
    return apply(ops.Sum, x, name=name, axis=axis, keepdims=keepdims)


def mean(x: Handle, *, axis: int, keepdims: bool = False, name: str | None = None) -> Value:
    """The mean along an axis."""
    return apply(ops.Mean, x, name=name, axis=axis, keepdims=keepdims)


def max(x: Handle, *, axis: int, keepdims: bool = False, name: str | None = None) -> Value:
    """The largest along an axis."""
    return apply(ops.Max, x, name=name, axis=axis, keepdims=keepdims)


def where(cond: Handle, a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a` where `cond` (bool), else `b`."""
    like = a if isinstance(a, Handle) else b
    if not isinstance(like, Handle):
        raise GraphError(f"where: neither {a!r} nor {b!r} is a value of a graph", loc=user_loc())
    return apply(ops.Where, cond, scalar(a, like.type.dtype), scalar(b, like.type.dtype), name=name)


def iota(dim: DimLike, dtype: DType = i32, *, name: str | None = None) -> Value:
    """0, 1, 2, ... along a dim."""
    return apply(ops.Iota, name=name, dim=dim, dtype=dtype)


def size(dim: Dim, *, name: str | None = None) -> Value:
    """The size of a symbolic dim in this run: i32[]."""
    return apply(ops.Size, name=name, dim=dim)


def constant(value: Any, dtype: DType | None = None, *, name: str | None = None) -> Value:
    """A small literal: a number, nested lists or an array; f32, i32 or bool unless `dtype` says otherwise."""
    if dtype is None:
        dtype = _dtype_of_literal(value)
    if not isinstance(dtype, DType):  # pyright: ignore[reportUnnecessaryIsInstance]  # a string, say
        raise GraphError(f"constant: dtype is {dtype!r}, wanted one such as vx.f32", loc=user_loc())
    return literal(value, dtype, name=name)


def _dtype_of_literal(value: Any) -> DType:
    """An array's own dtype; f32, i32 or bool for Python's numbers."""
    try:
        array = np.asarray(value)
        return dtype_of(array) if isinstance(value, np.ndarray) else _PYTHON_KINDS[array.dtype.kind]
    except GraphError as error:
        raise GraphError(error.message, loc=user_loc()) from None
    except (ValueError, KeyError):
        raise GraphError(
            f"{value!r} is no constant; wanted a number, nested lists or an array", loc=user_loc()
        ) from None


def sample(
    logits: Handle,
    *,
    temperature: Handle,
    top_p: Handle,
    seed: Handle,
    position: Handle,
    name: str | None = None,
) -> Value:
    """A token id (i32[]) from logits [V]: greedy at temperature 0, else nucleus sampling from a seed."""
    return apply(ops.Sample, logits, temperature, top_p, seed, position, name=name)
