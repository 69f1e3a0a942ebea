"""Vocabularies of a few hundred pieces, written in every format that the readers know."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SPACE = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Every merge that leads to a word is a piece; the better score is merged first.
MERGED = ["He", "ll", "Hell", "Hello", SPACE + "Hello", SPACE * 2, "wo"]
LETTERS = [SPACE, *"Helowrd"]
SPM = ["<unk>", "<s>", "</s>", *BYTES, *MERGED, *LETTERS]
SCORES = [0.0] * 259 + [-float(at) for at in range(len(MERGED) + len(LETTERS))]
KINDS = [2, 3, 3] + [6] * 256 + [1] * (len(MERGED) + len(LETTERS))
TEMPLATE = (
    "{% for message in messages %}{{ '<s>' + message['role'] + ': ' + message['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}"
)


def token(piece: str) -> int:
    """The id of a piece of `SPM`."""
    return SPM.index(piece)


def llama2c(pieces: Iterable[str] = SPM, scores: Iterable[float] = SCORES) -> bytes:
    """llama2.c's tokenizer.bin, with its newlines around <s> and </s>."""
    names = [f"\n{name}\n" if name in ("<s>", "</s>") else name.replace(SPACE, " ") for name in pieces]
    packed = [
        struct.pack("<fi", score, len(name.encode())) + name.encode() for name, score in zip(names, scores, strict=True)
    ]
    return struct.pack("<i", max(len(name.encode()) for name in names)) + b"".join(packed)


def write_llama2c(folder: Path) -> Path:
    path = folder / "tokenizer.bin"
    path.write_bytes(llama2c())
    return path


def write_gguf(path: Path, **keys: Any) -> Path:
    """A GGUF file with no tensors; `model`, `tokens` and so on stand for tokenizer.ggml's keys."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    template = keys.pop("chat_template", None)
    if template:
        writer.add_chat_template(template)
    for key, value in keys.items():
        name = f"tokenizer.ggml.{key}"
        match value:
            case bool():
                writer.add_bool(name, value)
            case int():
                writer.add_uint32(name, value)
            case str():
                writer.add_string(name, value)
            case _:
                writer.add_array(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


SPM_KEYS: dict[str, Any] = {
    "model": "llama",
    "tokens": SPM,
    "scores": SCORES,
    "token_type": KINDS,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def gpt2_letters() -> list[str]:
    """The printable character of each byte, by byte, as the `tokenizers` package has it."""
    tokenizers = pytest.importorskip("tokenizers")
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ascii_letters = {byte: split.pre_tokenize_str(chr(byte))[0][0] for byte in range(128)}
    alphabet = set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    return [*ascii_letters.values(), *sorted(alphabet - set(ascii_letters.values()))]


BPE_MERGES = ["H e", "l l", "He ll", "Hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]
BPE_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def bpe_tokens() -> list[str]:
    return [*BPE_SPECIAL, *gpt2_letters(), *(merge.replace(" ", "") for merge in BPE_MERGES), "<tool>"]


def bpe_keys() -> dict[str, Any]:
    tokens = bpe_tokens()
    return {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": tokens,
        "token_type": [3] * 3 + [1] * (len(tokens) - 4) + [4],
        "merges": BPE_MERGES,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": False,
    }


@dataclass(frozen=True)
class Field:
    """One protobuf field, by its wire bytes."""

    number: int
    value: int | float | bytes | str

    def wire(self) -> bytes:
        match self.value:
            case int():
                return varint(self.number << 3) + varint(self.value)
            case float():
                return varint(self.number << 3 | 5) + struct.pack("<f", self.value)
            case str() | bytes():
                raw = self.value.encode() if isinstance(self.value, str) else self.value
                return varint(self.number << 3 | 2) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def message(*fields: Field) -> bytes:
    return b"".join(field.wire() for field in fields)


def sentencepiece(*, model_type: int = 2, rewrites: int = 0, bos: int = 1) -> bytes:
    pieces = [
        Field(1, message(Field(1, name), Field(2, score), Field(3, kind)))
        for name, score, kind in zip(SPM, SCORES, KINDS, strict=True)
    ]
    trainer = Field(2, message(Field(3, model_type), Field(41, bos), Field(42, 2)))
    return message(*pieces, trainer, Field(3, message(Field(1, "identity"), Field(4, rewrites))))


def write_huggingface(folder: Path, *, bos: bool = True, **config: Any) -> Path:
    """A folder with tokenizer.json as the converters of Llama-2 write it, and tokenizer_config.json."""
    tokenizers = pytest.importorskip("tokenizers")
    ids = {name: token for token, name in enumerate(SPM)}
    merges = [("H", "e"), ("l", "l"), ("He", "ll"), ("Hell", "o"), (SPACE, "Hello"), (SPACE, SPACE), ("w", "o")]
    package = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    package.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend(SPACE), tokenizers.normalizers.Replace(" ", SPACE)]
    )
    package.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace(SPACE, " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    package.add_special_tokens(["<unk>", "<s>", "</s>"])
    if bos:
        package.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    package.enable_truncation(4)
    package.save(str(folder / "tokenizer.json"))
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
