r"""What files and callers named, shown so that a terminal prints it and does nothing else.

"a\x1b[31mb"  ->  a\x1b[31mb    the escape in four characters
"""

from __future__ import annotations

LONGEST, HEAD = 1500, 1000  # characters of a line of a message; those before what is left out


def plain(text: str) -> str:
    """The text in one line, with what cannot be printed (control characters, directions, half characters) escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plain_lines(text: str) -> str:
    """The same of a text of several lines, with the middle of one that nobody would read left out."""
    lines = map(plain, text.split("\n"))
    return "\n".join(line if len(line) <= LONGEST else f"{line[:HEAD]} ... {line[HEAD - LONGEST :]}" for line in lines)
