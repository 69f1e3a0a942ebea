"""A graph or a program from a stranger executes no code and reads no files, whatever stands in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import seeds

ROOT = Path(__file__).parents[2]
NAMES = (
    "/etc/passwd",
    "../../../../etc/passwd",
    "pipe",
    "file:///etc/passwd",
    "../../x.toml",
    "./box.toml",
    "evil.py:main",
    "__import__('os').system('touch pwned')",
    "{0.__class__.__init__.__globals__}",
    "%(x)s %n",
    "[link=file:///etc/passwd]x[/link]",
    "<IMG SRC='/etc/passwd'/>",
    "$(touch pwned) `touch pwned`; touch pwned |",
    "\\u001b]0;x\\u0007\\u001b[2J",
    "\\ud800",
    "",
)
OPS = ("__import__", "eval", "exec", "os.system", "op.__class__", "Op", "compile", "open", "loop.body", "print")
ATTRIBUTES = (
    "__class__ = true",
    '__init__ = "x"',
    'expr = "__import__(a)"',
    'axis = "0 if 1 else exit()"',
    "name = none",
)


def hostile(text: str) -> list[str]:
    """The text with each string replaced by each hostile name, each op by each hostile op, each attribute added."""
    text = re.sub(r'\n  digest "[^"]*"', "", text)
    bare = re.sub(r' loc "(?:[^"\\]|\\.)*"', "", text)
    found = [re.sub(r'"[^"]*"', lambda _, n=name: f'"{n}"', bare, count=k) for name in NAMES for k in (1, 0)]
    found += [re.sub(r' loc "[^"]*"', lambda _, n=name: f' loc "{n}:1"', text) for name in NAMES]
    found += [re.sub(r"= (?:matmul|add|constant)\(", f"= {op}(", bare, count=1) for op in OPS]
    found += [re.sub(r"\) : ", f") {{{attribute}}} : ", bare, count=1) for attribute in ATTRIBUTES]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph, program = seeds.graphs()[0].decode(), seeds.programs()[0].decode()
    loop = next(text for text in map(bytes.decode, seeds.graphs()) if "= loop(" in text)
    (tmp_path / "a.vxg").write_text(graph)
    for number, text in enumerate((*hostile(graph), *hostile(loop)[::7])):
        (tmp_path / f"b{number}.vxg").write_text(text)
    for number, text in enumerate(hostile(program)):
        (tmp_path / f"c{number}.vxp").write_text(text)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "evil.py").write_text("open('pwned', 'w')\n\ndef main(): pass\n")
    (tmp_path / "box.toml").write_text("")
    return tmp_path


def watch(folder: Path) -> list[str]:
    run = [sys.executable, "-m", "tests.fuzz.strangers", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_strangers_text_opens_nothing_imports_nothing_and_runs_nothing(folder: Path) -> None:
    files = len([*folder.glob("*.vx*")])
    assert watch(folder) == [f"{files - 1} files"]
    assert not (folder / "pwned").exists()


def test_the_watch_sees_a_file_a_module_a_program_and_code() -> None:
    harm = (
        "open('/etc/hostname').close(); eval('1 + 1'); os.system('true'); "
        "__import__('this_module_is_nowhere') if 0 else None; __import__('antigravity_' + 'x')"
    )
    text = f"""
import os
from tests.fuzz.strangers import watched

def work():
    try:
        {harm}
    except ImportError:
        pass

for line in watched(work, lambda event, args: False):
    os.write(1, (line.split()[0] + chr(10)).encode())
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment)
    assert {"open", "compile", "exec", "os.system", "import"} <= set(done.stdout.split())
