"""The references against a peer's: every ONNX 1.22 backend node test that one of our ops, or a chain of them, can say.

Each adapter turns a node and its inputs into our ops; `None` means that we have no such thing (a mask, a softcap,
another dtype). The number of cases per ONNX op is pinned, so that none drops out unseen.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.ops.run_op import run
from vxgraph.errors import GraphError
from vxgraph.ir.op import Op
from vxgraph.ir.types import DTYPES, Array, dtype_of
from vxgraph.ops import (
    Add,
    ArgMax,
    Attention,
    CacheAppend,
    Cast,
    Compare,
    Concat,
    Copy,
    Div,
    Embed,
    Exp,
    Gelu,
    MatMul,
    Max,
    Maximum,
    Mean,
    Minimum,
    Mul,
    Neg,
    Relu,
    Reshape,
    RmsNorm,
    Rope,
    Silu,
    Slice,
    Softmax,
    Sqrt,
    Sub,
    Sum,
    Transpose,
    Where,
)
from vxgraph.ops.rope import rotate

onnx = pytest.importorskip("onnx", reason="the onnx wheel carries the cases")
NODES = Path(onnx.__file__).parent / "backend/test/data/node"
Attrs = dict[str, Any]
Adapter = Callable[[Attrs, list[Any], list[Any]], Array | None]


def plain(op: Op) -> Adapter:
    return lambda attrs, ins, outs: run(op, *ins)


def binary(op: Op) -> Adapter:
    return lambda attrs, ins, outs: reduce(lambda a, b: run(op, a, b), ins) if len(ins) > 1 else run(Copy(), ins[0])


def reduction(cls: type[Sum | Mean | Max]) -> Adapter:
    def adapt(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
        x = ins[0]
        if cls is Max and not x.size:
            return None  # -inf there, an error here as in NumPy
        axes = ins[1].tolist() if len(ins) > 1 else attrs.get("axes", [])
        if not axes:
            axes = [] if attrs.get("noop_with_empty_axes") else list(range(x.ndim))
        for axis in sorted((a % x.ndim for a in axes), reverse=True):
            x = run(cls(axis, bool(attrs.get("keepdims", 1))), x)
        return x

    return adapt


def argmax(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    if attrs.get("select_last_index"):
        return None
    axis = attrs.get("axis", 0)
    best = run(ArgMax(axis), ins[0]).astype(np.int64)
    return np.expand_dims(best, axis) if attrs.get("keepdims", 1) else best


def matmul(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(MatMul(), *ins) if ins[1].ndim > 1 else None


def softmax(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(Softmax(attrs.get("axis", -1)), *ins)


def rms_norm(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    x, weight = ins
    lead = x.shape[: attrs.get("axis", -1) % x.ndim]
    rows = run(Reshape((*lead, weight.size)), x)
    normed = run(RmsNorm(attrs.get("epsilon", 1e-5)), rows, run(Reshape((weight.size,)), weight))
    return run(Reshape(x.shape), normed)


def rotary(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    x, cos, sin, positions = (*ins, None)[:4]
    heads = attrs.get("num_heads", 0)
    rows = x.reshape(*x.shape[:2], heads, -1) if x.ndim == 3 else x.transpose(0, 2, 1, 3)  # [batch, T, Head, D]
    turned = attrs.get("rotary_embedding_dim", 0) or rows.shape[-1]
    op = Rope(1e4, bool(attrs.get("interleaved", 0)))
    result = rows.copy()
    for b in range(len(rows)):
        tables = (cos[b], sin[b]) if positions is None else (cos[positions[b]], sin[positions[b]])
        result[b, ..., :turned] = rotate(op, rows[b, ..., :turned], *tables)
    return result.reshape(x.shape) if x.ndim == 3 else result.transpose(0, 2, 1, 3)


def attention(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    q, k, v, mask, past_k, past_v = (*ins, None, None, None)[:6]
    if mask is not None or attrs.get("softcap") or len(ins) > 6:
        return None
    if q.ndim == 3:
        heads = (attrs["q_num_heads"], attrs["kv_num_heads"], attrs["kv_num_heads"])
        q, k, v = (x.reshape(*x.shape[:2], h, -1).transpose(0, 2, 1, 3) for x, h in zip((q, k, v), heads, strict=True))
    if past_k is not None:
        k, v = run(Concat(2), past_k, k), run(Concat(2), past_v, v)
    op = Attention(bool(attrs.get("is_causal", 0)), attrs.get("scale"))
    rows = [[x[b].transpose(1, 0, 2) for x in (q, k, v)] for b in range(len(q))]
    if attrs.get("is_causal") and past_k is None:
        # There the first query sees the first key; here the last query sees the last valid one.
        rows = [[*each, np.array(q.shape[2], np.int32)] for each in rows]
    result = np.stack(list(starmap(lambda *x: run(op, *x), rows)))  # [batch, Tq, Head, Dv]
    return result.reshape(outs[0].shape) if outs[0].ndim == 3 else result.transpose(0, 2, 1, 3)


def tensor_scatter(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    if attrs.get("mode", b"linear") != b"linear":
        return None
    cache, rows, at = ins
    axis = attrs.get("axis", -2) % cache.ndim
    first = [np.moveaxis(x, axis, 1) for x in (cache, rows)]
    each = [run(CacheAppend(), first[0][b], first[1][b], np.int32(at[b])) for b in range(len(cache))]
    return np.moveaxis(np.stack(each), 1, axis)


def gather(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    table, ids = ins
    axis = attrs.get("axis", 0)
    if (ids < 0).any():
        return None  # no id counts from the end
    moved = run(Transpose((axis, *(i for i in range(table.ndim) if i != axis))), table)
    rows = run(Embed(), moved, ids)
    order = list(range(ids.ndim, rows.ndim))
    return run(Transpose((*order[:axis], *range(ids.ndim), *order[axis:])), rows)


def slices(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    x, starts, ends, *rest = ins
    axes = rest[0].tolist() if rest else range(len(starts))
    steps = rest[1].tolist() if len(rest) > 1 else [1] * len(starts)
    for axis, start, stop, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        op = Slice(axis, start, None if stop < -x.shape[axis] else stop, step)
        try:
            x = run(op, x)
        except GraphError:
            return None  # ONNX clamps
    return x


def gelu(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(Gelu(), *ins) if attrs.get("approximate", b"none") == b"none" else None


def swish(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(Silu(), *ins) if attrs.get("alpha", 1.0) == 1.0 else None


def same_elements(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(Reshape(outs[0].shape), ins[0])


def transpose(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(Transpose(tuple(attrs.get("perm", range(ins[0].ndim)[::-1]))), ins[0])


def cast(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(Cast(dtype_of(outs[0])), ins[0])


def concat(attrs: Attrs, ins: list[Any], outs: list[Any]) -> Array | None:
    return run(Concat(attrs["axis"]), *ins)


ADAPTERS: dict[str, tuple[int, Adapter]] = {  # the number of cases it must run
    "Add": (4, binary(Add())),
    "Sub": (5, binary(Sub())),
    "Mul": (5, binary(Mul())),
    "Div": (3, lambda attrs, ins, outs: run(Div(), *ins) if ins[0].dtype.kind == "f" else None),
    "Max": (9, binary(Maximum())),
    "Min": (9, binary(Minimum())),
    "Sum": (3, binary(Add())),
    "Or": (8, binary(Maximum())),
    "And": (8, binary(Minimum())),
    "Neg": (2, plain(Neg())),
    "Exp": (2, plain(Exp())),
    "Sqrt": (2, plain(Sqrt())),
    "Relu": (1, plain(Relu())),
    "Gelu": (2, gelu),
    "Swish": (1, swish),
    "Equal": (4, plain(Compare("eq"))),
    "Less": (4, plain(Compare("lt"))),
    "LessOrEqual": (4, plain(Compare("le"))),
    "Greater": (4, plain(Compare("gt"))),
    "GreaterOrEqual": (4, plain(Compare("ge"))),
    "Where": (2, plain(Where())),
    "Cast": (8, cast),
    "MatMul": (5, matmul),
    "ReduceSum": (12, reduction(Sum)),
    "ReduceMean": (8, reduction(Mean)),
    "ReduceMax": (9, reduction(Max)),
    "ArgMax": (8, argmax),
    "Softmax": (7, softmax),
    "RMSNormalization": (19, rms_norm),
    "RotaryEmbedding": (8, rotary),
    "Attention": (21, attention),
    "TensorScatter": (2, tensor_scatter),
    "Gather": (3, gather),
    "Slice": (5, slices),
    "Concat": (12, concat),
    "Reshape": (10, same_elements),
    "Squeeze": (2, same_elements),
    "Unsqueeze": (7, same_elements),
    "Transpose": (7, transpose),
    "Identity": (3, plain(Copy())),
}


class Case(NamedTuple):
    name: str
    op: str
    attrs: Attrs
    ins: list[Any]
    outs: list[Any]


def cases() -> Iterator[Case]:
    for folder in sorted(os.listdir(NODES)):
        graph = onnx.load(NODES / folder / "model.onnx").graph
        if len(graph.node) == 1 and graph.node[0].op_type in ADAPTERS:
            case = read_case(folder, graph)
            if case is not None:
                yield case


def read_case(folder: str, graph: Any) -> Case | None:
    """The case, or None where a dtype is none of ours."""
    node = graph.node[0]
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    given = dict(zip((i.name for i in graph.input), read_values(folder, "input", len(graph.input)), strict=True))
    outs = read_values(folder, "output", len(graph.output))
    ins = [given[name] if name else None for name in node.input]
    ours = {t.numpy for t in DTYPES.values()}
    if any(x is not None and getattr(x, "dtype", None) not in ours for x in (*ins, *outs)):
        return None
    return Case(folder, node.op_type, attrs, ins, outs)


def read_values(folder: str, kind: str, count: int) -> list[Any]:
    return [read_value(NODES / folder / "test_data_set_0" / f"{kind}_{i}.pb") for i in range(count)]


def read_value(path: Path) -> Any:
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return onnx.numpy_helper.to_array(tensor)
    except Exception:  # a sequence or an optional: no tensor
        return None if not path.exists() else object()


def computed(case: Case) -> Array | None:
    return ADAPTERS[case.op][1](case.attrs, case.ins, case.outs)


CASES = [case for case in cases() if computed(case) is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_reference_gives_what_onnx_gives(case):
    result = computed(case)
    assert result is not None
    assert (result.shape, result.dtype) == (case.outs[0].shape, case.outs[0].dtype)
    rtol = 1e-3 if result.dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(result.astype(float), case.outs[0].astype(float), rtol=rtol, atol=1e-6)


def test_no_case_dropped_out_unseen():
    ran = Counter(case.op for case in CASES)
    assert ran == {op: count for op, (count, _) in ADAPTERS.items()}


def cases_of(op: str, part: str = "") -> list[Case]:
    return [case for case in CASES if case.op == op and part in case.name]


@pytest.mark.case("N01")
def test_grouped_heads_are_onnxs_to_a_millionth():
    grouped = cases_of("Attention", "gqa")
    assert len(grouped) == 6
    for case in grouped:
        np.testing.assert_allclose(computed(case), case.outs[0], rtol=0, atol=1e-6)


@pytest.mark.case("N02")
def test_rms_normalisation_is_onnxs_to_a_millionth():
    for case in cases_of("RMSNormalization"):
        np.testing.assert_allclose(computed(case), case.outs[0], rtol=0, atol=1e-6)


@pytest.mark.case("N05")
def test_both_rotary_layouts_are_onnxs_exactly():
    assert {bool(case.attrs.get("interleaved", 0)) for case in cases_of("RotaryEmbedding")} == {False, True}
    for case in cases_of("RotaryEmbedding"):
        np.testing.assert_array_equal(computed(case), case.outs[0])
