"""The rules that every tokenizer follows: one BOS, text that comes back, streaming, plain text that stays plain."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.llama2.tokenizer import Tokenizer, open_tokenizer
from tests.examples.tiny_tokenizer import (
    KINDS,
    SPM,
    SPM_KEYS,
    bpe_keys,
    bpe_tokens,
    sentencepiece,
    token,
    write_gguf,
    write_huggingface,
    write_llama2c,
)
from vxgraph.errors import CheckpointError, VxError

# U+2581 is SentencePiece's own writing of a space, so it comes back as one.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581") | st.sampled_from(" Helo<s>/"))


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return open_tokenizer(write_llama2c(tmp_path_factory.mktemp("spm")))


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return open_tokenizer(write_gguf(tmp_path_factory.mktemp("bpe") / "tiny.gguf", **bpe_keys()))


@pytest.fixture(scope="module")
def huggingface(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return open_tokenizer(write_huggingface(tmp_path_factory.mktemp("hf"), eos_token="</s>"))


@pytest.mark.case("N10")
def test_a_text_gets_a_dummy_space_and_merges_by_score(spm: Tokenizer):
    assert spm.encode("Hello", bos=False) == [token("▁Hello")]
    assert spm.encode(" Hello", bos=False) == [token("▁"), token("▁Hello")]
    assert spm.encode("  hi", bos=False)[:2] == [token("▁▁"), token("▁")]
    assert spm.encode("Hellx", bos=False) == [token("▁"), token("Hell"), token("<0x78>")]
    assert spm.encode("", bos=False) == []


def test_the_leftmost_of_equal_scores_merges_first():
    from examples.llama2.tokenizer.score_merge import ScoreMerge

    merge = ScoreMerge({"a": 0, "aa": 1}, (0.0, -1.0), tuple(range(256)), frozenset(), space_prefix=False)
    assert merge("aaa") == [1, 0]


def test_a_user_defined_piece_is_matched_whole_and_merges_with_nothing(tmp_path: Path):
    keys = dict(SPM_KEYS)
    keys["token_type"] = [4 if name == "ll" else kind for name, kind in zip(SPM, KINDS, strict=True)]
    assert open_tokenizer(write_gguf(tmp_path / "tiny.gguf", **keys)).encode("Hello", bos=False) == [
        *map(token, ["▁", "He", "ll", "o"])
    ]


def test_bpe_splits_digits_and_merges_by_rank(bpe: Tokenizer):
    assert [bpe_tokens()[at] for at in bpe.encode("Hello world12")] == ["Hello", "Ġworld", "1", "2"]


def test_llama_bpe_keeps_three_digits_together_and_takes_whole_words_from_the_vocabulary(tmp_path: Path):
    keys = bpe_keys() | {"pre": "llama-bpe"}
    del keys["add_bos_token"]
    keys["tokens"] = [*keys["tokens"], "123"]
    keys["token_type"] = [*keys["token_type"], 1]
    tokenizer = open_tokenizer(write_gguf(tmp_path / "tiny.gguf", **keys))
    assert [keys["tokens"][at] for at in tokenizer.encode("Hello1234")] == ["<|im_start|>", "Hello", "123", "4"]


def test_a_user_defined_piece_of_a_bpe_vocabulary_is_matched_whole(bpe: Tokenizer):
    assert bpe.encode("H<tool>e") == [bpe_tokens().index(name) for name in ("H", "<tool>", "e")]
    assert bpe.decode(bpe.encode("H<tool>e")) == "H<tool>e"


@pytest.mark.case("N10")
def test_bos_is_put_once_by_the_models_own_rule(spm: Tokenizer, bpe: Tokenizer, huggingface: Tokenizer):
    assert spm.encode("Hello") == spm.encode("Hello", bos=True) == [1, token("▁Hello")]
    assert huggingface.encode("Hello") == huggingface.encode("Hello", bos=True) == [1, token("▁Hello")]
    assert bpe.encode("H") == bpe.encode("H", bos=False)
    assert bpe.encode("H", bos=True) == [1, *bpe.encode("H")]


def test_asking_bos_of_a_model_without_one_is_an_error(tmp_path: Path):
    keys = bpe_keys()
    del keys["bos_token_id"]
    path = write_gguf(tmp_path / "tiny.gguf", **keys)
    with pytest.raises(VxError) as error:
        open_tokenizer(path).encode("H", bos=True)
    assert str(error.value) == f"{path} names no BOS token, so none can be put before the text"


@pytest.mark.case("N10")
def test_the_dummy_space_is_hidden_after_bos_and_nowhere_else(spm: Tokenizer):
    hello = token("▁Hello")
    assert spm.decode([1, hello, hello]) == "Hello Hello"
    assert spm.decode([hello]) == "Hello"
    assert spm.decode([hello, 1, hello]) == "HelloHello"
    assert spm.decode([hello], after=[1, hello]) == " Hello"
    assert spm.decode([hello], after=[hello, 1]) == "Hello"


@pytest.mark.case("N10")
def test_a_character_in_parts_is_held_back_until_it_is_whole(spm: Tokenizer):
    stream = spm.stream()
    pieces = [stream.push(at) for at in spm.encode("🦙 é", bos=False)]
    assert pieces == ["", "", "", "", "🦙", " ", "", "é"]
    assert stream.flush() == ""


def test_a_character_that_never_ends_is_flushed_as_a_replacement_character(spm: Tokenizer):
    stream = spm.stream()
    assert stream.push(token("<0xF0>")) == ""
    assert stream.flush() == "\ufffd"


def test_a_control_token_prints_nothing(spm: Tokenizer):
    assert spm.decode([1, token("▁Hello"), 2, 0]) == "Hello"


@pytest.mark.case("N10")
def test_the_name_of_a_control_token_is_text_when_it_is_typed(spm: Tokenizer, bpe: Tokenizer, huggingface: Tokenizer):
    assert spm.encode("<s>", bos=False) == huggingface.encode("<s>", bos=False)
    assert huggingface.encode("<s>", bos=False) == [*map(token, ["▁", "<0x3C>", "<0x73>", "<0x3E>"])]
    assert bpe.decode(bpe.encode("<|im_end|>")) == "<|im_end|>"


def test_an_id_outside_the_vocabulary_is_an_error(spm: Tokenizer):
    for wrong in (-1, spm.vocab):
        with pytest.raises(VxError) as error:
            spm.decode([wrong])
        wanted = f"token id {wrong} is not in the vocabulary of {spm.source}, whose ids are 0..{spm.vocab - 1}"
        assert str(error.value) == wanted


def test_a_text_that_is_not_unicode_is_an_error(spm: Tokenizer, bpe: Tokenizer):
    for tokenizer in (spm, bpe):
        with pytest.raises(VxError) as error:
            tokenizer.encode("ab\udc80")
        assert str(error.value) == (
            "the text is not Unicode: U+DC80, half of a character, stands at position 2; give it as UTF-8"
        )


def test_a_byte_that_a_bpe_vocabulary_lacks_is_an_error_and_not_dropped(tmp_path: Path):
    keys = bpe_keys()
    keys["tokens"] = ["?" * 9 if name == "x" else name for name in keys["tokens"]]
    path = write_gguf(tmp_path / "tiny.gguf", **keys)
    with pytest.raises(VxError) as error:
        open_tokenizer(path).encode("Hex")
    assert str(error.value) == f"{path} has no tokens for U+0078, which stands at position 2 of the text; leave it out"


@given(text=texts)
def test_what_is_encoded_comes_back_and_holds_no_control_token(
    spm: Tokenizer, bpe: Tokenizer, huggingface: Tokenizer, text: str
):
    for tokenizer in (spm, bpe, huggingface):
        ids = tokenizer.encode(text, bos=False)
        assert tokenizer.decode(ids) == text
        assert not set(ids) & set(tokenizer.special.values())


@given(text=texts)
def test_merging_by_score_agrees_with_huggingfaces_merging_by_rank(spm: Tokenizer, huggingface: Tokenizer, text: str):
    assert spm.encode(text) == huggingface.encode(text)


@pytest.mark.case("N10")
@given(data=st.data())
def test_streamed_text_is_the_decoded_text_whatever_the_ids(spm: Tokenizer, bpe: Tokenizer, data: st.DataObject):
    for tokenizer in (spm, bpe):
        ids = data.draw(st.lists(st.integers(3, tokenizer.vocab - 1)))
        stream = tokenizer.stream(after=[3])
        streamed = "".join([*map(stream.push, ids), stream.flush()])
        assert streamed == b"".join(tokenizer.pieces[at] for at in ids).decode(errors="replace")


def test_every_format_of_one_vocabulary_reads_alike(tmp_path: Path, spm: Tokenizer):
    model = tmp_path / "tokenizer.model"
    model.write_bytes(sentencepiece())
    for path in (model, write_gguf(tmp_path / "tiny.gguf", **SPM_KEYS)):
        tokenizer = open_tokenizer(path)
        assert (tokenizer.pieces, tokenizer.bos_id, tokenizer.add_bos) == (spm.pieces, 1, True)
        assert tokenizer.stop_ids == (2,)
        assert tokenizer.encode("Hello  world 🦙") == spm.encode("Hello  world 🦙")


def test_llama2c_models_stop_at_the_next_story_too(spm: Tokenizer):
    assert spm.stop_ids == (1, 2)


def test_a_model_stops_at_the_names_that_end_a_turn_and_not_only_at_its_eos(bpe: Tokenizer):
    assert bpe.stop_ids == (0, 2)


def test_a_gguf_without_a_space_prefix_has_none(tmp_path: Path):
    tokenizer = open_tokenizer(write_gguf(tmp_path / "tiny.gguf", **SPM_KEYS, add_space_prefix=False))
    assert tokenizer.encode("Hello") == [1, token("Hello")]
    assert tokenizer.decode([1, token("▁Hello")]) == " Hello"


def test_a_vocabulary_that_lacks_bytes_is_refused(tmp_path: Path):
    keys = dict(SPM_KEYS, tokens=[name.replace("<0x0A>", "nl") for name in SPM_KEYS["tokens"]])
    path = write_gguf(tmp_path / "tiny.gguf", **keys)
    with pytest.raises(CheckpointError) as error:
        open_tokenizer(path)
    assert str(error.value) == (
        f"{path}: the vocabulary has no piece <0x0A> (1 of the 256 bytes are missing), so not every text can be encoded"
    )
