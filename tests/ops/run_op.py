"""Runs one op's reference on arrays, and holds every result to what the op infers: dims, dtype, layout, freshness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from vxgraph.errors import GraphError, Loc
from vxgraph.ir.builder import GraphBuilder
from vxgraph.ir.op import Op
from vxgraph.ir.types import Array, Sizes, TensorType, dtype_of


def type_of(x: Array) -> TensorType:
    return TensorType(dtype_of(x), x.shape)


def run(op: Op, *arrays: Array, types: Sequence[TensorType] | None = None, sizes: Sizes | None = None) -> Array:
    """The op's one result; `types` where dims are named."""
    arrays = tuple(np.asarray(x) for x in arrays)
    (inferred,) = op.infer(*(types or map(type_of, arrays)))
    before = [x.copy() for x in arrays]
    (result,) = op.reference(sizes or {}, *arrays)
    assert (result.dtype, result.shape) == (inferred.dtype.numpy, inferred.shape(sizes or {}))
    assert result.flags.c_contiguous
    assert all(stride >= 0 for stride in result.strides)
    for x, was in zip(arrays, before, strict=True):
        assert not np.shares_memory(result, x)
        assert x.tobytes() == was.tobytes()
    return result


def error(op: Op, *types: TensorType) -> str:
    """The whole message of a graph that applies the op at model.py:7 to %a, %b, ... of these types."""
    g = GraphBuilder("g")
    names = [g.arg("abcdef"[i], t) for i, t in enumerate(types)]
    with pytest.raises(GraphError) as caught:
        g.add(op, names, loc=Loc("model.py", 7))
    return str(caught.value)
