"""Chat templates: messages to text, and that text to control tokens and plain text.

    [{"role": "user", "content": "say <|im_end|>"}]
    ->  <|im_start|> 'user\\nsay <|im_end|>' <|im_end|> '\\n' <|im_start|> 'assistant\\n'

What a user typed never becomes a control token. Before rendering, each place in a message where a token's name begins
is marked with a character that no message contains; the splitter does not see a name that is marked, and takes marks
away. A template still sees whole messages, so that it can trim, test and cut them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from examples.llama2.tokenizer.extras import extra
from vxgraph.errors import VxError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = Mapping[str, str]  # "role" and "content"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template's text, with `mark` inside or beside what would otherwise read as a token's name."""

    text: str
    mark: str


def render(
    template: str, messages: Sequence[Message], *, special: Mapping[str, int], bos: str, source: str
) -> Rendered:
    """The text that `template` makes of `messages`, up to where the assistant's turn begins.

    Templates are programs from a model file, so they run in jinja2's sandbox, with the environment that Hugging Face's
    `transformers` gives them, less the clock (templates fall back to a fixed date).
    Raises `VxError` where the template refuses the messages, or is broken.
    """
    mark = _unused_character(messages)
    shielded = [{key: _shield(text, key, special, mark) for key, text in message.items()} for message in messages]
    environment = _environment()
    try:
        compiled = environment.from_string(template)
        return Rendered(compiled.render(messages=shielded, bos_token=bos, add_generation_prompt=True), mark)
    # The template is the file's code, so whatever it raises is the file's mistake or its refusal of the messages.
    except Exception as error:
        line = getattr(error, "lineno", None)
        where = f"{source}: chat template, line {line}" if line else f"{source}: chat template"
        raise VxError(f"{where}: {str(error).replace(mark, '')}") from error


def split_special(rendered: Rendered, special: Mapping[str, int]) -> Iterator[int | str]:
    """Control tokens as ids, and the text between them without marks."""
    if not special:
        yield rendered.text.replace(rendered.mark, "")
        return
    for part in re.split(f"({_names(special)})(?!{rendered.mark})", rendered.text):
        if part in special:
            yield special[part]
        elif part:
            yield part.replace(rendered.mark, "")


def _names(special: Mapping[str, int]) -> str:
    return "|".join(map(re.escape, sorted(special, key=len, reverse=True)))


def _unused_character(messages: Sequence[Message]) -> str:
    used = set("".join(text for message in messages for text in message.values()))
    return next(mark for mark in map(chr, range(0xF0000, 0xFFFFE)) if mark not in used)


def _shield(text: str, key: str, special: Mapping[str, int], mark: str) -> str:
    """`text` with `mark` after the first character of each name in it, and where a template could complete one.

    A role is the program's word, not the user's, and templates compare it, so it stays as it is.
    """
    if key == "role" or not special:
        return text
    shielded = re.sub(rf"(?s)(?={_names(special)})(.)", rf"\1{mark}", text)
    if text.endswith(tuple(name[:cut] for name in special for cut in range(1, len(name)))):
        shielded += mark
    if text.startswith(tuple(name[cut:] for name in special for cut in range(1, len(name)))):
        shielded = mark + shielded
    return shielded


def _environment() -> ImmutableSandboxedEnvironment:
    with extra("jinja2", needed_by="a chat template"):
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    names: dict[str, Any] = environment.globals
    names["raise_exception"] = _refuse
    return environment


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
