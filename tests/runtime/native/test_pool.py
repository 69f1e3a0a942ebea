"""The pool runs every row of every kernel once and in order, and what a kernel declines NumPy does in its place."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from ctypes import Structure, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from vxgraph.errors import InternalError, RunError
from vxgraph.ir.types import Array, Sizes
from vxgraph.ops import Neg
from vxgraph.runtime.backends.numpy.batch import Batch
from vxgraph.runtime.backends.numpy.kernels import Kernel
from vxgraph.runtime.backends.numpy.native.build import SOURCES, Recipe, recipe
from vxgraph.runtime.backends.numpy.native.call import Call, address
from vxgraph.runtime.backends.numpy.native.launch import Native
from vxgraph.runtime.backends.numpy.native.library import Library, load
from vxgraph.runtime.backends.numpy.native.pool import UNITS, Pool
from vxgraph.runtime.backends.numpy.space import Buffer, Space, Tensor
from vxgraph.topology.ids import CPU

# `touch` wants scratch, `hand` and `over` a shared block; `refuse` declines.
KERNELS = r"""
#include "pool.h"
#include <string.h>
typedef struct { const double *x; double *y; int64_t n; } Args;
#define KERNEL(NAME) void NAME(const void *args, Worker *w, uint32_t tag, long base, long length, long first, long last)
KERNEL(twice) {
    const Args *a = args; (void)w; (void)tag; (void)length;
    for (long i = base + first; i < base + last; i++) a->y[i] = 2 * a->x[i] + a->y[i];
}
KERNEL(streams) {
    const Args *a = args; (void)w; (void)tag;
    long q = (length + 3) / 4;
    for (long i = first; i < last; i++)
        for (long r = i; r < length; r += q) a->y[base + r] += 1;
}
KERNEL(touch) {
    const Args *a = args; (void)length;
    if (w->tag != tag) { memset(w->scratch, 0, a->n); w->tag = tag; }
    for (long i = base + first; i < base + last; i++) w->scratch[0] += 1, a->y[i] = 1;
}
KERNEL(hand) {
    const Args *a = args; (void)tag; (void)length;
    for (long i = base + first; i < base + last; i++) ((double *)w->shared)[i] = a->x[i];
}
KERNEL(over) {
    const Args *a = args; (void)tag; (void)length;
    for (long i = base + first; i < base + last; i++) a->y[i] = ((double *)w->shared)[a->n - 1 - i];
}
KERNEL(refuse) { (void)args; (void)tag; (void)base; (void)length; (void)first; (void)last; decline(w); }
"""


class Args(Structure):
    _fields_ = (("x", c_void_p), ("y", c_void_p), ("n", c_int64))


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The pool with kernels of the tests' own."""
    try:
        made_of = recipe()
    except Exception as error:
        pytest.skip(str(error))
    sources: Path = tmp_path_factory.mktemp("c")
    for name in ("pool.c", "pool.h"):
        (sources / name).write_text((SOURCES / name).read_text())
    (sources / "kernels.c").write_text(KERNELS)
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-std=gnu17", "-shared", "-fPIC", "-pthread")
    found = load(Recipe(sources, made_of.compiler, made_of.version, flags, made_of.cpu), tmp_path_factory.mktemp("so"))
    assert isinstance(found, Library), found
    return found


@pytest.fixture(params=[1, 2, 3, 7])
def pool(lib: Library, request: pytest.FixtureRequest) -> Iterator[Pool]:
    pool = Pool(lib, request.param)
    yield pool
    pool.close()


def call(function: str, x: Array, y: Array, rows: int, **keywords: int) -> Call:
    return Call(function, Args(address(x), address(y), keywords.pop("n", rows)), rows, **keywords)


@pytest.mark.parametrize("rows", [1, 2, 5, 64, 1001])
@pytest.mark.parametrize("grain", [0, 3, 20])
def test_every_row_is_done_once_before_the_next_kernel_begins(pool: Pool, rows: int, grain: int) -> None:
    x, y = np.arange(rows, dtype=np.float64), np.zeros(rows)
    there_and_back = [call("twice", x, y, rows, grain=grain), call("twice", y, x, rows, grain=grain)] * 5
    bound = pool.bind(there_and_back)
    assert pool.run(bound) == 10
    a, b = np.arange(rows, dtype=np.float64), np.zeros(rows)
    for _ in range(5):
        b += 2 * a
        a += 2 * b
    np.testing.assert_array_equal(x, a)
    np.testing.assert_array_equal(y, b)


@pytest.mark.parametrize("rows", [1, 3, 4, 9, 30])
def test_a_unit_of_streams_is_a_row_of_each(pool: Pool, rows: int) -> None:
    y = np.zeros(rows)
    pool.run(pool.bind([call("streams", y, y, rows, streams=4)] * 3))
    np.testing.assert_array_equal(y, np.full(rows, 3.0))


def test_a_kernel_of_no_rows_is_passed_over(pool: Pool) -> None:
    y = np.zeros(3)
    none, some = call("twice", y, y, 0), call("streams", y, y, 3, streams=4)
    assert pool.run(pool.bind([none, some, none, none, some, none])) == 6
    assert pool.run(pool.bind([none])) == 1
    assert pool.run(pool.bind([])) == 0
    np.testing.assert_array_equal(y, [2, 2, 2])


def test_a_kernel_that_declines_ends_the_list_and_the_rest_can_go_on(pool: Pool) -> None:
    y = np.zeros(9)
    bound = pool.bind(
        [call("streams", y, y, 9, streams=4), call("refuse", y, y, 9), call("streams", y, y, 9, streams=4)]
    )
    assert pool.run(bound) == 1
    np.testing.assert_array_equal(y, np.ones(9))
    assert pool.run(bound, 2) == 3
    np.testing.assert_array_equal(y, np.full(9, 2.0))


def test_scratch_and_what_is_shared_grow_to_what_is_asked_for(pool: Pool) -> None:
    for n in (8, 100_000, 16):
        x, y = np.arange(n, dtype=np.float64), np.zeros(n)
        touch = call("touch", x, y, n, n=8 * n, scratch=8 * n)
        hand, over = (call(name, x, y, n, shared=8 * n) for name in ("hand", "over"))
        assert pool.run(pool.bind([touch, hand, over])) == 3
        np.testing.assert_array_equal(y, x[::-1])


def test_lists_of_many_python_threads_take_turns(pool: Pool) -> None:
    ys = [np.zeros(500) for _ in range(4)]
    bounds = [pool.bind([call("streams", y, y, 500, streams=4)] * 20) for y in ys]
    threads = [threading.Thread(target=lambda b=b: [pool.run(b) for _ in range(20)]) for b in bounds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for y in ys:
        np.testing.assert_array_equal(y, np.full(500, 400.0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_opens_its_pool_anew(pool: Pool) -> None:
    y = np.zeros(100)
    bound = pool.bind([call("streams", y, y, 100, streams=4)])
    pool.run(bound)
    child = os.fork()
    if child == 0:
        pool.run(bound)
        os._exit(0 if (y == 2).all() and pool.threads >= 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    pool.run(bound)  # the parent's is as it was
    np.testing.assert_array_equal(y, np.full(100, 2.0))


def test_a_closed_pool_opens_when_it_is_used(pool: Pool) -> None:
    y = np.zeros(10)
    bound = pool.bind([call("touch", y, y, 10, n=80, scratch=80)])
    for _ in range(3):
        pool.run(bound)
        pool.close()
    pool.close()
    np.testing.assert_array_equal(y, np.ones(10))


def test_what_the_pool_has_no_room_for_is_refused_before_it_runs(pool: Pool) -> None:
    y = np.zeros(1)
    with pytest.raises(InternalError) as e:
        pool.bind([call("twice", y, y, UNITS)])
    assert str(e.value) == "twice: 16777216 rows by 1 are too many for the pool"
    with pytest.raises(InternalError) as e:
        pool.bind([call("no_such", y, y, 1)])
    assert str(e.value) == "the C source has no function 'no_such'"


def test_memory_that_is_not_there_is_said(pool: Pool) -> None:
    y = np.zeros(1)
    with pytest.raises(RunError) as e:
        pool.run(pool.bind([call("touch", y, y, 1, scratch=1 << 60)]))
    assert e.value.message == "this host has no 1,152,921,504,606,846,976 bytes left for the CPU kernels' scratch"
    pool.run(pool.bind([call("touch", y, y, 1, n=8, scratch=8)]))
    assert y[0] == 1


def test_what_c_declines_numpy_does_and_the_list_goes_on_after_it(pool: Pool) -> None:
    """Doubled by C, squared by NumPy in the place of two calls of which the first declines, doubled again."""
    space = Space(CPU[0])
    buffers = [Buffer(space, space.take(80)) for _ in range(2)]
    x, y = (Tensor(b, b.block.view(np.float64)) for b in buffers)
    x.view[:], y.view[:] = np.arange(10), 0

    def in_c(*functions: str) -> Kernel:
        def binder(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> list[Call]:
            return [call(name, ins[0], outs[0], 10, streams=4 if name == "streams" else 1) for name in functions]

        def plain(ins: Sequence[Array], outs: Sequence[Array], sizes: Sizes) -> None:
            outs[0][:] = ins[0] * ins[0]

        native = Native(binder, plain, pool)
        return Kernel(Neg(), native.run, "native", native)

    double, square = in_c("twice"), in_c("refuse", "streams")
    square.run([x.view], [y.view], {})
    np.testing.assert_array_equal(y.view, np.arange(10) ** 2)
    square.native.launch((x,), (y,), {}).run()
    np.testing.assert_array_equal(y.view, np.arange(10) ** 2)
    batch = Batch([(double, (x,), (y,)), (square, (x,), (y,)), (square, (y,), (y,)), (double, (x,), (y,))], {})
    batch.run()
    np.testing.assert_array_equal(y.view, np.arange(10) ** 4 + 2 * np.arange(10))
