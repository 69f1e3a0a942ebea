"""What stands in graphs, programs and messages about them, in colours: places as in pictures, names, types, reasons.

%y = matmul(%h, %w) : f32[T, 64] @gpu:1 why "pinned by vx.on" loc "model.py:9"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rich.color import ColorSystem
from rich.highlighter import Highlighter
from rich.style import Style
from rich.text import Text

from vxgraph.ir.types import DTYPES
from vxgraph.tools.draw import palette

_VALUE = r"(?P<value>%[A-Za-z_][\w.]*)"
_PLACE = r"(?P<place>\b(?:cpu|npu|gpu):[0-9]+\b|\b[A-Za-z_]\w*\#[0-9]+\b)"
_TYPE = rf"(?P<type>\b(?:{'|'.join(DTYPES)})\[[^\]\n]*\])"
_SYNTAX = re.compile(
    rf"""(?P<comment>//[^\n]*)
      | (?P<reason>\b(?:why|loc)\ "(?:[^"\\\n]|\\.)*")
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | {_VALUE} | {_PLACE} | {_TYPE}
      | (?P<move>\b(?:transfer_peer|upload|download|to)\b(?=\())
      | (?P<keyword>^\s*(?:graph|program|dim|arg|param|memory|arena|slot|load|run|emit|result|body|carry|digest)\b)
    """,
    re.VERBOSE | re.MULTILINE,
)
_WORDS = re.compile(rf"{_VALUE} | {_PLACE} | {_TYPE} | (?P<loc>\b[\w./-]+\.py:[0-9]+\b)", re.VERBOSE)

# A terminal's own sixteen colours, which its owner can read on its background; places and peers are the pictures'.
_STYLES = {
    "comment": Style(dim=True),
    "reason": Style(dim=True),
    "loc": Style(dim=True),
    "string": Style(color="green"),
    "value": Style(color="cyan"),
    "place": Style(color="blue"),
    "type": Style(color="yellow"),
    "move": Style(color=palette.PEER, bold=True),
    "keyword": Style(bold=True),
}


class Words(Highlighter):
    """Colours in cells and lines: values, types, source lines, and the places that are given in their own colours."""

    def __init__(self, places: Iterable[object] = ()) -> None:
        self._places = place_styles(places)

    def highlight(self, text: Text) -> None:
        """Rich's hook."""
        for found in _WORDS.finditer(text.plain):
            text.stylize(_style(found, self._places), *found.span())


def coloured(source: str, system: ColorSystem) -> str:
    """A graph's or a program's text with colours, and nothing else, put between its characters."""
    places = place_styles(m["place"] for m in _SYNTAX.finditer(source) if m["place"])
    return _SYNTAX.sub(lambda m: _style(m, places).render(m[0], color_system=system), source)


def place_styles(places: Iterable[object]) -> dict[str, Style]:
    """The pictures' colours of places that stand in one picture, `gpu:0` and its like."""
    colours = palette.colours(map(str, places))
    return {place: Style(color=_readable(*colour), bold=True) for place, colour in colours.items()}


def _readable(fill: str, line: str) -> str:
    """A line's colour, lighter: it is read on white and on black."""
    mixed = ((2 * int(line[k : k + 2], 16) + int(fill[k : k + 2], 16)) // 3 for k in (1, 3, 5))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _style(found: re.Match[str], places: Mapping[str, Style]) -> Style:
    kind = found.lastgroup or ""
    return places.get(found[0], _STYLES[kind]) if kind == "place" else _STYLES[kind]
