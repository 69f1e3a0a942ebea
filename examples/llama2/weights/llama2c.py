"""llama2.c `.bin` files: a header of sizes, then every tensor in a fixed order, nothing named.

    legacy      7 x int32 (vocab < 0: untied), float32
    version 1   "ak42", version, 7 x int32, uint8 tied, zeros up to byte 256; float32
    version 2   the same and int32 group size; norms float32, matrices int8 followed by one float32 scale per group

Layouts as `export.py`, `run.c` and `runq.c` of https://github.com/karpathy/llama2.c have them. The header does not say
rope base, epsilon or token ids; they are that program's constants.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from examples.llama2.config import DType, LlamaConfig, layer_shapes, param_shapes
from examples.llama2.weights.checkpoint import (
    NUMPY_DTYPES,
    Array,
    Bytes,
    Checkpoint,
    Stored,
    assemble,
    blame,
    float_decoder,
    map_file,
)
from vxgraph.errors import CheckpointError, VxError

MAGIC = b"24ka"  # 0x616b3432, little-endian
_LEGACY_BYTES, _HEADER_BYTES = 28, 256

_LEGACY_LAYERS = ("attention_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w_gate", "w_down", "w_up")
_MATRICES = ("wq", "wk", "wv", "wo", "w_gate", "w_down", "w_up")


@dataclass(frozen=True, slots=True)
class Header:
    """`version` is 0 for the legacy form; `group` is the number of int8 values under one scale, 0 for float32."""

    version: int
    config: LlamaConfig
    group: int
    nbytes: int


def open_llama2c(path: Path, dtype: DType | None = None) -> Checkpoint:
    """Open a llama2.c file. Raises `CheckpointError` when its size is not exactly what its header says."""
    data = map_file(path)
    with blame(path):
        header = _read_header(path, bytes(data[:_HEADER_BYTES]))
    found = {block.name: _stored(path, block, part) for block, part in _locate(path, data, header)}
    found.pop(_ROTARY_TABLES, None)
    names = {name: name for name in param_shapes(header.config)}
    return assemble(path, header.config, names, found, dtype)


def _read_header(path: Path, head: bytes) -> Header:
    if head[:4] != MAGIC:
        return _read_legacy(path, head)
    if len(head) < _HEADER_BYTES:
        raise VxError(f"the header is cut short: {len(head)} bytes of {_HEADER_BYTES}; download the file again")
    version, *sizes = struct.unpack_from("<8i", head, 4)
    if version not in (1, 2):
        raise VxError(f"llama2.c version {version} is not supported; 1 (float32) and 2 (int8) are")
    tied, group = struct.unpack_from("<Bi", head, 36)
    config = _config(path, sizes, tied=bool(tied))
    if version == 1:
        return Header(version, config, 0, _HEADER_BYTES)
    if group < 1 or config.dim % group or config.hidden % group:
        raise VxError(f"group size {group} does not divide dim {config.dim} and hidden {config.hidden}")
    return Header(version, config, group, _HEADER_BYTES)


def _read_legacy(path: Path, head: bytes) -> Header:
    if len(head) < _LEGACY_BYTES:
        raise VxError(f"the header is cut short: {len(head)} bytes of {_LEGACY_BYTES}; download the file again")
    *sizes, vocab, max_len = struct.unpack_from("<7i", head)
    if min(*sizes, max_len) < 1 or vocab == 0 or sizes[0] % sizes[3]:
        raise VxError(
            "not a model file that can be read",
            details=(
                "wanted: GGUF, a llama2.c .bin, or a directory with config.json and safetensors files",
                f"as a llama2.c header its sizes would be {[*sizes, vocab, max_len]}",
            ),
        )
    return Header(0, _config(path, [*sizes, abs(vocab), max_len], tied=vocab > 0), 0, _LEGACY_BYTES)


def _config(path: Path, sizes: list[int], *, tied: bool) -> LlamaConfig:
    dim, hidden, layers, heads, kv_heads, vocab, max_len = sizes
    if heads < 1 or dim % heads:
        raise VxError(f"dim {dim} cannot be split into {heads} heads")
    return LlamaConfig(
        name=path.stem,
        dim=dim,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=dim // heads,
        vocab=vocab,
        max_len=max_len,
        rope_theta=10000.0,
        rope_scaling=None,
        rope_interleaved=True,
        eps=1e-5,
        tied=tied,
        dtype="f32",
        bos_id=1,
        # run.c stops at the begin token, which separates the texts that these models were trained on.
        stop_ids=(1, 2),
    )


_ROTARY_TABLES = "freq_cis"


@dataclass(frozen=True, slots=True)
class _Block:
    """A tensor in file order; `group` is 0 for float32."""

    name: str
    shape: tuple[int, ...]
    group: int

    @property
    def nbytes(self) -> int:
        count = prod(self.shape)
        return count + 4 * (count // self.group) if self.group else 4 * count


def _blocks(header: Header) -> Iterator[_Block]:
    return _legacy_blocks(header.config) if header.version == 0 else _versioned_blocks(header)


def _legacy_blocks(config: LlamaConfig) -> Iterator[_Block]:
    yield _Block("embed", (config.vocab, config.dim), 0)
    for name in _LEGACY_LAYERS:
        yield from _per_layer(config, name, 0)
    yield _Block("norm", (config.dim,), 0)
    # Cosines, then sines. They are computed anew in higher precision, so nothing reads them.
    yield _Block(_ROTARY_TABLES, (2, config.max_len, config.head_dim // 2), 0)
    if not config.tied:
        yield _Block("lm_head", (config.vocab, config.dim), 0)


def _versioned_blocks(header: Header) -> Iterator[_Block]:
    config = header.config
    yield from _per_layer(config, "attention_norm", 0)
    yield from _per_layer(config, "ffn_norm", 0)
    yield _Block("norm", (config.dim,), 0)
    yield _Block("embed", (config.vocab, config.dim), header.group)
    for name in _MATRICES:
        yield from _per_layer(config, name, header.group)
    if not config.tied:
        yield _Block("lm_head", (config.vocab, config.dim), header.group)


def _per_layer(config: LlamaConfig, name: str, group: int) -> Iterator[_Block]:
    shape = layer_shapes(config)[name]
    return (_Block(f"layers.{i}.{name}", shape, group) for i in range(config.layers))


def _locate(path: Path, data: Bytes, header: Header) -> Iterator[tuple[_Block, Bytes]]:
    start, last = header.nbytes, ""
    for block in _blocks(header):
        end = start + block.nbytes
        if end > data.size:
            raise CheckpointError(
                f"{path}: tensor {block.name!r} ends at byte {end}, but the file has {data.size} bytes",
                details=("the file is cut short, or its header is of another model; download it again",),
            )
        yield block, data[start:end]
        start, last = end, block.name
    if start < data.size:
        raise CheckpointError(
            f"{path}: {data.size - start} bytes follow the last tensor, {last!r}, which ends at byte {start}",
            details=("the header is of another model, or of another layout",),
        )


def _stored(path: Path, block: _Block, data: Bytes) -> Stored:
    decoder = _group_decoder(data, block) if block.group else float_decoder(data, "f32", block.shape)
    return Stored(path, block.name, block.shape, "f32", decoder)


def _group_decoder(data: Bytes, block: _Block) -> Callable[[DType], Array]:
    count = prod(block.shape)

    def decode(wanted: DType) -> Array:
        scales = data[count:].view("<f4").astype(np.float32)
        values = data[:count].view(np.int8).reshape(-1, block.group) * scales[:, None]
        return values.reshape(block.shape).astype(NUMPY_DTYPES[wanted], copy=False)

    return decode
