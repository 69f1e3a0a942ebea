"""A sketch as DOT text, the same text for the same sketch.

One cluster per place with a colour of its own and what its memory holds, loops and open blocks nested in it, closed
blocks as boxes with a shadow, transfers between devices thick and labelled with their bytes, what a step hands to the
next one dashed.
"""

# pyright: reportUnknownMemberType=false
# graphviz is typed in part only

from __future__ import annotations

from collections.abc import Collection, Iterable

import graphviz
from graphviz import Digraph

from vxgraph.program.admission import show_bytes
from vxgraph.tools.draw.fold import fold
from vxgraph.tools.draw.palette import HOST_MOVE, PEER, colours
from vxgraph.tools.draw.sketch import Edge, Move, Sketch
from vxgraph.tools.draw.tree import Group, Tree, folded, less_notes, unfolded
from vxgraph.tools.plain import plain

_SHAPES: dict[str, dict[str, str]] = {
    "op": {"shape": "box", "style": "filled,rounded", "fillcolor": "white"},
    "input": {"shape": "box", "style": "filled", "fillcolor": "#fffbe0"},
    "output": {"shape": "box", "style": "filled", "fillcolor": "#e3e3e3"},
    "params": {"shape": "note", "style": "filled", "fillcolor": "white", "fontsize": "10"},
    "arrival": {"shape": "ellipse", "style": "filled", "fillcolor": "white", "fontsize": "10", "height": "0.2"},
    "loop": {"shape": "box", "style": "filled,rounded", "fillcolor": "white", "peripheries": "2"},
    "folded": {"shape": "box3d", "style": "filled", "fillcolor": "white", "penwidth": "1.6", "margin": "0.18,0.08"},
}

_FRAMES: dict[str, dict[str, str]] = {
    "place": {"style": "filled,rounded", "penwidth": "2", "fontsize": "14"},
    "loop": {"style": "rounded,dashed", "penwidth": "1.5", "fontsize": "12"},
    "repeat": {"style": "rounded", "penwidth": "0.7", "fontsize": "10"},
    "layer": {"style": "rounded", "penwidth": "0.7", "fontsize": "10"},
}


def to_dot(sketch: Sketch) -> str:
    """DOT text that Graphviz and its ports draw, with blocks closed as far as it takes to be read."""
    sketch = less_notes(sketch)
    tree = fold(sketch)
    open = unfolded(sketch, tree)
    shown = folded(sketch, tree, open)
    dot = Digraph(_id(sketch.title))
    dot.attr("graph", label=_text((sketch.title,)), labelloc="t", fontname="Helvetica", fontsize="18", rankdir="TB")
    dot.attr("graph", nodesep="0.3", ranksep="0.25", newrank="true")
    dot.attr("node", fontname="Helvetica", fontsize="11", margin="0.1,0.05")
    dot.attr("edge", fontname="Helvetica", fontsize="10", color="#8a8a8a", arrowsize="0.7")
    drawing = _Drawing(shown, tree, open)
    for group in tree.groups:
        if group.kind == "place":
            dot.subgraph(drawing.frame(group))
    labelled: set[Move] = set()
    for edge in shown.edges:
        dot.edge(_id(edge.src), _id(edge.dst), **_edge(edge, labelled))
        labelled.update(edge.moves)
    return dot.source.rstrip("\n") + "\n"


class _Drawing:
    """The frames of a drawing, with what is in them."""

    def __init__(self, shown: Sketch, tree: Tree, open: Collection[int]) -> None:
        self.boxes = {box.id: box for box in shown.boxes}
        self.colours = colours(box.cluster for box in shown.boxes)
        self.about = shown.about
        self.tree, self.open = tree, open

    def frame(self, group: Group) -> Digraph:
        """A place, the part of a loop that runs there, or an open block."""
        fill, line = self.colours[group.at[0]]
        dot = Digraph(f"cluster {group.index}")
        dot.attr(
            "graph", label=_text(self._title(group)), labeljust="l", color=line, fontcolor=line, **_FRAMES[group.kind]
        )
        if group.kind == "place":
            dot.attr("graph", fillcolor=fill)
        self._members(dot, group, line)
        return dot

    def _members(self, dot: Digraph, group: Group, line: str) -> None:
        for member in group.members:
            inner = self.tree.groups[member] if isinstance(member, int) else None
            if inner is None or inner.index not in self.open:
                box = self.boxes.get(inner.id if inner else str(member))
                if box is not None:
                    dot.node(_id(box.id), _text(box.lines), color=line, **_SHAPES[box.kind])
            elif inner.kind == "run":  # its title says no more than what is in it
                self._members(dot, inner, line)
            else:
                dot.subgraph(self.frame(inner))

    def _title(self, group: Group) -> tuple[str, ...]:
        return (group.title, *(self.about.get(group.title, ()) if group.kind == "place" else ()))


def _edge(edge: Edge, labelled: set[Move]) -> dict[str, str]:
    """A transfer's bytes are on its first edge alone: a carried value has another one, from the step before."""
    found: dict[str, str] = {}
    if edge.moves:
        peer = any(m.kind == "peer" for m in edge.moves)
        colour = PEER if peer else HOST_MOVE
        found |= {"color": colour, "fontcolor": colour, "penwidth": "3.5" if peer else "1.4"}
        found |= {"fontsize": "13"} if peer else {}
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
    routes = ", ".join(dict.fromkeys(m.route for m in moves if m.route))
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
