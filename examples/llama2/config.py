"""What a Llama is: its sizes, its rotary embedding and its stop tokens.

    LlamaConfig(name='smollm2-135m', dim=576, hidden=1536, layers=30, heads=9, kv_heads=3, head_dim=64, ...)

A configuration comes from a preset (no weights needed), from a Hugging Face `config.json`, or from the header of a
weights file (`examples.llama2.weights`). `param_shapes` says which tensors a model of that configuration has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from vxgraph.errors import VxError

DType = Literal["f32", "f16", "bf16"]
Weights = Literal["f32", "f16", "bf16", "int8"]
SCALE = ".scale"  # of an int8 matrix: f32, one for each of its rows
MAX_SIZE = 2**31 - 1  # positions and token ids are i32


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama 3's frequency scaling: long wavelengths are stretched by `factor`, short ones kept, between them blended.

    A wavelength is long above `original_max_len / low_freq_factor` positions and short below
    `original_max_len / high_freq_factor`.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_len: int  # positions


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The hyperparameters of one model.

    `rope_interleaved` says how the rows of `wq` and `wk` are stored: True when the pairs that rotate together are rows
    (2i, 2i + 1) of a head (Meta, llama2.c, GGUF), False when they are rows (i, i + head_dim / 2) (Hugging Face).
    `tied` models have no `lm_head`: the embedding is the output layer too. `bos_id` only says which id begins a text;
    whether a prompt starts with it is the tokenizer's business. `dtype` is computed in: activations, K and V, and the
    vectors among the parameters. The matrices are stored in `weights` (None: in `dtype` too), and other weights than
    `dtype` are computed with in f32.

    Raises `VxError` where the numbers contradict each other.
    """

    name: str
    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_len: int  # positions
    rope_theta: float
    rope_scaling: RopeScaling | None
    rope_interleaved: bool
    eps: float
    tied: bool
    dtype: DType
    bos_id: int | None
    stop_ids: tuple[int, ...]
    weights: Weights | None = None

    @property
    def stored(self) -> Weights:
        """What the matrices are stored in."""
        return self.weights or self.dtype

    def __post_init__(self) -> None:
        sizes = ("dim", "hidden", "layers", "heads", "kv_heads", "head_dim", "vocab", "max_len")
        for field in sizes:
            if getattr(self, field) < 1:
                raise VxError(f"model {self.name!r}: {field} is {getattr(self, field)}; it must be at least 1")
            if getattr(self, field) > MAX_SIZE:
                raise VxError(f"model {self.name!r}: {field} is {getattr(self, field)}; it must be at most {MAX_SIZE}")
        for field in ("rope_theta", "eps"):
            if not (getattr(self, field) > 0 and isfinite(getattr(self, field))):
                raise VxError(f"model {self.name!r}: {field} is {getattr(self, field)}; it must be a number above 0")
        if self.heads % self.kv_heads:
            raise VxError(
                f"model {self.name!r}: {self.heads} heads cannot share {self.kv_heads} key/value heads evenly; "
                "heads must be a multiple of kv_heads"
            )
        if self.dtype not in ("f32", self.stored):
            raise VxError(
                f"model {self.name!r}: weights of {self.stored} are computed with in f32, not in {self.dtype}; leave "
                "the dtype out"
            )
        if self.head_dim % 2:
            raise VxError(
                f"model {self.name!r}: head_dim is {self.head_dim}; rotary embedding turns pairs, so it must be even"
            )


def param_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every parameter, in the order in which the model uses them; matrices are [out, in]."""
    shapes: dict[str, tuple[int, ...]] = {"embed": (config.vocab, config.dim)}
    for i in range(config.layers):
        shapes |= {f"layers.{i}.{name}": shape for name, shape in layer_shapes(config).items()}
    shapes["norm"] = (config.dim,)
    if not config.tied:
        shapes["lm_head"] = (config.vocab, config.dim)
    return shapes


def stored_params(config: LlamaConfig) -> dict[str, tuple[DType | Weights, tuple[int, ...]]]:
    """Name -> storage and shape of every parameter as the graph has it, the scales of int8 matrices among them."""
    stored: dict[str, tuple[DType | Weights, tuple[int, ...]]] = {}
    for name, shape in param_shapes(config).items():
        stored[name] = (config.dtype if len(shape) == 1 else config.stored, shape)
        if stored[name][0] == "int8":
            stored[name + SCALE] = ("f32", shape[:1])
    return stored


def with_types(config: LlamaConfig, dtype: DType | None, weights: Weights | None) -> LlamaConfig:
    """The model with what is not None in place of its own; with weights and no dtype it computes in f32."""
    if weights is not None:
        dtype = dtype or "f32"
    return replace(config, dtype=dtype or config.dtype, weights=weights or config.weights)


def layer_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the parameters of one layer, names without their `layers.{i}.`."""
    dim, hidden = config.dim, config.hidden
    q_rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim
    return {
        "attention_norm": (dim,),
        "wq": (q_rows, dim),
        "wk": (kv_rows, dim),
        "wv": (kv_rows, dim),
        "wo": (dim, q_rows),
        "ffn_norm": (dim,),
        "w_gate": (hidden, dim),
        "w_up": (hidden, dim),
        "w_down": (dim, hidden),
    }


def preset(name: str) -> LlamaConfig:
    """The configuration of a published model; `VxError` lists the names when there is none."""
    if name not in PRESETS:
        raise VxError(f"no preset is called {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]


def _llama2(name: str, *, dim: int, hidden: int, layers: int, heads: int, kv_heads: int) -> LlamaConfig:
    return LlamaConfig(
        name=name,
        dim=dim,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        vocab=32000,
        # The first upload of these models said 2048; they were trained with 4096, and the later config.json says so.
        max_len=4096,
        rope_theta=10000.0,
        rope_scaling=None,
        rope_interleaved=False,
        eps=1e-5,
        tied=False,
        dtype="f16",
        bos_id=1,
        stop_ids=(2,),
    )


_SMOLLM2_135M = LlamaConfig(
    name="smollm2-135m",
    dim=576,
    hidden=1536,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    vocab=49152,
    max_len=8192,
    rope_theta=100000.0,
    rope_scaling=None,
    # The published file that is fetched is GGUF with Q4_1 matrices: interleaved rows, computed in f32.
    rope_interleaved=True,
    eps=1e-5,
    tied=True,
    dtype="f32",
    bos_id=1,
    stop_ids=(2,),
)

_STORIES15M = LlamaConfig(
    name="stories15m",
    dim=288,
    hidden=768,
    layers=6,
    heads=6,
    kv_heads=6,
    head_dim=48,
    vocab=32000,
    max_len=256,
    rope_theta=10000.0,
    rope_scaling=None,
    rope_interleaved=True,
    eps=1e-5,
    tied=True,
    dtype="f32",
    bos_id=1,
    # llama2.c's models separate texts with the begin token, so it ends one as well as the end token does.
    stop_ids=(1, 2),
)

_TINYLLAMA_1_1B = LlamaConfig(
    name="tinyllama-1.1b",
    dim=2048,
    hidden=5632,
    layers=22,
    heads=32,
    kv_heads=4,
    head_dim=64,
    vocab=32000,
    max_len=2048,
    rope_theta=10000.0,
    rope_scaling=None,
    rope_interleaved=False,
    eps=1e-5,
    tied=False,
    dtype="bf16",
    bos_id=1,
    stop_ids=(2,),
)

_LLAMA3_1_8B = LlamaConfig(
    name="llama3.1-8b",
    dim=4096,
    hidden=14336,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    vocab=128256,
    max_len=131072,
    rope_theta=500000.0,
    rope_scaling=RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_len=8192),
    rope_interleaved=False,
    eps=1e-5,
    tied=False,
    dtype="bf16",
    bos_id=128000,
    stop_ids=(128001, 128008, 128009),
)

PRESETS: dict[str, LlamaConfig] = {
    config.name: config
    for config in (
        _SMOLLM2_135M,
        _STORIES15M,
        _TINYLLAMA_1_1B,
        _llama2("llama2-7b", dim=4096, hidden=11008, layers=32, heads=32, kv_heads=32),
        _llama2("llama2-13b", dim=5120, hidden=13824, layers=40, heads=40, kv_heads=40),
        _llama2("llama2-70b", dim=8192, hidden=28672, layers=80, heads=64, kv_heads=8),
        _LLAMA3_1_8B,
    )
}
