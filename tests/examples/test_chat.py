"""Chat: what the template writes is tokens, what a person typed is text, and a template's refusal is one message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.llama2.tokenizer import Tokenizer, confined, open_tokenizer
from examples.llama2.tokenizer import template as child
from examples.llama2.tokenizer.chat import Rendered, render, shield, split_special
from tests.examples.tiny_tokenizer import SPM_KEYS, TEMPLATE, token, write_gguf, write_llama2c
from vxgraph.errors import CheckpointError, InternalError, VxError

pytest.importorskip("jinja2")

SPECIAL = {"<s>": 1, "</s>": 2}


@pytest.fixture
def model(tmp_path: Path) -> Tokenizer:
    return open_tokenizer(write_gguf(tmp_path / "tiny.gguf", **SPM_KEYS, chat_template=TEMPLATE))


def split(template: str, *messages: dict[str, str], special: dict[str, int] = SPECIAL) -> list[int | str]:
    """What `render` and `split_special` make of a template that this process may trust."""
    shielded, mark = shield(messages, special)
    return list(split_special(Rendered(child.render(template, shielded, bos="<s>"), mark), special))


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


# Templates that fail, each in a process of its own as `render` starts it.

GIVEN = "templates are given messages (role and content), bos_token, add_generation_prompt and raise_exception"
OTHERWISE = "drop --chat to give the prompt as plain text"
MEMORY = f"it wants more than 256 MiB of memory, which is all that a template is given; {OTHERWISE}"


def failure(template: str, *messages: dict[str, str], special: dict[str, int] = SPECIAL) -> VxError:
    with pytest.raises(VxError) as error:
        render(template, messages, special=special, bos="<s>", source="m")
    return error.value


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a\n{% if %}", "m: chat template, line 2: Expected an expression, got 'end of statement block'"),
        ("{{ messages[0].content + 1 }}", 'm: chat template: can only concatenate str (not "int") to str'),
        ("{{ ''.__class__.mro() }}", "m: chat template: access to attribute '__class__' of 'str' object is unsafe."),
        (
            "{{ messages[0].name.first }}",
            f"m: chat template: 'dict object' has no attribute 'name'; {GIVEN}; {OTHERWISE}",
        ),
        ("{{ strftime_now('%Y') }}", f"m: chat template: 'strftime_now' is undefined; {GIVEN}; {OTHERWISE}"),
        (
            "{{ '\\ud800' }}",
            "m: chat template: 'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
        ),
        (
            "{{ '<>' * 33000 }}",
            f"m: chat template: it makes 66,000 characters, at most 65,568 are allowed for these messages; {OTHERWISE}",
        ),
    ],
)
def test_a_template_that_fails_is_one_message(template: str, message: str):
    error = failure(template, user("<s>"))
    assert (type(error), str(error)) == (CheckpointError, message)


def test_what_a_template_refuses_is_the_messages_mistake():
    error = failure("{{ raise_exception('no ' + messages[0].content) }}", user("<s>"))
    assert (type(error), str(error)) == (VxError, "m: chat template: no <s>")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to an address space")
@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 'a' | center(10**9) }}",
        "{{ '%999999999d' % 1 }}",
        "{% set n = namespace(x='a') %}{% for _ in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x | length }}",
        "{{ ([0] * 10**9) | length }}",
    ],
)
def test_memory_that_the_sandbox_does_not_count_is_counted(template: str):
    assert str(failure(template, user("a"))) == f"m: chat template: {MEMORY}"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts no processor time")
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ (9 ** (9 ** 9)) % 7 }}",  # one step of C: no handler of a signal would be called before its end
    ],
)
def test_a_template_that_does_not_end_is_ended(template: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(confined, "WALL_SECONDS", 600.0)  # however busy the machine is
    message = "it wants more than 2 s of processor time, which is all that a template is given"
    assert str(failure(template, user("a"))) == f"m: chat template: {message}; {OTHERWISE}"


def test_where_processor_time_is_not_counted_a_clock_ends_a_template(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(confined, "WALL_SECONDS", 0.001)
    assert str(failure(TEMPLATE, user("a"))) == (
        f"m: chat template: it wants more than 0.001 s on a clock, which is all that a template is given; {OTHERWISE}"
    )


# The process.


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The processes that are started, which answer as ever."""
    seen: list[dict[str, Any]] = []
    run = subprocess.run

    def watched(command: list[str], **options: Any):
        seen.append({"command": command, **options})
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    return seen


def test_the_process_is_given_the_template_the_messages_and_jinja2_only(
    model: Tokenizer, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert model.decode(model.chat([user("Hello")])) == "user: Helloassistant:"
    (process,) = started
    assert process["command"] == [sys.executable, "-I", "-S", child.__file__]
    assert set(process["env"]) <= {"LD_LIBRARY_PATH", "SYSTEMROOT"}
    request = json.loads(process["input"])
    folders = request.pop("path")
    assert all((Path(folder) / "jinja2").is_dir() or (Path(folder) / "markupsafe").is_dir() for folder in folders)
    messages = [{"role": "user", "content": "Hello"}]
    assert request == {"template": TEMPLATE, "messages": messages, "bos": "<s>"}


def test_no_process_is_started_for_a_text_that_is_no_chat(model: Tokenizer, started: list[dict[str, Any]]):
    assert model.decode(model.encode("Hello")) == "Hello"
    assert not started


IMPORTS = """
import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names))
"""


def test_the_process_imports_jinja2_and_nothing_else_from_outside():
    request = {"path": sys.path, "template": "", "messages": [], "bos": ""}
    command = [sys.executable, "-I", "-S", "-c", IMPORTS, child.__file__]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    assert done.stdout == "{\"text\": \"\"}['__main__', 'jinja2', 'markupsafe']\n"


def test_a_process_that_is_killed_is_the_templates_failure(monkeypatch: pytest.MonkeyPatch):
    killed = subprocess.CompletedProcess[bytes]([], -11, b"", b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: killed)
    assert str(failure(TEMPLATE)) == f"m: chat template: the process that rendered it ended with signal 11; {OTHERWISE}"


def test_a_process_that_fails_by_itself_is_a_defect_of_ours(monkeypatch: pytest.MonkeyPatch):
    failed = subprocess.CompletedProcess[bytes]([], 1, b"", b"SyntaxError: no")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(InternalError) as error:
        render(TEMPLATE, [], special=SPECIAL, bos="<s>", source="m")
    assert str(error.value) == "tokenizer/template.py ended with 1: SyntaxError: no"


def test_a_process_that_cannot_be_started_is_one_message(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/none/python")
    assert str(failure(TEMPLATE)) == (
        "a chat template needs a process of its own, which cannot be started: No such file or directory"
    )


def test_an_object_that_cannot_be_shown_is_the_templates_failure():
    deep = "{% set n = namespace(x=[]) %}{% for _ in range(99999) %}{% set n.x = [n.x] %}{% endfor %}"
    found = child.answer(deep + "{{ raise_exception(n.x) }}", [], bos="")
    assert (found["failed"], found["says"][:32]) == ("broken", "maximum recursion depth exceeded")


def test_a_name_as_long_as_a_file_takes_no_more_memory_than_it_has():
    special = {"<" * 200_000: 1}  # all its beginnings together have 20 GB
    shielded, mark = shield([user("a <")], special)
    assert shielded == [{"role": "user", "content": f"a <{mark}"}]


def test_without_jinja2_a_chat_says_what_to_install(model: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as if it were not installed
    with pytest.raises(VxError) as error:
        model.chat([user("Hello")])
    assert str(error.value) == "a chat template needs the package jinja2: pip install 'vxgraph[llama]'"
