"""One execution, judged: it succeeds, it refuses with one clear message, or it is a finding.

A finding is any exception outside the VxError family, a message without words or as long as the file, more time than
`seconds`, or more address space than `ROOM` on top of what is in use.
"""

from __future__ import annotations

import resource
import signal
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.fuzz.targets import BrokenError, Target
from vxgraph.errors import VxError

ROOM = 1 << 30  # bytes
LONGEST = 4000  # characters of a message, on top of what it may show of the input

Verdict = Literal["accepted", "refused", "finding"]


class HangError(BaseException):
    """An execution that took too long."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`what` is the message of a refusal, or what was found; `key` is the same for findings of one kind."""

    verdict: Verdict
    what: str = ""
    key: str = ""


def judge(target: Target, data: bytes, folder: Path, *, seconds: float = 20) -> Outcome:
    """Runs a target on one input."""
    try:
        with _alarm(seconds):
            target.run(data, folder)
    except VxError as error:
        return _refusal(error, len(data))
    except (KeyboardInterrupt, SystemExit):
        raise
    # Also what is no Exception: a panic of a package that is written in Rust.
    except BaseException as error:
        return Outcome("finding", "".join(traceback.format_exception(error)), _key(error))
    return Outcome("accepted")


def _refusal(error: VxError, size: int) -> Outcome:
    message = str(error)
    if not message.strip() or len(message) > LONGEST + 2 * size:
        return Outcome("finding", f"a message of {len(message)} characters: {message[:200]}", "message")
    return Outcome("refused", message)


def _key(error: BaseException) -> str:
    if isinstance(error, BrokenError):
        return f"{str(error)[:60]}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    ours = [f for f in frames if "/vxgraph/" in f.filename or "/examples/" in f.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {where}"


@contextmanager
def _alarm(seconds: float) -> Generator[None]:
    def ring(*_: Any) -> None:
        raise HangError(f"no answer in {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def limited(room: int = ROOM) -> Generator[None]:
    """Inside, this process gets `room` bytes of address space more and no further ones."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def scratch() -> Generator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="vxgraph-fuzz-") as folder:
        yield Path(folder)
