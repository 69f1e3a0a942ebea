"""What a Chrome trace must be so that every reader shows it as it is meant, held against the JSON alone.

keeps_the_format(json.loads(text))    AssertionError that shows the event
"""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from typing import Any

Event = dict[str, Any]
PHASES = {"M", "X", "C", "s", "t", "f"}


def keeps_the_format(trace: dict[str, Any]) -> None:
    """Every rule of this module."""
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    for e in events:
        assert e["ph"] in PHASES, e
        assert (type(e["name"]), type(e["pid"])) == (str, int), e
        assert e["ph"] == "M" or math.isfinite(e["ts"]), e
    tracks_are_named_once(events)
    slices_of_a_track_follow_one_another(events)
    arrows_stand_on_slices(events)
    counters_only_go_on(events)


def tracks_are_named_once(events: list[Event]) -> None:
    """Each process and thread has one name and one place in the order, and no thread is in two processes."""
    for what, key in (("process", lambda e: e["pid"]), ("thread", lambda e: e["tid"])):
        for suffix in ("name", "sort_index"):
            named = [key(e) for e in events if e["name"] == f"{what}_{suffix}"]
            assert len(named) == len(set(named)), (what, suffix)
            used = {key(e) for e in events if e["ph"] in "Xstf"}
            assert used <= set(named), (what, suffix)
    home: dict[int, int] = {}
    for e in events:
        if e["ph"] in "Xstf" or e["name"].startswith("thread_"):
            assert home.setdefault(e["tid"], e["pid"]) == e["pid"], e
            assert e["tid"] != e["pid"], e  # would be shown as the process's main thread


def slices_of_a_track_follow_one_another(events: list[Event]) -> None:
    """None overlaps the next, not by a nanosecond: Perfetto counts in those, and drops it. They may touch."""
    tracks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            start, duration = nanoseconds(e["ts"]), nanoseconds(e["dur"])
            assert duration >= 0, e
            tracks[e["tid"]].append((start, start + duration))
    for track in tracks.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(track)))


def nanoseconds(microseconds: float) -> int:
    """Exactly, as they are written."""
    found = Decimal(repr(microseconds)) * 1000
    assert found == int(found), microseconds
    return int(found)


def arrows_stand_on_slices(events: list[Event]) -> None:
    """Each arrow starts once, ends once, goes forward in time, and stands inside one slice at each of its points."""
    arrows: dict[int, list[Event]] = defaultdict(list)
    slices: dict[int, list[Event]] = defaultdict(list)
    for e in events:
        if e["ph"] in "stf":
            arrows[e["id"]].append(e)
        elif e["ph"] == "X":
            slices[e["tid"]].append(e)
    for points in arrows.values():
        phases = [e["ph"] for e in points]
        assert phases in (["s", "f"], ["s", "t", "f"]), points
        assert [e["ts"] for e in points] == sorted(e["ts"] for e in points), points
        assert points[-1]["bp"] == "e", points
        for e in points:
            around = [s for s in slices[e["tid"]] if s["ts"] <= e["ts"] < s["ts"] + s["dur"]]
            assert len(around) == 1, (e, around)


def counters_only_go_on(events: list[Event]) -> None:
    """A counter's samples are in order, and all of numbers."""
    counters: dict[tuple[int, str], list[Event]] = defaultdict(list)
    for e in events:
        if e["ph"] == "C":
            assert all(isinstance(v, int) and v >= 0 for v in e["args"].values()), e
            counters[e["pid"], e["name"]].append(e)
    for samples in counters.values():
        assert all(a["ts"] <= b["ts"] for a, b in pairwise(samples)), samples
