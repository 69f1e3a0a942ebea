"""A Hugging Face `tokenizer.json`, read and run by the `tokenizers` package.

Decoding is done by `base.StreamDecoder`, so the file must decode as Llama-architecture models do: by bytes
("ByteLevel"), or by SentencePiece's rules ("Metaspace", or "Replace" and "ByteFallback").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer as Package

from examples.llama2.tokenizer import byte_level, score_merge
from examples.llama2.tokenizer.base import Tokenizer, stops
from examples.llama2.tokenizer.model_config import parse_json
from examples.llama2.tokenizer.score_merge import BYTE, Kind
from vxgraph.errors import CheckpointError


def read(path: Path) -> Tokenizer:
    """The tokenizer of the file `path`, with BOS where the file puts a special token before every text.

    Raises `CheckpointError` where the file is broken, or decodes in a way that is not known here.
    """
    text = path.read_bytes()
    decoder: Any = _settings(text, str(path)).get("decoder") or {}
    with byte_level.package_errors(f"{path}: not a tokenizer.json"):
        package = Package.from_buffer(text)
        package.no_padding()
        special = {token.content: at for at, token in package.get_added_tokens_decoder().items() if token.special}
        first = package.encode("a").ids[:1]
    bos = first[0] if first and first[0] in special.values() else None
    return Tokenizer(
        source=str(path),
        pieces=_pieces(package, decoder, str(path)),
        special=special,
        encode_text=byte_level.plain_encoder(package, source=str(path)),
        bos_id=bos,
        add_bos=bos is not None,
        stop_ids=stops(special),
        space_prefix=_space_prefix(decoder),
    )


def _settings(text: bytes, path: str) -> dict[str, Any]:
    """The file's JSON. Token ids are checked here: the package makes room for all up to the largest."""
    found = parse_json(text, path)
    model: Any = found.get("model")
    vocab: Any = cast("dict[str, Any]", model).get("vocab") if isinstance(model, dict) else None
    ids = list(cast("dict[str, Any]", vocab).values()) if isinstance(vocab, dict) else []
    if too_large := [token for token in ids if isinstance(token, int) and token > len(text)]:
        raise CheckpointError(
            f"{path}: model.vocab has the id {too_large[0]}, which is more than a file of {len(text)} bytes has pieces"
        )
    return found


def _steps(decoder: dict[str, Any]) -> dict[str, dict[str, Any]]:
    steps = decoder.get("decoders", [decoder] if decoder else [])
    return {step["type"]: step for step in steps}  # as the package has read them too


def _space_prefix(decoder: dict[str, Any]) -> bool:
    steps = _steps(decoder)
    return "Strip" in steps or steps.get("Metaspace", {}).get("prepend_scheme", "never") != "never"


def _pieces(package: Package, decoder: dict[str, Any], path: str) -> tuple[bytes, ...]:
    """What each id prints; ids between the vocabulary's and the added tokens' may be nobody's and print nothing."""
    steps = _steps(decoder)
    names = {token: name for name, token in package.get_vocab(with_added_tokens=False).items()}
    if "ByteLevel" in steps:
        letters = byte_level.byte_letters()
        pieces = {token: byte_level.printed(name, letters) for token, name in names.items()}
    elif "ByteFallback" in steps or "Metaspace" in steps:
        pieces = {token: score_merge.printed(name, _kind(name)) for token, name in names.items()}
    else:
        found = " and ".join(steps) or "nothing"
        raise CheckpointError(f"{path}: the decoder is {found}; known are ByteLevel, ByteFallback and Metaspace")
    for token, added in package.get_added_tokens_decoder().items():
        pieces[token] = b"" if added.special else added.content.encode()
    return tuple(pieces.get(token, b"") for token in range(max(pieces, default=-1) + 1))


def _kind(name: str) -> Kind:
    return Kind.BYTE if BYTE.fullmatch(name) else Kind.NORMAL
