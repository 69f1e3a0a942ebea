"""Guided by coverage: atheris (libFuzzer for Python) keeps a mutant that reaches new lines of ours and goes on from it.

Each target runs in a process of its own, whose modules are instrumented as they are imported. Findings are counted and
the run goes on; libFuzzer by itself ends at the first.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

HOW_TO_GET_IT = "not guided by coverage, as atheris is not installed: pip install 'vxgraph[fuzz]'"


def is_installed() -> bool:
    return importlib.util.find_spec("atheris") is not None


def fuzz(target: Target, seconds: float, first: int) -> int:
    """Runs the target in a process of its own; `first` seeds it. 1 where there are findings."""
    command = [sys.executable, "-m", "tests.fuzz.guided", target.name, str(seconds), str(first)]
    return int(subprocess.run(command, check=False).returncode != 0)


def _main(name: str, seconds: float, first: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["vxgraph", "examples"]):
        from tests.fuzz.judge import judge, limited, scratch
        from tests.fuzz.mutate import mutate
        from tests.fuzz.report import Figures
        from tests.fuzz.targets import TARGETS

    target = TARGETS[name]
    seeds = target.seeds()

    with scratch() as folder, limited():
        corpus = folder / "corpus"
        corpus.mkdir()
        for number, data in enumerate(seeds):
            (corpus / str(number)).write_bytes(data)
        inputs = folder / "inputs"
        inputs.mkdir()
        figures, began = Figures(target), monotonic()

        def one(data: bytes) -> None:
            figures.count(judge(target, data, inputs, seconds=target.seconds), data)
            if monotonic() - began > seconds:
                figures.say(monotonic() - began)
                shutil.rmtree(folder)
                os._exit(int(bool(figures.found)))  # libFuzzer has no other way out that tells

        def change(data: bytes, most: int, seed: int) -> bytes:
            rng = random.Random(seed)
            if rng.random() < 0.3:
                return atheris.Mutate(data, most)
            return mutate(rng, data, seeds, text=target.text)[:most]

        flags = ["-timeout=0", "-rss_limit_mb=0", "-print_final_stats=0", "-verbosity=0", f"-seed={first + 1}"]
        longest = max(len(data) for data in seeds) * 2
        atheris.Setup([sys.argv[0], *flags, f"-max_len={longest}", str(corpus)], one, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    _main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
