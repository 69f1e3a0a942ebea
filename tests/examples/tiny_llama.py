"""A Llama of 80,000 parameters, written in every format, and a plain forward pass to compare what is read back."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from examples.llama2.config import LlamaConfig, param_shapes

CASES = Path(__file__).parents[3] / "shared" / "cases" / "files"
Params = Mapping[str, np.ndarray]

TINY = LlamaConfig(
    name="tiny",
    dim=64,
    hidden=96,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab=40,
    max_len=32,
    rope_theta=10000.0,
    rope_scaling=None,
    rope_interleaved=True,
    eps=1e-5,
    tied=True,
    dtype="f32",
    bos_id=1,
    stop_ids=(1, 2),
)
UNTIED = replace(TINY, tied=False)


def random_params(config: LlamaConfig, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.normal(0, 0.5, shape).astype(np.float32) for n, shape in param_shapes(config).items()}


def logits(config: LlamaConfig, params: Params, ids: list[int]) -> np.ndarray:
    """Float64 logits [len(ids), vocab]: the textbook forward pass, no cache."""
    p = {name: value.astype(np.float64) for name, value in params.items()}
    x = p["embed"][ids]
    for i in range(config.layers):
        layer = {n.removeprefix(f"layers.{i}."): v for n, v in p.items() if n.startswith(f"layers.{i}.")}
        x = x + _attention(config, layer, _norm(config, x, layer["attention_norm"])) @ layer["wo"].T
        h = _norm(config, x, layer["ffn_norm"])
        gate = h @ layer["w_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ layer["w_up"].T)) @ layer["w_down"].T
    return _norm(config, x, p["norm"]) @ p["embed" if config.tied else "lm_head"].T


def _norm(config: LlamaConfig, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + config.eps) * weight


def _attention(config: LlamaConfig, layer: Params, x: np.ndarray) -> np.ndarray:
    t, d = len(x), config.head_dim
    q = rotate((x @ layer["wq"].T).reshape(t, -1, d), np.arange(t), config.rope_interleaved)
    k = rotate((x @ layer["wk"].T).reshape(t, -1, d), np.arange(t), config.rope_interleaved)
    v = (x @ layer["wv"].T).reshape(t, -1, d)
    k, v = (np.repeat(a, config.heads // config.kv_heads, axis=1) for a in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d) + np.triu(np.full((t, t), -np.inf), 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v).reshape(t, -1)


def rotate(x: np.ndarray, positions: np.ndarray, interleaved: bool, theta: float = 10000.0) -> np.ndarray:
    """Rotary embedding of x [T, heads, head_dim]."""
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    parts = (a * cos - b * sin, a * sin + b * cos)
    return np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)


# llama2.c


def llama2c_bytes(config: LlamaConfig, params: Params, version: int, group: int = 32) -> bytes:
    """The file that llama2.c's export writes: version 0 is the legacy form."""
    sizes = (config.dim, config.hidden, config.layers, config.heads, config.kv_heads, config.vocab, config.max_len)
    per_layer = lambda name: [params[f"layers.{i}.{name}"] for i in range(config.layers)]  # noqa: E731
    matrices = [w for n in ("wq", "wk", "wv", "wo") for w in per_layer(n)]
    ffn = [w for n in ("w_gate", "w_down", "w_up") for w in per_layer(n)]
    head = [] if config.tied else [params["lm_head"]]
    if version == 0:
        rotary = np.full((2, config.max_len, config.head_dim // 2), 777.0, np.float32)
        sign = 1 if config.tied else -1
        tensors = [params["embed"], *per_layer("attention_norm"), *matrices, *per_layer("ffn_norm"), *ffn]
        tensors += [params["norm"], rotary, *head]
        return struct.pack("<7i", *sizes[:5], sign * config.vocab, config.max_len) + b"".join(map(_f32, tensors))
    header = struct.pack("<I8iB", 0x616B3432, version, *sizes, config.tied)
    header += struct.pack("<i", group) if version == 2 else b""
    norms = [*per_layer("attention_norm"), *per_layer("ffn_norm"), params["norm"]]
    write = _f32 if version == 1 else (lambda w: _q80(w, group))
    return header.ljust(256, b"\0") + b"".join(
        [*map(_f32, norms), *map(write, [params["embed"], *matrices, *ffn, *head])]
    )


def _f32(w: np.ndarray) -> bytes:
    return w.astype("<f4").tobytes()


def quantize_q80(w: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    rows = w.reshape(-1, group)
    scale = (np.abs(rows).max(1) / 127).astype(np.float32)
    return np.round(rows / scale[:, None]).astype(np.int8), scale


def _q80(w: np.ndarray, group: int) -> bytes:
    q, scale = quantize_q80(w, group)
    return q.tobytes() + scale.astype("<f4").tobytes()


# Hugging Face

HF_NAMES = {
    "attention_norm": "input_layernorm",
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "w_gate": "mlp.gate_proj",
    "w_up": "mlp.up_proj",
    "w_down": "mlp.down_proj",
}


def hf_name(param: str) -> str:
    outer = {"embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "lm_head": "lm_head.weight"}
    if param in outer:
        return outer[param]
    _, i, name = param.split(".")
    return f"model.layers.{i}.{HF_NAMES[name]}.weight"


def hf_config(config: LlamaConfig, **changes: Any) -> dict[str, Any]:
    """A `config.json`; a change to `...` drops the key."""
    keys: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.dim,
        "intermediate_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.max_len,
        "rms_norm_eps": config.eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tied,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return {key: value for key, value in (keys | changes).items() if value is not ...}


def write_hf(
    path: Path, config: LlamaConfig, tensors: Mapping[str, np.ndarray], shards: int = 1, **changes: Any
) -> Path:
    """A directory with config.json and safetensors files (with an index when there are several)."""
    from safetensors.numpy import save_file

    path.mkdir()
    (path / "config.json").write_text(json.dumps(hf_config(config, **changes)))
    if shards == 1:
        save_file(dict(tensors), path / "model.safetensors")
        return path
    weight_map: dict[str, str] = {}
    names = list(tensors)
    for s in range(shards):
        part = names[s * len(names) // shards : (s + 1) * len(names) // shards]
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        save_file({n: tensors[n] for n in part}, path / file)
        weight_map |= dict.fromkeys(part, file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


# GGUF

GGUF_NAMES = {
    "attention_norm": "attn_norm",
    "wq": "attn_q",
    "wk": "attn_k",
    "wv": "attn_v",
    "wo": "attn_output",
    "ffn_norm": "ffn_norm",
    "w_gate": "ffn_gate",
    "w_up": "ffn_up",
    "w_down": "ffn_down",
}


def gguf_name(param: str) -> str:
    outer = {"embed": "token_embd.weight", "norm": "output_norm.weight", "lm_head": "output.weight"}
    if param in outer:
        return outer[param]
    _, i, name = param.split(".")
    return f"blk.{i}.{GGUF_NAMES[name]}.weight"


def write_gguf(
    path: Path,
    config: LlamaConfig,
    tensors: Mapping[str, np.ndarray],
    kind: str = "F32",
    arch: str = "llama",
    **u32: int,
) -> Path:
    """A GGUF file with matrices of ggml type `kind` and norms in f32; `u32` adds keys, `__` for a dot."""
    import gguf

    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_len)
    writer.add_embedding_length(config.dim)
    writer.add_feed_forward_length(config.hidden)
    writer.add_block_count(config.layers)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.eps)
    writer.add_vocab_size(config.vocab)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for key, value in u32.items():
        writer.add_uint32(key.replace("__", "."), value)
    for name, value in tensors.items():
        wanted = gguf.GGMLQuantizationType[kind if value.ndim > 1 else "F32"]
        writer.add_tensor(name, gguf.quantize(value, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
