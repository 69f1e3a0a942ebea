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

from examples.llama2.tokenizer.confined import Failure, render_confined
from vxgraph.errors import CheckpointError, VxError

Message = Mapping[str, str]  # "role" and "content"
GIVEN = "messages (role and content), bos_token, add_generation_prompt and raise_exception"
OTHERWISE = "drop --chat to give the prompt as plain text"
NEVER = r"(?!)"  # the pattern of nothing


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template's text, with `mark` inside or beside what would otherwise read as a token's name."""

    text: str
    mark: str


def render(
    template: str, messages: Sequence[Message], *, special: Mapping[str, int], bos: str, source: str
) -> Rendered:
    """The text that `template` makes of `messages`, up to where the assistant's turn begins.

    Templates are programs from a model file, so one runs in jinja2's sandbox, in a process of its own with little time
    and memory. Raises `VxError` where the template refuses the messages, and `CheckpointError` where it is broken, asks
    for what no template is given, or for more than a template is allowed.
    """
    shielded, mark = shield(messages, special)
    made = render_confined(template, shielded, bos=bos)
    if isinstance(made, Failure):
        raise _error(made, source, mark)
    return Rendered(made, mark)


def shield(messages: Sequence[Message], special: Mapping[str, int]) -> tuple[list[Message], str]:
    """The messages with marks in what would read as a token's name, and the mark."""
    mark = _unused_character(messages)
    return [{key: _shield(text, key, special, mark) for key, text in message.items()} for message in messages], mark


def _error(failure: Failure, source: str, mark: str) -> VxError:
    where = f"{source}: chat template, line {failure.line}" if failure.line else f"{source}: chat template"
    says = failure.says.replace(mark, "")
    match failure.kind:
        case "refused":
            return VxError(f"{where}: {says}")
        case "broken":
            return CheckpointError(f"{where}: {says}")
        case "undefined":
            found = f"{says}; templates are given {GIVEN}"
        case "long":
            found = f"it makes {says} for these messages"
        case "time" | "memory":
            found = f"it wants more than {says}, which is all that a template is given"
        case "ended":
            found = f"the process that rendered it ended with {says}"
    return CheckpointError(f"{where}: {found}; {OTHERWISE}")


def split_special(rendered: Rendered, special: Mapping[str, int]) -> Iterator[int | str]:
    """Control tokens as ids, and the text between them without marks."""
    for part in re.split(f"({_names(special, rendered.text)})(?!{rendered.mark})", rendered.text):
        if part in special:
            yield special[part]
        elif part:
            yield part.replace(rendered.mark, "")


def _names(special: Mapping[str, int], text: str) -> str:
    """A pattern of the names that the text has: a file may hold a million, and a pattern tries each everywhere."""
    found = sorted((name for name in special if name in text), key=len, reverse=True)
    return "|".join(map(re.escape, found)) or NEVER


def _unused_character(messages: Sequence[Message]) -> str:
    used = set("".join(text for message in messages for text in message.values()))
    return next(mark for mark in map(chr, range(0xF0000, 0xFFFFE)) if mark not in used)


def _shield(text: str, key: str, special: Mapping[str, int], mark: str) -> str:
    """`text` with `mark` after the first character of each name in it, and where a template could complete one.

    A role is the program's word, not the user's, and templates compare it, so it stays as it is.
    """
    if key == "role":
        return text
    shielded = re.sub(rf"(?s)(?={_names(special, text)})(.)", rf"\1{mark}", text)
    # One at a time, and none longer than the text: a file may hold a name of a megabyte.
    if any(text.endswith(name[:cut]) for name in special for cut in range(1, min(len(name), len(text) + 1))):
        shielded += mark
    if any(text.startswith(name[-cut:]) for name in special for cut in range(1, min(len(name), len(text) + 1))):
        shielded = mark + shielded
    return shielded
