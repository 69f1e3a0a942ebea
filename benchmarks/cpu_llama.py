"""Llama on the CPU against the engines that people use there, and against what the machine can do, in one run.

    pip install -e '.[llama]' onnxruntime onnx torch==2.13.0 llama-cpp-python
    python -m benchmarks.cpu_llama                                        15m, 110m and 1.1b, all engines
    python -m benchmarks.cpu_llama --size 15m --engine "vxgraph f32" --engine "numpy loop f32" --turns 3

Random weights of one seed, batch 1, greedy. Each engine has a process of its own and all CPUs; they are measured in
turns (A B C A B C), so ratios are of one run: the same engine moves by 10 to 20% from one minute to the next. A peer
that is not installed is left out, and said. Before anything is timed, logits must agree.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.cpu.ceilings import Ceilings
from benchmarks.cpu.engine import Trial
from benchmarks.cpu.engines import ENGINES, REFERENCE, Setting
from benchmarks.cpu.host import CEILINGS, EngineFailedError, Host, Measured
from benchmarks.cpu.memory import keep_what_fits
from benchmarks.cpu.sizes import BYTES_PER_WEIGHT, PROMPT, SHORT_PROMPT, SIZES, prefill_flops, weights_read
from benchmarks.cpu.wanted import Rates, verdicts
from benchmarks.measure import BLAS_SETTINGS, Spread, show

TOKENS = {"15m": 64, "110m": 32, "1.1b": 12}


@dataclass(slots=True)
class Found:
    """What one size has shown."""

    measured: dict[str, list[Measured]] = field(default_factory=dict)
    ceilings: list[Ceilings] = field(default_factory=list)
    apart: dict[str, float] = field(default_factory=dict)  # logits, by engine
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def rates(self) -> Rates:
        """Tokens per second by engine."""
        return {
            name: {
                "decode": Spread(tuple(turn.figures.decode for turn in turns)),
                "prefill": Spread(tuple(turn.figures.prefill for turn in turns)),
            }
            for name, turns in self.measured.items()
        }


def main() -> None:
    """Measures and prints, size by size; then what does not hold."""
    options = _options()
    for name in BLAS_SETTINGS:
        os.environ[name] = str(options.threads)
    lines: list[str] = []
    with ExitStack() as stack:
        folder = options.models or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for size in options.size or TOKENS:
            setting = Setting(folder, size, options.threads, options.tokens or TOKENS.get(size, 8))
            found = _measure(setting, options.engine or list(ENGINES), options.turns)
            said = list(verdicts(size, found.rates))
            _show(setting, found, options.turns, said)
            lines += said
    others = [line for line in lines if not line.endswith(": yes")]
    print(f"\n{len(lines) - len(others)} of {len(lines)} wanted ratios hold", *others, sep="\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", choices=list(SIZES), help="may be given again (default: all)")
    parser.add_argument("--engine", action="append", choices=list(ENGINES), help="may be given again (default: all)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, help="decoded in a turn (default: 64, 32 and 12 by size)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each engine (default: all CPUs)")
    parser.add_argument("--models", type=Path, help="a folder that keeps the model files, 8 to 13 GB of them for 1.1b")
    return parser.parse_args()


def _measure(setting: Setting, names: Sequence[str], turns: int) -> Found:
    found = Found(skipped={name: why for name in names if (why := ENGINES[name].missing)})
    hosts = {name: Host(name, setting) for name in (CEILINGS, *names)}
    keep_what_fits(hosts.values())
    try:
        _compare_logits(hosts, found)
        for _ in range(turns):
            for name, host in hosts.items():
                _take_turn(name, host, found)
    finally:
        for host in hosts.values():
            host.close()
    return found


def _take_turn(name: str, host: Host, found: Found) -> None:
    if name in found.skipped:
        return
    try:
        answer = host.ask("measure")
        print(f"{host.setting.size} {name}: measured", file=sys.stderr)
    except EngineFailedError as error:
        found.skipped[name] = str(error)
        found.measured.pop(name, None)
        return
    if name == CEILINGS:
        found.ceilings.append(answer)
    else:
        found.measured.setdefault(name, []).append(answer)


def _compare_logits(hosts: dict[str, Host], found: Found) -> None:
    """Exits where an engine computes something else than the reference, or the first f32 engine where that is not."""
    trials: dict[str, Trial] = {}
    for name, host in hosts.items():
        if name == CEILINGS or name in found.skipped:
            continue
        try:
            trials[name] = host.ask("trial")
        except EngineFailedError as error:
            found.skipped[name] = str(error)
    reference = next((name for name in (REFERENCE, *trials) if name in trials and name.endswith("f32")), None)
    for name, trial in trials.items() if reference else ():
        found.apart[name] = _apart(trial, trials[reference])
        if found.apart[name] > ENGINES[name].may_differ:
            raise SystemExit(f"logits of {name} and {reference} are {found.apart[name]:.2g} apart")


def _apart(trial: Trial, reference: Trial) -> float:
    """The largest difference of a logit, as long as both were fed the same tokens."""
    (tokens, logits), (wanted_tokens, wanted) = trial, reference
    fed = 1
    while fed < len(tokens) and tokens[fed - 1] == wanted_tokens[fed - 1]:
        fed += 1
    return float(np.abs(logits[:fed] - wanted[:fed]).max())


def _show(setting: Setting, found: Found, turns: int, said: Sequence[str]) -> None:
    show(
        f"{setting.size}: prefill of {PROMPT} and decode of {setting.tokens} after {SHORT_PROMPT}, tokens/s, "
        f"{setting.threads} threads, median (min..max) of {turns}",
        ["engine", "decode", "of reading", "ours over it", "prefill", "of sgemm", "ours over it", "MiB", "logits off"],
        _rows(setting, found),
        notes=(*_ceiling_lines(setting, found), *(f"skipped {n}: {why}" for n, why in found.skipped.items()), *said),
    )


def _rows(setting: Setting, found: Found) -> Iterator[tuple[str, ...]]:
    rates = found.rates
    for name, turns in found.measured.items():
        storage = ENGINES[name].storage
        ours = rates.get(f"vxgraph {'int8' if storage == 'q8_0' else storage}", {})
        cells = [name]
        for what, rate in rates[name].items():
            most = _most(setting, found, what, storage)
            cells += [_text(rate), f"{rate.over(most).median:.2f}" if most else ""]
            cells.append(f"{ours[what].over(rate).median:.2f}" if what in ours and ours[what] is not rate else "")
        yield (*cells, f"{turns[-1].resident >> 20:,}", f"{found.apart[name]:.1e}" if name in found.apart else "")


def _text(rate: Spread) -> str:
    """Whole tokens where there are hundreds."""
    if rate.median < 100:
        return str(rate)
    return f"{rate.median:,.0f} ({min(rate.values):,.0f}..{max(rate.values):,.0f})"


def _most(setting: Setting, found: Found, what: str, storage: str) -> Spread | None:
    """Tokens per second that the machine allows, turn by turn."""
    if not found.ceilings:
        return None
    if what == "prefill":
        return Spread(tuple(turn.sgemm / prefill_flops(setting.config, PROMPT) for turn in found.ceilings))
    nbytes = weights_read(setting.config) * BYTES_PER_WEIGHT[storage]
    return Spread(tuple(turn.read[storage] / nbytes for turn in found.ceilings))


def _ceiling_lines(setting: Setting, found: Found) -> Iterator[str]:
    if found.ceilings:
        for storage, each in BYTES_PER_WEIGHT.items():
            read = Spread(tuple(turn.read[storage] / 1e9 for turn in found.ceilings))
            most = _most(setting, found, "decode", storage)
            size = f"{weights_read(setting.config) * each / 1e6:,.0f} MB"
            yield f"reading {size}, the weights in {storage}: {read} GB/s, so {_text(most)} tokens/s at most"
        sgemm = Spread(tuple(turn.sgemm / 1e9 for turn in found.ceilings))
        most = _most(setting, found, "prefill", "f32")
        yield f"sgemm: {sgemm} GFLOP/s, so {_text(most)} tokens/s of prefill at most"


if __name__ == "__main__":
    main()
