"""Fragments of HTML for notebooks: a heading, a picture, tables. Every text in them is escaped; there are no scripts.

They take the notebook's colours, dark or light: what is drawn is in the text's own colour, thinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from vxgraph.tools.draw import palette
from vxgraph.tools.plain import plain

_RULE = "1px solid rgba(128,128,128,.4)"
_CELL_STYLE = "padding:2px 12px 2px 0;background:none;border:0;white-space:nowrap;color:inherit"
_PICTURE = "overflow:auto;max-height:720px;background:#fff;border-radius:6px;padding:6px;margin:6px 0;color:#000"
_GOOD, _BAD = "#2e9e5b", "#e5484d"  # read on white and on black


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title; columns in `right` are numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str]


def fragment(title: str, *tables: Table, places: Iterable[object] = (), picture: str = "", after: str = "") -> str:
    """A heading, a picture's SVG as it is, tables whose cells have the picture's colours for `places`, and the rest."""
    colours = {place: line for place, (_, line) in palette.colours(map(str, places)).items()}
    drawn = f'<div style="{_PICTURE}">{picture}</div>' if picture else ""
    shown = "".join(_table(table, colours) for table in tables)
    return f'<div class="vxgraph"><div style="font-weight:600">{_text(title)}</div>{drawn}{shown}{after}</div>'


def verdict(text: str, *, good: bool) -> str:
    """A message, its lines kept, with a mark whose colour says what it means."""
    mark = f'<span style="color:{_GOOD if good else _BAD}">{"✓" if good else "✗"}</span>'
    lines = "<br>".join(map(_text, text.split("\n")))
    return f'<div class="vxgraph" style="margin:6px 0">{mark} {lines}</div>'


def _table(table: Table, colours: Mapping[str, str]) -> str:
    sides = ["right" if name in table.right else "left" for name in table.head]
    head = "".join(
        f'<th style="{_CELL_STYLE};border-bottom:{_RULE};text-align:{side}">{_text(name)}</th>'
        for name, side in zip(table.head, sides, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL_STYLE};text-align:{side}">{_cell(cell, colours)}</td>'
            for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    caption = (
        f'<caption style="text-align:left;caption-side:top;opacity:.7;color:inherit">{_text(table.title)}</caption>'
    )
    return (
        f'<table style="color:inherit;border-collapse:collapse;margin:6px 0;font-size:90%">{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _cell(cell: str, colours: Mapping[str, str]) -> str:
    square = f'<span style="color:{colours[cell]}">■</span> ' if cell in colours else ""
    return square + _text(cell)


def _text(text: str) -> str:
    return escape(plain(text))
