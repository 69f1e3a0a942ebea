"""A SentencePiece `.model`: a protobuf message with the pieces, the trainer's settings and the normaliser's.

    ModelProto        1 pieces (repeated)   2 trainer_spec   3 normalizer_spec
    SentencePiece     1 piece   2 score   3 type
    TrainerSpec       3 model_type (2 is BPE)   41 bos_id   42 eos_id
    NormalizerSpec    2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces

Field numbers: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto. Few enough are read
that the wire format (tag, then a varint, 4 or 8 bytes, or a length and bytes) is read here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from examples.llama2.tokenizer.base import Tokenizer, stops
from examples.llama2.tokenizer.score_merge import Kind, printed, score_merge
from vxgraph.errors import CheckpointError

Field = int | bytes
BPE = 2
_LAST_SHIFT = 56  # of a varint of ten bytes, the one before its last


def read(path: Path) -> Tokenizer:
    """The tokenizer of the SentencePiece model `path`. Raises `CheckpointError` where that is no whole BPE model."""
    try:
        fields = list(_fields(path.read_bytes()))
        pieces = [_piece(_message(value)) for number, value in fields if number == 1]
        trainer, normaliser = (_message(b"".join(_bytes(v) for n, v in fields if n == wanted)) for wanted in (2, 3))
        bos, eos = _token(trainer.get(41, 1)), _token(trainer.get(42, 2))
    except (ValueError, IndexError, struct.error):
        raise CheckpointError(f"{path}: not a SentencePiece model, or cut off; fetch it again") from None
    _check(pieces, trainer, normaliser, str(path))
    names, scores, kinds = zip(*pieces, strict=True)
    for key, token in (("bos_id", bos), ("eos_id", eos)):
        if token is not None and token >= len(pieces):
            raise CheckpointError(f"{path}: {key} is {token}, but the vocabulary has {len(pieces)} pieces")
    space = bool(normaliser.get(3, 1))
    encode = score_merge(names, scores, kinds, space_prefix=space, source=str(path))
    special = {name: token for token, name in enumerate(names) if kinds[token] == Kind.CONTROL and name}
    return Tokenizer(
        source=str(path),
        pieces=tuple(map(printed, names, kinds)),
        special=special,
        encode_text=encode,
        bos_id=bos,
        add_bos=True,
        stop_ids=stops(special, eos),
        space_prefix=space,
    )


def _check(
    pieces: list[tuple[str, float, int]], trainer: dict[int, Field], normaliser: dict[int, Field], path: str
) -> None:
    if not pieces:
        raise CheckpointError(f"{path}: not a SentencePiece model: it has no pieces")
    if trainer.get(3, 1) != BPE:
        raise CheckpointError(f"{path}: SentencePiece model type {trainer.get(3, 1)}; only BPE (2) can be read")
    if normaliser.get(2) or normaliser.get(4, 1):
        raise CheckpointError(
            f"{path}: this SentencePiece model rewrites the text before it splits it, which is not done here;"
            " give the model's tokenizer.json"
        )


def _piece(fields: dict[int, Field]) -> tuple[str, float, int]:
    score: float = struct.unpack("<f", _bytes(fields.get(2, bytes(4))))[0]
    return _bytes(fields.get(1, b"")).decode(), score, _int(fields.get(3, Kind.NORMAL))


def _token(field: Field) -> int | None:
    """An id; SentencePiece writes 'none' as -1, in a varint of 64 bits."""
    token = _int(field)
    return token if token < 1 << 31 else None


def _message(field: Field) -> dict[int, Field]:
    return dict(_fields(_bytes(field)))


def _bytes(field: Field) -> bytes:
    if not isinstance(field, bytes):
        raise ValueError(f"a number where bytes were wanted: {field}")
    return field


def _int(field: Field) -> int:
    if not isinstance(field, int):
        raise ValueError(f"bytes where a number was wanted: {field!r}")
    return field


def _fields(data: bytes) -> Iterator[tuple[int, Field]]:
    """The fields of one message, as number and value. Raises `ValueError` or `IndexError` where it is no message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(data, at)
            case 5:
                size = 4
            case wire:
                raise ValueError(f"wire type {wire}")
        if at + size > len(data):
            raise ValueError("cut off")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        if shift > _LAST_SHIFT:
            raise ValueError("a varint of more than 64 bits")
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1
