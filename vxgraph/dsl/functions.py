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
from vxgraph.dsl.trace import Handle, entered, frame, local_name, user_loc
from vxgraph.dsl.value import Operand, Value, apply, binary, scalar
from vxgraph.errors import GraphError, Loc
from vxgraph.ir.builder import GraphBuilder
from vxgraph.ir.graph import Input, Result
from vxgraph.ir.types import Dim, DimLike, DType, TensorType, bool_, dtype_of, f32, i32
from vxgraph.ops.loop import STOP

_PYTHON_KINDS = {"f": f32, "i": i32, "b": bool_}


def input(name: str, type: TensorType) -> Value:
    """A per-call input. Inside `on(place)` its home is that place; outside, it goes wherever it is read."""
    here, loc = frame(), user_loc()
    full = here.builder.arg(here.scope + name, type, place=here.place, loc=loc)
    return Value(here.builder, full, type)


def param(name: str, type: TensorType) -> Value:
    """A resident input: staged once, when a session opens, wherever it is read."""
    here, loc = frame(), user_loc()
    full = here.builder.param(here.scope + name, type, place=here.place, loc=loc)
    return Value(here.builder, full, type)


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
    here.builder.result(STOP, local_name(when, here, loc), loc=loc)


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
    inner = GraphBuilder(here.scope + name, names=here.builder.names, dims=here.builder.dims)
    inits = [local_name(v, here, loc) for v in init]
    args = [_carry(inner, outer, here.builder.types[outer], loc) for outer in inits]
    with entered(replace(here, builder=inner, outer=here)):
        nexts = body(*args)
        if len(nexts) != len(args):
            raise GraphError(f"the loop carries {len(args)} values, but its body returns {len(nexts)}", loc=loc)
        inside = frame()
        carried = [Result(a.name, local_name(v, inside, loc)) for a, v in zip(args, nexts, strict=True)]
    inner.results = [*carried, *inner.results]
    op = ops.Loop(body=inner.build(), carried=len(args), max_steps=max_steps, limited=steps is not None)
    limit = () if steps is None else (local_name(steps, here, loc),)
    node = here.builder.add(op, [*inits, *inner.captures, *limit], base=here.scope + name, loc=loc)
    *outs, done = (Value(here.builder, o, t) for o, t in zip(node.outputs, node.types, strict=True))
    return tuple(outs), done


def _carry(inner: GraphBuilder, outer: str, type: TensorType, loc: Loc) -> Value:
    """The body's arg for one carried value."""
    name = inner.names.fresh(f"{outer}.step", loc)
    inner.args.append(Input(name, type, None, loc))
    inner.types[name] = type
    return Value(inner, name, type)


def add(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a + b`, elementwise with broadcasting."""
    return binary(ops.Add(), a, b, name=name)


def sub(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a - b`, elementwise with broadcasting."""
    return binary(ops.Sub(), a, b, name=name)


def mul(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a * b`, elementwise with broadcasting."""
    return binary(ops.Mul(), a, b, name=name)


def div(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a / b`, elementwise with broadcasting."""
    return binary(ops.Div(), a, b, name=name)


def maximum(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """The larger of two, elementwise; `or` of bools."""
    return binary(ops.Maximum(), a, b, name=name)


def minimum(a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """The smaller of two, elementwise; `and` of bools."""
    return binary(ops.Minimum(), a, b, name=name)


def compare(
    a: Operand, b: Operand, kind: Literal["eq", "ne", "lt", "le", "gt", "ge"], *, name: str | None = None
) -> Value:
    """`a == b` and its kin, elementwise with broadcasting: bool."""
    return binary(ops.Compare(kind=kind), a, b, name=name)


def neg(x: Handle, *, name: str | None = None) -> Value:
    """`-x`."""
    return apply(ops.Neg(), x, name=name)


def exp(x: Handle, *, name: str | None = None) -> Value:
    """e to the x."""
    return apply(ops.Exp(), x, name=name)


def sqrt(x: Handle, *, name: str | None = None) -> Value:
    """The square root."""
    return apply(ops.Sqrt(), x, name=name)


def rsqrt(x: Handle, *, name: str | None = None) -> Value:
    """One over the square root."""
    return apply(ops.Rsqrt(), x, name=name)


def silu(x: Handle, *, name: str | None = None) -> Value:
    """`x * sigmoid(x)` (ONNX Swish)."""
    return apply(ops.Silu(), x, name=name)


def gelu(x: Handle, *, name: str | None = None) -> Value:
    """`x * Phi(x)`, exact (by erf)."""
    return apply(ops.Gelu(), x, name=name)


def relu(x: Handle, *, name: str | None = None) -> Value:
    """`max(x, 0)`."""
    return apply(ops.Relu(), x, name=name)


def matmul(a: Handle, b: Handle, *, name: str | None = None) -> Value:
    """`a @ b`: [..., M, K] by [..., K, N]."""
    return apply(ops.MatMul(), a, b, name=name)


def embed(table: Handle, ids: Handle, *, name: str | None = None) -> Value:
    """Rows of `table` [V, ...] at `ids` (ONNX Gather, axis 0)."""
    return apply(ops.Embed(), table, ids, name=name)


def rmsnorm(x: Handle, weight: Handle, *, eps: float, name: str | None = None) -> Value:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last axis."""
    return apply(ops.RmsNorm(eps=eps), x, weight, name=name)


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
    return apply(ops.Rope(theta=theta, interleaved=interleaved, scaling=scaling), x, positions, name=name)


def softmax(x: Handle, *, axis: int = -1, name: str | None = None) -> Value:
    """exp(x) / sum(exp(x)) over an axis."""
    return apply(ops.Softmax(axis=axis), x, name=name)


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
    return apply(ops.Attention(causal=causal, scale=scale), q, k, v, *extra, name=name)


def cache_init(type: TensorType, rows: Handle | None = None, *, name: str | None = None) -> Value:
    """A cache [S, KVHead, D] that starts with `rows` [T, KVHead, D]; the rest is unspecified."""
    return apply(ops.CacheInit(type=type), *(() if rows is None else (rows,)), name=name)


def cache_append(cache: Handle, rows: Handle, at: Handle, *, name: str | None = None) -> Value:
    """A new cache: `cache` with `rows` written from row `at` (i32[]) on. In place where the plan can prove it."""
    return apply(ops.CacheAppend(), cache, rows, at, name=name)


def reshape(x: Handle, dims: Sequence[DimLike], *, name: str | None = None) -> Value:
    """The same elements, row-major, under other dims."""
    return apply(ops.Reshape(dims=tuple(dims)), x, name=name)


def transpose(x: Handle, perm: Sequence[int], *, name: str | None = None) -> Value:
    """Dims in another order."""
    return apply(ops.Transpose(perm=tuple(perm)), x, name=name)


def slice(
    x: Handle, *, axis: int, start: int = 0, stop: int | None = None, step: int = 1, name: str | None = None
) -> Value:
    """`x[start:stop:step]` along one axis."""
    return apply(ops.Slice(axis=axis, start=start, stop=stop, step=step), x, name=name)


def concat(values: Sequence[Handle], *, axis: int, name: str | None = None) -> Value:
    """Values one after the other along an axis."""
    return apply(ops.Concat(axis=axis), *values, name=name)


def cast(x: Handle, dtype: DType, *, name: str | None = None) -> Value:
    """Converts to another dtype, rounding to nearest even."""
    return apply(ops.Cast(dtype=dtype), x, name=name)


def argmax(x: Handle, *, axis: int = -1, name: str | None = None) -> Value:
    """The index of the largest along an axis, the first of equals: i32."""
    return apply(ops.ArgMax(axis=axis), x, name=name)


def sum(x: Handle, *, axis: int, keepdims: bool = False, name: str | None = None) -> Value:
    """The sum along an axis."""
    return apply(ops.Sum(axis=axis, keepdims=keepdims), x, name=name)


def mean(x: Handle, *, axis: int, keepdims: bool = False, name: str | None = None) -> Value:
    """The mean along an axis."""
    return apply(ops.Mean(axis=axis, keepdims=keepdims), x, name=name)


def max(x: Handle, *, axis: int, keepdims: bool = False, name: str | None = None) -> Value:
    """The largest along an axis."""
    return apply(ops.Max(axis=axis, keepdims=keepdims), x, name=name)


def where(cond: Handle, a: Operand, b: Operand, *, name: str | None = None) -> Value:
    """`a` where `cond` (bool), else `b`."""
    like = a if isinstance(a, Handle) else b
    if not isinstance(like, Handle):
        raise GraphError(f"where: neither {a!r} nor {b!r} is a value of a graph", loc=user_loc())
    return apply(ops.Where(), cond, scalar(a, like.type.dtype), scalar(b, like.type.dtype), name=name)


def iota(dim: DimLike, dtype: DType = i32, *, name: str | None = None) -> Value:
    """0, 1, 2, ... along a dim."""
    return apply(ops.Iota(dim=dim, dtype=dtype), name=name)


def size(dim: Dim, *, name: str | None = None) -> Value:
    """The size of a symbolic dim in this run: i32[]."""
    return apply(ops.Size(dim=dim), name=name)


def constant(value: Any, dtype: DType | None = None, *, name: str | None = None) -> Value:
    """A small literal: a number, nested lists or an array; f32, i32 or bool unless `dtype` says otherwise."""
    array = np.asarray(value)
    if dtype is None:
        dtype = dtype_of(array) if isinstance(value, np.ndarray) else _PYTHON_KINDS[array.dtype.kind]
    return apply(ops.constant_of(array.astype(dtype.numpy)), name=name)


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
    return apply(ops.Sample(), logits, temperature, top_p, seed, position, name=name)
