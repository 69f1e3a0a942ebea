"""Llama as a graph: one `transformer` body, used for prefill at some places and for decode at others.

    prefill   tokens [T] -> hidden [T, Model], and per layer K and V rows [T, KVHead, D]
    hand-over K and V rows become caches [S, KVHead, D] where their layer decodes; the first token goes with them
    decode    in a loop: one token in, one token out, caches appended to in place

`single`, `disaggregated` and `pipeline` differ in places alone. They are what `vxgraph check` and `show` are given:

    vxgraph check examples/llama2/model.py:disaggregated --set model=llama2-7b -m h200-x2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import vxgraph as vx
from examples.llama2.config import SCALE, DType, LlamaConfig, Weights, preset, stored_params, with_types
from vxgraph.topology.model import Machine

DTYPES: dict[Weights, vx.DType] = {"f32": vx.f32, "f16": vx.f16, "bf16": vx.bf16, "int8": vx.i8}
MAX_STOP_IDS = 8


@dataclass(frozen=True)
class Placement:
    """Where each layer runs, in prefill and in decode; the embedding goes with the first, the head with the last."""

    name: str
    prefill: tuple[vx.Topology, ...]
    decode: tuple[vx.Topology, ...]


@dataclass(frozen=True)
class Sizes:
    """The dims of one build of a model."""

    config: LlamaConfig
    max_len: int
    max_prompt: int

    @property
    def dtype(self) -> vx.DType:
        """The compute dtype."""
        return DTYPES[self.config.dtype]

    @property
    def head(self) -> vx.Dim:
        """Query heads."""
        return vx.Dim("Head", self.config.heads)

    @property
    def kv_head(self) -> vx.Dim:
        """Key and value heads."""
        return vx.Dim("KVHead", self.config.kv_heads)

    @property
    def head_dim(self) -> vx.Dim:
        """Elements of a head."""
        return vx.Dim("D", self.config.head_dim)

    @property
    def prompt(self) -> vx.Dim:
        """Tokens of the prompt, known at run time."""
        return vx.Dim("T", min=1, max=self.max_prompt)

    @property
    def cache(self) -> vx.TensorType:
        """One layer's K or V cache."""
        return self.dtype[vx.Dim("S", self.max_len), self.kv_head, self.head_dim]


@dataclass(frozen=True)
class Position:
    """Where tokens stand: `rows` [T] for the rotation, and in decode `at`, the row of the cache that is written."""

    rows: vx.Value
    at: vx.Value | None = None


Cache = tuple[vx.Value, vx.Value]  # K and V of one layer
Choose = Callable[[vx.Value, vx.Value], vx.Value]  # logits [V] in f32, the chosen token's position -> token i32[]


def transformer(
    sizes: Sizes,
    weights: dict[str, vx.Value],
    tokens: vx.Value,
    positions: Mapping[vx.Topology, Position],
    places: Sequence[vx.Topology],
    caches: Sequence[Cache] | None = None,
) -> tuple[vx.Value, list[Cache]]:
    """Hidden states [T, Model] of tokens [T], and per layer K and V.

    Without caches (prefill) K and V are the tokens' own rows [T, KVHead, D]; with them (decode) the rows are appended
    at the position, and the new caches [S, KVHead, D] are given back. Every place has positions of its own, so that
    none crosses.
    """
    with vx.on(places[0]):
        x = embedded(sizes, weights, tokens)
    kv: list[Cache] = []
    for layer, place in enumerate(places):
        with vx.on(place), vx.scope(f"layers.{layer}"):
            own = f"layers.{layer}."
            w = {name.removeprefix(own): value for name, value in weights.items() if name.startswith(own)}
            mixed, cache = attention(sizes, w, x, positions[place], None if caches is None else caches[layer])
            x = x + mixed
            x = x + feed_forward(sizes, w, x)
            kv.append(cache)
    return x, kv


def attention(
    sizes: Sizes, w: dict[str, vx.Value], x: vx.Value, position: Position, cache: Cache | None
) -> tuple[vx.Value, Cache]:
    """Grouped-query attention over the tokens' own rows, or over the cache with them appended."""
    config = sizes.config
    scaling = config.rope_scaling
    turn: dict[str, Any] = {"theta": config.rope_theta, "interleaved": config.rope_interleaved}
    scale = (
        (scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_max_len)
        if scaling
        else None
    )
    h = vx.rmsnorm(x, w["attention_norm"], eps=config.eps)
    length = h.dims[0]
    q = vx.rope(
        linear(h, w, "wq").reshape(length, sizes.head, sizes.head_dim), position.rows, scaling=scale, name="q", **turn
    )
    k = vx.rope(
        linear(h, w, "wk").reshape(length, sizes.kv_head, sizes.head_dim),
        position.rows,
        scaling=scale,
        name="k",
        **turn,
    )
    v = linear(h, w, "wv").reshape(length, sizes.kv_head, sizes.head_dim, name="v")
    at = position.at
    if cache is None or at is None:
        out, kept = vx.attention(q, k, v), (k, v)
    else:
        keys, values = vx.cache_append(cache[0], k, at), vx.cache_append(cache[1], v, at)
        out, kept = vx.attention(q, keys, values, length=at + 1), (keys, values)
    return linear(out.reshape(length, config.heads * config.head_dim), w, "wo"), kept


def feed_forward(sizes: Sizes, w: dict[str, vx.Value], x: vx.Value) -> vx.Value:
    """SwiGLU: down(silu(gate(h)) * up(h))."""
    h = vx.rmsnorm(x, w["ffn_norm"], eps=sizes.config.eps)
    return linear(vx.silu(linear(h, w, "w_gate")) * linear(h, w, "w_up"), w, "w_down")


def logits_of(sizes: Sizes, weights: dict[str, vx.Value], x: vx.Value) -> vx.Value:
    """Logits [V] in f32 of the last of the hidden states [T, Model]."""
    return head(sizes, weights, x[-1:]).reshape(sizes.config.vocab).cast(vx.f32, name="logits")


def head(sizes: Sizes, weights: dict[str, vx.Value], x: vx.Value) -> vx.Value:
    """Logits [T, V] of hidden states [T, Model], in the compute dtype."""
    h = vx.rmsnorm(x, weights["norm"], eps=sizes.config.eps)
    return linear(h, weights, "embed" if sizes.config.tied else "lm_head")


def embedded(sizes: Sizes, weights: dict[str, vx.Value], tokens: vx.Value) -> vx.Value:
    """Rows [T, Model] of the embedding, in the compute dtype."""
    scale = weights.get("embed" + SCALE)
    if scale is None and sizes.config.stored == sizes.config.dtype:
        return vx.embed(weights["embed"], tokens, name="x")
    rows = vx.embed(weights["embed"], tokens).cast(sizes.dtype)
    return rows if scale is None else vx.mul(rows, vx.embed(scale, tokens).reshape(tokens.dims[0], 1), name="x")


def linear(x: vx.Value, weights: dict[str, vx.Value], name: str) -> vx.Value:
    """x [T, in] by the matrix of that name [out, in]: [T, out], whatever it is stored in."""
    scale = weights.get(name + SCALE)
    return x @ weights[name].T if scale is None else vx.quantized_matmul(x, weights[name], scale)


def declared(config: LlamaConfig) -> dict[str, vx.Value]:
    """The params of the graph that is built."""
    return {name: vx.param(name, DTYPES[stored][shape]) for name, (stored, shape) in stored_params(config).items()}


def build(
    config: LlamaConfig,
    placement: Placement,
    *,
    max_len: int | None = None,
    max_prompt: int | None = None,
    choose: Callable[[], Choose] | None = None,
) -> vx.Graph:
    """The graph that generates: prefill, hand-over, decode loop.

    `max_len` (default: the model's context; a plan may go beyond it) bounds prompt and output together, `max_prompt`
    (default: max_len) the prompt. `choose`, called inside the graph, makes the function that picks tokens; by default
    it samples.
    """
    sizes = _sizes(config, max_len, max_prompt)
    for phase in (placement.prefill, placement.decode):
        if len(phase) != config.layers:
            raise vx.VxError(
                f"placement {placement.name} places {len(phase)} layers, {config.name} has {config.layers}"
            )
    with vx.Graph(f"{config.name}-{placement.name}") as graph:
        tokens = vx.input("tokens", vx.i32[sizes.prompt])
        steps = vx.input("steps", vx.i32[()])
        stop_ids = vx.input("stop_ids", vx.i32[vx.Dim("Stops", min=1, max=MAX_STOP_IDS)])
        pick = choose() if choose else sampler()
        weights = declared(config)
        first, rows, limit = _prefill(sizes, weights, placement, tokens, steps, stop_ids, pick)
        with vx.scope("handover"):
            caches = [
                _receive(sizes, pair, place, i)
                for i, (pair, place) in enumerate(zip(rows, placement.decode, strict=True))
            ]
        _decode(sizes, weights, placement, first, caches, limit, stop_ids, pick)
    return graph


def build_logits(config: LlamaConfig, placement: Placement, max_len: int) -> vx.Graph:
    """The graph that scores: tokens [T] to `logits` f32 [T, V], each row after the tokens up to its own."""
    sizes = _sizes(config, max_len, None)
    with vx.Graph(f"{config.name}-logits") as graph:
        tokens = vx.input("tokens", vx.i32[sizes.prompt])
        weights = declared(config)
        with vx.on(placement.prefill[0]):
            positions = dict.fromkeys(placement.prefill, Position(vx.iota(sizes.prompt, name="positions")))
        x, _ = transformer(sizes, weights, tokens, positions, placement.prefill)
        with vx.on(placement.prefill[-1]):
            vx.output("logits", head(sizes, weights, x).cast(vx.f32, name="logits"))
    return graph


def _sizes(config: LlamaConfig, max_len: int | None, max_prompt: int | None) -> Sizes:
    length = config.max_len if max_len is None else max_len
    if length < 1:
        raise vx.VxError(f"max_len is {length}, wanted 1 or more")
    prompt = length if max_prompt is None else max_prompt
    if not 1 <= prompt <= length:
        raise vx.VxError(f"max_prompt is {prompt}, wanted 1 to max_len, which is {length}")
    return Sizes(config, length, prompt)


def sampler() -> Choose:
    """Picks tokens by the run's temperature, top_p and seed; greedily at temperature 0."""
    temperature, top_p = vx.input("temperature", vx.f32[()]), vx.input("top_p", vx.f32[()])
    seed = vx.input("seed", vx.i64[()])

    def pick(logits: vx.Value, position: vx.Value) -> vx.Value:
        return vx.sample(logits, temperature=temperature, top_p=top_p, seed=seed, position=position)

    return pick


def _prefill(
    sizes: Sizes,
    weights: dict[str, vx.Value],
    placement: Placement,
    tokens: vx.Value,
    steps: vx.Value,
    stop_ids: vx.Value,
    pick: Choose,
) -> tuple[vx.Value, list[Cache], vx.Value]:
    """The first token, K and V rows per layer, and how many decode steps may follow."""
    with vx.scope("prefill"):
        with vx.on(placement.prefill[0]):
            positions = dict.fromkeys(placement.prefill, Position(vx.iota(sizes.prompt, name="positions")))
        x, rows = transformer(sizes, weights, tokens, positions, placement.prefill)
        with vx.on(placement.prefill[-1]):
            length = vx.size(sizes.prompt, name="length")
            first = pick(logits_of(sizes, weights, x), length)
            ended = _is_stop(first, stop_ids)
            room = vx.minimum(steps, sizes.max_len - length)  # a step writes one row of each cache
            limit = vx.where(ended, 0, room, name="limit")
    vx.emit("token", first)
    return first, rows, limit


def _receive(sizes: Sizes, rows: Cache, place: vx.Topology, layer: int) -> Cache:
    with vx.on(place):
        k, v = (vx.cache_init(sizes.cache, r, name=f"layers.{layer}.{n}") for n, r in zip("kv", rows, strict=True))
    return k, v


def _decode(
    sizes: Sizes,
    weights: dict[str, vx.Value],
    placement: Placement,
    first: vx.Value,
    caches: Sequence[Cache],
    limit: vx.Value,
    stop_ids: vx.Value,
    pick: Choose,
) -> None:
    places = list(dict.fromkeys(placement.decode))
    starts: list[vx.Value] = []
    for k, place in enumerate(places):
        with vx.on(place):
            starts.append(vx.size(sizes.prompt, name=f"start.{k}"))

    def step(token: vx.Value, *carried: vx.Value) -> list[vx.Value]:
        at, flat = dict(zip(places, carried, strict=False)), carried[len(places) :]
        positions: dict[vx.Topology, Position] = {}
        following: list[vx.Value] = []
        for place, position in at.items():
            with vx.on(place):
                positions[place] = Position(position.reshape(1), position)
                following.append(position + 1)
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        x, kept = transformer(sizes, weights, token.reshape(1), positions, placement.decode, pairs)
        with vx.on(placement.decode[-1]):
            chosen = pick(logits_of(sizes, weights, x), following[places.index(placement.decode[-1])])
            vx.stop(_is_stop(chosen, stop_ids))
        vx.emit("token", chosen)
        return [chosen, *following, *(value for pair in kept for value in pair)]

    flat = [value for pair in caches for value in pair]
    with vx.scope("decode"):
        _, done = vx.loop(step, [first, *starts, *flat], max_steps=sizes.max_len, steps=limit)
    vx.output("steps", done)


def _is_stop(token: vx.Value, stop_ids: vx.Value) -> vx.Value:
    return vx.max(vx.compare(stop_ids, token, "eq"), axis=0)


# Placements.


def _devices(machine: Machine, count: int, what: str) -> tuple[vx.Topology, ...]:
    devices = machine.accelerators or machine.devices
    if len(devices) < count:
        names = ", ".join(str(d.topology) for d in devices)
        raise vx.VxError(
            f"{what} needs {count} devices, machine {machine.name} has {names}; take one with {count}, or 'single'"
        )
    return tuple(d.topology for d in devices[:count])


def place_single(machine: Machine, layers: int) -> Placement:
    """Everything on the machine's first device."""
    (device,) = _devices(machine, 1, "single")
    return Placement("single", (device,) * layers, (device,) * layers)


def place_disaggregated(machine: Machine, layers: int) -> Placement:
    """Prefill on the first device, decode on the second."""
    first, second = _devices(machine, 2, "disaggregated")
    return Placement("disaggregated", (first,) * layers, (second,) * layers)


def place_pipeline(machine: Machine, layers: int) -> Placement:
    """The first half of the layers on the first device, the rest on the second, in prefill and in decode."""
    first, second = _devices(machine, 2, "pipeline")
    split = tuple(first if layer < (layers + 1) // 2 else second for layer in range(layers))
    return Placement("pipeline", split, split)


PLACEMENTS: dict[str, Callable[[Machine, int], Placement]] = {
    "single": place_single,
    "disaggregated": place_disaggregated,
    "pipeline": place_pipeline,
}


def single(
    machine: Machine,
    model: str = "smollm2-135m",
    max_len: int | None = None,
    max_prompt: int | None = None,
    dtype: DType | None = None,
    weights: Weights | None = None,
) -> vx.Graph:
    """A preset model on one device."""
    return _preset_graph("single", machine, model, max_len, max_prompt, dtype, weights)


def disaggregated(
    machine: Machine,
    model: str = "smollm2-135m",
    max_len: int | None = None,
    max_prompt: int | None = None,
    dtype: DType | None = None,
    weights: Weights | None = None,
) -> vx.Graph:
    """A preset model with prefill on one device and decode on another."""
    return _preset_graph("disaggregated", machine, model, max_len, max_prompt, dtype, weights)


def pipeline(
    machine: Machine,
    model: str = "smollm2-135m",
    max_len: int | None = None,
    max_prompt: int | None = None,
    dtype: DType | None = None,
    weights: Weights | None = None,
) -> vx.Graph:
    """A preset model with its layers split over two devices."""
    return _preset_graph("pipeline", machine, model, max_len, max_prompt, dtype, weights)


def _preset_graph(
    placement: str,
    machine: Machine,
    model: str,
    max_len: int | None,
    max_prompt: int | None,
    dtype: DType | None,
    weights: Weights | None,
) -> vx.Graph:
    for what, given, known in (("dtype", dtype, ("f32", "f16", "bf16")), ("weights", weights, DTYPES)):
        if given is not None and given not in known:
            raise vx.VxError(f"{what} {given!r} is none of {', '.join(known)}")
    config = with_types(preset(model), dtype, weights)
    return build(config, PLACEMENTS[placement](machine, config.layers), max_len=max_len, max_prompt=max_prompt)
