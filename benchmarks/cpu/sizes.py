"""The models that are measured: three shapes of Llama, with random weights in files that every engine can read.

    15m-f32.gguf    15m-bf16.gguf    15m-q8_0.gguf

The f32 file is drawn from seeds; the others hold the same weights, rounded. What a decoded token must read and what a
prompt must multiply follow from the shapes.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import RandomParams
from examples.llama2.config import LlamaConfig, param_shapes, preset

POSITIONS = 256  # of every cache
PROMPT, SHORT_PROMPT = 128, 16  # what prefill is measured with, and what comes before decoding

_STORIES = preset("stories15m")
SIZES = {
    "tiny": replace(_STORIES, name="tiny", dim=64, hidden=160, layers=2, heads=2, kv_heads=1, head_dim=32, vocab=320),
    "15m": replace(_STORIES, name="15m"),
    "110m": replace(_STORIES, name="110m", dim=768, hidden=2048, layers=12, heads=12, kv_heads=12, head_dim=64),
    "1.1b": replace(preset("tinyllama-1.1b"), name="1.1b", rope_interleaved=True, dtype="f32"),
}
BYTES_PER_WEIGHT = {"f32": 4.0, "bf16": 2.0, "int8": 1.0, "q8_0": 34 / 32}
_OUTER = {"embed": "token_embd", "norm": "output_norm", "lm_head": "output"}
_LAYER = {
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


def prompt(config: LlamaConfig, length: int) -> list[int]:
    """Tokens that differ."""
    return [(7919 * k + 13) % config.vocab for k in range(length)]


def weights_read(config: LlamaConfig) -> int:
    """Weights of the matrices that a decoded token multiplies with: all but an embedding that is not the head too."""
    return _in_layers(config) + config.vocab * config.dim


def prefill_flops(config: LlamaConfig, length: int) -> float:
    """Operations per prompt token in products with weights; the head is applied to the last token alone."""
    return 2 * (_in_layers(config) + config.vocab * config.dim / length)


def _in_layers(config: LlamaConfig) -> int:
    shapes = param_shapes(config).items()
    return sum(prod(shape) for name, shape in shapes if name.startswith("layers.") and len(shape) == 2)


def model_file(folder: Path, config: LlamaConfig, storage: str) -> Path:
    """The GGUF file of a size with its matrices as f32, bf16 or q8_0, written if it is not there yet."""
    path = folder / f"{config.name}-{storage}.gguf"
    if not path.exists():
        part = path.with_suffix(".part")
        _write(part, config, storage)
        part.replace(path)
    return path


def _write(path: Path, config: LlamaConfig, storage: str) -> None:
    """Tensor by tensor: the weights of 1.1b in memory at once would be 4.4 GB."""
    import gguf

    kind = {"f32": "F32", "bf16": "BF16", "q8_0": "Q8_0"}[storage]
    stored_as = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, config)
    params = RandomParams(config)
    for name, shape in param_shapes(config).items():
        quantise = len(shape) == 2 and storage != "f32"
        as_bytes = gguf.quant_shape_to_byte_shape(shape, stored_as) if quantise else shape
        nbytes = prod(as_bytes) if quantise else 4 * prod(shape)
        writer.add_tensor_info(
            _tensor_name(name),
            as_bytes,
            np.dtype(np.uint8 if quantise else np.float32),
            nbytes,
            stored_as if quantise else None,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, shape in param_shapes(config).items():
        drawn = params[name]
        writer.write_tensor_data(gguf.quantize(drawn, stored_as) if len(shape) == 2 else drawn)
    writer.close()


def _describe(writer: Any, config: LlamaConfig) -> None:
    """Hyperparameters, and no tokenizer: prompts are token ids."""
    writer.add_name(config.name)
    writer.add_context_length(config.max_len)
    writer.add_embedding_length(config.dim)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.hidden)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_layer_norm_rms_eps(config.eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_vocab_size(config.vocab)
    writer.add_tokenizer_model("none")


def _tensor_name(param: str) -> str:
    if param in _OUTER:
        return f"{_OUTER[param]}.weight"
    _, layer, name = param.split(".")
    return f"blk.{layer}.{_LAYER[name]}.weight"
