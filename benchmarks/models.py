"""Which model a benchmark runs: a file, or random weights in the shapes of a preset.

--model SmolLM2-135M-Instruct.Q4_1.gguf
--model random:smollm2-135m                  no file needed; the arithmetic is the same
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.llama2.config import LlamaConfig, param_shapes, preset
from examples.llama2.fetch import locate
from examples.llama2.weights import open_checkpoint

RANDOM = "random:"
SMOLLM2 = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class Model:
    """A configuration and its f32 weights, which are decoded or drawn when they are asked for and kept by nobody."""

    name: str
    config: LlamaConfig
    params: Mapping[str, Any]

    @property
    def nbytes(self) -> int:
        """Bytes of one replica of the weights in f32."""
        return sum(4 * int(np.prod(shape)) for shape in param_shapes(self.config).values())


def open_model(name: str | None) -> Model:
    """The model that `--model` names; by default SmolLM2, with random weights where its file is not here."""
    if name is None:
        found = locate(SMOLLM2)
        name = str(found) if found else RANDOM + SMOLLM2
    if name.startswith(RANDOM):
        config = preset(name.removeprefix(RANDOM))
        return Model(name, config, RandomParams(config))
    checkpoint = open_checkpoint(name, "f32")
    return Model(checkpoint.path.name, checkpoint.config, checkpoint.params)


class RandomParams(Mapping[str, Any]):
    """Weights that keep activations near 1, the same each time: norms of ones, matrices of variance 1 / columns."""

    def __init__(self, config: LlamaConfig) -> None:
        self._shapes = param_shapes(config)
        self._seeds = {name: seed for seed, name in enumerate(self._shapes)}

    def __getitem__(self, name: str) -> Any:
        shape = self._shapes[name]
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        drawn = np.random.default_rng(self._seeds[name]).standard_normal(shape, np.float32)
        return np.multiply(drawn, np.float32(shape[-1] ** -0.5), out=drawn)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)
