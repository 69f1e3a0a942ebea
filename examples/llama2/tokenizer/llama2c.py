"""llama2.c's `tokenizer.bin`: i32 longest piece in bytes, then f32 score, i32 length and bytes for each piece.

Little-endian, in order of ids, with spaces for SentencePiece's U+2581 (`tokenizer.py` of
https://github.com/karpathy/llama2.c). The file does not say which pieces are special: ids 0, 1 and 2 are <unk>, <s> and
</s>. The models that come with it begin a new story with <s>, so that ends a generation too, as in `run.c`.
"""

from __future__ import annotations

import struct
from pathlib import Path

from examples.llama2.tokenizer.base import Tokenizer
from examples.llama2.tokenizer.score_merge import SPACE, Kind, printed, score_merge
from vxgraph.errors import CheckpointError

UNK, BOS, EOS = "<unk>", "<s>", "</s>"
BYTES = frozenset(map("<0x{:02X}>".format, range(256)))


def read(path: Path) -> Tokenizer:
    """The tokenizer of the llama2.c file `path`. Raises `CheckpointError` where it is cut off or of another kind."""
    names, scores = _pieces(path.read_bytes(), str(path))
    if [name.strip() for name in names[:3]] != [UNK, BOS, EOS]:
        raise CheckpointError(
            f"{path}: not a llama2.c tokenizer: its first pieces are {names[:3]}, not <unk>, <s>, </s>"
        )
    kinds = [Kind.UNKNOWN, Kind.CONTROL, Kind.CONTROL]
    kinds += [Kind.BYTE if name in BYTES and token < 259 else Kind.NORMAL for token, name in enumerate(names[3:], 3)]
    return Tokenizer(
        source=str(path),
        pieces=tuple(map(printed, names, kinds)),
        special={BOS: 1, EOS: 2},
        encode_text=score_merge(names, scores, kinds, space_prefix=True, source=str(path)),
        bos_id=1,
        add_bos=True,
        stop_ids=(1, 2),
        space_prefix=True,
    )


def _pieces(data: bytes, path: str) -> tuple[list[str], list[float]]:
    names: list[str] = []
    scores: list[float] = []
    at = 4
    while at < len(data):
        score, size = struct.unpack_from("<fi", data, at) if at + 8 <= len(data) else (0.0, -1)
        end = at + 8 + size
        if size < 0 or end > len(data):
            raise CheckpointError(
                f"{path}: not a llama2.c tokenizer, or cut off: piece {len(names)}, which begins at byte {at},"
                f" does not fit into the file's {len(data)} bytes"
            )
        names.append(_name(data[at + 8 : end], len(names), path))
        scores.append(score)
        at = end
    return names, scores


def _name(raw: bytes, token: int, path: str) -> str:
    try:
        return raw.decode().replace(" ", SPACE)
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not a llama2.c tokenizer: piece {token} is {raw[:40]!r}, not UTF-8") from None
