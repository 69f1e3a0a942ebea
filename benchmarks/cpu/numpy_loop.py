"""The loop that one would write by hand, in f32, with fused projections; `benchmarks.numpy_llama` is its step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.cpu.engine import F32, Stepper
from benchmarks.cpu.sizes import POSITIONS
from benchmarks.numpy_llama import NumpyLlama
from examples.llama2.weights import open_checkpoint


class NumpyLoop(Stepper):
    """A file's weights, copied."""

    def __init__(self, path: Path) -> None:
        checkpoint = open_checkpoint(path, "f32")
        self._llama = NumpyLlama(checkpoint.config, checkpoint.params, max_len=POSITIONS, fused=True)

    def forward(self, tokens: Sequence[int], position: int) -> F32:
        if len(tokens) == 1:
            return self._llama.step(tokens[0], position)
        return self._llama.prefill(np.array(tokens))
