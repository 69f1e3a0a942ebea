"""A sketch as DOT text, the same text for the same sketch.

One cluster per place with a colour of its own, loops nested in it, transfers between devices thick and red with their
bytes, what a step hands to the next one dashed.
"""

# pyright: reportUnknownMemberType=false
# graphviz is typed in part only

from __future__ import annotations

from collections.abc import Iterable

import graphviz
from graphviz import Digraph

from vxgraph.program.admission import show_bytes
from vxgraph.tools.draw.sketch import HOST, UNPLACED, Box, Edge, Move, Sketch
from vxgraph.tools.plain import plain

GREY = ("#f4f4f4", "#7a7a7a")
COLOURS = (  # fill and line, one pair per place in the order of their ids
    ("#e8f1fb", "#2f6fb2"),
    ("#e9f6ea", "#3d8b46"),
    ("#fdf1e0", "#c07a1c"),
    ("#f3ebf9", "#7f4bab"),
    ("#e5f6f6", "#23858a"),
    ("#fbe9f0", "#b04a75"),
    ("#f6f5dc", "#8a8420"),
    ("#ecebf8", "#5a55b0"),
)
PEER = "#d62728"
HOST_MOVE = "#5f5f5f"
NOTED_EDGES = 4  # a note with more readers than this shows no edges

_SHAPES: dict[str, dict[str, str]] = {
    "op": {"shape": "box", "style": "filled,rounded", "fillcolor": "white"},
    "input": {"shape": "box", "style": "filled", "fillcolor": "#fffbe0"},
    "output": {"shape": "box", "style": "filled", "fillcolor": "#e3e3e3"},
    "params": {"shape": "note", "style": "filled", "fillcolor": "white", "fontsize": "10"},
    "arrival": {"shape": "ellipse", "style": "filled", "fillcolor": "white", "fontsize": "10", "height": "0.2"},
    "loop": {"shape": "box", "style": "filled,rounded", "fillcolor": "white", "peripheries": "2"},
}


def to_dot(sketch: Sketch) -> str:
    """DOT text that Graphviz and its ports draw."""
    dot = Digraph(_id(sketch.title))
    dot.attr("graph", label=_text((sketch.title,)), labelloc="t", fontname="Helvetica", fontsize="16", rankdir="TB")
    dot.attr("graph", nodesep="0.3", ranksep="0.45", newrank="true")
    dot.attr("node", fontname="Helvetica", fontsize="11", margin="0.1,0.05")
    dot.attr("edge", fontname="Helvetica", fontsize="10", color="#8a8a8a", arrowsize="0.7")
    for place, (fill, line) in _colours(sketch.boxes).items():
        inside = [box for box in sketch.boxes if box.cluster == place]
        dot.subgraph(_cluster(place, (), inside, fill, line))
    labelled: set[Move] = set()
    for edge in _shown(sketch):
        dot.edge(_id(edge.src), _id(edge.dst), **_edge(edge, labelled))
        labelled.update(edge.moves)
    return dot.source.rstrip("\n") + "\n"


def _colours(boxes: Iterable[Box]) -> dict[str, tuple[str, str]]:
    places = sorted({b.cluster for b in boxes} - {HOST, UNPLACED}, key=lambda p: (len(p), p))
    grey = {b.cluster: GREY for b in boxes if b.cluster in (HOST, UNPLACED)}
    return grey | {place: COLOURS[k % len(COLOURS)] for k, place in enumerate(places)}


def _cluster(place: str, loops: tuple[str, ...], boxes: list[Box], fill: str, line: str) -> Digraph:
    """A place, or the part of a loop that runs there."""
    dot = Digraph(f"cluster {place} {' '.join(loops)}".rstrip())
    title = f"loop %{loops[-1]} at {place}" if loops else place
    style = "rounded,dashed" if loops else "filled,rounded"
    width = "1.5" if loops else "2"
    dot.attr("graph", label=_text((title,)), labeljust="l", style=style, color=line, fillcolor=fill, fontcolor=line)
    dot.attr("graph", penwidth=width, fontsize="11" if loops else "14")
    inner: dict[str, list[Box]] = {}
    for box in boxes:
        if box.loops == loops:
            dot.node(_id(box.id), _text(box.lines), color=line, **_SHAPES[box.kind])
        else:
            inner.setdefault(box.loops[len(loops)], []).append(box)
    for name, held in inner.items():
        dot.subgraph(_cluster(place, (*loops, name), held, fill, line))
    return dot


def _shown(sketch: Sketch) -> list[Edge]:
    """All edges, less those of notes that everything reads."""
    notes = {b.id: 0 for b in sketch.boxes if b.kind == "params"}
    for e in sketch.edges:
        if e.src in notes:
            notes[e.src] += 1
    return [e for e in sketch.edges if notes.get(e.src, 0) <= NOTED_EDGES]


def _edge(edge: Edge, labelled: set[Move]) -> dict[str, str]:
    """A transfer's bytes are on its first edge alone: a carried value has another one, from the step before."""
    found: dict[str, str] = {}
    if edge.moves:
        peer = any(m.kind == "peer" for m in edge.moves)
        colour = PEER if peer else HOST_MOVE
        found |= {"color": colour, "fontcolor": colour, "penwidth": "3" if peer else "1.4"}
        new = tuple(m for m in edge.moves if m not in labelled)
        found["label"] = _text((*_move_lines(new), *(["next step"] if edge.later else [])))
    if edge.later:
        found |= {"style": "dashed", "constraint": "false"}
    elif edge.src.startswith("params at "):
        found |= {"style": "dotted", "arrowhead": "none"}
    return found


def _move_lines(moves: tuple[Move, ...]) -> list[str]:
    """`%silu.gpu1`, `1.00 KiB`; several together are counted, and what goes to or from the host needs no name."""
    if not moves:
        return []
    counts = {m.count for m in moves}
    times = f" x{min(counts)}" if len(counts) == 1 and counts != {1} else ""
    size = show_bytes(sum(m.nbytes for m in moves)) + times
    routes = ", ".join(dict.fromkeys(m.route for m in moves if m.route not in ("", "direct")))
    sizes = [f"{size}, {routes}" if routes else size]
    if len(moves) > 1:
        return [f"{len(moves)} transfers", *sizes]
    return [f"%{m.name}" for m in moves if m.kind == "peer"] + sizes


def _text(lines: Iterable[str]) -> str:
    """Lines as a label that is read as it stands: no escapes of DOT's, no HTML, no entities."""
    return graphviz.nohtml("\\n".join(graphviz.escape(plain(line).replace("&", "&amp;")) for line in lines))


def _id(text: str) -> str:
    """A name that DOT reads as one: no port, no HTML, no escape."""
    return "".join(c if c.isprintable() and c not in '<>:\\"' else f"({ord(c):x})" for c in text)
