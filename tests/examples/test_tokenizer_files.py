"""Files that are broken, cut off or of another kind, folders, and packages that are missing: one message each."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from examples.llama2.tokenizer import open_tokenizer
from tests.examples.tiny_tokenizer import (
    SPM,
    SPM_KEYS,
    TEMPLATE,
    bpe_keys,
    llama2c,
    sentencepiece,
    write_gguf,
    write_huggingface,
    write_llama2c,
)
from vxgraph.errors import VxError


def refusal(path: Path) -> str:
    with pytest.raises(VxError) as error:
        open_tokenizer(path)
    return str(error.value)


@pytest.mark.parametrize(
    ("base", "change", "message"),
    [
        (SPM_KEYS, {"model": "bert"}, "tokenizer.ggml.model is 'bert'; known are 'gpt2' and 'llama'"),
        (SPM_KEYS, {"model": None}, "tokenizer.ggml.model is missing; wanted: str"),
        (SPM_KEYS, {"tokens": [1, 2]}, "tokenizer.ggml.tokens is [1, 2]; wanted: array of str"),
        (SPM_KEYS, {"scores": [0.5]}, f"tokenizer.ggml.scores has 1 entries, but tokenizer.ggml.tokens has {len(SPM)}"),
        (
            SPM_KEYS,
            {"bos_token_id": 999},
            f"tokenizer.ggml.bos_token_id is 999, but the vocabulary has {len(SPM)} tokens",
        ),
        (SPM_KEYS, {"add_bos_token": "yes"}, "tokenizer.ggml.add_bos_token is 'yes'; wanted: bool"),
        (
            "bpe",
            {"pre": "tekken"},
            "the pre-tokenizer 'tekken' (tokenizer.ggml.pre) is not known; known are smollm, llama-bpe",
        ),
        ("bpe", {"merges": ["H e", "q q"]}, "merge 1 is 'q q', but 'qq' is not in the vocabulary"),
        ("bpe", {"merges": ["He"]}, "merge 0 is 'He', but '' is not in the vocabulary"),
    ],
)
def test_gguf_metadata_that_makes_no_tokenizer_is_one_message(
    tmp_path: Path, base: dict[str, Any] | str, change: dict[str, Any], message: str
):
    keys = (bpe_keys() if isinstance(base, str) else base) | change
    path = write_gguf(tmp_path / "m.gguf", **{key: value for key, value in keys.items() if value is not None})
    assert refusal(path) == f"{path}: {message}"


def test_a_gguf_file_that_is_cut_off_is_one_message(tmp_path: Path):
    path = write_gguf(tmp_path / "m.gguf", **SPM_KEYS)
    path.write_bytes(path.read_bytes()[:2000])
    assert refusal(path).startswith(f"{path}: the header is cut short: key 'tokenizer.ggml.tokens' ends at byte ")


def test_a_tokenizer_bin_that_is_cut_off_says_where(tmp_path: Path):
    path = tmp_path / "tokenizer.bin"
    whole = llama2c()
    at = len(whole) - 9
    for size in (len(whole) - 1, at + 5):
        path.write_bytes(whole[:size])
        assert refusal(path) == (
            f"{path}: not a llama2.c tokenizer, or cut off: piece {len(SPM) - 1}, which begins at byte {at},"
            f" does not fit into the file's {size} bytes"
        )


def test_a_tokenizer_bin_of_other_bytes_is_one_message(tmp_path: Path):
    path = tmp_path / "tokenizer.bin"
    path.write_bytes(llama2c(["a", "b", "c"], [0, 0, 0]))
    wanted = "its first pieces are ['a', 'b', 'c'], not <unk>, <s>, </s>"
    assert refusal(path) == f"{path}: not a llama2.c tokenizer: {wanted}"
    path.write_bytes(bytes(4) + b"\0\0\0\0\1\0\0\0\xff")
    assert refusal(path) == f"{path}: not a llama2.c tokenizer: piece 0 is b'\\xff', not UTF-8"
    path.write_bytes(b"")
    assert refusal(path) == f"{path}: not a llama2.c tokenizer: its first pieces are [], not <unk>, <s>, </s>"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sentencepiece()[:-3], "not a SentencePiece model, or cut off; fetch it again"),
        (b"\x0a\xff", "not a SentencePiece model, or cut off; fetch it again"),
        (b"\x0b", "not a SentencePiece model, or cut off; fetch it again"),
        (b"", "not a SentencePiece model: it has no pieces"),
        (sentencepiece(model_type=1), "SentencePiece model type 1; only BPE (2) can be read"),
        (
            sentencepiece(rewrites=1),
            "this SentencePiece model rewrites the text before it splits it, which is not done here;"
            " give the model's tokenizer.json",
        ),
    ],
)
def test_a_sentencepiece_model_that_cannot_be_read_is_one_message(tmp_path: Path, data: bytes, message: str):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(data)
    assert refusal(path) == f"{path}: {message}"


def test_a_sentencepiece_model_may_have_no_bos(tmp_path: Path):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(sentencepiece(bos=(1 << 64) - 1))
    assert open_tokenizer(path).bos_id is None
    assert open_tokenizer(path).encode("Hello") == [SPM.index("▁Hello")]


def test_a_path_that_holds_no_tokenizer_says_what_is_wanted(tmp_path: Path):
    assert refusal(tmp_path / "absent.gguf") == f"{tmp_path / 'absent.gguf'}: cannot be read: No such file or directory"
    wanted = "wanted one of tokenizer.json, tokenizer.model, tokenizer.bin"
    assert refusal(tmp_path) == f"{tmp_path}: no tokenizer in this folder; {wanted}"
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    assert refusal(other) == (
        f"{other}: not a tokenizer that is known here: it begins with b'hell';"
        " wanted a GGUF file, a tokenizer.json, a tokenizer.bin or a SentencePiece .model"
    )


def test_a_folder_with_any_tokenizer_opens(tmp_path: Path):
    write_llama2c(tmp_path)
    assert open_tokenizer(tmp_path).source == str(tmp_path / "tokenizer.bin")
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece())
    assert open_tokenizer(tmp_path).source == str(tmp_path / "tokenizer.model")
    write_huggingface(tmp_path)
    assert open_tokenizer(str(tmp_path)).source == str(tmp_path / "tokenizer.json")


def test_a_huggingface_folder_says_where_texts_begin_and_end_and_how_to_chat(tmp_path: Path):
    write_huggingface(tmp_path, bos=False, bos_token={"content": "<s>"}, eos_token="</s>", chat_template=TEMPLATE)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 7, "bos_token_id": 9}))
    tokenizer = open_tokenizer(tmp_path)
    assert (tokenizer.bos_id, tokenizer.add_bos, tokenizer.stop_ids) == (1, False, (2, 5, 6, 7))
    assert tokenizer.decode(tokenizer.chat([{"role": "user", "content": "Hello"}])) == "user: Helloassistant:"


def test_the_default_of_several_templates_is_used_and_a_jinja_file_before_it(tmp_path: Path):
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    assert open_tokenizer(write_huggingface(tmp_path, chat_template=several)).chat_template == "d"
    (tmp_path / "chat_template.jinja").write_text("j")
    assert open_tokenizer(tmp_path).chat_template == "j"


def test_a_huggingface_text_is_never_cut_even_where_its_file_says_so(tmp_path: Path):
    assert len(open_tokenizer(write_huggingface(tmp_path)).encode("abcdefgh")) == 10


def test_huggingface_files_that_are_broken_are_one_message(tmp_path: Path):
    path = write_huggingface(tmp_path) / "tokenizer.json"
    (tmp_path / "config.json").write_text("{\n  nothing")
    reason = "Expecting property name enclosed in double quotes: line 2 column 3 (char 4)"
    assert refusal(tmp_path) == f"{tmp_path / 'config.json'}: not JSON: {reason}"
    (tmp_path / "config.json").write_text("[]")
    assert refusal(tmp_path) == f"{tmp_path / 'config.json'}: holds a list, not an object of settings"
    (tmp_path / "config.json").write_text('{"eos_token_id": 9999}')
    assert refusal(tmp_path) == f"{tmp_path}: its JSON files name token 9999, but the vocabulary has {len(SPM)}"
    path.write_text('{"version":')
    assert refusal(path) == f"{path}: not JSON: Expecting value: line 1 column 12 (char 11)"


def test_a_decoder_that_is_not_known_is_refused(tmp_path: Path):
    path = write_huggingface(tmp_path) / "tokenizer.json"
    changed = json.loads(path.read_text()) | {"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}
    path.write_text(json.dumps(changed))
    assert refusal(path) == f"{path}: the decoder is WordPiece; known are ByteLevel, ByteFallback and Metaspace"


def test_without_the_tokenizers_package_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bpe, folder = write_gguf(tmp_path / "m.gguf", **bpe_keys()), write_huggingface(tmp_path)
    find = builtins.__import__

    def without_tokenizers(name: str, *args: Any):
        if name.startswith("examples.llama2.tokenizer"):
            raise ModuleNotFoundError(name="tokenizers")
        return find(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_tokenizers)
    for path in (bpe, folder / "tokenizer.json"):
        assert refusal(path) == f"{path} needs the package tokenizers: pip install 'vxgraph[llama]'"
