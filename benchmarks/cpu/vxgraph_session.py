"""Ours: a `Session` on the numpy backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vxgraph as vx
from benchmarks.cpu.engine import Engine, Trial
from benchmarks.cpu.sizes import POSITIONS, PROMPT
from examples.llama2.config import Weights
from examples.llama2.model import build, place_single
from examples.llama2.weights import open_checkpoint

GREEDY = {"temperature": np.float32(0), "top_p": np.float32(1), "seed": np.int64(0)}


class VxgraphSession(Engine):
    """A file's weights on one topology, stored as `weights`; `bind` says with which kernels."""

    def __init__(self, path: Path, bind: str, weights: Weights) -> None:
        self._path, self._bind, self._weights = path, bind, weights
        self._session: vx.Session | None = None

    def _open(self, choose: Callable[[], Callable[[vx.Value, vx.Value], vx.Value]] | None) -> vx.Session:
        checkpoint, machine = open_checkpoint(self._path, weights=self._weights), vx.load_machine("cpu")
        placement = place_single(machine, checkpoint.config.layers)
        graph = build(checkpoint.config, placement, max_len=POSITIONS, max_prompt=PROMPT, choose=choose)
        return vx.Session(vx.compile(graph, machine), checkpoint.params, bind=self._bind)

    def generate(self, tokens: Sequence[int], steps: int) -> Iterator[int]:
        self._session = self._session or self._open(None)
        for emitted in self._session.stream({**_inputs(tokens, steps), **GREEDY}):
            yield int(emitted["token"])

    def trial(self, tokens: Sequence[int], steps: int) -> Trial:
        """In a session of its own whose graph emits logits; the two are never there at once."""
        if self._session is not None:
            self._session.close()
            self._session = None
        with self._open(_greedy_with_logits) as session:
            out = session.run(_inputs(tokens, steps))
        return [int(token) for token in out["token"]], out["logits"]


def _inputs(tokens: Sequence[int], steps: int) -> dict[str, Any]:
    return {
        "tokens": np.array(tokens, np.int32),
        "steps": np.array(steps, np.int32),
        "stop_ids": np.array([-1], np.int32),
    }


def _greedy_with_logits() -> Callable[[vx.Value, vx.Value], vx.Value]:
    def pick(logits: vx.Value, position: vx.Value) -> vx.Value:
        vx.emit("logits", logits)
        return vx.argmax(logits, axis=0)

    return pick
