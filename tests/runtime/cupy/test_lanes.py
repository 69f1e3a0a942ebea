"""Whatever dispatches read and write: two that touch the same bytes, one of them writing, are ordered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vxgraph.runtime.backends.cupy.capture import WORKSPACE
from vxgraph.runtime.backends.cupy.lanes import LANES, Placed, Span, place

spans = st.tuples(st.integers(0, 12), st.integers(0, 4)).map(lambda s: (s[0], s[0] + s[1])) | st.just(WORKSPACE)
dispatches = st.lists(st.tuples(st.lists(spans, max_size=3), st.lists(spans, max_size=2)), max_size=14)
Dispatch = tuple[list[Span], list[Span]]


def reached(placed: list[Placed]) -> list[set[int]]:
    """Per dispatch, all that is done when it starts: along its lane and its waits."""
    found: list[set[int]] = []
    last: dict[int, int] = {}
    for k, p in enumerate(placed):
        before = [*p.waits, *([last[p.lane]] if p.lane in last else [])]
        found.append({n for b in before for n in (b, *found[b])})
        last[p.lane] = k
    return found


def conflict(a: Dispatch, b: Dispatch) -> bool:
    """Byte by byte."""

    def of(spans: list[Span]) -> set[int]:
        return {byte for start, end in spans for byte in range(start, end)}

    (a_reads, a_writes), (b_reads, b_writes) = map(of, a), map(of, b)
    return bool(a_writes & (b_reads | b_writes) or a_reads & b_writes)


@given(dispatches)
def test_every_conflict_is_ordered_and_every_wait_is_for_an_earlier_dispatch_of_another_lane(
    given: list[Dispatch],
) -> None:
    placed = place(given)
    done = reached(placed)
    assert len(placed) == len(given)
    for k, p in enumerate(placed):
        assert 0 <= p.lane < LANES
        assert all(n < k and placed[n].lane != p.lane for n in p.waits)
        assert len(set(p.waits)) == len(p.waits)
        assert all(n in done[k] for n in range(k) if conflict(given[n], given[k]))
    lanes = list(dict.fromkeys(p.lane for p in placed))
    assert lanes == list(range(len(lanes)))  # each begins where the ones before it are in use


@given(dispatches)
def test_what_needs_nothing_waits_for_nothing_while_a_lane_is_free(given: list[Dispatch]) -> None:
    given = [tuple([s for s in spans if s[0] < s[1]] for spans in d) for d in given[:LANES]]  # type: ignore[misc]
    for k, p in enumerate(place(given)):
        if not any(conflict(given[n], given[k]) for n in range(k)):
            assert p.waits == ()


def test_three_readers_of_one_value_stand_side_by_side_and_meet_again() -> None:
    x, w, q, k, v, out = ((10 * n, 10 * n + 10) for n in range(6))
    placed = place([([w], [x]), ([x], [q]), ([x], [k]), ([x], [v]), ([q, k, v], [out])])
    assert placed == [Placed(0, ()), Placed(0, ()), Placed(1, (0,)), Placed(2, (0,)), Placed(0, (2, 3))]


def test_a_chain_stays_on_one_lane() -> None:
    chain = [([(k, k + 1)], [(k + 1, k + 2)]) for k in range(10)]
    assert place(chain) == [Placed(0, ())] * 10


def test_what_a_wait_implies_is_left_out() -> None:
    a, b, c, d = ((10 * n, 10 * n + 10) for n in range(4))
    placed = place([([], [a]), ([], [b]), ([a, b], [c]), ([a, b, c], [d])])
    assert placed == [Placed(0, ()), Placed(1, ()), Placed(0, (1,)), Placed(0, ())]


def test_what_a_shared_lane_implies_is_left_out_too() -> None:
    out = [(10 * n, 10 * n + 10) for n in range(7)]
    five = [([], [out[k]]) for k in range(LANES + 1)]  # the last follows the first on its lane
    placed = place([*five, ([out[4]], [out[5]]), ([out[0], out[4]], [out[6]])])
    assert placed[4:] == [Placed(0, ()), Placed(0, ()), Placed(1, (4,))]


def test_more_branches_than_lanes_take_turns() -> None:
    placed = place([([], [(k, k + 1)]) for k in range(2 * LANES)])
    assert [p.lane for p in placed] == [*range(LANES)] * 2
    assert all(p.waits == () for p in placed)
