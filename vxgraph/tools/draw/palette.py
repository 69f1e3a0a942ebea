"""Colours that people who see few of them can tell apart, on white and on black.

Hues: Okabe and Ito, "Color Universal Design" (2008). Vermilion is kept for what crosses between devices. Nothing is
told by colour alone: places have titles, transfers are thick and carry their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from vxgraph.tools.draw.sketch import HOST, UNPLACED

PEER = "#d55e00"
HOST_MOVE = "#5f5f5f"
GREY = ("#f5f5f5", "#6b6b6b")
PLACES = (  # fill and line, one pair per place in the order of their ids
    ("#e3f0fa", "#0072b2"),
    ("#e2f4ee", "#00795a"),
    ("#f9ecf4", "#a8477f"),
    ("#fdf3dc", "#a66f00"),
    ("#e6f5fc", "#2b86b8"),
    ("#f7f5d6", "#7a7000"),
    ("#eeeaf8", "#5b4a9e"),
    ("#eaeaea", "#333333"),
)


def colours(clusters: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Fill and line of each cluster: grey for the host and for what has no place, then places by their ids."""
    found = dict.fromkeys(clusters)
    places = sorted(set(found) - {HOST, UNPLACED}, key=lambda p: (len(p), p))
    grey = {name: GREY for name in found if name in (HOST, UNPLACED)}
    return grey | {place: PLACES[k % len(PLACES)] for k, place in enumerate(places)}
