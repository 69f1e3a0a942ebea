"""What weights in fewer bytes do to a model: its logits at every token of a text, held against those of f32.

wanted = logits_of_text(open_checkpoint(path, weights="f32"), tokens)        f32 [T, V]
found = logits_of_text(open_checkpoint(path, weights="int8"), tokens)
difference(wanted, found, tokens)
    Difference(largest=1.3, rms=0.21, size=6.4, same_top=37, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import vxgraph as vx
from examples.llama2.model import build_logits, place_single
from examples.llama2.weights import Checkpoint

Logits = npt.NDArray[np.float32]


def logits_of_text(checkpoint: Checkpoint, tokens: Sequence[int]) -> Logits:
    """Logits [T, V] after each token of a text, every one given the tokens before it; on this machine's processor.

    Raises `VxError` where the text is empty, or longer than the model's context.
    """
    config = checkpoint.config
    if not 1 <= len(tokens) <= config.max_len:
        raise vx.VxError(f"the text has {len(tokens)} tokens, wanted 1 to {config.max_len}, the model's context")
    machine = vx.load_machine("cpu")
    graph = build_logits(config, place_single(machine, config.layers), len(tokens))
    with vx.Session(vx.compile(graph, machine), checkpoint.params, "numpy") as session:
        return session.run({"tokens": np.array(tokens, np.int32)})["logits"]


@dataclass(frozen=True, slots=True)
class Difference:
    """How two sets of logits [T, V] differ, in the terms of llama.cpp's `perplexity --kl-divergence`."""

    tokens: int
    largest: float  # error of a logit
    rms: float  # error of the logits
    size: float  # RMS of the wanted logits about each row's mean, which is what an error is small against
    same_top: int  # rows whose likeliest token is the same
    divergence: float  # mean of KL(wanted || found), nats
    perplexity: float  # of the text's own next tokens; NaN for a text of one
    wanted_perplexity: float


def difference(wanted: Logits, found: Logits, tokens: Sequence[int]) -> Difference:
    """`found` held against `wanted`; row t of both is what follows tokens[:t + 1]."""
    error = found - wanted
    p, q = _log_probabilities(wanted), _log_probabilities(found)
    return Difference(
        tokens=len(tokens),
        largest=float(np.abs(error).max()),
        rms=_rms(error),
        size=_rms(wanted - wanted.mean(axis=1, keepdims=True)),
        same_top=int((wanted.argmax(axis=1) == found.argmax(axis=1)).sum()),
        divergence=float((np.exp(p) * (p - q)).sum(axis=1).mean()),
        perplexity=_perplexity(q, tokens),
        wanted_perplexity=_perplexity(p, tokens),
    )


def _rms(x: Logits) -> float:
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def _log_probabilities(logits: Logits) -> npt.NDArray[Any]:
    x = logits.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _perplexity(log_probabilities: npt.NDArray[Any], tokens: Sequence[int]) -> float:
    following = np.array(tokens[1:])
    if not following.size:
        return float("nan")
    return float(np.exp(-log_probabilities[np.arange(len(following)), following].mean()))
