"""Plays a page of docs/: what its blocks say is what happens.

```python mlp.py     is saved as mlp.py (so is any other block with a file name)
```python            runs in the page's one session; prints something only if a ```text block follows
```text              is what the python block before it printed
```console           `$ vxgraph ...` lines, each followed by what it printed, in the folder of the saved files

python tests/docs/page.py docs/tour.md             prints the page with the outputs that running it gives
python tests/docs/page.py docs/tour.md --write     puts them into the page
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
VXGRAPH = (sys.executable, "-c", "from vxgraph.tools.cli import main; main()")
TIME = re.compile(r"(?=.{8}$)[ 0-9.]+ [num]?s$", re.MULTILINE)  # the end of a table's row
WIDTH = "120"  # columns that the command line may use


@dataclass
class Player:
    """One page being played in the current folder."""

    name: str
    session: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""

    def page(self, text: str) -> str:
        """The page with the outputs that its blocks gave."""
        played: list[str] = []
        end = 0
        for block in FENCE.finditer(text):
            played.append(text[end : block.start("body")])
            line = text.count("\n", 0, block.start("body"))
            played.append(self.block(block["info"].split(), block["body"], line))
            end = block.end("body")
        self.expect_no_output("the end")
        return "".join(played) + text[end:]

    def block(self, info: list[str], body: str, line: int) -> str:
        """The block's body after it was played."""
        if info == ["text"]:
            body, self.printed = self.printed, ""
            return body
        self.expect_no_output(f"line {line}")
        match info:
            case [_, file]:
                Path(file).parent.mkdir(exist_ok=True)
                Path(file).write_text(body, encoding="utf-8")
            case ["python"]:
                self.printed = self.run(body, line)
            case ["console"]:
                parts = re.findall(r"^\$ .*\n(?:(?!\$ ).*\n)*", body, re.MULTILINE)
                return "".join(console(*part.split("\n", 1)) for part in parts)
            case _:
                pass  # a grammar, say: nothing runs
        return body

    def run(self, body: str, line: int) -> str:
        """What a python block prints; a traceback shows the page's own line."""
        code = compile("\n" * line + body, self.name, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.session)
        return tidy(out.getvalue())

    def expect_no_output(self, where: str) -> None:
        """What a block printed must be on the page."""
        if self.printed:
            sys.exit(
                f"{self.name}: before {where}: a block printed this, but no ```text block shows it:\n{self.printed}"
            )


def console(line: str, before: str) -> str:
    """A `$ vxgraph ...` line and what it printed, errors included; a run's times are those of the page."""
    program, *arguments = shlex.split(line.removeprefix("$ "))
    if program != "vxgraph":
        sys.exit(f"a console block runs vxgraph only, found {line!r}")
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1"}
    command = [*VXGRAPH, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
    )
    printed = tidy(done.stdout)
    return f"{line}\n{with_times_of(before, printed) if arguments[0] == 'run' else printed}"


def with_times_of(before: str, printed: str) -> str:
    """What a run printed with the times that the page shows: they are another machine's, on another day."""
    times = TIME.findall(before)
    if len(times) != len(TIME.findall(printed)):
        return printed
    shown = iter(times)
    return TIME.sub(lambda _: next(shown), printed)


def tidy(text: str) -> str:
    """Without blanks at the ends of lines and empty lines at the end."""
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def play(path: Path) -> str:
    """The page at `path`, played in a fresh folder."""
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        sys.path.insert(0, folder)
        return Player(path.name).page(text)


if __name__ == "__main__":
    page = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--write"]:
        page.write_text(play(page), encoding="utf-8")
    else:
        sys.stdout.write(play(page))
