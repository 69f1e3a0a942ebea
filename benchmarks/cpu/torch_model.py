"""PyTorch on the CPU, eager: fused projections, caches that are there from the start, its own attention and norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # its usual name

from benchmarks.cpu.engine import F32, Stepper
from benchmarks.cpu.sizes import POSITIONS
from examples.llama2.weights import open_checkpoint


class Layer:
    """One layer's weights and caches."""

    def __init__(self, params: Mapping[str, Any], at: str, cache: tuple[int, ...]) -> None:
        def take(*names: str) -> torch.Tensor:
            return torch.from_numpy(np.concatenate([params[at + name] for name in names]))

        self.norm1, self.norm2 = take("attention_norm"), take("ffn_norm")
        self.qkv, self.out = take("wq", "wk", "wv"), take("wo")
        self.gate_up, self.down = take("w_gate", "w_up"), take("w_down")
        self.k, self.v = torch.zeros(cache), torch.zeros(cache)


class TorchLlama(Stepper):
    """A file's weights in f32, copied."""

    def __init__(self, path: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        checkpoint = open_checkpoint(path, "f32")
        config = self._config = checkpoint.config
        cache = (1, config.kv_heads, POSITIONS, config.head_dim)
        self._layers = [Layer(checkpoint.params, f"layers.{i}.", cache) for i in range(config.layers)]
        self._embed, self._norm = (torch.from_numpy(np.array(checkpoint.params[name])) for name in ("embed", "norm"))
        self._head = self._embed if config.tied else torch.from_numpy(np.array(checkpoint.params["lm_head"]))
        half = torch.arange(0, config.head_dim, 2).double() / config.head_dim
        angles = torch.outer(torch.arange(POSITIONS).double(), config.rope_theta**-half)
        self._turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)[:, None]

    @torch.inference_mode()
    def forward(self, tokens: Sequence[int], position: int) -> F32:
        rows = slice(position, position + len(tokens))
        x = self._embed[torch.tensor(tokens)]
        for layer in self._layers:
            x = x + self._attend(layer, self._normalised(x, layer.norm1), rows)
            gate, up = F.linear(self._normalised(x, layer.norm2), layer.gate_up).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return F.linear(self._normalised(x[-1], self._norm), self._head).numpy()

    def _normalised(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self._config.eps)

    def _attend(self, layer: Layer, h: torch.Tensor, rows: slice) -> torch.Tensor:
        config, length = self._config, len(h)
        qk, v = F.linear(h, layer.qkv).split(
            [(config.heads + config.kv_heads) * config.head_dim, config.kv_heads * config.head_dim], dim=-1
        )
        pairs = torch.view_as_complex(qk.reshape(length, -1, config.head_dim // 2, 2))
        q, k = torch.view_as_real(pairs * self._turns[rows]).flatten(-2).split([config.heads, config.kv_heads], dim=1)
        layer.k[0, :, rows] = k.transpose(0, 1)
        layer.v[0, :, rows] = v.view(length, config.kv_heads, config.head_dim).transpose(0, 1)
        mixed = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            layer.k[:, :, : rows.stop],
            layer.v[:, :, : rows.stop],
            is_causal=length > 1,
            enable_gqa=config.heads != config.kv_heads,
        )
        return F.linear(mixed[0].transpose(0, 1).reshape(length, -1), layer.out)
