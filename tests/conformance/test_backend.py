"""The definition of a backend: the same assertions for every one of them."""

from __future__ import annotations

from itertools import permutations
from threading import Thread

import numpy as np
import pytest

from tests.conformance.bed import PLACES, Bed
from vxgraph.errors import BindError, HazardError, RunError
from vxgraph.ir.types import DTYPES, Array, f32, i32
from vxgraph.ops import Add, Div, MatMul, TransferPeer
from vxgraph.topology.ids import GPU, Topology

PAIRS = list(permutations(PLACES, 2))
RNG = np.random.default_rng(1)


def some(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


# Where things are, with another topology used last.


@pytest.mark.parametrize(("place", "other"), PAIRS)
def test_alloc_is_observed_where_it_was_asked(bed: Bed, place: Topology, other: Topology) -> None:
    bed.touch(other)
    buffer = bed.backend.alloc(1024, place)
    assert place in bed.backend.observe(buffer).topologies
    bed.touch(other)
    assert place in bed.backend.observe(bed.backend.tensor(buffer, 0, f32, (4,), place)).topologies


@pytest.mark.parametrize(("place", "other"), PAIRS)
def test_upload_and_download_are_exact_and_observed(bed: Bed, place: Topology, other: Topology) -> None:
    x = some(5, 7)
    tensor = bed.empty(f32, x.shape, place)
    bed.touch(other)
    event = bed.backend.upload(x, tensor, place)
    bed.backend.wait(event)
    assert place in bed.backend.observe(event).topologies
    bed.touch(other)
    out = np.zeros_like(x)
    event = bed.backend.download(tensor, place, out=out)
    bed.backend.wait(event)
    assert place in bed.backend.observe(event).topologies
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(("place", "other"), PAIRS)
def test_dispatch_runs_where_it_was_asked(bed: Bed, place: Topology, other: Topology) -> None:
    x, w = some(3, 8), some(8, 4)
    a, b = bed.put(x, place), bed.put(w, place)
    bed.touch(other)
    before = {t: bed.backend.dispatched(t) for t in PLACES}
    result, event = bed.apply(MatMul(), [a, b], (f32[3, 8], f32[8, 4]), place)
    assert place in bed.backend.observe(event).topologies
    assert place in bed.backend.observe(result).topologies
    assert {t: bed.backend.dispatched(t) - before[t] for t in PLACES} == {t: int(t == place) for t in PLACES}
    np.testing.assert_allclose(bed.get(result, np.zeros((3, 4), np.float32), place), x @ w, rtol=1e-5, atol=1e-5)


def test_work_alternates_between_topologies(bed: Bed) -> None:
    x = some(4, 4)
    operands = {t: bed.put(x, t) for t in PLACES}
    for t in (*PLACES, *PLACES[::-1]):
        result, event = bed.apply(MatMul(), [operands[t], operands[t]], (f32[4, 4], f32[4, 4]), t)
        assert t in bed.backend.observe(event).topologies
        np.testing.assert_allclose(bed.get(result, x, t), x @ x, rtol=1e-5, atol=1e-5)


@pytest.mark.case("R04")
def test_a_fresh_thread_gets_the_same_results(bed: Bed) -> None:
    x, found = some(4, 4), []

    def work() -> None:
        a = bed.put(x, GPU[1])
        result, event = bed.apply(MatMul(), [a, a], (f32[4, 4], f32[4, 4]), GPU[1])
        found.append((bed.get(result, x, GPU[1]), bed.backend.observe(event).topologies))

    bed.touch(GPU[0])
    thread = Thread(target=work)
    thread.start()
    thread.join()
    np.testing.assert_allclose(found[0][0], x @ x, rtol=1e-5, atol=1e-5)
    assert GPU[1] in found[0][1]


@pytest.mark.parametrize(("place", "other"), PAIRS)
def test_free_gives_back_what_was_allocated_there(bed: Bed, place: Topology, other: Topology) -> None:
    if bed.used is None:
        pytest.skip("nothing beside this backend says how much of its memory is in use")
    bed.touch(other)
    before = bed.used(place)
    buffer = bed.backend.alloc(1 << 20, place)
    assert bed.used(place) - before >= 1 << 20
    bed.touch(other)
    before_free = bed.used(place)
    bed.backend.free(buffer, place)
    assert before_free - bed.used(place) >= 1 << 20


def test_memory_grows_where_it_was_asked_and_nowhere_else(bed: Bed) -> None:
    if bed.used is None:
        pytest.skip("nothing beside this backend says how much of its memory is in use")
    first, second = bed.want_two_devices()
    bed.touch(first)
    before = {t: bed.used(t) for t in PLACES}
    bed.backend.alloc(1 << 20, second)
    grown = {t: bed.used(t) - before[t] for t in PLACES}
    assert all(n == 0 or not bed.apart(t, second) for t, n in grown.items())
    assert grown[second] >= 1 << 20


def test_memory_is_flat_over_repeated_work(bed: Bed) -> None:
    if bed.used is None:
        pytest.skip("nothing beside this backend says how much of its memory is in use")
    x = some(8, 8)
    a, out, there = bed.put(x, GPU[0]), bed.empty(f32, (8, 8), GPU[0]), bed.empty(f32, (8, 8), GPU[1])
    kernel = bed.backend.kernel(MatMul(), (f32[8, 8], f32[8, 8]), (f32[8, 8],), GPU[0])
    used: list[list[int]] = []
    for _ in range(20):
        event = bed.backend.dispatch(kernel, (a, a), (out,), GPU[0], sizes={})
        event = bed.backend.transfer_peer(out, GPU[0], GPU[1], x.nbytes, into=there, after=[event])
        bed.backend.wait(event)
        used.append([bed.used(t) for t in PLACES])
    assert used[1:] == used[:1] * 19
    np.testing.assert_allclose(bed.get(there, x, GPU[1]), x @ x, rtol=1e-4, atol=1e-4)


# Library handles.


def handles(bed: Bed) -> list[tuple[int, int]]:
    """The ordinal of each handle, and the device that was current when it was made."""
    made = getattr(bed.backend, "handles", None)
    if made is None:
        pytest.skip("this backend has no library handles")
    return sorted((record.ordinal, record.current) for record in made())


def multiply(bed: Bed, place: Topology) -> None:
    x = some(4, 4)
    a = bed.put(x, place)
    result, _ = bed.apply(MatMul(), [a, a], (f32[4, 4], f32[4, 4]), place)
    np.testing.assert_allclose(bed.get(result, x, place), x @ x, rtol=1e-4, atol=1e-4)


def test_a_handle_is_made_for_its_ordinal_by_the_first_product_there(closed_bed: Bed) -> None:
    assert handles(closed_bed) == []
    closed_bed.open()
    for place in PLACES:
        closed_bed.touch(place)
    assert handles(closed_bed) == []
    expected: set[tuple[int, int]] = set()
    for place in (*PLACES, *PLACES):
        _, _, ordinal = closed_bed.targets[place].partition(":")
        expected.add((int(ordinal), int(ordinal)))
        big = some(64, 64)  # large enough for a library
        a = closed_bed.put(big, place)
        closed_bed.apply(MatMul(), [a, a], (f32[64, 64], f32[64, 64]), place)
        assert handles(closed_bed) == sorted(expected)


def test_two_ordinals_have_two_handles(bed: Bed) -> None:
    handles(bed)
    first, second = bed.want_two_devices()
    multiply(bed, second)
    multiply(bed, first)
    made = bed.backend.handles()  # type: ignore[attr-defined]
    assert len({record.handle for record in made}) == len(made) == 2


# Peer transfers.


@pytest.mark.parametrize(("src", "dst"), PAIRS)
def test_a_transfer_is_equal_new_and_leaves_its_source(bed: Bed, src: Topology, dst: Topology) -> None:
    x = some(6, 5)
    tensor = bed.put(x, src)
    bed.touch(src)
    into, event = bed.send(tensor, x, src, dst)
    assert dst in bed.backend.observe(event).topologies
    assert dst in bed.backend.observe(into).topologies
    assert src in bed.backend.observe(tensor).topologies
    np.testing.assert_array_equal(bed.get(into, x, dst), x)
    np.testing.assert_array_equal(bed.get(tensor, x, src), x)
    bed.backend.wait(bed.backend.upload(np.zeros_like(x), tensor, src))  # no view: the copy keeps what was sent
    np.testing.assert_array_equal(bed.get(into, x, dst), x)


def test_both_ends_of_a_transfer_are_freed_by_their_owner(bed: Bed) -> None:
    x = some(4)
    source, target = bed.backend.alloc(16, GPU[0]), bed.backend.alloc(16, GPU[1])
    a, b = bed.backend.tensor(source, 0, f32, (4,), GPU[0]), bed.backend.tensor(target, 0, f32, (4,), GPU[1])
    bed.backend.wait(bed.backend.upload(x, a, GPU[0]))
    bed.backend.wait(bed.backend.transfer_peer(a, GPU[0], GPU[1], 16, into=b))
    bed.backend.free(source, GPU[0])
    np.testing.assert_array_equal(bed.get(b, x, GPU[1]), x)
    bed.backend.free(target, GPU[1])


def test_bytes_are_counted_per_ordered_pair(bed: Bed) -> None:
    ends = (None, *PLACES)
    x = some(6, 5)
    tensor = bed.put(x, GPU[0])
    before = {(a, b): bed.backend.moved(a, b) for a, b in permutations(ends, 2)}
    bed.send(tensor, x, GPU[0], GPU[1])
    bed.get(tensor, x, GPU[0])
    bed.get(tensor, x, GPU[0])
    grown = {pair: bed.backend.moved(*pair) - n for pair, n in before.items()}
    assert {pair: n for pair, n in grown.items() if n} == {(GPU[0], GPU[1]): 120, (GPU[0], None): 240}


# What is refused.


@pytest.mark.parametrize(("place", "other"), PAIRS)
def test_a_tensor_of_another_topology_is_refused_everywhere(bed: Bed, place: Topology, other: Topology) -> None:
    x = some(4)
    buffer = bed.backend.alloc(64, other)
    foreign = bed.backend.tensor(buffer, 0, f32, (4,), other)
    bed.backend.wait(bed.backend.upload(x, foreign, other))
    mine = bed.put(x, place)
    third = next(t for t in PLACES if t not in (place, other))
    kernel = bed.backend.kernel(Add(), (f32[4], f32[4]), (f32[4],), place)
    refused = {
        "upload": lambda: bed.backend.upload(x, foreign, place),
        "download": lambda: bed.backend.download(foreign, place, out=np.zeros_like(x)),
        "tensor": lambda: bed.backend.tensor(buffer, 0, f32, (4,), place),
        "free": lambda: bed.backend.free(buffer, place),
        "dispatch add": lambda: bed.backend.dispatch(kernel, [mine, foreign], [mine], place, sizes={}),
        "transfer_peer": lambda: bed.backend.transfer_peer(foreign, place, third, 16, into=mine),
    }
    for verb, call in refused.items():
        with pytest.raises(RunError) as e:
            call()
        assert str(e.value) == f"{verb} on {place}: the buffer lives on {other}; transfer it first"
    with pytest.raises(RunError) as e:
        bed.backend.dispatch(kernel, [mine, mine], [foreign], place, sizes={})
    assert str(e.value) == f"dispatch add on {place}: the buffer lives on {other}; transfer it first"
    with pytest.raises(RunError) as e:
        bed.backend.transfer_peer(mine, place, third, 16, into=foreign)
    assert str(e.value) == f"transfer_peer on {third}: the buffer lives on {other}; transfer it first"
    np.testing.assert_array_equal(bed.get(foreign, x, other), x)


def test_a_topology_must_be_named(bed: Bed) -> None:
    x = some(4)
    tensor = bed.put(x, GPU[0])
    for call in (
        lambda: bed.backend.alloc(64),  # type: ignore[call-arg]
        lambda: bed.backend.upload(x, tensor),  # type: ignore[call-arg]
        lambda: bed.backend.download(tensor, out=np.zeros_like(x)),  # type: ignore[call-arg]
        lambda: bed.backend.tensor(tensor, 0, f32, (4,)),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="topology"):
            call()


def test_a_freed_buffer_is_of_no_use(bed: Bed) -> None:
    x = some(4)
    buffer = bed.backend.alloc(64, GPU[1])
    tensor = bed.backend.tensor(buffer, 0, f32, (4,), GPU[1])
    bed.backend.free(buffer, GPU[1])
    refused = {
        "free": lambda: bed.backend.free(buffer, GPU[1]),
        "tensor": lambda: bed.backend.tensor(buffer, 0, f32, (4,), GPU[1]),
        "upload": lambda: bed.backend.upload(x, tensor, GPU[1]),
        "download": lambda: bed.backend.download(tensor, GPU[1], out=x.copy()),
        "transfer_peer": lambda: bed.backend.transfer_peer(tensor, GPU[1], GPU[0], 16, into=bed.put(x, GPU[0])),
    }
    for verb, call in refused.items():
        with pytest.raises(RunError) as e:
            call()
        assert str(e.value) == f"{verb} on gpu:1: the buffer was freed"
    assert bed.backend.observe(buffer).topologies == ()


def test_bytes_outside_the_buffer_are_refused(bed: Bed) -> None:
    buffer = bed.backend.alloc(64, GPU[0])
    for offset, found in ((52, "bytes 52 to 68"), (-4, "bytes -4 to 12")):
        with pytest.raises(RunError) as e:
            bed.backend.tensor(buffer, offset, f32, (4,), GPU[0])
        assert str(e.value) == f"tensor on gpu:0: {found} are outside a buffer of 64 bytes"


def test_sizes_that_disagree_are_refused(bed: Bed) -> None:
    x = some(4)
    a, b, short = bed.put(x, GPU[0]), bed.put(x, GPU[1]), bed.put(some(3), GPU[1])
    wrong = {
        "upload to gpu:0: float32[3] on one side, float32[4] on the other": lambda: bed.backend.upload(
            some(3), a, GPU[0]
        ),
        "download from gpu:0: float64[4] on one side, float32[4] on the other": lambda: bed.backend.download(
            a, GPU[0], out=np.zeros(4)
        ),
        "transfer_peer from gpu:0 to gpu:1: float32[4] on one side, float32[3] on the other": lambda: (
            bed.backend.transfer_peer(a, GPU[0], GPU[1], 16, into=short)
        ),
        "transfer_peer from gpu:0 to gpu:1: asked for 12 bytes of a tensor of 16 bytes": lambda: (
            bed.backend.transfer_peer(a, GPU[0], GPU[1], 12, into=b)
        ),
        "transfer_peer from gpu:0 to gpu:0: both ends are the same place": lambda: bed.backend.transfer_peer(
            a, GPU[0], GPU[0], 16, into=a
        ),
    }
    for message, call in wrong.items():
        with pytest.raises(RunError) as e:
            call()
        assert str(e.value) == message


def test_an_op_without_a_kernel_is_refused_by_name(bed: Bed) -> None:
    with pytest.raises(BindError, match="transfer_peer on gpu:1"):
        bed.backend.kernel(TransferPeer(GPU[0], GPU[1]), (f32[4],), (f32[4],), GPU[1])


# Bytes: any size, any offset, any strides, any dtype.


@pytest.mark.case("R09")
@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (), (1,), (1, 1, 1)])
def test_any_shape_travels(bed: Bed, shape: tuple[int, ...]) -> None:
    x = some(*shape)
    tensor = bed.put(x, GPU[0])
    before = bed.backend.moved(GPU[0], GPU[1])
    into, event = bed.send(tensor, x, GPU[0], GPU[1])
    found = bed.get(into, x, GPU[1])
    assert (found.shape, found.dtype) == (shape, x.dtype)
    np.testing.assert_array_equal(found, x)
    assert bed.backend.moved(GPU[0], GPU[1]) - before == x.nbytes
    assert GPU[1] in bed.backend.observe(event).topologies


@pytest.mark.case("R09")
def test_a_matrix_product_over_nothing_is_zero(bed: Bed) -> None:
    a, b = bed.put(some(10, 1, 0), GPU[1]), bed.put(some(10, 0, 7), GPU[1])
    result, _ = bed.apply(MatMul(), [a, b], (f32[10, 1, 0], f32[10, 0, 7]), GPU[1])
    np.testing.assert_array_equal(bed.get(result, np.ones((10, 1, 7), np.float32), GPU[1]), np.zeros((10, 1, 7)))


@pytest.mark.parametrize("offset", [1, 2, 3, 5, 60])
def test_odd_offsets_hold_the_same_bytes(bed: Bed, offset: int) -> None:
    x = some(3, 4)
    a, b = bed.put(x, GPU[0], offset), bed.put(x, GPU[0], offset)
    into, _ = bed.send(a, x, GPU[0], GPU[1])
    np.testing.assert_array_equal(bed.get(into, x, GPU[1]), x)
    total, _ = bed.apply(Add(), [a, b], (f32[3, 4], f32[3, 4]), GPU[0])
    np.testing.assert_array_equal(bed.get(total, x, GPU[0]), x + x)


@pytest.mark.case("R09")
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: x.T,
        lambda x: x[::2, 1:],
        lambda x: np.zeros((1, 10, 20), np.float32)[::-1],
        lambda x: np.broadcast_to(x[:1], (5, 6)),
        np.asfortranarray,
    ],
)
def test_uploads_take_any_strides(bed: Bed, view: object) -> None:
    x = view(some(4, 6))  # type: ignore[operator]
    x.flags.writeable = False
    found = bed.get(bed.put(x, GPU[0]), x, GPU[0])
    np.testing.assert_array_equal(found, x)
    assert all(stride >= 0 for stride in found.strides)


def test_an_upload_does_not_keep_the_callers_array(bed: Bed) -> None:
    x = some(4)
    tensor = bed.empty(f32, (4,), GPU[0])
    event = bed.backend.upload(x, tensor, GPU[0])
    kept = x.copy()
    x[:] = 0
    bed.backend.wait(event)
    np.testing.assert_array_equal(bed.get(tensor, x, GPU[0]), kept)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_travels_bit_by_bit(bed: Bed, dtype: object) -> None:
    np_dtype = dtype.numpy  # type: ignore[attr-defined]
    bits = RNG.integers(0, 2 if np_dtype == np.bool_ else 256, (4, np_dtype.itemsize * 6), np.uint8)
    x = bits.view(np_dtype)
    into, _ = bed.send(bed.put(x, GPU[2]), x, GPU[2], GPU[0])
    assert bed.get(into, x, GPU[0]).tobytes() == x.tobytes()


def test_fresh_memory_shows_that_nothing_was_written(bed: Bed) -> None:
    """As poison, or by refusing the read."""
    for dtype, poison in ((f32, np.isnan), (i32, lambda a: a == -1)):
        tensor = bed.empty(dtype, (8, 8), GPU[1])
        found: object
        try:
            found = poison(bed.get(tensor, np.zeros((8, 8), dtype.numpy), GPU[1])).all()
        except HazardError as error:
            found = error.kind == "poisoned read"
        assert found


# Opening and closing.


def test_each_topology_has_a_name_for_people(closed_bed: Bed) -> None:
    names = closed_bed.open()
    assert list(names) == list(PLACES)
    assert all(names.values())


def test_a_topology_is_opened_once(bed: Bed) -> None:
    with pytest.raises(BindError) as e:
        bed.backend.open(GPU[0], bed.targets[GPU[0]])
    assert str(e.value) == "gpu:0 is open already"


def test_a_topology_that_is_not_open_is_refused(bed: Bed) -> None:
    with pytest.raises(RunError, match=r"^gpu:7 is not open on the \w+ backend \(open: gpu:0, gpu:1, gpu:2\)$"):
        bed.backend.alloc(64, GPU[7])


def test_a_closed_backend_opens_again_with_nothing_of_before(bed: Bed) -> None:
    buffer = bed.backend.alloc(64, GPU[0])
    bed.backend.close()
    bed.open()
    with pytest.raises(RunError) as e:
        bed.backend.free(buffer, GPU[0])
    assert str(e.value) == "free on gpu:0: the buffer was freed"
    assert bed.backend.moved(None, GPU[0]) == 0
    assert bed.backend.dispatched(GPU[0]) == 0


def test_the_caller_keeps_its_float_error_state_and_a_kernel_has_none(bed: Bed) -> None:
    one, zero = bed.put(np.ones(2, np.float32), GPU[0]), bed.put(np.zeros(2, np.float32), GPU[0])
    with np.errstate(all="raise"):
        quotient, _ = bed.apply(Div(), [one, zero], (f32[2], f32[2]), GPU[0])
        with pytest.raises(FloatingPointError):
            np.float32(1) / np.float32(0)
    assert np.isposinf(bed.get(quotient, np.zeros(2, np.float32), GPU[0])).all()


# Nothing can be looked into from the host, and observation does not read records.


def test_nothing_on_a_device_is_readable_without_a_download(bed: Bed) -> None:
    tensor = bed.put(some(4), GPU[1])
    buffer = bed.backend.alloc(64, GPU[1])
    for thing in (tensor, buffer):
        with pytest.raises(RunError) as e:
            np.asarray(thing)
        assert str(e.value) == f"{thing!r} is not readable from the host; download it"
        assert "gpu:1" in repr(thing)


def test_observe_follows_the_address_and_not_the_handle(bed: Bed) -> None:
    tensor, other = bed.put(some(4), GPU[0]), bed.put(some(4), GPU[1])
    assert bed.backend.observe(tensor).topologies != bed.backend.observe(other).topologies
    assert GPU[0] in bed.backend.observe(tensor).topologies
    assert GPU[1] not in bed.backend.observe(tensor).topologies
