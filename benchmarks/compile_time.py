"""What compiling costs, and what importing costs.

    python -m benchmarks.compile_time [--turns 5]

CPU seconds of this process, each part in turns: Llama-2-7B with prefill and decode on two devices, its program as
text and back, and chains of 10,000 and 20,000 nodes, whose costs should be 1 to 2. Then imports in fresh processes, in
turns: vxgraph against the NumPy that it cannot do without.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import vxgraph as vx
from benchmarks.measure import Stopwatch, Timing, bound, in_turns, show
from examples.llama2.model import disaggregated

MODEL = "llama2-7b"
CHAINS = (10_000, 20_000)
IMPORTS = ("numpy", "vxgraph")
# The clocks start before anything but the interpreter is there; `time` is built in.
_TIMED_IMPORT = """
from time import perf_counter, process_time
wall, cpu = perf_counter(), process_time()
import {}
print(perf_counter() - wall, process_time() - cpu)
"""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    _show_compiling(turns)
    _show_imports(turns)


def _show_compiling(turns: int) -> None:
    machine = vx.load_machine("h200-x2")
    llama = vx.compile(disaggregated(machine, MODEL), machine)
    text = llama.text()
    sides: dict[str, Callable[[], Timing]] = {
        f"build {MODEL}": lambda: _timed(lambda: disaggregated(machine, MODEL)),
        f"build and compile {MODEL}": lambda: _timed(lambda: vx.compile(disaggregated(machine, MODEL), machine)),
        "program to text": lambda: _timed(llama.text),
        "text to program": lambda: _timed(lambda: vx.parse_program(text)),
    }
    for length in CHAINS:
        sides[_chain_name(length)] = lambda length=length: _timed(lambda: vx.compile(_chain(length), machine))
    found = in_turns(turns, sides)
    whole = found[f"build and compile {MODEL}"].cpu.median
    short, long = (found[_chain_name(length)].cpu for length in CHAINS)
    show(
        f"CPU seconds, median (min..max) of {turns}; {MODEL} is {len(text.splitlines()):,} lines of program",
        ["what", "CPU s", "wall s"],
        [(name, str(t.cpu), str(t.wall)) for name, t in found.items()],
        notes=(
            f"build and compile {MODEL}: {bound(whole, '< 2 s of CPU', whole < 2)}",
            f"twice the chain costs {long.over(short)} times as much",
        ),
    )


def _timed(work: Callable[[], object]) -> Timing:
    watch = Stopwatch()
    work()
    return watch.per(1)


def _chain_name(length: int) -> str:
    return f"build and compile a chain of {length:,}"


def _chain(length: int) -> vx.Graph:
    """Products in a row, every hundredth on the other device: nothing to fuse, transfers to insert."""
    with vx.Graph("chain") as graph:
        x, w = vx.input("x", vx.f32[1, 16]), vx.param("w", vx.f32[16, 16])
        for k in range(length):
            with vx.on(vx.GPU[k // 100 % 2]):
                x = x @ w
        vx.output("y", x)
    return graph


def _show_imports(turns: int) -> None:
    with tempfile.TemporaryDirectory() as bytecode:
        sides = {module: lambda module=module: _import(module, bytecode) for module in IMPORTS}
        for side in sides.values():
            side()  # compiles the bytecode and reads the files from disk, once
        found = in_turns(2 * turns, sides)
    took = found["vxgraph"].cpu.median
    show(
        f"milliseconds of an import in a fresh process, median (min..max) of {2 * turns}",
        ["module", "CPU ms", "wall ms"],
        [(name, str(t.cpu.each(lambda s: 1e3 * s)), str(t.wall.each(lambda s: 1e3 * s))) for name, t in found.items()],
        notes=(
            f"import vxgraph: {bound(1e3 * took, '< 200 ms', took < 0.2)}",
            f"that is {found['vxgraph'].cpu.over(found['numpy'].cpu)} times import numpy",
        ),
    )


def _import(module: str, bytecode: str) -> Timing:
    """Importing a module in a fresh process that keeps bytecode in a folder, as that of installed packages is kept."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _TIMED_IMPORT.format(module)]
    ran = subprocess.run(
        command, env={**env, "PYTHONPYCACHEPREFIX": bytecode}, stdout=subprocess.PIPE, text=True, check=True
    )
    wall, cpu = map(float, ran.stdout.split())
    return Timing(wall, cpu)


if __name__ == "__main__":
    main()
