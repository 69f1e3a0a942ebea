"""GGUF files of the `llama` architecture, as llama.cpp writes them.

    blk.0.attn_q.weight   Q4_1 [576, 576]  ->  layers.0.wq   f32 [576, 576]

f32, f16 and bf16 are views; the quantised types (q4_1, q8_0, and what else `gguf.dequantize` knows) are decoded to f32
a few blocks at a time. llama.cpp stores query and key rows for interleaved rotary pairs; they are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from examples.llama2.config import DType, LlamaConfig, param_shapes
from examples.llama2.weights.checkpoint import (
    NUMPY_DTYPES,
    Array,
    Bytes,
    Checkpoint,
    Stored,
    assemble,
    blame,
    float_decoder,
)
from examples.llama2.weights.gguf_header import GgufHeader, TensorInfo, read_gguf_header
from vxgraph.errors import CheckpointError, VxError

T = TypeVar("T", int, float, str)

_FLOATS: Mapping[str, DType] = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
_CHUNK_VALUES = 1 << 17  # decoded at once: what NumPy's passes over it keep in a cache
_OUTER = {"embed": "token_embd.weight", "norm": "output_norm.weight", "lm_head": "output.weight"}
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


def open_gguf(path: Path, dtype: DType | None = None) -> Checkpoint:
    """Open a GGUF file.

    Raises `CheckpointError` for a damaged file or another architecture, `VxError` without the `gguf` package.
    """
    gguf = _gguf_package()
    header = read_gguf_header(path)
    config = gguf_config(header)
    in_file_order = sorted(header.tensors, key=lambda tensor: tensor.start)
    found = {tensor.name: _stored(gguf, header, tensor) for tensor in in_file_order}
    names = {param: _file_name(param) for param in param_shapes(config)}
    return assemble(path, config, names, found, dtype)


def _gguf_package() -> ModuleType:
    try:
        import gguf
    except ImportError:
        raise VxError("a GGUF file needs the package gguf: pip install 'vxgraph[llama]'") from None
    return gguf


def _file_name(param: str) -> str:
    if param in _OUTER:
        return _OUTER[param]
    _, layer, name = param.split(".")
    return f"blk.{layer}.{_LAYER[name]}.weight"


def gguf_config(header: GgufHeader) -> LlamaConfig:
    """The configuration in a header's metadata; dtype is f32 until the tensors are known."""
    metadata = _Metadata(header)
    architecture = metadata.get("general.architecture", str)
    if architecture != "llama":
        raise CheckpointError(f"{header.path}: architecture {architecture!r} is not supported; 'llama' is")
    _check_supported(header, metadata)
    layers = metadata.get("llama.block_count", int)
    if layers > len(header.tensors):
        raise CheckpointError(
            f"{header.path}: key 'llama.block_count' is {layers}, but the file has {len(header.tensors)} tensors"
        )
    heads, dim = metadata.get("llama.attention.head_count", int), metadata.get("llama.embedding_length", int)
    with blame(header.path):
        return LlamaConfig(
            name=header.path.stem,
            dim=dim,
            hidden=metadata.get("llama.feed_forward_length", int),
            layers=layers,
            heads=heads,
            kv_heads=metadata.get("llama.attention.head_count_kv", int, heads),
            head_dim=_head_dim(header, metadata, dim, heads),
            vocab=_vocab(metadata),
            max_len=metadata.get("llama.context_length", int),
            rope_theta=metadata.get("llama.rope.freq_base", float, 10000.0),
            rope_scaling=None,
            rope_interleaved=True,
            eps=metadata.get("llama.attention.layer_norm_rms_epsilon", float),
            tied=all(tensor.name != _OUTER["lm_head"] for tensor in header.tensors),
            dtype="f32",
            bos_id=_token_id(metadata, "bos"),
            stop_ids=_stop_ids(metadata),
        )


class _Metadata:
    """Metadata by key and type."""

    def __init__(self, header: GgufHeader) -> None:
        self.header = header

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        value: Any = self.header.metadata.get(key, default)
        if value is None:
            raise CheckpointError(f"{self.header.path}: key {key!r} is missing")
        if type(value) is not kind:
            raise CheckpointError(f"{self.header.path}: key {key!r} is {value!r:.60}; wanted {_KINDS[kind]}")
        # Stored as f32: 1e-5 comes back as 9.999999747378752e-06. The shortest decimal is what its writer meant.
        with np.errstate(over="ignore"):  # of an f64: the configuration says what is wrong with infinity
            return kind(str(np.float32(value))) if kind is float else value


_KINDS = {int: "an integer", float: "a number", str: "a text"}


def _check_supported(header: GgufHeader, metadata: _Metadata) -> None:
    scaling = metadata.get("llama.rope.scaling.type", str, "none")
    if scaling != "none":
        raise CheckpointError(f"{header.path}: rotary scaling {scaling!r} is not supported")
    if any(tensor.name == "rope_freqs.weight" for tensor in header.tensors):
        raise CheckpointError(
            f"{header.path}: tensor 'rope_freqs.weight' scales the rotary frequencies, which is not supported for GGUF",
            details=("the Hugging Face directory of the same model says the scaling in config.json; open that",),
        )


def _head_dim(header: GgufHeader, metadata: _Metadata, dim: int, heads: int) -> int:
    if heads < 1:
        raise CheckpointError(f"{header.path}: key 'llama.attention.head_count' is {heads}; it must be at least 1")
    head_dim = metadata.get("llama.attention.key_length", int, dim // heads)
    rotated = metadata.get("llama.rope.dimension_count", int, head_dim)
    if rotated != head_dim:
        raise CheckpointError(
            f"{header.path}: key 'llama.rope.dimension_count' is {rotated}, but a head has {head_dim} dimensions; "
            "rotating a part of a head is not supported"
        )
    return head_dim


def _vocab(metadata: _Metadata) -> int:
    tokens: Any = metadata.header.metadata.get("tokenizer.ggml.tokens")
    listed = len(cast("list[Any]", tokens)) if isinstance(tokens, list) else 0
    return metadata.get("llama.vocab_size", int, listed or None)


def _stop_ids(metadata: _Metadata) -> tuple[int, ...]:
    found = (_token_id(metadata, end) for end in ("eos", "eot", "eom"))
    return tuple(dict.fromkeys(token for token in found if token is not None))


def _token_id(metadata: _Metadata, name: str) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    return metadata.get(key, int) if key in metadata.header.metadata else None


def _stored(gguf: ModuleType, header: GgufHeader, tensor: TensorInfo) -> Stored:
    where = f"{header.path}: tensor {tensor.name!r}"
    kind = _kind(gguf, where, tensor)
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    if not tensor.shape or tensor.shape[-1] % block_values:
        raise CheckpointError(f"{where} has shape {list(tensor.shape)}, but {kind.name} wants rows of {block_values}s")
    end = tensor.start + prod(tensor.shape) // block_values * block_bytes
    if end > header.data.size:
        raise CheckpointError(
            f"{where} ends at byte {end}, but the file has {header.data.size}",
            details=("the file is cut short; download it again",),
        )
    data = header.data[tensor.start : end]
    if kind.name in _FLOATS:
        floats = _FLOATS[kind.name]
        return Stored(header.path, tensor.name, tensor.shape, floats, float_decoder(data, floats, tensor.shape))
    return Stored(header.path, tensor.name, tensor.shape, "f32", _block_decoder(gguf, kind, data, tensor.shape))


def _kind(gguf: ModuleType, where: str, tensor: TensorInfo) -> Any:
    """The ggml type of a tensor, when it can be decoded."""
    try:
        kind = gguf.GGMLQuantizationType(tensor.kind)
    except ValueError:
        raise CheckpointError(
            f"{where} has ggml type {tensor.kind}, which this version of gguf does not know"
        ) from None
    block_bytes = gguf.GGML_QUANT_SIZES[kind][1]
    try:
        gguf.dequantize(np.zeros((1, block_bytes), np.uint8), kind)
    except NotImplementedError:
        raise CheckpointError(f"{where} has type {kind.name}, which cannot be decoded") from None
    return kind


def _block_decoder(gguf: ModuleType, kind: Any, data: Bytes, shape: tuple[int, ...]) -> Callable[[DType], Array]:
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    step = max(1, _CHUNK_VALUES // block_values)

    def decode(wanted: DType) -> Array:
        blocks = data.reshape(-1, block_bytes)
        out = np.empty((len(blocks), block_values), NUMPY_DTYPES[wanted])
        for start in range(0, len(blocks), step):
            chunk = blocks[start : start + step]
            # As one row: gguf.dequantize takes rows 16 at a time, and half of its time went into that.
            out[start : start + step] = gguf.dequantize(chunk.reshape(1, -1), kind).reshape(-1, block_values)
        return out.reshape(shape)

    return decode
