"""The tokenizer in a GGUF file's metadata: `tokenizer.ggml.model` is "gpt2" (BPE) or "llama" (SentencePiece)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from examples.llama2.tokenizer import score_merge
from examples.llama2.tokenizer.base import Tokenizer, stops
from examples.llama2.tokenizer.extras import extra
from examples.llama2.tokenizer.gguf_metadata import Value, read_metadata
from examples.llama2.tokenizer.score_merge import Kind
from vxgraph.errors import CheckpointError

T = TypeVar("T")


def read(path: Path) -> Tokenizer:
    """The tokenizer of the GGUF file `path`. Raises `CheckpointError` where the file has none that is known here."""
    keys = _Keys(read_metadata(path), str(path))
    match model := keys.get("model", str):
        case "llama":
            return _sentencepiece(keys)
        case "gpt2":
            return _byte_level(keys)
        case _:
            raise CheckpointError(f"{path}: tokenizer.ggml.model is {model!r}; known are 'gpt2' and 'llama'")


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys below `tokenizer.ggml`, with their types checked."""

    found: Mapping[str, Value]
    path: str

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        value = self.found.get(f"tokenizer.ggml.{key}", default)
        if not isinstance(value, kind):
            has = "is missing" if value is None else f"is {value!r:.40}"
            raise CheckpointError(f"{self.path}: tokenizer.ggml.{key} {has}, but a tokenizer needs {kind.__name__} there")
        return value

    def token(self, key: str, vocab: int) -> int | None:
        if f"tokenizer.ggml.{key}" not in self.found:
            return None
        token = self.get(key, int)
        if not 0 <= token < vocab:
            raise CheckpointError(f"{self.path}: tokenizer.ggml.{key} is {token}, but the vocabulary has {vocab} tokens")
        return token

    def per_token(self, key: str, vocab: int) -> list[float]:
        values = self.get(key, list)
        if len(values) != vocab:
            raise CheckpointError(
                f"{self.path}: tokenizer.ggml.{key} has {len(values)} entries, but tokenizer.ggml.tokens has {vocab}"
            )
        return values


def _sentencepiece(keys: _Keys) -> Tokenizer:
    names, kinds = _pieces(keys)
    space = keys.get("add_space_prefix", bool, True)
    scores = keys.per_token("scores", len(names))
    encode = score_merge.score_merge(names, scores, kinds, space_prefix=space, source=keys.path)
    printed = tuple(map(score_merge.printed, names, kinds))
    return _tokenizer(keys, names, kinds, printed, encode, add_bos=True, space_prefix=space)


def _byte_level(keys: _Keys) -> Tokenizer:
    with extra("tokenizers", reads=f"the BPE vocabulary of {keys.path}"):
        from examples.llama2.tokenizer import byte_level
    names, kinds = _pieces(keys)
    pre = keys.get("pre", str)
    whole = [name for name, kind in zip(names, kinds, strict=True) if kind == Kind.USER_DEFINED]
    merges = keys.get("merges", list)
    encode = byte_level.byte_level(names, merges, pre=pre, whole=whole, source=keys.path)
    letters = byte_level.byte_letters()
    printed = tuple(
        b"" if kind in (Kind.CONTROL, Kind.UNKNOWN) else byte_level.printed(name, letters)
        for name, kind in zip(names, kinds, strict=True)
    )
    return _tokenizer(keys, names, kinds, printed, encode, add_bos=pre == "llama-bpe", space_prefix=False)
