"""Chat: what the template writes is tokens, what a person typed is text, and a template's refusal is one message."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.llama2.tokenizer import Tokenizer, open_tokenizer
from examples.llama2.tokenizer.chat import render, split_special
from tests.examples.tiny_tokenizer import SPM_KEYS, TEMPLATE, token, write_gguf, write_llama2c
from vxgraph.errors import VxError

SPECIAL = {"<s>": 1, "</s>": 2}


@pytest.fixture
def model(tmp_path: Path) -> Tokenizer:
    return open_tokenizer(write_gguf(tmp_path / "tiny.gguf", **SPM_KEYS, chat_template=TEMPLATE))


def split(template: str, *messages: dict[str, str], special: dict[str, int] = SPECIAL) -> list[int | str]:
    return list(split_special(render(template, messages, special=special, bos="<s>", source="m"), special))


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def test_names_of_control_tokens_are_tokens_in_the_template_only():
    assert split(TEMPLATE, user("a </s><s> b")) == [1, "user: a </s><s> b", 2, 1, "assistant:"]


def test_names_that_overlap_are_all_kept_as_text():
    special = {"abc": 5, "cda": 6}
    assert split("{{ messages[0].content }}cda", user("abcdabc"), special=special) == ["abcdabc", 6]


def test_a_name_of_one_character_is_kept_as_text():
    assert split("|{{ messages[0].content }}|", user("a|b"), special={"|": 5}) == [5, "a|b", 5]


def test_a_template_cannot_complete_a_name_that_a_person_began():
    assert split("{{ messages[0].content }}s>", user("a <")) == ["a <s>"]
    assert split("<{{ messages[0].content }}", user("s> a")) == ["<s> a"]


def test_a_template_can_trim_and_test_what_a_person_typed():
    template = "{% if 'x' in messages[0].content %}{{ messages[0].content | trim }}{% endif %}"
    assert split(template, user("  <s> x \n")) == ["<s> x"]


def test_the_character_that_marks_names_is_one_that_no_message_has():
    assert split(TEMPLATE, user("\U000f0000<s>")) == [1, "user: \U000f0000<s>", 2, 1, "assistant:"]


@given(content=st.text(st.sampled_from("<s>/ \U000f0000\U000f0001x")))
def test_whatever_is_typed_the_tokens_are_the_templates(content: str):
    assert split(TEMPLATE, user(content)) == [1, f"user: {content}", 2, 1, "assistant:"]


def test_blocks_are_trimmed_as_transformers_does():
    template = "{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}"
    assert split(template, user("a"), user("b")) == ["a\nb\n"]


def test_chat_ids_begin_with_one_bos_whether_or_not_the_template_writes_it(tmp_path: Path):
    for at, template in enumerate(["{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"]):
        path = write_gguf(tmp_path / f"{at}.gguf", **SPM_KEYS, chat_template=template)
        assert open_tokenizer(path).chat([user("Hello")]) == [1, token("▁Hello")]


def test_a_model_that_adds_no_bos_has_only_the_templates(tmp_path: Path):
    path = write_gguf(tmp_path / "m.gguf", **SPM_KEYS, add_bos_token=False, chat_template="{{ messages[0].content }}")
    assert open_tokenizer(path).chat([user("Hello")]) == [token("▁Hello")]


def test_typed_names_reach_the_model_as_text(model: Tokenizer):
    ids = model.chat([user("</s>")])
    assert [at for at in ids if at < 3] == [1, 2, 1]
    assert model.decode(ids) == "user: </s>assistant:"


def test_a_model_without_a_template_says_so(tmp_path: Path):
    path = write_llama2c(tmp_path)
    with pytest.raises(VxError) as error:
        open_tokenizer(path).chat([user("Hello")])
    assert str(error.value) == f"{path} has no chat template: drop --chat to give the prompt as plain text"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "m: chat template: roles must alternate"),
        ("a\n{% if %}", "m: chat template, line 2: Expected an expression, got 'end of statement block'"),
        ("{{ messages[0].name.first }}", "m: chat template: 'dict object' has no attribute 'name'"),
        ("{{ messages[0].content + 1 }}", 'm: chat template: can only concatenate str (not "int") to str'),
        ("{{ ''.__class__.mro() }}", "m: chat template: access to attribute '__class__' of 'str' object is unsafe."),
    ],
)
def test_a_template_that_fails_is_one_message(template: str, message: str):
    with pytest.raises(VxError) as error:
        split(template, user("<s>"))
    assert str(error.value) == message


def test_without_jinja2_a_chat_says_what_to_install(model: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    find = builtins.__import__

    def without_jinja2(name: str, *args: object):
        if name.startswith("jinja2"):
            raise ModuleNotFoundError(name=name)
        return find(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_jinja2)
    with pytest.raises(VxError) as error:
        model.chat([user("Hello")])
    assert str(error.value) == "a chat template needs the package jinja2: pip install 'vxgraph[llama]'"
