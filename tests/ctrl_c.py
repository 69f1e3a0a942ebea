"""A command under SIGINT at random times, in a process of its own: what it printed, what it left, how it ended.

python tests/ctrl_c.py examples.llama2.__main__ 8 generate --model tiny.bin --prompt Hello

prints a JSON list of [exit code, stdout, stderr]: of a run that nobody interrupts, and of 8 that a thread interrupts,
each at another time of the first one's duration.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from vxgraph.tools.exits import start

REPOSITORY = Path(__file__).parents[1]


class Outcome(NamedTuple):
    code: int
    stdout: str
    stderr: str


def interrupted(module: str, arguments: Sequence[object], cwd: Path, *, times: int) -> tuple[Outcome, list[Outcome]]:
    """How the command ends by itself, and how under Ctrl-C."""
    command = [sys.executable, __file__, module, str(times), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    whole, *others = (Outcome(*o) for o in json.loads(done.stdout))
    return whole, others


def main(module: str, times: int, arguments: list[str]) -> list[Outcome]:
    app: Any = import_module(module).app
    run(app, arguments)  # imports what it imports
    began = time.perf_counter()
    outcomes = [run(app, arguments)]
    seconds, chance = time.perf_counter() - began, random.Random(5)
    for k in range(times):
        timer = threading.Timer(seconds * (k + chance.random()) / times, os.kill, (os.getpid(), signal.SIGINT))
        outcomes.append(run(app, arguments, timer))
    return outcomes


def run(app: Any, arguments: list[str], timer: threading.Timer | None = None) -> Outcome:
    """The command once; exit code -1 where the signal came just before it, or just after."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            if timer is not None:
                timer.start()
            try:
                start(lambda: app(arguments))
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
        if timer is not None:
            timer.join()
    except KeyboardInterrupt:
        code = -1
    return Outcome(code, out.getvalue(), err.getvalue())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
