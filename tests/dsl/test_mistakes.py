"""Every mistake in a graph is one message at the line that makes it.

A mistake is a function; the line that must be named ends in `# <-`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import vxgraph as vx
from vxgraph.errors import user_loc

HERE = user_loc().file
T, HEAD, D = vx.Dim("T", max=8), vx.Dim("Head", 4), vx.Dim("D", 64)


def marked(mistake: Callable[..., object], mark: str = "# <-") -> str:
    """`file:line` of the marked line of a function."""
    lines, first = inspect.getsourcelines(mistake)
    return f"{HERE}:{next(first + k for k, line in enumerate(lines) if line.rstrip().endswith(mark))}"


def matmul_of_shapes_that_do_not_fit(x):
    w = vx.param("w", vx.f32[32, 64])
    return (
        x @ w  # <-
    )


def layouts_that_do_not_unify(x):
    k = vx.input("k", vx.f32[T, HEAD, D])
    v = vx.input("v", vx.f32[HEAD, T, D])
    return k + v  # <-


def layouts_of_equal_sizes(x):
    tokens = vx.Dim("Tok", 4)
    rows, cache = vx.input("rows", vx.f32[tokens, HEAD, D]), vx.input("cache", vx.f32[HEAD, tokens, D])
    return vx.cache_append(cache, rows, vx.constant(0))  # <-


def dtypes_of_the_two_sides(x):
    return vx.cache_append(vx.cache_init(vx.f32[8, 64]), x.cast(vx.f16), vx.constant(0))  # <-


def one_dim_with_two_bounds(x):
    vx.input("a", vx.f32[T])
    vx.input("b", vx.f32[vx.Dim("T", max=9)])  # <-


def one_dim_with_two_sizes_in_attributes(x):
    vx.iota(HEAD)
    vx.iota(vx.Dim("Head", 5))  # <-


def a_number_in_place_of_a_value(x):
    return vx.silu(3.0)  # <-


def two_numbers(x):
    return vx.add(1, 2)  # <-


def a_value_in_an_if(x):
    if x == 0:  # <-
        return x


def a_value_in_a_for(x):
    for _ in x:  # <-
        pass


def a_values_truth(x):
    return x and x  # <-


def a_float_met_with_integers(x):
    return vx.iota(4) + 1.5  # <-


def a_number_outside_its_dtype(x):
    return vx.input("b", vx.u8[4]) + 256  # <-


def a_number_that_becomes_infinite(x):
    return x.cast(vx.f16) * 1e5  # <-


def a_ragged_constant(x):
    return vx.constant([[1], [2, 3]])  # <-


def a_constant_of_text(x):
    return vx.constant("abc")  # <-


def a_constant_that_would_be_cut(x):
    return vx.constant([1.5], vx.i32)  # <-


def a_constant_of_float64(x):
    return vx.constant(np.zeros(2))  # <-


def a_constants_dtype_by_name(x):
    return vx.constant(1, "f32")  # <-


def an_index_of_numpy(x):
    return x[np.int64(0)]  # <-


def too_many_indices(x):
    return x[0, 0, 0]  # <-


def a_slice_outside(x):
    return x[:, 60:70]  # <-


def an_axis_of_numpy(x):
    return vx.softmax(x, axis=np.int64(1))  # <-


def an_eps_of_text(x):
    return vx.rmsnorm(x, x[0], eps="1e-5")  # <-


def a_negative_eps(x):
    return vx.rmsnorm(x, x[0], eps=-1.0)  # <-


def dims_without_a_list(x):
    return vx.reshape(x, 256)  # <-


def a_comparison_that_is_none(x):
    return vx.compare(x, x, "=<")  # <-


def a_cast_to_a_name(x):
    return x.cast("f16")  # <-


def an_input_without_dims(x):
    vx.input("z", vx.f32)  # <-


def a_name_with_a_space(x):
    vx.input("my x", vx.f32[4])  # <-


def a_scope_with_a_space(x):
    with vx.scope("layer 3"):  # <-
        pass


def a_scope_that_starts_with_a_digit(x):
    with vx.scope("3"):  # <-
        pass


def a_place_by_name(x):
    with vx.on("gpu:0"):  # <-
        pass


def a_place_by_number(x):
    with vx.prefer(501):  # <-
        pass


def a_transfer_to_a_name(x):
    return x.to("gpu:1")  # <-


def a_place_outside_its_band(x):
    with vx.on(vx.GPU[100]):  # <-
        pass


def a_places_index_of_numpy(x):
    with vx.on(vx.GPU[np.int64(1)]):  # <-
        pass


def an_output_in_a_loop(x):
    def body(a):
        vx.output("y", a)  # <-
        return (a,)

    vx.loop(body, [x], max_steps=2)


def an_input_in_a_loop(x):
    def body(a):
        return (a + vx.param("bias", vx.f32[64]),)  # <-

    vx.loop(body, [x], max_steps=2)


def a_stop_outside_a_loop(x):
    vx.stop(vx.constant(True))  # <-


def a_stop_that_is_no_predicate(x):
    def body(a):
        vx.stop(a)  # <-
        return (a,)

    vx.loop(body, [x], max_steps=2)


def two_stops(x):
    def body(a):
        vx.stop(vx.constant(True))
        vx.stop(vx.constant(False))  # <-
        return (a,)

    vx.loop(body, [x], max_steps=2)


def a_body_that_returns_too_many(x):
    vx.loop(lambda a: (a, a), [x], max_steps=2)  # <-


def a_body_that_returns_one_value_bare(x):
    vx.loop(lambda a: a, [x], max_steps=2)  # <-


def a_body_that_returns_nothing(x):
    vx.loop(lambda a: None, [x], max_steps=2)  # <-


def a_body_that_returns_another_type(x):
    vx.loop(lambda a: (a[:, :32],), [x], max_steps=2)  # <-


def a_body_that_is_wrong_inside(x):
    def body(a):
        b = a + 1
        return (b @ b,)  # <-

    vx.loop(body, [x], max_steps=2)


def an_init_without_a_list(x):
    vx.loop(lambda a: (a,), x, max_steps=2)  # <-


def a_loop_without_steps(x):
    vx.loop(lambda a: (a,), [x], max_steps=0)  # <-


def a_loop_whose_limit_is_a_number(x):
    vx.loop(lambda a: (a,), [x], max_steps=2, steps=1)  # <-


def a_loop_whose_limit_is_no_count(x):
    vx.loop(lambda a: (a,), [x], max_steps=2, steps=x)  # <-


def a_loop_with_half_a_step(x):
    vx.loop(lambda a: (a,), [x], max_steps=2.5)  # <-


def a_value_of_a_closed_body(x):
    kept = []

    def body(a):
        kept.append(a + 1)
        return (a,)

    vx.loop(body, [x], max_steps=2)
    return kept[0] + 1  # <-


def loops_too_deep(x):
    def nest(k):
        return vx.loop(lambda a: nest(k + 1)[0], [x], max_steps=1) if k < 40 else ((x,), None)  # <-

    nest(0)


def a_graph_in_a_graph(x):
    with vx.Graph("inner"):  # <-
        pass


MESSAGES = {
    matmul_of_shapes_that_do_not_fit: "matmul: f32[4, 64] has 64 columns but f32[32, 64] has 32 rows\n"
    "  operands: %x: f32[4, 64], %w: f32[32, 64]",
    layouts_that_do_not_unify: "add: f32[T, Head, D] does not broadcast with f32[Head, T, D]: Head=4 met T<=8; "
    "transpose one of them\n  operands: %k: f32[T, Head, D], %v: f32[Head, T, D]",
    layouts_of_equal_sizes: "cache_append: cache f32[Head, Tok, D] and rows f32[Tok, Head, D] differ at axis 1: "
    "Tok=4 met Head=4; transpose one of them\n"
    "  operands: %cache: f32[Head, Tok, D], %rows: f32[Tok, Head, D], %constant: i32[]",
    dtypes_of_the_two_sides: "cache_append: f32[8, 64] and f16[4, 64] differ in dtype; cast one of them: "
    "x.cast(vx.f32)\n"
    "  operands: %cache_init: f32[8, 64], %cast: f16[4, 64], %constant: i32[]",
    one_dim_with_two_bounds: "dim T is declared twice: Dim(name='T', size=None, max=8, min=0) and "
    "Dim(name='T', size=None, max=9, min=0)",
    one_dim_with_two_sizes_in_attributes: "dim Head is declared twice: Dim(name='Head', size=4, max=None, min=0) and "
    "Dim(name='Head', size=5, max=None, min=0)",
    a_number_in_place_of_a_value: "3.0 is no value of a graph; wanted what vx.input, vx.param or an op returns",
    two_numbers: "add: neither 1 nor 2 is a value of a graph",
    a_value_in_an_if: "%compare: bool[4, 64] has no truth value while the graph is built; use vx.where, "
    "or vx.stop inside "
    "vx.loop",
    a_value_in_a_for: "%x: f32[4, 64] cannot be iterated; index it: x[0], x[1:]",
    a_values_truth: "%x: f32[4, 64] has no truth value while the graph is built; use vx.where, or "
    "vx.stop inside vx.loop",
    a_float_met_with_integers: "1.5 is no i32; cast the other operand first",
    a_number_outside_its_dtype: "constant: 256 is outside u8: 0 to 255",
    a_number_that_becomes_infinite: "100000.0 is no constant of f16",
    a_ragged_constant: "[[1], [2, 3]] is no constant; wanted a number, nested lists or an array",
    a_constant_of_text: "'abc' is no constant; wanted a number, nested lists or an array",
    a_constant_that_would_be_cut: "constant: 1.5 is no value of i32",
    a_constant_of_float64: "float64 is no dtype of a graph; cast to one of f32, f16, bf16, i8, i32, i64, u8, bool",
    a_constants_dtype_by_name: "constant: dtype is 'f32', wanted one such as vx.f32",
    an_index_of_numpy: "np.int64(0) is no index; wanted a Python int or a slice",
    too_many_indices: "%x: f32[4, 64] has 2 dims, but 3 indices",
    a_slice_outside: "slice: [60:70] is outside axis 1 of f32[4, 64], which has 64 elements\n  operands: "
    "%x: f32[4, 64]",
    an_axis_of_numpy: "softmax: attribute axis is int, found np.int64(1)",
    an_eps_of_text: "rmsnorm: attribute eps is float, found '1e-5'",
    a_negative_eps: "rmsnorm: eps is 0 or more, found -1.0",
    dims_without_a_list: "reshape: attribute dims is tuple[DimLike, ...], found 256",
    a_comparison_that_is_none: "compare: there is no comparison '=<'; there are eq, ne, lt, le, gt, ge",
    a_cast_to_a_name: "cast: attribute dtype is DType, found 'f16'",
    an_input_without_dims: "%z: DType(name='f32', itemsize=4, kind='float') is no type; wanted one such "
    "as vx.f32[4, 64] "
    "(a scalar: vx.f32[()])",
    a_name_with_a_space: "'my x' is no name; wanted letters, digits and _, parts joined by dots",
    a_scope_with_a_space: "'layer 3' is no name; wanted letters, digits and _, parts joined by dots",
    a_scope_that_starts_with_a_digit: "'3' is no name; wanted letters, digits and _, parts joined by dots",
    a_place_by_name: "vx.on('gpu:0'): wanted a topology such as vx.GPU[0]",
    a_place_by_number: "vx.prefer(501): wanted a topology such as vx.GPU[0]",
    a_transfer_to_a_name: "to('gpu:1'): wanted a topology such as vx.GPU[0]",
    a_place_outside_its_band: "gpu:100 is outside its band; indices run from 0 to 99",
    a_places_index_of_numpy: "gpu[np.int64(1)]: the index is int64, wanted a Python int known when the graph is built; "
    "write GPU[0]",
    an_output_in_a_loop: "vx.output inside a loop's body; use vx.emit, or carry the value out of the loop",
    an_input_in_a_loop: "%bias is declared inside a loop's body; declare it before vx.loop and use it there",
    a_stop_outside_a_loop: "vx.stop belongs inside a loop's body",
    a_stop_that_is_no_predicate: "vx.stop wants bool[], found %x.step: f32[4, 64]",
    two_stops: "vx.stop is called twice in one loop's body; join the two with vx.maximum",
    a_body_that_returns_too_many: "the loop carries 1 values, but its body returns 2",
    a_body_that_returns_one_value_bare: "what the loop's body returns is %x.step: f32[4, 64], wanted a "
    "tuple of values, "
    "like (x,)",
    a_body_that_returns_nothing: "what the loop's body returns is None, wanted a tuple of values, like (x,)",
    a_body_that_returns_another_type: "loop: %x.step starts a step as f32[4, 64], but the step hands on "
    "%slice: f32[4, 32]\n"
    "  operands: %x: f32[4, 64]",
    a_body_that_is_wrong_inside: "matmul: f32[4, 64] has 64 columns but f32[4, 64] has 4 rows\n"
    "  operands: %add: f32[4, 64], %add: f32[4, 64]",
    an_init_without_a_list: "vx.loop's init is %x: f32[4, 64], wanted a tuple of values, like (x,)",
    a_loop_without_steps: "loop: max_steps is 0, wanted 1 or more\n  operands: %x: f32[4, 64]",
    a_loop_whose_limit_is_a_number: "1 is no value of a graph; wanted what vx.input, vx.param or an op returns",
    a_loop_whose_limit_is_no_count: "loop: the limit is f32[4, 64], wanted i32[]\n"
    "  operands: %x: f32[4, 64], %x: f32[4, 64]",
    a_loop_with_half_a_step: "loop: attribute max_steps is int, found 2.5",
    a_value_of_a_closed_body: "%add: f32[4, 64] belongs to another graph, or to a loop's body that is closed",
    loops_too_deep: "loops are nested more than 32 deep",
    a_graph_in_a_graph: "a graph is open already; graphs do not nest (a loop's body is given to vx.loop)",
}  # fmt: skip


@pytest.mark.case("D03")
@pytest.mark.parametrize("mistake", MESSAGES, ids=lambda f: f.__name__)
def test_a_mistake_is_named_at_its_line(mistake: Callable[[vx.Value], object]):
    with pytest.raises(vx.VxError) as error, vx.Graph("g"):
        mistake(vx.input("x", vx.f32[4, 64]))
    assert str(error.value) == f"{marked(mistake)}: {MESSAGES[mistake]}"


def a_name_used_twice():
    vx.input("x", vx.f32[4])  # first
    vx.param("x", vx.f32[4])  # <-


def a_nodes_name_used_twice():
    x = vx.input("x", vx.f32[4])
    vx.neg(x, name="mm")  # first
    vx.exp(x, name="mm")  # <-


def a_name_of_a_body_used_twice():
    x = vx.input("x", vx.f32[4])
    vx.loop(lambda a: (vx.neg(a, name="n"),), [x], max_steps=2)  # first
    vx.neg(x, name="n")  # <-


def an_outputs_name_used_twice():
    x = vx.input("x", vx.f32[4])
    vx.output("y", x)  # first
    vx.output("y", x + 1)  # <-


def an_output_and_an_emit_of_one_name():
    x = vx.input("x", vx.f32[4])
    vx.emit("y", x + 1)  # first
    vx.output("y", x)  # <-


TWICE = {
    a_name_used_twice: "the name %x is used twice; give one of the two another name=",
    a_nodes_name_used_twice: "the name %mm is used twice; give one of the two another name=",
    a_name_of_a_body_used_twice: "the name %n is used twice; give one of the two another name=",
    an_outputs_name_used_twice: "the output name 'y' is used twice; outputs have names of their own",
    an_output_and_an_emit_of_one_name: "the output name 'y' is used twice; outputs have names of their own",
}


@pytest.mark.case("P08")
@pytest.mark.parametrize("mistake", TWICE, ids=lambda f: f.__name__)
def test_a_name_used_twice_is_shown_at_both_lines(mistake: Callable[[], object]):
    with pytest.raises(vx.GraphError) as error, vx.Graph("g"):
        mistake()
    assert str(error.value) == f"{marked(mistake)}: {TWICE[mistake]}\n  first used at {marked(mistake, '# first')}"


def no_graph_for_an_op():
    with vx.Graph("g"):
        x = vx.input("x", vx.f32[4])
    return x + 1  # <-


def no_graph_for_an_input():
    vx.input("x", vx.f32[4])  # <-


def no_graph_for_a_place():
    with vx.on(vx.GPU[0]):  # <-
        pass


def no_graph_for_a_scope():
    with vx.scope("layers"):  # <-
        pass


@pytest.mark.parametrize(
    "mistake", [no_graph_for_an_op, no_graph_for_an_input, no_graph_for_a_place, no_graph_for_a_scope]
)
def test_what_is_built_outside_every_graph_is_refused(mistake: Callable[[], object]):
    with pytest.raises(vx.GraphError) as error:
        mistake()
    assert str(error.value) == (
        f"{marked(mistake)}: no graph is open; write 'with vx.Graph(\"name\") as g:' around this"
    )


def a_value_of_another_graph():
    with vx.Graph("one"):
        x = vx.input("x", vx.f32[4])
    with vx.Graph("two"):
        y = vx.input("y", vx.f32[4])
        return y + x  # <-


def test_a_value_of_another_graph_is_refused():
    with pytest.raises(vx.GraphError) as error:
        a_value_of_another_graph()
    assert str(error.value) == (
        f"{marked(a_value_of_another_graph)}: %x: f32[4] belongs to another graph, or to a loop's body that is closed"
    )
