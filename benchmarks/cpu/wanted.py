"""The ratios that are wanted of one run, and whether they hold.

15m decode: vxgraph f32 over llama.cpp f32 1.63 (1.5..1.7), wanted >= 1.3: yes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.measure import Spread

What = Literal["decode", "prefill"]
Rates = Mapping[str, Mapping[What, Spread]]  # by engine


@dataclass(frozen=True, slots=True)
class Wanted:
    """At least so many times the tokens per second of a peer."""

    size: str
    what: What
    ours: str
    peer: str
    ratio: float


def _decode(ours: str, peer: str, **ratios: float) -> list[Wanted]:
    sizes = {"small": "15m", "middle": "110m", "large": "1.1b"}
    return [Wanted(sizes[size], "decode", ours, peer, ratio) for size, ratio in ratios.items()]


WANTED = (
    *_decode("vxgraph f32", "llama.cpp f32", small=1.3, middle=1.2, large=1.0),
    *_decode("vxgraph f32", "ONNX Runtime f32", small=1.2, middle=1.2),
    *_decode("vxgraph f32", "numpy loop f32", small=2.0, middle=1.4, large=1.0),
    *_decode("vxgraph bf16", "llama.cpp bf16", small=1.25, middle=1.25, large=1.25),
    *_decode("vxgraph int8", "llama.cpp q8_0", small=1.3, middle=1.3, large=1.3),
    Wanted("15m", "prefill", "vxgraph f32", "ONNX Runtime f32", 1.0),
    Wanted("110m", "prefill", "vxgraph f32", "ONNX Runtime f32", 1.0),
)


def verdicts(size: str, rates: Rates) -> Iterator[str]:
    """A line for each ratio that is wanted at this size."""
    for wanted in WANTED:
        if wanted.size == size:
            yield _verdict(wanted, rates)


def _verdict(wanted: Wanted, rates: Rates) -> str:
    title = f"{wanted.size} {wanted.what}: {wanted.ours} over {wanted.peer}"
    gone = [name for name in (wanted.ours, wanted.peer) if name not in rates]
    if gone:
        return f"{title}, wanted >= {wanted.ratio:g}: not measured without {' and '.join(gone)}"
    ratio = rates[wanted.ours][wanted.what].over(rates[wanted.peer][wanted.what])
    return f"{title} {ratio}, wanted >= {wanted.ratio:g}: {'yes' if ratio.median >= wanted.ratio else 'NO'}"
