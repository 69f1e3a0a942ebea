"""The peer on a GPU: the same Llama in PyTorch, one sequence, static caches, eager and compiled with CUDA graphs.

Needs torch; random weights. Fused projections and PyTorch's own attention, norm and matrix products: what a careful
user would write today.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from examples.llama2.config import LlamaConfig


def make_model(config: LlamaConfig, max_len: int) -> Any:
    """A module: (tokens i64 [1, T], positions i64 [T]) -> logits f32 [1, 1, vocab]."""
    import torch
    import torch.nn.functional as F  # noqa: N812  # its usual name

    def weight(*shape: int) -> Any:
        return torch.nn.Parameter(torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02, requires_grad=False)

    q_rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = weight(q_rows + 2 * kv_rows, config.dim), weight(config.dim, q_rows)
            self.gate_up, self.down = weight(2 * config.hidden, config.dim), weight(config.dim, config.hidden)
            self.norms = weight(2, config.dim)
            shape = (1, config.kv_heads, max_len, config.head_dim)
            self.register_buffer("k", torch.zeros(shape, device="cuda", dtype=torch.bfloat16))
            self.register_buffer("v", torch.zeros(shape, device="cuda", dtype=torch.bfloat16))

        def forward(self, x: Any, positions: Any, cos: Any, sin: Any, mask: Any) -> Any:
            n = x.shape[1]
            h = F.rms_norm(x, (config.dim,), self.norms[0], config.eps)
            q, k, v = F.linear(h, self.qkv).split([q_rows, kv_rows, kv_rows], dim=-1)
            q, k, v = (t.view(1, n, -1, config.head_dim).transpose(1, 2) for t in (q, k, v))
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            self.k[:, :, positions] = k
            self.v[:, :, positions] = v
            o = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask, enable_gqa=q_rows != kv_rows)
            x = x + F.linear(o.transpose(1, 2).reshape(1, n, q_rows), self.out)
            h = F.rms_norm(x, (config.dim,), self.norms[1], config.eps)
            gate, up = F.linear(h, self.gate_up).chunk(2, dim=-1)
            return x + F.linear(F.silu(gate) * up, self.down)

    def turned(t: Any, cos: Any, sin: Any) -> Any:
        a, b = t.float().chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(t.dtype)

    class Llama(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = weight(config.vocab, config.dim), weight(config.vocab, config.dim)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(config.layers))
            self.norm = weight(config.dim)
            half = torch.arange(0, config.head_dim, 2, device="cuda").float() / config.head_dim
            angles = torch.outer(torch.arange(max_len, device="cuda").float(), config.rope_theta**-half)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())
            causal = torch.ones(max_len, max_len, dtype=torch.bool, device="cuda").tril()
            self.register_buffer("causal", causal)

        def forward(self, tokens: Any, positions: Any) -> Any:
            x = self.embed[tokens]
            cos, sin, mask = self.cos[positions], self.sin[positions], self.causal[positions][None, None]
            for layer in self.layers:
                x = layer(x, positions, cos, sin, mask)
            return F.linear(F.rms_norm(x[:, -1:], (config.dim,), self.norm, config.eps), self.head).float()

    return Llama()


def decode_rate(step: Callable[[Any, Any], Any], *, start: int, tokens: int, turns: int) -> list[float]:
    """Tokens per second of greedy decoding after `start` positions, once per turn."""
    import torch

    rates: list[float] = []
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    with torch.inference_mode(False), torch.no_grad():
        for _ in range(turns + 1):  # the first is not counted
            torch.cuda.synchronize()
            began = time.perf_counter()
            for k in range(tokens):
                position = torch.tensor([start + k], device="cuda")
                token = step(token, position).argmax(-1).clone()
            torch.cuda.synchronize()
            rates.append(tokens / (time.perf_counter() - began))
    return rates[1:]


def prefill_rate(step: Callable[[Any, Any], Any], *, tokens: int, vocab: int, turns: int) -> list[float]:
    """Prompt tokens per second, once per turn."""
    import torch

    rates: list[float] = []
    prompt = torch.randint(0, vocab, (1, tokens), device="cuda")
    positions = torch.arange(tokens, device="cuda")
    with torch.no_grad():
        for _ in range(turns + 2):
            torch.cuda.synchronize()
            began = time.perf_counter()
            step(prompt, positions)
            torch.cuda.synchronize()
            rates.append(tokens / (time.perf_counter() - began))
    return rates[2:]
