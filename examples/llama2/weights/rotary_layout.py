"""The two orders in which the rows of a query or key projection can be stored.

    half-split rows of a head (Hugging Face)    0 1 2 3     rows i and i + head_dim / 2 rotate together
    interleaved rows of it (Meta, GGUF)         0 2 1 3     rows 2i and 2i + 1 rotate together

Either order gives the same attention when it meets its own rotation. `heads` is the number of heads *of that weight*:
with grouped queries, `wk` has `kv_heads` of them.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from vxgraph.errors import VxError

Array = npt.NDArray[Any]


def interleave_rows(weight: Array, heads: int) -> Array:
    """Half-split `[heads * head_dim, ...]` -> interleaved: row `i + j * head_dim / 2` of a head becomes `2 * i + j`.

    Raises `VxError` when the rows are not `heads` heads of an even number of rows.
    """
    pairs = _pairs_per_head(weight, heads)
    return weight.reshape(heads, 2, pairs, -1).swapaxes(1, 2).reshape(weight.shape)


def half_split_rows(weight: Array, heads: int) -> Array:
    """Interleaved `[heads * head_dim, ...]` -> half-split: row `2 * i + j` of a head becomes `i + j * head_dim / 2`.

    Raises `VxError` when the rows are not `heads` heads of an even number of rows.
    """
    pairs = _pairs_per_head(weight, heads)
    return weight.reshape(heads, pairs, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def _pairs_per_head(weight: Array, heads: int) -> int:
    rows = weight.shape[0]
    if rows % (2 * heads):
        raise VxError(f"{rows} rows are not {heads} heads of an even number of rows; heads is that of this weight")
    return rows // (2 * heads)
