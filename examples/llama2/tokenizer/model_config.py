"""What the files beside a Hugging Face tokenizer say of it: BOS, ends of text, chat template.

tokenizer_config.json     bos_token, eos_token, chat_template
chat_template.jinja       the chat template, in newer models
generation_config.json    eos_token_id: a number or several
config.json               bos_token_id, eos_token_id
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from examples.llama2.tokenizer.base import Tokenizer, stops
from vxgraph.errors import CheckpointError

Json = dict[str, Any]


def with_config(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """`tokenizer` with what the files in `folder` add, each of which may be missing. Every end of text counts.

    Raises `CheckpointError` for a file that is no JSON, and for a token that the vocabulary does not have.
    """
    naming, model = _json(folder / "tokenizer_config.json"), _json(folder / "config.json")
    generation = _json(folder / "generation_config.json")
    begins = [tokenizer.bos_id, _named(tokenizer, naming, "bos_token"), *_ids(model, "bos_token_id")]
    ends = [
        *tokenizer.stop_ids,
        _named(tokenizer, naming, "eos_token"),
        *_ids(generation, "eos_token_id"),
        *_ids(model, "eos_token_id"),
    ]
    for token in (*begins, *ends):
        if token is not None and not 0 <= token < tokenizer.vocab:
            raise CheckpointError(
                f"{folder}: its JSON files name token {token}, but the vocabulary has {tokenizer.vocab}"
            )
    return replace(
        tokenizer,
        bos_id=next((token for token in begins if token is not None), None),
        stop_ids=stops(tokenizer.special, *ends),
        chat_template=_template(naming, folder),
    )


def _named(tokenizer: Tokenizer, naming: Json, key: str) -> int | None:
    """The id of a token that tokenizer_config.json writes as a name, or as an object with the name in `content`."""
    found = naming.get(key)
    name = cast("Json", found).get("content") if isinstance(found, dict) else found
    return tokenizer.special.get(name) if isinstance(name, str) else None


def _ids(config: Json, key: str) -> list[int]:
    found = config.get(key)
    tokens = cast("list[Any]", found) if isinstance(found, list) else [found]
    return [token for token in tokens if isinstance(token, int)]


def _template(naming: Json, folder: Path) -> str | None:
    """One template, or the one called "default" of several."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(f"{file}: not a text in UTF-8") from None
    found = naming.get("chat_template")
    if isinstance(found, list):
        several = [cast("Json", entry) for entry in cast("list[Any]", found) if isinstance(entry, dict)]
        found = next((entry.get("template") for entry in several if entry.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def _json(path: Path) -> Json:
    return parse_json(path.read_bytes(), str(path)) if path.is_file() else {}


def parse_json(text: bytes, path: str) -> Json:
    """The object of settings that a file holds. Raises `CheckpointError` where it holds none."""
    try:
        found = json.loads(text.decode())
    except RecursionError:
        raise CheckpointError(f"{path}: not JSON that can be read: it is nested too deep") from None
    except ValueError as error:  # also a number of more digits than Python reads
        raise CheckpointError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: holds a {type(found).__name__}, not an object of settings")
    return cast("Json", found)
