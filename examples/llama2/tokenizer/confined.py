"""A stranger's chat template runs in a process of its own, which has two seconds, 256 MiB and one answer.

    render_confined("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", [], bos="")
    ->  Failure("time", "2 s of processor time")

The sandbox of jinja2 does not count: a loop in a loop, `9**9**9**9`, `'a' * 10**9`, `|center(10**9)` and
`set x = x ~ x` go through it, some in one step of C that nothing in the same process can end. A process can be ended.
It is given the template, the messages and the folders of jinja2, in JSON; no environment, no file of ours.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from examples.llama2.tokenizer import template as child
from examples.llama2.tokenizer.extras import extra
from vxgraph.errors import InternalError, VxError

WALL_SECONDS = 10.0  # where the kernel counts no processor time, or the machine gives none
KEPT = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # without which some Pythons do not start


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no text. `says` is the template's own words, or what it took of what it may not."""

    kind: Literal["refused", "undefined", "broken", "long", "time", "memory", "ended"]
    says: str
    line: int | None = None  # of the template


def render_confined(template: str, messages: Sequence[Mapping[str, str]], *, bos: str) -> str | Failure:
    """The text of `messages`, or why there is none. Raises `VxError` where jinja2 is not installed."""
    request = {"path": _folders(), "template": template, "messages": list(map(dict, messages)), "bos": bos}
    try:
        # -I -S: no folder of the caller's, no site-packages with their start-up files.
        done = subprocess.run(
            [sys.executable, "-I", "-S", child.__file__],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=WALL_SECONDS,
            env={name: os.environ[name] for name in KEPT if name in os.environ},
            start_new_session=True,  # Ctrl-C is ours: it ends the process from here
            check=False,
        )
    except OSError as error:
        raise VxError(
            f"a chat template needs a process of its own, which cannot be started: {error.strerror}"
        ) from None
    except subprocess.TimeoutExpired:
        return Failure("time", f"{WALL_SECONDS:g} s on a clock")
    return _read(done)


def _folders() -> list[str]:
    """Where jinja2 and its one dependency are installed, without importing them here."""
    with extra("jinja2", needed_by="a chat template"):
        found = [_folder(package) for package in ("jinja2", "markupsafe")]
    return list(dict.fromkeys(found))


def _folder(package: str) -> str:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name="jinja2")
    return str(Path(spec.origin).parents[1])


def _read(done: subprocess.CompletedProcess[bytes]) -> str | Failure:
    if done.returncode == 0:
        answer = json.loads(done.stdout)
        return answer["text"] if "text" in answer else Failure(answer["failed"], answer["says"], answer.get("line"))
    if done.returncode == child.OUT_OF_MEMORY:
        return Failure("memory", f"{child.MEMORY >> 20} MiB of memory")
    if done.returncode > 0:
        raise InternalError(f"tokenizer/template.py ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    if done.returncode == -signal.SIGXCPU:
        return Failure("time", f"{child.CPU_SECONDS} s of processor time")
    return Failure("ended", f"signal {-done.returncode}")
