"""What a drawing shows, before it is DOT."""

from __future__ import annotations

import vxgraph as vx
from vxgraph.tools.draw.dot import to_dot
from vxgraph.tools.draw.sketch import Edge, Move, Sketch
from vxgraph.tools.draw.walk import sketch_graph, sketch_program


def compiled(build: object) -> Sketch:
    with vx.Graph("g") as g:
        build()  # type: ignore[operator]
    return sketch_program(vx.compile(g, vx.load_machine("h200-x2")))


def edge(sketch: Sketch, src: str, dst: str) -> Edge:
    (found,) = [e for e in sketch.edges if (e.src, e.dst) == (src, dst)]
    return found


def two_readers() -> None:
    with vx.on(vx.GPU[0]):
        h = vx.exp(vx.input("x", vx.f32[8]), name="h")
    with vx.on(vx.GPU[1]):
        a, b = vx.neg(h, name="a"), vx.sum(h, axis=0, name="b")
        vx.output("a", a)
        vx.output("b", b)


def test_a_transfer_that_two_boxes_read_is_one_edge_into_a_box_of_its_own() -> None:
    sketch = compiled(two_readers)
    assert edge(sketch, "h", "h.gpu1").moves == (Move("peer", "h.gpu1", "direct", 32, 1),)
    assert edge(sketch, "h.gpu1", "a").moves == edge(sketch, "h.gpu1", "b").moves == ()
    assert [b.kind for b in sketch.boxes if b.id == "h.gpu1"] == ["arrival"]


def one_reader() -> None:
    with vx.on(vx.GPU[0]):
        x = vx.input("x", vx.f32[8])
        h, k = vx.exp(x, name="h"), vx.neg(x, name="k")
    with vx.on(vx.GPU[1]):
        vx.output("y", vx.matmul(h.reshape(1, 8), k.reshape(8, 1), name="y"))


def test_a_transfer_that_one_box_reads_is_the_edge_and_views_are_nothing() -> None:
    sketch = compiled(one_reader)
    assert [m.nbytes for m in edge(sketch, "h", "y").moves] == [32]
    assert [m.nbytes for m in edge(sketch, "k", "y").moves] == [32]
    assert {b.id for b in sketch.boxes} == {"x.gpu0", "x", "h", "k", "y", "result y"}


def test_every_transfer_of_a_run_is_on_exactly_one_edge() -> None:
    with vx.Graph("g") as g:
        one_reader()
    program = vx.compile(g, vx.load_machine("h200-x2"))
    moves = [m for e in sketch_program(program).edges for m in e.moves]
    assert sum(m.nbytes for m in moves) == sum(t.nbytes for t in program.transfers)
    assert len(moves) == len(program.transfers)


def test_a_written_transfer_that_nothing_reads_is_shown() -> None:
    with vx.Graph("g") as g, vx.on(vx.GPU[0]):
        vx.exp(vx.input("x", vx.f32[8]), name="h").to(vx.GPU[1], name="sent")
    sketch = sketch_graph(g.build())
    assert edge(sketch, "h", "sent").moves == (Move("peer", "sent", "", 32, 1),)


def test_a_carried_value_comes_from_before_the_loop_and_from_the_last_step() -> None:
    with vx.Graph("g") as g, vx.on(vx.GPU[0]):
        x = vx.exp(vx.input("x", vx.f32[8]), name="start")
        (out,), _ = vx.loop(lambda v: [vx.exp(vx.neg(v, name="first"), name="last")], [x], max_steps=4)
        vx.output("y", out)
    sketch = sketch_graph(g.build())
    assert edge(sketch, "start", "first") == Edge("start", "first")
    assert edge(sketch, "last", "first") == Edge("last", "first", later=True)
    assert edge(sketch, "last", "result y") == Edge("last", "result y")


def test_a_carried_value_that_crosses_in_every_step_has_its_bytes_on_one_edge() -> None:
    with vx.Graph("g") as g:
        with vx.on(vx.GPU[1]):
            x = vx.exp(vx.input("x", vx.f32[8]), name="start")

        def step(v: vx.Value) -> list[vx.Value]:
            with vx.on(vx.GPU[0]):
                first = vx.neg(v, name="first")
            with vx.on(vx.GPU[1]):
                return [vx.exp(first, name="last")]

        (out,), _ = vx.loop(step, [x], max_steps=4)
        vx.output("y", out)
    dot = to_dot(sketch_program(vx.compile(g, vx.load_machine("h200-x2"))))
    into = sorted(line.split(" color")[0].strip() for line in dot.splitlines() if "-> first " in line)
    assert into == [
        '"start.step.next" -> first [label="next step"',
        r'start -> first [label="%start.step.gpu0\n32 B x4, direct"',
    ]
