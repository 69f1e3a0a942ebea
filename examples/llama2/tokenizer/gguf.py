"""The tokenizer in a GGUF file's metadata: `tokenizer.ggml.model` is "gpt2" (BPE) or "llama" (SentencePiece)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from examples.llama2.tokenizer.base import Tokenizer, stops
from examples.llama2.tokenizer.extras import extra
from examples.llama2.tokenizer.score_merge import Kind, score_merge
from examples.llama2.tokenizer.score_merge import printed as piece_bytes
from examples.llama2.weights.gguf_header import read_gguf_header
from vxgraph.errors import CheckpointError

T = TypeVar("T", int, float, bool, str)


def read(path: Path) -> Tokenizer:
    """The tokenizer of the GGUF file `path`. Raises `CheckpointError` where the file has none that is known here."""
    keys = _Keys(read_gguf_header(path).metadata, str(path))
    match model := keys.value("model", str):
        case "llama":
            return _sentencepiece(keys)
        case "gpt2":
            return _byte_level(keys)
        case _:
            raise CheckpointError(f"{path}: tokenizer.ggml.model is {model!r}; known are 'gpt2' and 'llama'")


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys below `tokenizer.ggml`, with their types checked."""

    found: Mapping[str, Any]
    path: str

    def value(self, key: str, kind: type[T], default: T | None = None) -> T:
        value = self.found.get(f"tokenizer.ggml.{key}", default)
        if not isinstance(value, kind):
            raise self._wrong(key, value, kind.__name__)
        return value

    def array(self, key: str, kind: type[T]) -> list[T]:
        values = self.found.get(f"tokenizer.ggml.{key}")
        first = cast("list[object]", values)[:1] if isinstance(values, list) else [None]
        if not all(isinstance(value, kind) for value in first):  # the format gives an array one type
            raise self._wrong(key, values, f"array of {kind.__name__}")
        return cast("list[T]", values)

    def per_token(self, key: str, kind: type[T], tokens: int) -> list[T]:
        values = self.array(key, kind)
        if len(values) != tokens:
            found = f"tokenizer.ggml.{key} has {len(values)} entries"
            raise CheckpointError(f"{self.path}: {found}, but tokenizer.ggml.tokens has {tokens}")
        return values

    def token(self, key: str, tokens: int) -> int | None:
        if f"tokenizer.ggml.{key}" not in self.found:
            return None
        token = self.value(key, int)
        if not 0 <= token < tokens:
            raise CheckpointError(
                f"{self.path}: tokenizer.ggml.{key} is {token}, but the vocabulary has {tokens} tokens"
            )
        return token

    def _wrong(self, key: str, value: Any, wanted: str) -> CheckpointError:
        found = "is missing" if value is None else f"is {value!r:.40}"
        return CheckpointError(f"{self.path}: tokenizer.ggml.{key} {found}; wanted: {wanted}")


def _sentencepiece(keys: _Keys) -> Tokenizer:
    names, kinds = _vocabulary(keys)
    scores = keys.per_token("scores", float, len(names))
    space = keys.value("add_space_prefix", bool, True)
    encode = score_merge(names, scores, kinds, space_prefix=space, source=keys.path)
    pieces = tuple(map(piece_bytes, names, kinds))
    return _tokenizer(keys, names, kinds, pieces=pieces, encode=encode, add_bos=True, space_prefix=space)


def _byte_level(keys: _Keys) -> Tokenizer:
    with extra("tokenizers", needed_by=keys.path):
        from examples.llama2.tokenizer.byte_level import byte_letters, byte_level, printed
    names, kinds = _vocabulary(keys)
    pre = keys.value("pre", str)
    whole = [name for name, kind in zip(names, kinds, strict=True) if kind == Kind.USER_DEFINED]
    encode = byte_level(names, keys.array("merges", str), pre=pre, whole=whole, source=keys.path)
    letters, silent = byte_letters(), (Kind.CONTROL, Kind.UNKNOWN)
    pieces = tuple(b"" if kind in silent else printed(name, letters) for name, kind in zip(names, kinds, strict=True))
    return _tokenizer(keys, names, kinds, pieces=pieces, encode=encode, add_bos=pre == "llama-bpe", space_prefix=False)


def _vocabulary(keys: _Keys) -> tuple[list[str], list[int]]:
    names = keys.array("tokens", str)
    return names, keys.per_token("token_type", int, len(names))


def _tokenizer(
    keys: _Keys,
    names: Sequence[str],
    kinds: Sequence[int],
    *,
    pieces: tuple[bytes, ...],
    encode: Callable[[str], list[int]],
    add_bos: bool,
    space_prefix: bool,
) -> Tokenizer:
    special = {name: token for token, name in enumerate(names) if kinds[token] == Kind.CONTROL and name}
    endings = [keys.token(f"{name}_token_id", len(names)) for name in ("eos", "eot", "eom")]
    template = keys.found.get("tokenizer.chat_template")
    return Tokenizer(
        source=keys.path,
        pieces=pieces,
        special=special,
        encode_text=encode,
        bos_id=keys.token("bos_token_id", len(names)),
        add_bos=keys.value("add_bos_token", bool, add_bos),
        stop_ids=stops(special, *endings),
        space_prefix=space_prefix,
        chat_template=template if isinstance(template, str) else None,
    )
