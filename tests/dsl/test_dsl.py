"""What the DSL builds: names, scopes, places, scalars, indexing, captures; one graph at a time, per thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import vxgraph as vx
from vxgraph import ops
from vxgraph.dsl.trace import frame
from vxgraph.errors import user_loc
from vxgraph.ir.graph import Graph
from vxgraph.ir.verify import verify

HERE = user_loc().file


def built(make, type: vx.TensorType = vx.f32[4, 64]) -> Graph:
    """The graph of `make(x)`, verified."""
    with vx.Graph("g") as g:
        made = make(vx.input("x", type))
        if isinstance(made, vx.Value):
            vx.output("y", made)
    graph = g.build()
    verify(graph)
    assert vx.parse_graph(g.text()) == g
    return graph


def line(make, type: vx.TensorType = vx.f32[4, 64]) -> str:
    """The last node as text, without its source line."""
    lines = built(make, type).text().splitlines()
    return next(x for x in reversed(lines) if " = " in x and "result" not in x).split(" loc ")[0].strip()


FUNCTIONS = {
    "%y = add(%x, %x) : f32[4, 64]": lambda x: vx.add(x, x, name="y"),
    "%sub = sub(%x, %x) : f32[4, 64]": lambda x: x - x,
    "%mul = mul(%x, %x) : f32[4, 64]": lambda x: x * x,
    "%div = div(%x, %x) : f32[4, 64]": lambda x: x / x,
    "%maximum = maximum(%x, %x) : f32[4, 64]": lambda x: vx.maximum(x, x),
    "%minimum = minimum(%x, %x) : f32[4, 64]": lambda x: vx.minimum(x, x),
    '%compare = compare(%x, %x) {kind = "lt"} : bool[4, 64]': lambda x: x < x,
    '%compare = compare(%x, %x) {kind = "le"} : bool[4, 64]': lambda x: x <= x,
    '%compare = compare(%x, %x) {kind = "gt"} : bool[4, 64]': lambda x: x > x,
    '%compare = compare(%x, %x) {kind = "ge"} : bool[4, 64]': lambda x: x >= x,
    '%compare = compare(%x, %x) {kind = "eq"} : bool[4, 64]': lambda x: x == x,
    '%compare = compare(%x, %x) {kind = "ne"} : bool[4, 64]': lambda x: x != x,
    "%neg = neg(%x) : f32[4, 64]": lambda x: -x,
    "%exp = exp(%x) : f32[4, 64]": vx.exp,
    "%sqrt = sqrt(%x) : f32[4, 64]": vx.sqrt,
    "%rsqrt = rsqrt(%x) : f32[4, 64]": vx.rsqrt,
    "%silu = silu(%x) : f32[4, 64]": vx.silu,
    "%gelu = gelu(%x) : f32[4, 64]": vx.gelu,
    "%relu = relu(%x) : f32[4, 64]": vx.relu,
    "%matmul = matmul(%x, %transpose) : f32[4, 4]": lambda x: x @ x.T,
    "%quantized_matmul = quantized_matmul(%x, %cast, %sum) : f32[4, 4]": lambda x: vx.quantized_matmul(
        x, x.cast(vx.i8), vx.sum(x, axis=1)
    ),
    "%rmsnorm = rmsnorm(%x, %reshape) {eps = 1e-05} : f32[4, 64]": lambda x: vx.rmsnorm(x, x[0], eps=1e-5),
    "%softmax = softmax(%x) {axis = 0} : f32[4, 64]": lambda x: vx.softmax(x, axis=0),
    "%cast = cast(%x) {dtype = bf16} : bf16[4, 64]": lambda x: x.cast(vx.bf16),
    "%argmax = argmax(%x) {axis = -1} : i32[4]": vx.argmax,
    "%sum = sum(%x) {axis = -1} : f32[4]": lambda x: vx.sum(x, axis=-1),
    "%mean = mean(%x) {axis = 0, keepdims = true} : f32[1, 64]": lambda x: vx.mean(x, axis=0, keepdims=True),
    "%max = max(%x) {axis = 1} : f32[4]": lambda x: vx.max(x, axis=1),
    "%concat = concat(%x, %x) {axis = 1} : f32[4, 128]": lambda x: vx.concat([x, x], axis=1),
    "%slice = slice(%x) {axis = 1, start = 0, stop = 8} : f32[4, 8]": lambda x: x[:, :8],
    "%slice = slice(%x) {axis = 0, start = -1, stop = none, step = -1} : f32[4, 64]": lambda x: x[::-1],
    "%reshape = reshape(%x) {dims = [2, 128]} : f32[2, 128]": lambda x: vx.reshape(x, [2, 128]),
    "%transpose = transpose(%x) {perm = [1, 0]} : f32[64, 4]": lambda x: x.transpose(),
    "%to = to(%x) {dst = gpu:1} : f32[4, 64]": lambda x: x.to(vx.GPU[1]),
    "%iota = iota() {dim = 5, dtype = f32} : f32[5]": lambda x: vx.iota(5, vx.f32),
    "%where = where(%compare, %x, %constant.1) : f32[4, 64]": lambda x: vx.where(x > 0, x, 1),
    "%embed = embed(%x, %argmax) : f32[4, 64]": lambda x: vx.embed(x, vx.argmax(x)),
    "%cache_init = cache_init() {type = f32[8, 4]} : f32[8, 4]": lambda x: vx.cache_init(vx.f32[8, 4]),
    "%cache_append = cache_append(%cache_init, %x, %constant) : f32[8, 64]": lambda x: vx.cache_append(
        vx.cache_init(vx.f32[8, 64]), x, vx.constant(0)
    ),
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_a_function_adds_the_node_of_its_name(text: str):
    assert line(FUNCTIONS[text]) == text


@pytest.mark.parametrize(
    ("index", "lines"),
    [
        (lambda x: x[...], 0),
        (lambda x: x[:], 0),
        (lambda x: x[1], 2),
        (lambda x: x[-1], 2),
        (lambda x: x[1:3, -1], 3),
        (lambda x: x[0, 0], 3),
    ],
)
def test_an_index_means_what_it_means_in_numpy(index, lines: int):
    graph = built(index)
    assert len(graph.nodes) == lines
    values = {"x": np.arange(4 * 64, dtype=np.float32).reshape(4, 64)}
    for node in graph.nodes:
        values[node.name] = node.op.reference({}, *(values[i] for i in node.inputs))[0]
    np.testing.assert_array_equal(values[graph.results[0].value], index(values["x"]))


@pytest.mark.parametrize("dtype", [vx.f32, vx.f16, vx.bf16, vx.i8, vx.i32, vx.i64, vx.u8])
@pytest.mark.parametrize("number", [2, np.int64(2), np.uint8(2), True])
def test_a_number_takes_the_other_operands_dtype(dtype: vx.DType, number: object):
    if number is True and dtype.kind == "int":
        return
    for make in (lambda x: x + number, lambda x: number * x, lambda x: number < x):
        constant = built(make, dtype[4]).nodes[0].op
        assert isinstance(constant, ops.Constant)
        assert constant.type == dtype[()]


def test_a_number_is_rounded_to_the_dtype_that_it_takes():
    constant = built(lambda x: x * 0.1, vx.bf16[4]).nodes[0].op
    assert isinstance(constant, ops.Constant)
    assert constant.values == (0.10009765625,)


def test_numpy_numbers_of_any_kind_are_numbers_on_either_side():
    for number in (np.float32(2), np.float64(2), np.int8(2)):
        assert line(lambda x, n=number: n * x) == "%mul = mul(%constant, %x) : f32[4, 64]"
        assert line(lambda x, n=number: x * n) == "%mul = mul(%x, %constant) : f32[4, 64]"


@pytest.mark.parametrize(
    ("value", "dtype", "shown"),
    [
        (1, None, "{type = i32[], values = [1]} : i32[]"),
        (1.5, None, "{type = f32[], values = [1.5]} : f32[]"),
        (True, None, "{type = bool[], values = [true]} : bool[]"),
        ([[1, 2], [3, 4]], None, "{type = i32[2, 2], values = [1, 2, 3, 4]} : i32[2, 2]"),
        ([1, 2.5], vx.f16, "{type = f16[2], values = [1.0, 2.5]} : f16[2]"),
        (np.array([1, 2], np.uint8), None, "{type = u8[2], values = [1, 2]} : u8[2]"),
        (float("-inf"), vx.bf16, "{type = bf16[], values = [-inf]} : bf16[]"),
        ([float("nan"), -0.0], None, "{type = f32[2], values = [nan, -0.0]} : f32[2]"),
        (2**40, vx.i64, "{type = i64[], values = [1099511627776]} : i64[]"),
    ],
)
def test_a_constant_holds_what_it_is_given(value: object, dtype: vx.DType | None, shown: str):
    assert line(lambda _: vx.constant(value, dtype)) == f"%constant = constant() {shown}"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 10**30])
def test_an_integer_that_i32_does_not_hold_never_wraps(value: int):
    with pytest.raises(vx.GraphError):
        built(lambda _: vx.constant(value, vx.i32))


def test_names_stand_under_their_scopes():
    def make(x):
        with vx.scope("layers.0"), vx.scope("attn"):
            w = vx.param("w", vx.f32[64, 64])
            first = x @ w
            named = vx.neg(first, name="y")
        return first + named

    graph = built(make)
    assert [i.name for i in graph.inputs] == ["x", "layers.0.attn.w"]
    assert [n.name for n in graph.nodes] == ["layers.0.attn.matmul", "layers.0.attn.y", "add"]


def test_a_node_without_a_name_gets_the_ops_with_the_first_free_number():
    def make(x):
        vx.neg(x, name="neg.1")
        return [vx.neg(x), vx.neg(x), vx.neg(x)]

    assert [n.name for n in built(make).nodes] == ["neg.1", "neg", "neg.2", "neg.3"]


def test_the_innermost_place_holds():
    def make(x):
        with vx.on(vx.GPU[0]):
            vx.neg(x, name="a")
            with vx.on(vx.GPU[1]):
                vx.neg(x, name="b")
            with vx.prefer(vx.GPU[2]):
                vx.neg(x, name="c")
            vx.neg(x, name="d")
        vx.neg(x, name="e")

    assert [(n.name, n.place, n.hint) for n in built(make).nodes] == [
        ("a", vx.GPU[0], None),
        ("b", vx.GPU[1], None),
        ("c", None, vx.GPU[2]),
        ("d", vx.GPU[0], None),
        ("e", None, None),
    ]


def test_one_place_can_be_entered_again_and_inside_itself():
    here = vx.on(vx.GPU[0])

    def make(x):
        with here, here:
            vx.neg(x)
        with here:
            vx.neg(x)
        vx.neg(x)

    assert [n.place for n in built(make).nodes] == [vx.GPU[0], vx.GPU[0], None]


def test_a_node_remembers_the_users_line():
    def make(x):
        return vx.neg(
            x,
        )

    (node,) = built(make).nodes
    assert node.loc is not None
    assert (node.loc.file, node.loc.line) == (HERE, make.__code__.co_firstlineno + 1)


def test_a_value_from_around_loops_is_captured_once_per_body(golden):
    def make(x):
        w, e = vx.param("w", vx.f32[4]), vx.exp(x)

        def outer(a):
            b = a + e
            (c,), _ = vx.loop(lambda d: (d * w + a,), [b], max_steps=2, name="inner")
            return (c + w,)

        (y,), _ = vx.loop(outer, [x], max_steps=3)
        return y

    golden(built(make, vx.f32[4]).text())


def test_a_graph_that_fails_is_closed():
    with pytest.raises(ZeroDivisionError), vx.Graph("g"), vx.on(vx.GPU[0]), vx.scope("s"):
        vx.loop(lambda a: 1 / 0, [vx.input("x", vx.f32[4])], max_steps=1)
    with pytest.raises(vx.GraphError, match="no graph is open"):
        frame()
    assert line(vx.neg) == "%neg = neg(%x) : f32[4, 64]"


def test_a_graph_can_be_opened_again():
    with vx.Graph("g") as g:
        x = vx.input("x", vx.f32[4])
    with g:
        vx.output("y", -x)
    assert [n.name for n in g.build().nodes] == ["neg"]


def test_two_threads_build_two_graphs():
    start, found = threading.Barrier(2), {}

    def build(k: int) -> None:
        with vx.Graph(f"g{k}") as g, vx.on(vx.GPU[k]):
            x = vx.input("x", vx.f32[4])
            for _ in range(200):
                start.wait(timeout=30)
                x = x + float(k)
            vx.output("y", x)
        found[k] = g.build()

    threads = [threading.Thread(target=build, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(2):
        assert {n.place for n in found[k].nodes} == {vx.GPU[k]}
        assert [n.name for n in found[k].nodes if n.op.name == "add"] == ["add", *(f"add.{i}" for i in range(1, 200))]


def test_values_are_distinct_keys_though_equality_builds_a_node():
    def make(x):
        y = vx.neg(x)
        assert len({x: 1, y: 2}) == 2
        assert x in [x]

    assert [n.op.name for n in built(make).nodes] == ["neg"]
