"""What a kernel found wrong while it ran, told to the host in the words of the NumPy backend.

A topology has one record of FAULT_WORDS int64 in device memory, all zeros when nothing is wrong:

    code, site, a, b, c        CACHE_APPEND, 17, 512, 1, 512 -> "1 rows at 512 do not fit the cache, which has 512 rows"

The first kernel that finds a fault writes it and writes no result; later ones leave it. The host reads it when it waits
for the stream, raises `fault(...)`, and zeros it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from vxgraph.errors import InternalError, RunError
from vxgraph.ops import Attention
from vxgraph.ops.attention import check_length
from vxgraph.ops.cache import check_append
from vxgraph.ops.nn import check_ids

FAULT_WORDS = 5


class Code(IntEnum):
    """What was wrong, and what the record's last three words are; the kernels of cuda/ write these numbers."""

    CACHE_APPEND = 1  # at, rows, capacity
    CAUSAL_LENGTH = 2  # length, queries, capacity
    LENGTH = 3  # the same, where not causal
    EMBED_ID = 4  # id, rows, 0


def fault(code: int, values: Sequence[int]) -> RunError:
    """The error that a record's code and last three words stand for: the one that the op's own check raises."""
    a, b, c = map(int, values)
    if code not in Code.__members__.values():
        raise InternalError(f"a kernel's fault record has code {code}: it was read before it was written")
    try:
        match Code(code):
            case Code.CACHE_APPEND:
                check_append(a, rows=b, capacity=c)
            case Code.CAUSAL_LENGTH | Code.LENGTH:
                check_length(Attention(causal=code == Code.CAUSAL_LENGTH), a, queries=b, capacity=c)
            case Code.EMBED_ID:
                check_ids(np.array([a]), b)
    except RunError as error:
        return error
    raise InternalError(f"a kernel reported {Code(code).name} of {a}, {b}, {c}, which is no fault")
