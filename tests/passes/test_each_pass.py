"""Each pass on small graphs: before and after as text (golden), and what it must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import vxgraph as vx
from vxgraph.errors import InternalError, PlacementError
from vxgraph.ir.graph import Graph, Result
from vxgraph.ir.text import parse_graph
from vxgraph.passes.canonicalise import canonicalise
from vxgraph.passes.fuse import fuse
from vxgraph.passes.hoist import hoist
from vxgraph.passes.infer_placement import infer_placement
from vxgraph.passes.insert_transfers import insert_transfers
from vxgraph.passes.pipeline import Pass, Pipeline
from vxgraph.passes.verify_placement import verify_placement
from vxgraph.program.compile import pipeline, place_graph

X3 = vx.load_machine("cpu-x3")
place = partial(infer_placement, machine=X3)


def graph(lines: str) -> Graph:
    return parse_graph('graph "g" {\n' + lines + "\n}", "g.vxg")


def ops_of(g: Graph) -> list[str]:
    return [node.op.name for node in g.nodes]


GOLDEN = {
    "identities_go": (
        canonicalise,
        """arg %x : f32[2, 4]
           %a = reshape(%x) {dims = [2, 4]} : f32[2, 4]
           %b = cast(%a) {dtype = f32} : f32[2, 4]
           %c = transpose(%b) {perm = [0, 1]} : f32[2, 4]
           %d = slice(%c) {axis = 0, start = 0, stop = none} : f32[2, 4]
           %kept = slice(%d) {axis = 0, start = -1, stop = none, step = -1} : f32[2, 4]
           %moved = reshape(%x) {dims = [2, 4]} : f32[2, 4] @cpu:1
           result "d" = %d
           result "kept" = %kept
           result "moved" = %moved""",
    ),
    "transposes_become_attributes": (
        canonicalise,
        """arg %x : f32[2, 4]
           param %w : f32[3, 4]
           %t = transpose(%w) {perm = [1, 0]} : f32[4, 3]
           %tt = transpose(%t) {perm = [1, 0]} : f32[3, 4]
           %ttt = transpose(%tt) {perm = [1, 0]} : f32[4, 3]
           %far = transpose(%w) {perm = [1, 0]} : f32[4, 3] @cpu:2
           %a = matmul(%x, %t) : f32[2, 3]
           %b = matmul(%x, %ttt) : f32[2, 3]
           %c = matmul(%x, %tt) {transpose_b = true} : f32[2, 3] @cpu:1
           %d = matmul(%x, %far) : f32[2, 3] @cpu:1
           result "a" = %a
           result "b" = %b
           result "c" = %c
           result "d" = %d""",
    ),
    "constants_fold": (
        canonicalise,
        """arg %x : f32[2]
           %one = constant() {type = f32[], values = [1.0]} : f32[]
           %zero = constant() {type = f32[], values = [0.0]} : f32[]
           %minus = neg(%zero) : f32[]
           %two = add(%one, %one) : f32[] @cpu:1
           %inf = div(%one, %zero) : f32[]
           %down = div(%one, %minus) : f32[]
           %table = constant() {type = f32[2, 1], values = [1.0, 2.0]} : f32[2, 1]
           %id = constant() {type = i32[], values = [9]} : i32[]
           %outside = embed(%table, %id) : f32[1]
           %p = mul(%x, %inf) : f32[2]
           %q = mul(%x, %down) : f32[2]
           result "two" = %two
           result "p" = %p
           result "q" = %q
           result "outside" = %outside""",
    ),
    "equal_nodes_become_one": (
        canonicalise,
        """arg %x : f32[2]
           %a = neg(%x) : f32[2]
           %b = neg(%x) : f32[2]
           %c = neg(%x) : f32[2] @cpu:1
           %d = neg(%x) : f32[2] ~cpu:1
           %zero = constant() {type = f32[], values = [0.0]} : f32[]
           %minus = constant() {type = f32[], values = [-0.0]} : f32[]
           %k = cache_init() {type = f32[8, 2]} : f32[8, 2]
           %v = cache_init() {type = f32[8, 2]} : f32[8, 2]
           %e = add(%a, %b) : f32[2]
           result "e" = %e
           result "a" = %a
           result "b" = %b
           result "c" = %c
           result "d" = %d
           result "zero" = %zero
           result "minus" = %minus
           result "k" = %k
           result "v" = %v""",
    ),
    "transfers_of_equal_nodes_become_one": (
        canonicalise,
        """arg %x : f32[2]
           %u = upload(%x) {dst = cpu:0} : f32[2] @cpu:0
           %mine = upload(%x) {dst = cpu:0, explicit = true} : f32[2] @cpu:0
           %a = neg(%u) : f32[2] @cpu:0
           %b = neg(%u) : f32[2] @cpu:0
           %a.host = download(%a) {src = cpu:0} : f32[2]
           %b.host = download(%b) {src = cpu:0} : f32[2]
           %a.far = transfer_peer(%a) {src = cpu:0, dst = cpu:1} : f32[2] @cpu:1
           %b.far = transfer_peer(%b) {src = cpu:0, dst = cpu:1} : f32[2] @cpu:1
           %b.mine = transfer_peer(%b) {src = cpu:0, dst = cpu:1, explicit = true} : f32[2] @cpu:1
           %c = add(%a.far, %b.far) : f32[2] @cpu:1
           %c.host = download(%c) {src = cpu:1} : f32[2]
           result "a" = %a.host
           result "b" = %b.host
           result "c" = %c.host""",
    ),
    "a_first_append_makes_the_cache": (
        canonicalise,
        """arg %rows : f32[3, 2]
           %start = constant() {type = i32[], values = [0]} : i32[]
           %later = constant() {type = i32[], values = [1]} : i32[]
           %empty = cache_init() {type = f32[8, 2]} : f32[8, 2]
           %a = cache_append(%empty, %rows, %start) : f32[8, 2]
           %b = cache_append(%empty, %rows, %later) : f32[8, 2]
           result "a" = %a
           result "b" = %b""",
    ),
    "dead_nodes_go_and_effects_stay": (
        canonicalise,
        """arg %x : f32[2]
           %dead = neg(%x) : f32[2]
           %sent = to(%x) {dst = cpu:2} : f32[2]
           %silent, %n = loop(%x, %dead) {carried = 1, max_steps = 2} body "silent" {
             arg %s : f32[2]
             arg %unused : f32[2]
             result "s" = %s
           } : f32[2], i32[]
           %loud, %m = loop(%x, %dead, %x) {carried = 1, max_steps = 2} body "loud" {
             arg %t : f32[2]
             arg %unread : f32[2]
             arg %u : f32[2]
             %gone = exp(%unread) : f32[2]
             emit "u" = %u
             result "t" = %t
           } : f32[2], i32[]
           %sending, %k = loop(%x) {carried = 1, max_steps = 2} body "sending" {
             arg %y : f32[2]
             %away = to(%y) {dst = cpu:1} : f32[2]
             result "y" = %y
           } : f32[2], i32[]""",
    ),
    "places_follow_pins_hints_bytes_and_readers": (
        place,
        """arg %x : f32[8]
           arg %small : f32[2] @cpu:2
           param %w : f32[8] @cpu:1
           %const = constant() {type = f32[], values = [1.0]} : f32[]
           %pinned = neg(%x) : f32[8] @cpu:2
           %hinted = neg(%x) : f32[8] ~cpu:1
           %both = neg(%x) : f32[8] @cpu:2 ~cpu:1
           %sent = to(%x) {dst = cpu:1} : f32[8]
           %bytes = concat(%pinned, %small) {axis = 0} : f32[10]
           %tie = add(%hinted, %pinned) : f32[8]
           %weight = mul(%x, %w) : f32[8]
           %reader = exp(%x) : f32[8]
           %read = add(%reader, %const) : f32[8] @cpu:2
           %free = neg(%x) : f32[8]
           result "y" = %read""",
    ),
    "a_body_follows_what_it_is_given_or_its_own_wishes": (
        place,
        """arg %x : f32[8] @cpu:2
           %a, %n = loop(%x) {carried = 1, max_steps = 2} body "follows" {
             arg %s : f32[8]
             %t = neg(%s) : f32[8]
             result "s" = %t
           } : f32[8], i32[]
           %b, %m = loop(%x) {carried = 1, max_steps = 2} body "wishes" {
             arg %u : f32[8]
             %v = neg(%u) : f32[8]
             %w = exp(%v) : f32[8] @cpu:1
             result "u" = %w
           } : f32[8], i32[]
           %c, %k = loop(%a) {carried = 1, max_steps = 2} body "hands_through" {
             arg %y : f32[8]
             result "y" = %y
           } : f32[8], i32[]
           result "c" = %c""",
    ),
    "transfers_of_inputs_and_values": (
        insert_transfers,
        """arg %x : f32[8] @cpu:0
           arg %free : f32[8]
           param %w : f32[8] @cpu:1
           %h = add(%x, %w) : f32[8] @cpu:1
           %twice = mul(%h, %h) : f32[8] @cpu:2
           %again = add(%h, %free) : f32[8] @cpu:2
           %back = add(%again, %x) : f32[8] @cpu:0
           %const = constant() {type = f32[], values = [1.0]} : f32[] @cpu:0
           %near = add(%back, %const) : f32[8] @cpu:0
           %far = add(%h, %const) : f32[8] @cpu:1
           emit "made" = %h
           result "x" = %x
           result "w" = %w
           result "near" = %near
           result "h" = %h
           result "const" = %const""",
    ),
    "explicit_transfers_stay": (
        insert_transfers,
        """arg %x : f32[8]
           %up = to(%x) {dst = cpu:1} : f32[8] @cpu:1
           %over = to(%up) {dst = cpu:2} : f32[8] @cpu:2
           %same = to(%over) {dst = cpu:2} : f32[8] @cpu:2
           %y = neg(%over) : f32[8] @cpu:2
           result "y" = %y""",
    ),
    "transfers_around_loops": (
        insert_transfers,
        """arg %x : f32[8]
           arg %limit : i32[]
           param %w : f32[8]
           %bound = add(%limit, %limit) : i32[] @cpu:1
           %loop, %n = loop(%x, %w, %bound) {carried = 1, max_steps = 3, limited = true} body "b" {
             arg %s : f32[8] @cpu:1
             arg %w.in : f32[8]
             %a = mul(%s, %w.in) : f32[8] @cpu:0
             %b = neg(%a) : f32[8] @cpu:1
             %c = sum(%b) {axis = 0} : f32[] @cpu:1
             %d = compare(%c, %c) {kind = "ne"} : bool[] @cpu:1
             emit "c" = %c
             result "s" = %a
             result "stop" = %d
           } : f32[8], i32[]
           %steps = add(%n, %n) : i32[] @cpu:2
           result "y" = %loop
           result "n" = %n
           result "steps" = %steps""",
    ),
    "invariants_leave_loops": (
        lambda g: hoist(insert_transfers(g)),
        """arg %x : f32[8]
           param %w : f32[8]
           %w2 = neg(%w) : f32[8] @cpu:1
           %use = add(%w2, %w) : f32[8] @cpu:0
           %loop, %n = loop(%x, %w2, %w) {carried = 1, max_steps = 3} body "outer" {
             arg %s : f32[8] @cpu:0
             arg %w2.in : f32[8]
             arg %w.in : f32[8]
             %zero = constant() {type = f32[], values = [0.0]} : f32[] @cpu:0
             %z = add(%s, %zero) : f32[8] @cpu:0
             %a = add(%z, %w2.in) : f32[8] @cpu:0
             %in, %m = loop(%a, %w.in) {carried = 1, max_steps = 2} body "inner" {
               arg %t : f32[8] @cpu:2
               arg %w.in.in : f32[8]
               %minus = constant() {type = f32[], values = [-0.0]} : f32[] @cpu:0
               %b = add(%w.in.in, %minus) : f32[8] @cpu:0
               %c = add(%b, %t) : f32[8] @cpu:2
               result "t" = %c
             } : f32[8], i32[]
             %empty = cache_init() {type = f32[8, 8]} : f32[8, 8] @cpu:0
             %d = neg(%in) : f32[8] @cpu:0
             emit "empty" = %empty
             result "s" = %d
           } : f32[8], i32[]
           result "y" = %loop
           result "use" = %use""",
    ),
    "explicit_transfers_in_loops_stay": (
        lambda g: canonicalise(hoist(insert_transfers(g))),
        """arg %x : f32[8]
           param %w : f32[8]
           %loop, %n = loop(%x, %w) {carried = 1, max_steps = 3} body "b" {
             arg %s : f32[8] @cpu:0
             arg %w.in : f32[8]
             %dead = to(%w.in) {dst = cpu:1} : f32[8] @cpu:1
             %each = to(%s) {dst = cpu:2} : f32[8] @cpu:2
             %t = neg(%s) : f32[8] @cpu:0
             result "s" = %t
           } : f32[8], i32[]
           result "y" = %loop""",
    ),
    "elementwise_ops_fuse_inside_one_place": (
        fuse,
        """arg %x : f32[8]
           arg %b : f32[1]
           %gate = silu(%x) : f32[8] @cpu:0
           %act = mul(%gate, %x) : f32[8] @cpu:0
           %far = neg(%act) : f32[8] @cpu:1
           %twice = exp(%x) : f32[8] @cpu:0
           %sq = mul(%twice, %twice) : f32[8] @cpu:0
           %out = neg(%x) : f32[8] @cpu:0
           %more = exp(%out) : f32[8] @cpu:0
           %narrow = neg(%b) : f32[1] @cpu:0
           %wide = add(%narrow, %x) : f32[8] @cpu:0
           %both = add(%sq, %wide) : f32[8] @cpu:0
           result "far" = %far
           result "out" = %out
           result "more" = %more
           result "both" = %both""",
    ),
}


@pytest.mark.parametrize("what", GOLDEN)
def test_a_pass_does_what_its_golden_text_shows(what: str, golden: Callable[..., None]):
    run, lines = GOLDEN[what]
    before = graph(lines)
    text = before.text()
    after = run(before)
    assert before.text() == text
    golden(f"{text}\n{after.text()}", what)


def test_a_chain_fuses_up_to_the_depth_that_a_fused_op_reads_back():
    lines = "\n".join(f"%v{k + 1} = neg(%v{k}) : f32[8] @cpu:0" for k in range(70))
    fused = fuse(graph(f'arg %v0 : f32[8]\n{lines}\nresult "y" = %v70'))
    assert [node.name for node in fused.nodes] == ["v32", "v64", "v70"]
    assert parse_graph(fused.text()) == fused


def test_a_fused_op_reads_at_most_six_operands():
    args = "\n".join(f"arg %a{k} : f32[8]" for k in range(12))
    lines = "\n".join(f"%v{k + 1} = add(%v{k}, %a{k + 1}) : f32[8] @cpu:0" for k in range(11))
    fused = fuse(graph(f'{args}\n{lines.replace("%v0,", "%a0,")}\nresult "y" = %v11'))
    assert [(n.name, len(n.inputs)) for n in fused.nodes] == [("v5", 6), ("v10", 6), ("v11", 2)]


UNLOCAL = {
    "%y = neg reads %x at cpu:1, but it is at the host": "%y = neg(%x) : f32[8] @cpu:1",
    "%y = neg reads %u at cpu:1, but it is at cpu:0": (
        "%u = upload(%x) {dst = cpu:0} : f32[8] @cpu:0\n%y = neg(%u) : f32[8] @cpu:1"
    ),
    "%d = download reads %u at cpu:1, but it is at cpu:0": (
        "%u = upload(%x) {dst = cpu:0} : f32[8] @cpu:0\n%d = download(%u) {src = cpu:1} : f32[8]"
    ),
    "%t = transfer_peer reads %u at cpu:2, but it is at cpu:0": (
        "%u = upload(%x) {dst = cpu:0} : f32[8] @cpu:0\n"
        "%t = transfer_peer(%u) {src = cpu:2, dst = cpu:1} : f32[8] @cpu:1"
    ),
    "%u goes to cpu:0, but stands at cpu:1": "%u = upload(%x) {dst = cpu:0} : f32[8] @cpu:1",
    "%c = constant has no place": "%c = constant() {type = f32[], values = [1.0]} : f32[]",
    "result 'y' wants %u on the host, but it is at cpu:0": (
        '%u = upload(%x) {dst = cpu:0} : f32[8] @cpu:0\nresult "y" = %u'
    ),
}


@pytest.mark.parametrize("message", UNLOCAL)
def test_the_proof_names_the_reader_the_operand_and_both_places(message: str):
    g = graph("arg %x : f32[8]\n" + UNLOCAL[message])
    with pytest.raises(PlacementError) as error:
        verify_placement(g)
    assert error.value.message == message


BODY = """arg %x : f32[8]
%u = upload(%x) {dst = cpu:0} : f32[8] @cpu:0
%y, %n = loop(%u) {carried = 1, max_steps = 2} body "b" {
  arg %s : f32[8] @cpu:0
  %t = neg(%s) : f32[8] @cpu:0
  LINE
  result "s" = %t
} : f32[8], i32[]"""


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("LINE", 'emit "t" = %t'), "emit 't' wants %t on the host, but it is at cpu:0"),
        (
            (
                'LINE\n  result "s" = %t',
                '%o = transfer_peer(%t) {src = cpu:0, dst = cpu:1} : f32[8] @cpu:1\nresult "s" = %o',
            ),
            "the next step of loop %n reads %s at cpu:0, but %o is at cpu:1",
        ),
        (
            (
                'LINE\n  result "s" = %t',
                '%p = constant() {type = bool[], values = [true]} : bool[] @cpu:0\nresult "s" = %t\nresult "stop" = %p',
            ),
            "the stop predicate %p is at cpu:0, not on the host",
        ),
        (("%s : f32[8] @cpu:0", "%s : f32[8] @cpu:1"), "%y = loop reads %u at cpu:1, but it is at cpu:0"),
    ],
)
def test_the_proof_goes_into_loops(edit: tuple[str, str], message: str):
    with pytest.raises(PlacementError) as error:
        verify_placement(graph(BODY.replace(*edit).replace("LINE", "")))
    assert error.value.message == message


def test_a_local_graph_stays_as_it_is():
    local = insert_transfers(place(graph('arg %x : f32[8]\n%y = neg(%x) : f32[8]\nresult "y" = %y')))
    assert verify_placement(local) is local
    assert hoist(local) is local


def test_a_pass_that_breaks_the_graph_is_named_and_shows_it():
    def break_it(g: Graph) -> Graph:
        return Graph(g.name, g.args, g.params, (), (Result("y", "gone"),))

    broken = Pipeline((Pass("tidy", canonicalise), Pass("breaks", break_it)))
    with pytest.raises(InternalError) as error:
        broken.run(graph('arg %x : f32[8] loc "m.py:1"\nresult "y" = %x'))
    assert str(error.value) == (
        "pass breaks broke the graph: result 'y' names %gone, which graph 'g' does not define\n"
        'graph "g" {\n  arg %x : f32[8] loc "m.py:1"\n  result "y" = %gone\n}\n'
    )


def test_a_pipeline_out_of_order_is_refused_when_it_is_built():
    given, wants = Pass("gives", canonicalise, gives=frozenset({"a"})), Pass("wants", fuse, needs=frozenset({"b", "a"}))
    with pytest.raises(InternalError) as error:
        Pipeline((given, wants))
    assert str(error.value) == "pass wants needs b, which no pass before it gives"
    passes = pipeline(X3).passes
    assert [p.name for p in passes] == [
        "canonicalise",
        "infer-placement",
        "insert-transfers",
        "hoist",
        "canonicalise-again",
        "verify-placement",
        "fuse",
    ]
    for k, p in enumerate(passes):
        for q in passes[k + 1 :]:
            if p.gives & q.needs:
                with pytest.raises(InternalError):
                    Pipeline(tuple(x for x in passes if x is not p))


def test_a_watcher_sees_the_graph_after_each_pass():
    seen: list[str] = []
    g = graph('arg %x : f32[8]\n%y = neg(%x) : f32[8]\nresult "y" = %y')
    last = pipeline(X3).run(g, lambda name, after: seen.append(f"{name} {len(after.nodes)}"))
    assert seen == [
        "canonicalise 1",
        "infer-placement 1",
        "insert-transfers 3",
        "hoist 3",
        "canonicalise-again 3",
        "verify-placement 3",
        "fuse 3",
    ]
    assert ops_of(last) == ["upload", "neg", "download"]
    assert place_graph(g, X3) == last


def test_what_is_equal_to_a_param_can_be_handed_out() -> None:
    """A param itself cannot: a run has it on devices only."""
    with vx.Graph("equal") as graph:
        p = vx.param("p", vx.f32[2, 3])
        n = vx.param("n", vx.i32[()])
        vx.output("same", p.reshape(2, 3))
        vx.emit("cast", p.cast(vx.f32))
        done = vx.param("done", vx.bool[()])
        outside, ending = p.reshape(2, 3), done.reshape()

        def body(x: vx.Value) -> list[vx.Value]:
            vx.emit("turned", p.transpose(0, 1))
            vx.emit("outside", outside)  # made before the loop, read on the host in it
            vx.stop(ending)
            return [x + 1]

        _, steps = vx.loop(body, [vx.constant(0)], max_steps=3, steps=n.reshape())
        vx.output("steps", steps)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {"p": values, "n": np.int32(2), "done": np.bool_(False)}
    found = vx.run(vx.compile(graph, vx.load_machine("cpu")), {}, given, bind="numpy")
    assert int(found["steps"]) == 2
    np.testing.assert_array_equal(found["same"], values)
    np.testing.assert_array_equal(found["cast"], values[None])
    np.testing.assert_array_equal(found["turned"], np.stack([values, values]))
    np.testing.assert_array_equal(found["outside"], np.stack([values, values]))
