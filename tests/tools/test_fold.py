"""What is one block in a drawing of thousands."""

from __future__ import annotations

from itertools import pairwise

import pytest

from vxgraph.tools.draw.fold import MEMBERS, fold
from vxgraph.tools.draw.sketch import Box, Edge, Move, Sketch
from vxgraph.tools.draw.tree import BOXES, EDGES, SMALL, Group, Tree, folded, unfolded


def op(name: str, kind: str = "exp", type: str = "f32[]", at: str = "gpu:0", loops: tuple[str, ...] = ()) -> Box:
    return Box(name, "op", at, loops, (f"%{name}", kind, type), kind)


def chain(boxes: list[Box]) -> Sketch:
    """Each box reads the one before it."""
    edges = tuple(Edge(a.id, b.id) for a, b in pairwise(boxes))
    return Sketch("net", tuple(boxes), edges)


def layers(count: int, kinds: str = "matmul silu add", net: str = "net", at: str = "gpu:0") -> list[Box]:
    return [op(f"{net}.layers.{i}.{kind}", kind, at=at) for i in range(count) for kind in kinds.split()]


def titles(tree: Tree, parent: int | None = None) -> list[str]:
    return [g.title for g in tree.groups if g.folds and (parent is None or g.parent == parent)]


def place(tree: Tree, title: str = "gpu:0") -> Group:
    (found,) = [g for g in tree.groups if g.title == title]
    return found


def test_layers_that_are_alike_are_one_block_with_their_count() -> None:
    tree = fold(chain([op("net.embed"), *layers(32), op("net.head")]))
    assert titles(tree, place(tree).index) == ["32 x net.layers"]
    block = place(tree, "32 x net.layers")
    assert block.lines == ("32 x net.layers", "0 to 31, 3 ops each", "1 matmul, 1 silu, 1 add")
    assert titles(tree, block.index) == [f"net.layers.{i}" for i in range(32)]
    assert place(tree).members == ["net.embed", block.index, "net.head"]
    assert (block.ops, place(tree).ops) == (96, 98)


@pytest.mark.parametrize(
    "odd",
    [
        [op("net.layers.2.matmul", "matmul"), op("net.layers.2.silu", "gelu"), op("net.layers.2.add", "add")],
        [op("net.layers.2.matmul", "matmul"), op("net.layers.2.silu", "silu", "f32[2]"), op("net.layers.2.add", "add")],
        [op("net.layers.2.matmul", "matmul"), op("net.layers.2.silu", "silu")],
    ],
    ids=["another op", "another type", "one op less"],
)
def test_a_layer_that_differs_is_not_counted_among_the_others(odd: list[Box]) -> None:
    boxes = [b for b in layers(5) if not b.id.startswith("net.layers.2")]
    tree = fold(chain([*boxes[:6], *odd, *boxes[6:]]))
    assert titles(tree, place(tree).index) == ["2 x net.layers", "net.layers.2", "2 x net.layers"]


def test_layers_of_the_same_operations_in_another_wiring_are_not_alike() -> None:
    boxes = layers(4)
    sketch = chain(boxes)
    crossed = tuple(Edge("net.layers.3.matmul", e.dst) if e.dst == "net.layers.3.add" else e for e in sketch.edges)
    tree = fold(Sketch("net", sketch.boxes, crossed))
    assert titles(tree, place(tree).index) == ["3 x net.layers", "net.layers.3"]


def test_layers_whose_numbers_do_not_follow_one_another_are_not_counted_together() -> None:
    tree = fold(chain([b for b in layers(6) if not b.id.startswith("net.layers.3")]))
    assert titles(tree, place(tree).index) == ["3 x net.layers", "2 x net.layers"]


def test_layers_at_two_places_are_two_blocks() -> None:
    boxes = layers(8)
    tree = fold(chain([*boxes[:12], *(op(b.id, b.op, at="gpu:1") for b in boxes[12:])]))
    assert titles(tree, place(tree).index) == ["4 x net.layers"]
    assert titles(tree, place(tree, "gpu:1").index) == ["4 x net.layers"]
    assert [g.lines[1] for g in tree.groups if g.kind == "repeat"] == ["0 to 3, 3 ops each", "4 to 7, 3 ops each"]


def test_numbered_scopes_in_layers_are_layers_in_them() -> None:
    boxes = [op(f"net.layers.{i}.heads.{k}.{n}") for i in range(2) for k in range(3) for n in ("q", "k")]
    tree = fold(chain(boxes))
    block = place(tree, "2 x net.layers")
    assert titles(tree, block.index) == ["net.layers.0", "net.layers.1"]
    assert titles(tree, place(tree, "net.layers.1").index) == ["3 x net.layers.1.heads"]


def test_a_pattern_without_names_is_one_block_with_its_count() -> None:
    boxes = [op("start", "iota"), *(op(f"v{k}", ("silu", "exp")[k % 2]) for k in range(1000)), op("end", "max")]
    tree = fold(chain(boxes))
    assert [m if isinstance(m, str) else tree.groups[m].lines for m in place(tree).members] == [
        "start",
        ("500 x (silu, exp)", "%v0 to %v999"),
        "end",
    ]


def test_what_has_no_pattern_is_in_blocks_of_blocks() -> None:
    boxes = [op(f"v{k}", f"op{k * k % 997}") for k in range(5000)]
    tree = fold(chain(boxes))
    assert all(len(g.members) <= MEMBERS for g in tree.groups)
    assert sorted(tree.home) == sorted(b.id for b in boxes)
    assert place(tree).ops == 5000
    assert titles(tree, place(tree).index) == ["%v0 to %v4999"]


def test_every_box_is_in_one_group_of_its_own_place_and_loops() -> None:
    inner = [op(f"in.layers.{k}.{n}", loops=("loop",)) for k in range(3) for n in ("a", "b")]
    ends = [Box(f"x{k}", "input", "host", (), (f"%x{k}",)) for k in range(100)]
    boxes = [*ends, *layers(3), *inner, Box("loop", "loop", "host", ("loop",), ("loop %loop",))]
    tree = fold(chain(boxes))
    held = [m for g in tree.groups for m in g.members if isinstance(m, str)]
    assert sorted(held) == sorted(b.id for b in boxes)
    for b in boxes:
        assert tree.groups[tree.home[b.id]].at == (b.cluster, b.loops)
    for g in tree.groups:
        assert g.parent < g.index
        assert g.parent < 0 or g.index in tree.groups[g.parent].members
    frame = place(tree, "loop %loop at gpu:0")
    assert tree.groups[frame.parent].title == "gpu:0"


def test_an_arrival_is_in_the_innermost_block_that_has_all_its_readers() -> None:
    def arrived(id: str) -> Box:
        return Box(id, "arrival", "gpu:0", (), (f"%{id}",))

    boxes = [*layers(2), arrived("a"), arrived("b"), arrived("c")]
    reads = [
        *(("a", "net.layers.1.silu"), ("a", "net.layers.1.add")),
        *(("b", "net.layers.0.silu"), ("b", "net.layers.1.silu")),
        *(("c", "a"), ("c", "net.layers.0.add")),
    ]
    tree = fold(Sketch("net", tuple(boxes), tuple(Edge(*r) for r in reads)))
    assert tree.groups[tree.home["a"]].title == "net.layers.1"
    assert tree.groups[tree.home["b"]].title == "2 x net.layers"
    assert tree.groups[tree.home["c"]].title in ("2 x net.layers", "gpu:0")


def test_a_closed_block_is_one_box_and_its_edges_carry_all_their_transfers() -> None:
    first, second = layers(32), [op(b.id.replace("net", "other"), at="gpu:1") for b in layers(32)]
    sent = [
        Edge(a.id, b.id, moves=tuple(Move("peer", f"{b.id}.{k}", "direct", 64, 1) for k in "kv"))
        for a, b in zip(first, second, strict=True)
    ]
    sketch = Sketch("net", (*first, *second), (*chain(first).edges, *chain(second).edges, *sent))
    tree = fold(sketch)
    shown = folded(sketch, tree, unfolded(sketch, tree))
    assert [b.lines[0] for b in shown.boxes] == ["32 x net.layers", "32 x other.layers"]
    (edge,) = shown.edges
    assert (edge.src, edge.dst) == tuple(b.id for b in shown.boxes)
    assert len(edge.moves) == 192
    assert folded(sketch, tree, {g.index for g in tree.groups}).edges == sketch.edges


def test_a_small_sketch_is_open_and_a_large_one_as_far_as_it_can_be_read() -> None:
    small = chain(layers(SMALL // 3))
    tree = fold(small)
    assert folded(small, tree, unfolded(small, tree)) == small
    large = chain(
        [*(op(f"a{k}", f"op{k}") for k in range(9)), *layers(32), *(op(f"b{k}", f"op{k}") for k in range(90))]
    )
    tree = fold(large)
    shown = folded(large, tree, unfolded(large, tree))
    assert {f"a{k}" for k in range(9)} < {b.id for b in shown.boxes}
    assert len(shown.boxes) <= BOXES
    assert len(shown.edges) <= EDGES
