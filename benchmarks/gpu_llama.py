"""Llama on a GPU against PyTorch and against the memory bound, in one run.

    python -m benchmarks.gpu_llama                          llama2-7b in bf16 with random weights
    python -m benchmarks.gpu_llama --model llama3.1-8b --turns 5

A decoded token reads every weight once, so weights' bytes over the copy bandwidth measured here bound it. Ours runs
`single` and `disaggregated` (two topologies on one device); PyTorch runs eager and, unless --no-compile, compiled with
CUDA graphs. Memory is what the driver says is used, next to the plan.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import vxgraph as vx
from benchmarks.torch_llama import decode_rate, make_model, prefill_rate
from examples.llama2.config import LlamaConfig, param_shapes, preset
from examples.llama2.model import PLACEMENTS, build

Row = tuple[str, str, list[float]]
START, TOKENS = 128, 128
PROMPTS = (128, 512, 1024)


class RandomParams(Mapping[str, Any]):
    """bf16 weights of the right shapes: views of one random block, ones for norms."""

    def __init__(self, config: LlamaConfig) -> None:
        self._shapes = param_shapes(config)
        largest = max(int(np.prod(s)) for s in self._shapes.values())
        block = np.random.default_rng(0).standard_normal(1 << 24, dtype=np.float32) * np.float32(0.02)
        self._block = np.tile(block.astype(vx.bf16.numpy), -(-largest // block.size))

    def __getitem__(self, name: str) -> Any:
        shape = self._shapes[name]
        if "norm" in name:
            return np.ones(shape, vx.bf16.numpy)
        return self._block[: int(np.prod(shape))].reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def copy_bandwidth() -> float:
    """Bytes per second of a device-to-device copy, read and written, the median of ten."""
    import cupy

    size = 1 << 31
    a, b = cupy.zeros(size, cupy.uint8), cupy.empty(size, cupy.uint8)
    stream, seconds = cupy.cuda.get_current_stream(), list[float]()
    for _ in range(10):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(stream)
        cupy.cuda.runtime.memcpyAsync(b.data.ptr, a.data.ptr, size, 3, stream.ptr)
        end.record(stream)
        end.synchronize()
        seconds.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    del a, b
    cupy.get_default_memory_pool().free_all_blocks()
    return 2 * size / statistics.median(seconds)


def inputs(prompt: int, steps: int) -> dict[str, Any]:
    """A greedy run that nothing stops."""
    return {
        "tokens": np.arange(1, prompt + 1, dtype=np.int32),
        "steps": np.array(steps, np.int32),
        "stop_ids": np.array([-1], np.int32),
        "temperature": np.array(0, np.float32),
        "top_p": np.array(1, np.float32),
        "seed": np.array(0, np.int64),
    }


def timed(session: vx.Session, prompt: int, steps: int) -> tuple[float, float]:
    """Prompt tokens per second, and decoded tokens per second of the steps after the second."""
    began = time.perf_counter()
    arrivals = [time.perf_counter() for _ in session.stream(inputs(prompt, steps))]
    return prompt / (arrivals[0] - began), (len(arrivals) - 3) / (arrivals[-1] - arrivals[2])


def used_bytes() -> int:
    """What the driver says is used on the current device."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return total - free


def ours(config: LlamaConfig, placement: str, turns: int, long: int) -> tuple[list[Row], list[str]]:
    """Rows of rates, and lines about memory."""
    import cupy

    machine = vx.load_machine("h200-x2")
    graph = build(config, PLACEMENTS[placement](machine, config.layers), max_len=2048, max_prompt=max(PROMPTS))
    program = vx.compile(graph, machine)
    cupy.cuda.runtime.free(0)  # the context is there before we count
    before = used_bytes()
    with vx.Session(program, RandomParams(config), {str(t): "cuda:0" for t in program.topologies}) as session:
        timed(session, PROMPTS[0], TOKENS)  # compiles kernels, captures
        planned, observed = sum(a.nbytes for a in program.arenas), used_bytes() - before
        rows: list[Row] = []
        runs = {n: [timed(session, n, TOKENS) for _ in range(turns + 1)][1:] for n in PROMPTS}
        rows.append((f"vxgraph {placement}", f"decode after {START}", [r[1] for r in runs[START]]))
        rows += [(f"vxgraph {placement}", f"prefill {n}", [r[0] for r in runs[n]]) for n in PROMPTS]
        session.report.conforms()
        settled = used_bytes()
        timed(session, 512, long)
        lines = [
            f"{placement}: planned {planned / 1e9:.3f} GB, the driver shows {observed / 1e9:.3f} GB more than before "
            f"({100 * (observed / planned - 1):+.2f}%), and {(used_bytes() - settled) / 1e6:+.1f} MB after {long} steps"
        ]
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    return rows, lines


def torch_rows(config: LlamaConfig, turns: int, compiled: bool) -> list[Row]:
    """The peer's rates; none where torch is not installed."""
    try:
        import torch
    except ImportError:
        return []
    model = make_model(config, 2048)
    rows: list[Row] = [
        ("torch eager", f"decode after {START}", decode_rate(model, start=START, tokens=TOKENS, turns=turns))
    ]
    rows += [
        ("torch eager", f"prefill {n}", prefill_rate(model, tokens=n, vocab=config.vocab, turns=turns)) for n in PROMPTS
    ]
    if compiled:
        fast = torch.compile(model, mode="reduce-overhead", fullgraph=True, dynamic=False)
        rates = decode_rate(fast, start=START, tokens=TOKENS, turns=turns)
        rows.append(("torch.compile + CUDA graphs", f"decode after {START}", rates))
    return rows


def main() -> None:
    """Prints the machine, the table and the memory lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="llama2-7b", help="a preset of examples.llama2")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--long", type=int, default=1000, help="steps of the run that memory must stay flat over")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    arguments = parser.parse_args()
    config = replace(preset(arguments.model), dtype="bf16")
    console = Console(width=None if Console().is_terminal else 120)
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    bandwidth = copy_bandwidth()
    weights = sum(2 * int(np.prod(s)) for name, s in param_shapes(config).items() if name != "embed" or config.tied)
    bound = bandwidth / weights
    console.print(f"{device}, CuPy {cupy.__version__}, {config.name} in bf16, {arguments.turns} turns")
    console.print(
        f"copy {bandwidth / 1e12:.2f} TB/s; {weights / 1e9:.2f} GB of weights per token: {bound:.0f} tok/s at most"
    )
    rows, lines = list[Row](), list[str]()
    for placement in ("single", "disaggregated"):
        found, said = ours(config, placement, arguments.turns, arguments.long)
        rows += found
        lines += said
    peers = torch_rows(config, arguments.turns, not arguments.no_compile)
    best = {what: max(statistics.median(r) for _, w, r in peers if w == what) for _, what, _ in peers}
    table = Table("who", "what", "tok/s", "min", "max", "of the bound", "of the best peer", box=None)
    for who, what, rates in (*rows, *peers):
        middle = statistics.median(rates)
        share = f"{middle / bound:.2f}" if what.startswith("decode") else ""
        against = f"{middle / best[what]:.2f}" if what in best and who.startswith("vxgraph") else ""
        table.add_row(who, what, f"{middle:.1f}", f"{min(rates):.1f}", f"{max(rates):.1f}", share, against)
    console.print(table)
    for line in lines:
        console.print(line)


if __name__ == "__main__":
    main()
