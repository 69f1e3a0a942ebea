"""Decode tokens per second: a Session on NumPy against the loop that one would write by hand, in turns.

    python -m benchmarks.decode_numpy [--model FILE|random:PRESET] [--tokens 64] [--turns 5]

Both generate greedily from the same prompt with the same f32 weights; the first token is the prompt's and not timed.
The hand-written loop runs with separate and with fused projections, and the quicker is what the session is held
against. Before anything is timed, both must give the same tokens, and logits that agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import vxgraph as vx
from benchmarks.measure import Stopwatch, Timing, bound, in_turns, show
from benchmarks.models import Model, open_model
from benchmarks.numpy_llama import NumpyLlama
from examples.llama2.model import build, place_single

PROMPT = np.array([1, 504, 3575, 282, 4649, 314], np.int32)
MAX_LEN = 512
CHECKED = 8  # steps whose logits are compared


def main() -> None:
    """Checks, measures, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="a model file, or random:PRESET (default: SmolLM2-135M, random if not here)")
    parser.add_argument("--tokens", type=int, default=64, help="decoded per turn")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    model = open_model(options.model)
    peers = {
        "hand-written, separate products": NumpyLlama(model.config, model.params, max_len=MAX_LEN, fused=False),
        "hand-written, fused products": NumpyLlama(model.config, model.params, max_len=MAX_LEN, fused=True),
    }
    logits_apart = _logits_apart(model, peers)
    with _session(model) as session:
        _check_tokens(session, peers, options.tokens)
        sides: dict[str, Callable[[], Timing]] = {"session": lambda: _time_session(session, options.tokens)}
        for name, peer in peers.items():
            sides[name] = lambda peer=peer: _time_peer(peer, options.tokens)
        found = in_turns(options.turns, sides)
    best = min(peers, key=lambda name: found[name].wall.median)
    ratio = found[best].wall.over(found["session"].wall)
    cpu_ratio = found[best].cpu.over(found["session"].cpu)
    show(
        f"decode of {model.name}, f32, {options.tokens} tokens a turn, median (min..max) of {options.turns}",
        ["side", "tokens/s", "ms/token", "CPU ms/token"],
        [
            (
                name,
                str(t.wall.each(lambda s: 1 / s)),
                str(t.wall.each(lambda s: 1e3 * s)),
                str(t.cpu.each(lambda s: 1e3 * s)),
            )
            for name, t in found.items()
        ],
        notes=(
            f"same tokens; logits at most {logits_apart:.1e} apart over {CHECKED} steps",
            f"tokens/s of the session over those of {best}: {ratio}; by CPU time {cpu_ratio}",
            f"ratio {bound(ratio.median, '>= 0.8', ratio.median >= 0.8)}",
        ),
    )


def _session(model: Model, choose: Callable[[], Callable[[vx.Value, vx.Value], vx.Value]] | None = None) -> vx.Session:
    machine = vx.load_machine("cpu")
    graph = build(model.config, place_single(machine, model.config.layers), max_len=MAX_LEN, choose=choose)
    return vx.Session(vx.compile(graph, machine), model.params, bind="numpy")


def _inputs(tokens: int) -> dict[str, np.ndarray]:
    return {"tokens": PROMPT, "steps": np.array(tokens, np.int32), "stop_ids": np.array([-1], np.int32)}


GREEDY = {"temperature": np.float32(0), "top_p": np.float32(1), "seed": np.int64(0)}


def _time_session(session: vx.Session, tokens: int) -> Timing:
    stream = session.stream({**_inputs(tokens), **GREEDY})
    next(stream)
    watch = Stopwatch()
    done = sum(1 for _ in stream)
    return watch.per(done)


def _time_peer(peer: NumpyLlama, tokens: int) -> Timing:
    token = _prefill(peer)
    watch = Stopwatch()
    for position in range(len(PROMPT), len(PROMPT) + tokens):
        token = int(peer.step(token, position).argmax())
    return watch.per(tokens)


def _prefill(peer: NumpyLlama) -> int:
    logits = peer.logits
    for position, token in enumerate(PROMPT.tolist()):
        logits = peer.step(token, position)
    return int(logits.argmax())


def _check_tokens(session: vx.Session, peers: dict[str, NumpyLlama], tokens: int) -> None:
    """Exits where the sides do not generate the same."""
    ours = session.run({**_inputs(tokens), **GREEDY})["token"].tolist()
    session.report.conforms()
    for name, peer in peers.items():
        theirs = [_prefill(peer)]
        for position in range(len(PROMPT), len(PROMPT) + tokens):
            theirs.append(int(peer.step(theirs[-1], position).argmax()))
        if ours != theirs:
            first = next(k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            raise SystemExit(f"session and {name} differ at token {first}: {ours[first]} and {theirs[first]}")


def _logits_apart(model: Model, peers: dict[str, NumpyLlama]) -> float:
    """The largest difference of a logit over the first steps, all sides fed the session's tokens."""
    with _session(model, _greedy_with_logits) as session:
        out = session.run(_inputs(CHECKED))
    apart = 0.0
    for peer in peers.values():
        _prefill(peer)
        theirs = [peer.logits.copy()]
        theirs += [peer.step(int(t), len(PROMPT) + k).copy() for k, t in enumerate(out["token"][:-1])]
        apart = max(apart, float(np.abs(out["logits"] - np.stack(theirs)).max()))
    if apart > 1e-3:
        raise SystemExit(f"logits of the session and of a hand-written loop are {apart} apart")
    return apart


def _greedy_with_logits() -> Callable[[vx.Value, vx.Value], vx.Value]:
    def pick(logits: vx.Value, position: vx.Value) -> vx.Value:
        vx.emit("logits", logits)
        return vx.argmax(logits, axis=0)

    return pick


if __name__ == "__main__":
    main()
