"""Tokens of the text formats, and a reader that says where it stands when something is wrong.

graph.vxg:12: expected ':' after %matmul's operands, found '@'
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from vxgraph.errors import Loc, TextError
from vxgraph.ir.attributes import LARGEST_INT

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|//[^\n]*)
      | (?P<line>\n)
      | (?P<value>%[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
      | (?P<place>(?:cpu|npu|gpu):[0-9]+|[A-Za-z_][A-Za-z0-9_]*\#[0-9]+)
      | (?P<number>[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf\b|nan\b))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<punct>->|<=|[()\[\]{},:=@~])
    """,
    re.VERBOSE,
)
_CLOSERS = (")", "]", "}")
LONGEST = 500  # characters of a message: a text may hold a name of a million
_PLAIN, _ESCAPED = json.JSONEncoder(ensure_ascii=False), json.JSONEncoder()


class Reader:
    """A cursor over tokens. Every method that takes one raises TextError with file:line where it finds another."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.lines: list[int] = []
        self.at = 0
        self._scan(text)

    def _scan(self, text: str) -> None:
        line, end = 1, 0
        for match in _TOKEN.finditer(text):
            if match.start() != end:
                break
            end = match.end()
            kind = match.lastgroup or ""
            if kind == "line":
                line += 1
            elif kind != "space":
                self.kinds.append(kind)
                self.texts.append(match[0])
                self.lines.append(line)
        if end != len(text):
            raise TextError(f"unexpected character {text[end]!r}", loc=Loc(self.source, line))
        self.kinds.append("end")
        self.texts.append("the end of the text")
        self.lines.append(line)

    @property
    def kind(self) -> str:
        """The next token's kind."""
        return self.kinds[self.at]

    @property
    def text(self) -> str:
        """The next token's text."""
        return self.texts[self.at]

    @property
    def loc(self) -> Loc:
        """Where the next token stands."""
        return Loc(self.source, self.lines[self.at])

    def fail(self, message: str, *, loc: Loc | None = None) -> NoReturn:
        """Raises TextError here."""
        if len(message) > LONGEST:
            message = f"{message[:LONGEST]}... ({len(message)} characters)"
        raise TextError(message, loc=loc or self.loc)

    def take(self, kind: str, what: str) -> str:
        """The text of the next token, which must be of this kind."""
        if self.kinds[self.at] != kind:
            self.fail(f"expected {what}, found {self.text!r}")
        self.at += 1
        return self.texts[self.at - 1]

    def accept(self, text: str) -> bool:
        """Takes the next token if it is this one."""
        if self.texts[self.at] != text or self.kinds[self.at] in ("string", "end"):
            return False
        self.at += 1
        return True

    def expect(self, text: str, after: str) -> None:
        """Takes this token; `after` says what it follows."""
        if not self.accept(text):
            self.fail(f"expected {text!r} after {after}, found {self.text!r}")

    def value(self, what: str = "a value like %x") -> str:
        """A `%name`, without the sign."""
        return self.take("value", what)[1:]

    def word(self, what: str) -> str:
        """An identifier, with dots allowed."""
        return self.take("word", what)

    def string(self, what: str) -> str:
        """A quoted string, unescaped: a string of JSON."""
        text = self.take("string", what)
        if "\\" not in text:
            return text[1:-1]
        try:
            return json.loads(text, strict=False)
        except ValueError:
            self.at -= 1
            self.fail(f"{text} has an escape that JSON does not know")

    def integer(self, what: str) -> int:
        """An integer."""
        found = self.number(what)
        if not isinstance(found, int):
            self.at -= 1
            self.fail(f"expected {what}, found {self.text!r}")
        return found

    def number(self, what: str) -> int | float:
        """An integer of up to 64 bits, or a float."""
        text = self.take("number", what)
        if not text.lstrip("+-").isdigit():
            return float(text)
        if len(text) > 21 or abs(int(text)) > LARGEST_INT:
            self.at -= 1
            self.fail(f"{what} is at most {LARGEST_INT}, found {text[:24]}...")
        return int(text)

    def another(self, what: str) -> bool:
        """Takes a comma if there is one; one more of the list, `what`, must follow it."""
        if not self.accept(","):
            return False
        if self.text in _CLOSERS and self.kind == "punct":
            self.fail(f"expected {what} after the comma, found {self.text!r}; a list does not end in a comma")
        return True

    def values(self) -> tuple[str, ...]:
        """`%a, %b`: none or more values."""
        if self.kind != "value":
            return ()
        found = [self.value()]
        while self.accept(","):
            if self.kind != "value":
                self.fail(f"expected a value after the comma, found {self.text!r}; a list does not end in a comma")
            found.append(self.value())
        return tuple(found)


def quote(text: str) -> str:
    """The string token for a text: JSON's, with what cannot be seen or encoded escaped."""
    return (_PLAIN if text.isprintable() else _ESCAPED).encode(text)


def number(value: Any) -> str:
    """The number token that reads back as the same Python int or float."""
    # Not repr(value): NumPy's float64 is a float, and shows as np.float64(0.5).
    return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)
