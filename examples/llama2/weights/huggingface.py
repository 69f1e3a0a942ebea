"""Hugging Face directories: `config.json`, and `model.safetensors` or shards with an index.

    model.layers.0.self_attn.q_proj.weight   BF16 [2048, 2048]  ->  layers.0.wq

The dtype of the tensors wins over the `torch_dtype` of `config.json`: what is stored is not converted to what is
claimed. Query and key rows stay half-split, as the files have them, and the configuration says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from examples.llama2.config import DType, LlamaConfig, param_shapes
from examples.llama2.weights.checkpoint import Checkpoint, Stored, assemble, float_decoder
from examples.llama2.weights.huggingface_config import config_from_huggingface
from examples.llama2.weights.safetensors_header import TensorEntry, read_safetensors
from vxgraph.errors import CheckpointError

_LONGEST_NAME = 255  # what file systems take; asking for a longer one is an error of its own
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_FLOATS: Mapping[str, DType] = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
_OUTER = {"embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "lm_head": "lm_head.weight"}
_LAYER = {
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
# Older Llama-2 files store the rotary frequencies; they follow from the configuration.
_DERIVED = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")


class _Index(BaseModel):
    weight_map: dict[str, str]


def open_huggingface(path: Path, dtype: DType | None = None) -> Checkpoint:
    """Open a directory. Raises `CheckpointError` naming file and tensor, before any tensor is read.

    With tied embeddings the embedding is the output layer, also where the files hold a `lm_head.weight`.
    """
    config = config_from_huggingface(path / "config.json")
    found = {entry.name: _stored(file, entry) for file, entry in _entries(path) if not _unused(config, entry.name)}
    if config.layers > len(found):
        raise CheckpointError(
            f"{path / 'config.json'}: num_hidden_layers: {config.layers}, but the weights are {len(found)} tensors"
        )
    names = {param: _file_name(param) for param in param_shapes(config)}
    return assemble(path, config, names, found, dtype)


def _file_name(param: str) -> str:
    if param in _OUTER:
        return _OUTER[param]
    _, layer, name = param.split(".")
    return f"model.layers.{layer}.{_LAYER[name]}.weight"


def _unused(config: LlamaConfig, name: str) -> bool:
    return _DERIVED.fullmatch(name) is not None or (config.tied and name == _OUTER["lm_head"])


def _entries(path: Path) -> Iterator[tuple[Path, TensorEntry]]:
    if (path / _SINGLE).exists():
        return ((path / _SINGLE, entry) for entry in read_safetensors(path / _SINGLE).values())
    if (path / _INDEX).exists():
        return _sharded(path, path / _INDEX)
    raise CheckpointError(f"{path}: neither {_SINGLE} nor {_INDEX} is there; weights are read from safetensors only")


def _sharded(path: Path, index: Path) -> Iterator[tuple[Path, TensorEntry]]:
    shards: dict[str, dict[str, TensorEntry]] = {}
    for name, shard in _read_index(index).items():
        if shard not in shards:
            shards[shard] = _read_shard(path, index, shard, name)
        if name not in shards[shard]:
            raise CheckpointError(f"{path / shard}: tensor {name!r} is not in this file, but {index.name} says it is")
        yield path / shard, shards[shard][name]


def _read_index(index: Path) -> dict[str, str]:
    try:
        return _Index.model_validate_json(index.read_bytes()).weight_map
    except OSError as error:
        raise CheckpointError(f"{index}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "not an index"
        raise CheckpointError(f"{index}: {where}: {first['msg']}") from None


def _read_shard(path: Path, index: Path, shard: str, name: str) -> dict[str, TensorEntry]:
    if Path(shard).name != shard or len(shard) > _LONGEST_NAME or not (path / shard).is_file():
        raise CheckpointError(
            f"{path / shard}: the file is missing; {index.name} says that it holds tensor {name!r}",
            details=("download it again",),
        )
    return read_safetensors(path / shard)


def _stored(file: Path, entry: TensorEntry) -> Stored:
    if entry.dtype not in _FLOATS:
        raise CheckpointError(
            f"{file}: tensor {entry.name!r} has dtype {entry.dtype}, which is not supported; {', '.join(_FLOATS)} are"
        )
    dtype = _FLOATS[entry.dtype]
    return Stored(file, entry.name, entry.shape, dtype, float_decoder(entry.data, dtype, entry.shape))
