"""Peak memory of one whole process that loads a model and generates, against its f32 weights.

    python -m benchmarks.memory_single [--model FILE|random:PRESET] [--max-len 2048] [--tokens 16]

The process is a fresh one; what it reports is its peak resident set, interpreter and libraries included. The bound of
2.2 times the weights leaves room for caches and activations at `max-len`, but not for a second copy of the weights.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import numpy as np

from benchmarks.measure import bound, show

MIB = 1 << 20
# ru_maxrss is in KiB, but in bytes on macOS.
RSS_UNIT = 1 if sys.platform == "darwin" else 1 << 10
CHILD = "--in-this-process"


def main() -> None:
    """Starts the process that is measured, and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="a model file, or random:PRESET (default: SmolLM2-135M, random if not here)")
    parser.add_argument("--max-len", type=int, default=2048, help="positions, prompt included")
    parser.add_argument("--tokens", type=int, default=16, help="generated")
    parser.add_argument(CHILD, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        _generate(options.model, options.max_len, options.tokens)
        return
    command = [sys.executable, "-m", "benchmarks.memory_single", *sys.argv[1:], CHILD]
    name, weights, arena, imported, peak = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split("\n")[:5]
    ratio = int(peak) / int(weights)
    rows = {"f32 weights": weights, "arena that the plan asks for": arena, "after imports": imported, "peak": peak}
    show(
        f"memory of {name}, placed on one device, {options.max_len} positions",
        ["what", "MiB", "of the weights"],
        [(what, f"{int(n) / MIB:,.0f}", f"{int(n) / int(weights):.2f}") for what, n in rows.items()],
        notes=(f"peak over weights: {bound(ratio, '< 2.2', ratio < 2.2)}",),
    )


def _peak() -> int:
    """Bytes, of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


def _generate(name: str | None, max_len: int, tokens: int) -> None:
    import vxgraph as vx
    from benchmarks.models import open_model
    from examples.llama2.model import build, place_single

    imported = _peak()
    model, machine = open_model(name), vx.load_machine("cpu")
    program = vx.compile(build(model.config, place_single(machine, model.config.layers), max_len=max_len), machine)
    with vx.Session(program, model.params, bind="numpy") as session:
        session.run(
            {
                "tokens": np.arange(1, 65, dtype=np.int32),
                "steps": np.array(tokens, np.int32),
                "stop_ids": np.array([-1], np.int32),
                "temperature": np.float32(0),
                "top_p": np.float32(1),
                "seed": np.int64(0),
            }
        )
        session.report.conforms()
    arena = sum(a.nbytes for a in program.arenas)
    print(model.name, model.nbytes, arena, imported, _peak(), sep="\n")


if __name__ == "__main__":
    main()
