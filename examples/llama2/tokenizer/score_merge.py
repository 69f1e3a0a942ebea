"""SentencePiece's BPE: merge the neighbours whose joined piece has the best score, until none has one.

    ' Hello'  ->  ▁ H e l l o  ->  ▁ H el l o  ->  ▁ H ell o  ->  ▁Hello

The algorithm is that of Kudo and Richardson, "SentencePiece" (2018), as its `bpe_model.cc` has it: spaces are written
as U+2581, the best score goes first and the leftmost of equals, and a character outside the vocabulary becomes the
tokens of its UTF-8 bytes.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from vxgraph.errors import CheckpointError

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


class Kind(IntEnum):
    """What a piece is, with the numbers of SentencePiece's and GGUF's token types."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4  # matched in the text before anything is merged
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class ScoreMerge:
    """Encodes text by the scores of the pieces."""

    ids: Mapping[str, int]
    scores: Sequence[float]  # by id
    bytes: tuple[int, ...]  # the id of each of the 256 bytes
    whole: frozenset[str]  # user-defined pieces, which merge with nothing
    space_prefix: bool

    def __call__(self, text: str) -> list[int]:
        """The ids of `text`. An empty text has none."""
        if not text:
            return []
        escaped = (" " * self.space_prefix + text).replace(" ", SPACE)
        return [token for symbol in self._merge(self._symbols(escaped)) for token in self._tokens(symbol)]

    def _symbols(self, text: str) -> list[str]:
        if not self.whole:
            return list(text)
        names = "|".join(map(re.escape, sorted(self.whole, key=len, reverse=True)))
        return re.findall(f"(?s){names}|.", text)

    def _merge(self, symbols: list[str]) -> list[str]:
        """A merged symbol stands at its left neighbour's index; the right one's becomes empty."""
        before = list(range(-1, len(symbols) - 1))
        after = [*range(1, len(symbols)), -1]
        best: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left < 0 or right < 0 or symbols[left] in self.whole or symbols[right] in self.whole:
                return
            joined = symbols[left] + symbols[right]
            if joined in self.ids:
                heapq.heappush(best, (-self.scores[self.ids[joined]], left, right, joined))

        for left in range(len(symbols) - 1):
            offer(left, left + 1)
        while best:
            _, left, right, joined = heapq.heappop(best)
            # An offer is stale once either side has merged with another neighbour.
            if symbols[left] + symbols[right] != joined:
                continue
            symbols[left], symbols[right] = joined, ""
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            offer(before[left], left)
            offer(left, after[left])
        return [symbol for symbol in symbols if symbol]

    def _tokens(self, symbol: str) -> list[int]:
        found = self.ids.get(symbol)
        return [found] if found is not None else [self.bytes[byte] for byte in symbol.encode()]


def score_merge(
    names: Sequence[str], scores: Sequence[float], kinds: Sequence[int], *, space_prefix: bool, source: str
) -> ScoreMerge:
    """The encoder of a vocabulary of `names`, by id. Raises `CheckpointError` where a byte has no piece, or is none."""
    merging = (Kind.NORMAL, Kind.USER_DEFINED, Kind.UNUSED)
    ids = {name: token for token, (name, kind) in enumerate(zip(names, kinds, strict=True)) if kind in merging}
    whole = frozenset(name for name, kind in zip(names, kinds, strict=True) if kind == Kind.USER_DEFINED and name)
    byte_ids = {name: token for token, name in enumerate(names) if kinds[token] == Kind.BYTE}
    missing = [name for name in map("<0x{:02X}>".format, range(256)) if name not in byte_ids]
    if missing:
        raise CheckpointError(
            f"{source}: the vocabulary has no piece {missing[0]}"
            f" ({len(missing)} of the 256 bytes are missing), so not every text can be encoded"
        )
    if other := [name for name in byte_ids if not BYTE.fullmatch(name)]:
        raise CheckpointError(f"{source}: the piece {other[0]!r:.60} is said to be a byte; those are <0x00> to <0xFF>")
    return ScoreMerge(ids, scores, tuple(byte_ids[f"<0x{byte:02X}>"] for byte in range(256)), whole, space_prefix)


def printed(name: str, kind: int) -> bytes:
    """The bytes that a piece prints: those of its text with spaces, of one byte, or none."""
    match kind:
        case Kind.BYTE:
            return bytes([int(name[3:5], 16)])
        case Kind.CONTROL | Kind.UNKNOWN:
            return b""
        case _:
            return name.replace(SPACE, " ").encode()
