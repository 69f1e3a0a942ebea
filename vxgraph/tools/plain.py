r"""What files and callers named, shown so that a terminal prints it and does nothing else.

"a\x1b[31mb"  ->  a\x1b[31mb    the escape in four characters
"""

from __future__ import annotations

LONGEST = 2000  # characters of a line of a message


def plain(text: str) -> str:
    """The text in one line, with what cannot be printed (control characters, directions, half characters) escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain_lines(text: str) -> str:
    """The same of a text of several lines, each cut where nobody would read on."""
    lines = map(plain, text.split("\n"))
    return "\n".join(line if len(line) <= LONGEST else f"{line[:LONGEST]}..." for line in lines)
