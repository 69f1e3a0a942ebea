r"""What files and callers named, shown so that a terminal prints it and does nothing else.

"a\x1b[31mb"  ->  a\x1b[31mb    the escape in four characters
"""

from __future__ import annotations

import re

LONGEST, HEAD = 1500, 1000  # characters of a line of a message; those before what is left out
# C0 but newline and tab, DEL, C1, and the directions that reorder what stands after them. The marks that Hebrew,
# Persian and emoji are written with (U+200C to U+200F) stay, and so does what this Python's Unicode does not know yet.
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text in one line, with what cannot be printed (control characters, directions, half characters) escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plain_lines(text: str) -> str:
    """The same of a text of several lines, with the middle of one that nobody would read left out."""
    lines = map(plain, text.split("\n"))
    return "\n".join(line if len(line) <= LONGEST else f"{line[:HEAD]} ... {line[HEAD - LONGEST :]}" for line in lines)


def plain_text(text: str) -> str:
    """A text in any language as it is, with what a terminal would act on escaped; each character counts by itself."""
    return ACTS.sub(lambda found: repr(found[0])[1:-1], text)
