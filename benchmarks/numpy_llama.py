"""The peer: Llama's decode step written by hand in NumPy, f32, with nothing allocated but the softmax's row sums.

    llama = NumpyLlama(config, params, max_len=512, fused=True)
    logits = llama.prefill(tokens)                # f32 [vocab], overwritten by the next step
    logits = llama.step(token, position)

`fused` takes q, k and v in one product and gate and up in another; the separate products read row ranges of the same
matrices. Caches lie as [KVHead, S, D], which the products of attention like best. Rotary pairs are complex numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from examples.llama2.config import LlamaConfig

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights and caches, cut into the views that a step uses."""

    norm1: F32
    qkv: F32
    wo: F32
    norm2: F32
    gate_up: F32
    down: F32
    keys: F32  # [KVHead, S, D]
    values: F32


class NumpyLlama:
    """One sequence. Weights are copied from `params`, whose rotary pairs must be interleaved."""

    def __init__(self, config: LlamaConfig, params: Mapping[str, Any], *, max_len: int, fused: bool) -> None:
        self.fused = fused
        self.dim, self.eps = config.dim, config.eps
        self.q_rows, self.kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.hidden = config.hidden
        self.embed: F32 = np.array(params["embed"], np.float32)
        self.norm: F32 = np.array(params["norm"], np.float32)
        self.head: F32 = self.embed if config.tied else np.array(params["lm_head"], np.float32)
        self.layers = [self._layer(config, params, f"layers.{i}.", max_len) for i in range(config.layers)]
        self._make_buffers(config, max_len)

    @staticmethod
    def _layer(config: LlamaConfig, params: Mapping[str, Any], at: str, max_len: int) -> Layer:
        def take(*names: str) -> F32:
            return np.concatenate([np.asarray(params[at + name], np.float32) for name in names])

        cache = (config.kv_heads, max_len, config.head_dim)
        return Layer(
            take("attention_norm"),
            take("wq", "wk", "wv"),
            take("wo"),
            take("ffn_norm"),
            take("w_gate", "w_up"),
            take("w_down"),
            np.zeros(cache, np.float32),
            np.zeros(cache, np.float32),
        )

    def _make_buffers(self, config: LlamaConfig, max_len: int) -> None:
        heads, kv, depth = config.heads, config.kv_heads, config.head_dim
        turned = self.q_rows + self.kv_rows
        self.x, self.h, self.mixed = (np.empty(n, np.float32) for n in (self.dim, self.dim, self.q_rows))
        self.qkv = np.empty(turned + self.kv_rows, np.float32)
        self.gate_up = np.empty(2 * self.hidden, np.float32)
        self.act = np.empty(self.hidden, np.float32)
        self.scores = np.empty(heads * max_len, np.float32)
        self.logits = np.empty(config.vocab, np.float32)
        self.pairs = self.qkv[:turned].view(np.complex64).reshape(heads + kv, depth // 2)
        self.q = self.qkv[: self.q_rows].reshape(kv, heads // kv, depth)
        self.k = self.qkv[self.q_rows : turned].reshape(kv, depth)
        self.v = self.qkv[turned:].reshape(kv, depth)
        self.mixed_heads = self.mixed.reshape(kv, heads // kv, depth)
        self.scale = np.float32(depth**-0.5)
        frequencies = config.rope_theta ** (-np.arange(0, depth, 2) / depth)
        self.turns = np.exp(1j * np.outer(np.arange(max_len), frequencies)).astype(np.complex64)

    def step(self, token: int, position: int) -> F32:
        """Logits [vocab] after `token` at `position`; the earlier positions have been stepped through."""
        np.copyto(self.x, self.embed[token])
        for layer in self.layers:
            self._attend(layer, position)
            self._feed_forward(layer)
        self._normalise(self.norm)
        return np.dot(self.head, self.h, out=self.logits)

    def prefill(self, tokens: npt.NDArray[Any]) -> F32:
        """Logits [vocab] after tokens [T] that stand at position 0 and on, all in one product with each matrix."""
        x = self.embed[tokens]
        later = np.triu(np.full((len(tokens), len(tokens)), -np.inf, np.float32), 1)
        for layer in self.layers:
            x += self._attend_all(layer, self._normalised(x, layer.norm1) @ layer.qkv.T, later) @ layer.wo.T
            both = self._normalised(x, layer.norm2) @ layer.gate_up.T
            gate, up = both[:, : self.hidden], both[:, self.hidden :]
            x += (gate / (1 + np.exp(-gate)) * up) @ layer.down.T
        np.copyto(self.x, x[-1])
        self._normalise(self.norm)
        return np.dot(self.head, self.h, out=self.logits)

    def _normalised(self, x: F32, weight: F32) -> F32:
        mean = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(self.dim)
        return x * (mean + np.float32(self.eps)) ** np.float32(-0.5) * weight

    def _attend_all(self, layer: Layer, qkv: F32, later: F32) -> F32:
        """Mixed values [T, Model] of q, k and v [T, rows]; the caches hold k and v afterwards."""
        length, (kv, group, depth) = len(qkv), self.q.shape
        pairs = qkv[:, : self.q_rows + self.kv_rows].view(np.complex64).reshape(length, -1, depth // 2)
        pairs *= self.turns[:length, None]
        q, k, v = np.split(qkv, (self.q_rows, self.q_rows + self.kv_rows), axis=1)
        layer.keys[:, :length] = k.reshape(length, kv, depth).transpose(1, 0, 2)
        layer.values[:, :length] = v.reshape(length, kv, depth).transpose(1, 0, 2)
        heads = q.reshape(length, kv, group, depth).transpose(1, 2, 0, 3) * self.scale
        scores = heads @ layer.keys[:, None, :length].transpose(0, 1, 3, 2) + later
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores @ layer.values[:, None, :length] / scores.sum(-1, keepdims=True)
        return mixed.transpose(2, 0, 1, 3).reshape(length, -1)

    def _normalise(self, weight: F32) -> None:
        x = self.x
        np.multiply(x, np.float32((float(np.dot(x, x)) / self.dim + self.eps) ** -0.5), out=self.h)
        np.multiply(self.h, weight, out=self.h)

    def _attend(self, layer: Layer, position: int) -> None:
        seen = position + 1
        self._normalise(layer.norm1)
        self._project(layer.qkv, self.qkv, (0, self.q_rows, self.q_rows + self.kv_rows, len(self.qkv)))
        np.multiply(self.pairs, self.turns[position], out=self.pairs)
        np.multiply(self.q, self.scale, out=self.q)
        layer.keys[:, position] = self.k
        layer.values[:, position] = self.v
        scores = self.scores[: self.q.shape[0] * self.q.shape[1] * seen].reshape(*self.q.shape[:2], seen)
        np.matmul(self.q, layer.keys[:, :seen].transpose(0, 2, 1), out=scores)
        np.subtract(scores, np.maximum.reduce(scores, -1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.matmul(scores, layer.values[:, :seen], out=self.mixed_heads)
        np.divide(self.mixed_heads, np.add.reduce(scores, -1, keepdims=True), out=self.mixed_heads)
        np.dot(layer.wo, self.mixed, out=self.h)
        np.add(self.x, self.h, out=self.x)

    def _feed_forward(self, layer: Layer) -> None:
        self._normalise(layer.norm2)
        self._project(layer.gate_up, self.gate_up, (0, self.hidden, 2 * self.hidden))
        gate, up, act = self.gate_up[: self.hidden], self.gate_up[self.hidden :], self.act
        np.negative(gate, out=act)
        np.exp(act, out=act)
        np.add(act, np.float32(1), out=act)
        np.divide(gate, act, out=act)
        np.multiply(act, up, out=act)
        np.dot(layer.down, act, out=self.h)
        np.add(self.x, self.h, out=self.x)

    def _project(self, weight: F32, out: F32, cuts: tuple[int, ...]) -> None:
        """weight @ h as one product, or as one for each range of rows."""
        if self.fused:
            np.dot(weight, self.h, out=out)
            return
        for start, end in pairwise(cuts):
            np.dot(weight[start:end], self.h, out=out[start:end])
