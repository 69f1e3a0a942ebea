"""A process for each engine, asked over a pipe, so that threads and memory of one are nothing to the others.

    host = Host("torch f32", setting)
    host.ask("measure")          Measured(Figures(prefill=3843.0, decode=91.0), resident=...)

It starts when it is first asked. One that cannot be kept, for want of memory, starts anew for every question.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import Signals
from typing import Any

from benchmarks.cpu.engine import Engine, Figures, Trial, measure
from benchmarks.cpu.engines import ENGINES, Setting
from benchmarks.cpu.sizes import SHORT_PROMPT, prompt

CEILINGS = "ceilings"
TRIED = 8  # steps whose logits are compared


class EngineFailedError(Exception):
    """What an engine said, or that its process is gone."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn of an engine."""

    figures: Figures
    resident: int  # bytes, after it


class Host:
    """The process of one engine, or of the ceilings."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.name, self.setting, self.kept = name, setting, True
        self._running: tuple[Any, Connection] | None = None

    def ask(self, what: str) -> Any:
        """The answer to "measure" or "trial". Raises `EngineFailedError`."""
        process, pipe = self._running = self._running or self._start()
        try:
            pipe.send(what)
            done, answer = pipe.recv()
        except (EOFError, BrokenPipeError):
            process.join()
            done, answer = False, f"its process ended with {_ending(process.exitcode)}"
        if not (done and self.kept):
            self.close()
        if not done:
            raise EngineFailedError(answer)
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._running is not None:
            process, pipe = self._running
            self._running = None
            pipe.close()
            process.join()

    def _start(self) -> tuple[Any, Connection]:
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, self.name, self.setting), daemon=True)
        process.start()
        there.close()
        return process, here


def _ending(exitcode: int) -> str:
    """Signals are negative; SIGKILL is what a machine without memory sends."""
    return Signals(-exitcode).name if exitcode < 0 else f"exit code {exitcode}"


def _serve(pipe: Connection, name: str, setting: Setting) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: setting.threads])
    try:
        answers: dict[str, Callable[[], Any]] = {}
        while True:
            what = pipe.recv()
            answers = answers or _answers(name, setting)
            pipe.send((True, answers[what]()))
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:
        pipe.send((False, f"{type(error).__name__}: {error}"))


def _answers(name: str, setting: Setting) -> dict[str, Callable[[], Any]]:
    if name == CEILINGS:
        from benchmarks.cpu.ceilings import Machine

        return {"measure": Machine(setting.config, setting.threads).measure}
    served = _Served(ENGINES[name].open(setting), setting)
    return {"measure": served.measure, "trial": served.trial}


class _Served:
    """An engine in its process; what it does the first time is not counted."""

    def __init__(self, engine: Engine, setting: Setting) -> None:
        self._engine, self._setting, self._warm = engine, setting, False

    def measure(self) -> Measured:
        if not self._warm:
            measure(self._engine, self._setting.config, 2)
            self._warm = True
        return Measured(measure(self._engine, self._setting.config, self._setting.tokens), _resident())

    def trial(self) -> Trial:
        self._warm = False
        return self._engine.trial(prompt(self._setting.config, SHORT_PROMPT), TRIED)


def _resident() -> int:
    """Bytes of this process in memory, where Linux says so."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0
