"""Which reader reads a path: a file's by what it begins with or is called, a folder's by what is in it."""

from __future__ import annotations

from pathlib import Path

from examples.llama2.tokenizer import gguf, llama2c, sentencepiece
from examples.llama2.tokenizer.base import Tokenizer
from examples.llama2.tokenizer.extras import extra
from examples.llama2.tokenizer.model_config import with_config
from vxgraph.errors import CheckpointError

IN_FOLDER = ("tokenizer.json", "tokenizer.model", "tokenizer.bin")


def open_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer at `path`.

    That is a GGUF file, a Hugging Face `tokenizer.json` (or the folder with it), llama2.c's `tokenizer.bin`, or a
    SentencePiece `.model`. Raises `CheckpointError` where the path holds none of these or a broken one.
    """
    path = Path(path)
    try:
        return _open_folder(path) if path.is_dir() else _open_file(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None


def _open_folder(folder: Path) -> Tokenizer:
    for name in IN_FOLDER:
        if (folder / name).is_file():
            return _open_file(folder / name)
    raise CheckpointError(f"{folder}: no tokenizer in this folder; wanted one of {', '.join(IN_FOLDER)}")


def _open_file(path: Path) -> Tokenizer:
    with path.open("rb") as file:
        begins = file.read(4)
    if begins == b"GGUF":
        return gguf.read(path)
    match path.suffix:
        case ".json":
            with extra("tokenizers", needed_by=str(path)):
                from examples.llama2.tokenizer import huggingface
            return with_config(huggingface.read(path), path.parent)
        case ".model":
            return with_config(sentencepiece.read(path), path.parent)
        case ".bin":
            return llama2c.read(path)
        case _:
            raise CheckpointError(
                f"{path}: not a tokenizer that is known here: it begins with {begins!r};"
                " wanted a GGUF file, a tokenizer.json, a tokenizer.bin or a SentencePiece .model"
            )
