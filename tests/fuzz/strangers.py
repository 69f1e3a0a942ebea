"""What a process does on behalf of a stranger's text, as Python's audit hooks tell it; a process of its own.

python -m tests.fuzz.strangers FOLDER     reads, shows, explains, checks and runs all of FOLDER's graphs and programs

Prints one line for each event that the contents of a file could have caused: a file opened that is not of the folder, a
module imported that was not there, code compiled, a program started, a socket.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import typer.main

import vxgraph as vx
from vxgraph.runtime.backends.numpy import native
from vxgraph.tools.cli import app

HARMFUL = (
    "exec",
    "compile",
    "import",
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "shutil.",
    "ctypes.",
    "pickle.",
    "code.",
)
HARMLESS = ("os.listdir", "os.scandir", "os.putenv", "os.unsetenv")
C = Path(native.__file__).parent / "c"
OUR_KERNELS = {word for path in C.glob("*.[ch]") for word in re.findall(r"\w+", path.read_text())}
COMMAND = typer.main.get_command(app)
COMMANDS = (
    ("show", "FILE"),
    ("show", "FILE", "--format", "dot"),
    ("check", "FILE", "-m", "h200-x2"),
    ("check", "FILE", "-m", "h200-x2", "--json"),
    ("explain", "FILE", "x", "-m", "h200-x2"),
    ("explain", "FILE", "y"),
    ("compile", "FILE", "-m", "h200-x2", "-o", "made"),
    ("run", "FILE", "-m", "h200-x2", "--bind", "numpy", "--trace", "made", "-o", "made"),
    ("run", "FILE", "--bind", "numpy"),
    ("sanitize", "FILE", "-m", "h200-x2", "--orders", "1"),
)


def use(file: Path, turn: int | None = None) -> None:
    """What can be done with a text, through the API and the command line: all of it, or some commands in turn."""
    text = file.read_text(encoding="utf-8")
    with suppress(vx.VxError):
        read = (
            vx.parse_graph(text, file.name) if text.lstrip().startswith("graph") else vx.parse_program(text, file.name)
        )
        read.text()
    for words in COMMANDS if turn is None else COMMANDS[turn % 4 :: 4]:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()), suppress(SystemExit):
            COMMAND([file.name if word == "FILE" else word for word in words])


def watched(work: Callable[[], None], allowed: Callable[[str, tuple[Any, ...]], bool]) -> list[str]:
    """The events of `work` that are not allowed. The hook stays until the process ends: hooks cannot be taken away."""
    seen: list[str] = []
    watching = True

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if watching and event.startswith(HARMFUL) and event not in HARMLESS and not allowed(event, args):
            seen.append(f"{event} {args!r:.200}")

    sys.addaudithook(hook)
    work()
    watching = False
    return seen


def main(folder: Path) -> None:
    os.chdir(folder)
    files = sorted(Path().glob("*.vx*"))
    ours = {str(f) for f in files} | {"made"}
    use(files[0])  # imports what the commands import, whatever the contents
    known = set(sys.modules)

    def allowed(event: str, args: tuple[Any, ...]) -> bool:
        match event:
            case "open" | "os.rename" | "os.remove":
                name = os.fspath(args[0]) if not isinstance(args[0], int) else ""
                machine = name.endswith(".toml") and "/vxgraph/topology/machines/" in name
                backends = name.endswith(".dist-info/entry_points.txt") or name in sys.path
                cores = name.startswith("/sys/devices/system/cpu/") or name == "/sys/fs/cgroup/cpu.max"
                return machine or backends or cores or name in ours or name.startswith("made.")
            case "ctypes.addressof":  # the arguments of our own kernels
                return type(args[0]).__module__.startswith("vxgraph.runtime.backends.numpy.native.")
            case "ctypes.dlsym":  # and these kernels
                return args[1] in OUR_KERNELS
            case "import":
                return args[0] in known
            case _:
                return False

    def all_of_them() -> None:
        for turn, file in enumerate(files[1:]):
            use(file, turn)

    for line in watched(all_of_them, allowed):
        typer.echo(line)
    typer.echo(f"{len(files) - 1} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
