"""Hugging Face's `config.json` -> `LlamaConfig`.

    {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0, ...}

pydantic checks the file here, at the door. What the model would need and this reader does not have (biases, another
rotary scaling, a sliding window) is an error: ignored, it would give fluent, wrong text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, Field, PositiveInt, ValidationError

from examples.llama2.config import DType, LlamaConfig, RopeScaling
from examples.llama2.weights.checkpoint import blame
from vxgraph.errors import VxError

M = TypeVar("M", bound=BaseModel)

MODEL_TYPES = ("llama", "mistral")
_DTYPES: dict[str, DType] = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Rope(BaseModel):
    """`rope_scaling`, or `rope_parameters` as transformers 5 writes it."""

    kind: str = Field(validation_alias=AliasChoices("rope_type", "type"))
    rope_theta: Positive | None = None


class _Llama3Rope(BaseModel):
    factor: Positive
    low_freq_factor: Positive
    high_freq_factor: Positive
    original_max_position_embeddings: PositiveInt


class _HfConfig(BaseModel):
    model_type: str
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt | None = None
    head_dim: PositiveInt | None = None
    vocab_size: PositiveInt
    max_position_embeddings: PositiveInt
    rms_norm_eps: Positive
    rope_theta: Positive = 10000.0
    rope: dict[str, Any] | None = Field(None, validation_alias=AliasChoices("rope_scaling", "rope_parameters"))
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    hidden_act: str = "silu"
    sliding_window: int | None = None
    torch_dtype: str = Field("float32", validation_alias=AliasChoices("dtype", "torch_dtype"))
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None


def config_from_huggingface(path: Path) -> LlamaConfig:
    """The configuration in a `config.json`; its `dtype` is what the file says, f32 where it says nothing.

    Absent keys mean what transformers takes them to mean: `rope_theta` 10000, `num_key_value_heads` as many as heads,
    `head_dim` the hidden size over heads. Raises `CheckpointError` naming file and key.
    """
    with blame(path):
        parsed = _parse(_HfConfig, _read(path))
        _check_supported(parsed)
        return _convert(path, parsed)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise VxError(getattr(error, "strerror", None) or "not a text file in UTF-8") from None


def _check_supported(parsed: _HfConfig) -> None:
    if parsed.model_type not in MODEL_TYPES:
        raise VxError(f"model_type: {parsed.model_type!r} is not supported; {' and '.join(map(repr, MODEL_TYPES))} are")
    for key in ("attention_bias", "mlp_bias"):
        if getattr(parsed, key):
            raise VxError(f"{key}: true is not supported; no projection may have a bias")
    if parsed.hidden_act != "silu":
        raise VxError(f"hidden_act: {parsed.hidden_act!r} is not supported; 'silu' is")
    if parsed.sliding_window is not None:
        raise VxError(f"sliding_window: {parsed.sliding_window} is not supported; every position sees all before it")
    if parsed.torch_dtype not in _DTYPES:
        raise VxError(f"torch_dtype: {parsed.torch_dtype!r} is not supported; {', '.join(_DTYPES)} are")


def _convert(path: Path, parsed: _HfConfig) -> LlamaConfig:
    heads = parsed.num_attention_heads
    if parsed.head_dim is None and parsed.hidden_size % heads:
        raise VxError(f"hidden_size: {parsed.hidden_size} cannot be split into num_attention_heads = {heads}")
    rope = None if parsed.rope is None else _parse(_Rope, parsed.rope, prefix="rope_scaling.")
    return LlamaConfig(
        name=path.parent.name if path.name == "config.json" else path.stem,
        dim=parsed.hidden_size,
        hidden=parsed.intermediate_size,
        layers=parsed.num_hidden_layers,
        heads=heads,
        kv_heads=parsed.num_key_value_heads or heads,
        head_dim=parsed.head_dim or parsed.hidden_size // heads,
        vocab=parsed.vocab_size,
        max_len=parsed.max_position_embeddings,
        rope_theta=rope.rope_theta if rope and rope.rope_theta else parsed.rope_theta,
        rope_scaling=_rope_scaling(rope.kind, parsed.rope) if rope and parsed.rope else None,
        rope_interleaved=False,
        eps=parsed.rms_norm_eps,
        tied=parsed.tie_word_embeddings,
        dtype=_DTYPES[parsed.torch_dtype],
        bos_id=parsed.bos_token_id,
        stop_ids=_stop_ids(parsed.eos_token_id),
    )


def _rope_scaling(kind: str, raw: dict[str, Any]) -> RopeScaling | None:
    if kind == "default":
        return None
    if kind != "llama3":
        raise VxError(f"rope_scaling.rope_type: {kind!r} is not supported; 'llama3' and 'default' are")
    rope = _parse(_Llama3Rope, raw, prefix="rope_scaling.")
    return RopeScaling(
        factor=rope.factor,
        low_freq_factor=rope.low_freq_factor,
        high_freq_factor=rope.high_freq_factor,
        original_max_len=rope.original_max_position_embeddings,
    )


def _stop_ids(eos: int | list[int] | None) -> tuple[int, ...]:
    if eos is None:
        return ()
    return (eos,) if isinstance(eos, int) else tuple(eos)


def _parse(model: type[M], raw: str | dict[str, Any], prefix: str = "") -> M:
    try:
        return model.model_validate_json(raw) if isinstance(raw, str) else model.model_validate(raw)
    except ValidationError as error:
        first, *rest = [f"{prefix}{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise VxError(first.removeprefix(": "), details=tuple(rest)) from None
