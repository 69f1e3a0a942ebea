"""What is printed on terminals of several widths, and where there is none."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len

from tests.tools.conftest import Cli
from vxgraph.program.admission import show_bytes
from vxgraph.tools.cli import app
from vxgraph.topology.load import load_machine, shipped_machines

ROOT = Path(__file__).parents[2]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WIDTHS = (80, 100, 160)
LLAMA = (
    *("check", f"{ROOT}/examples/llama2/model.py:disaggregated", "--set", "model=llama2-7b"),
    *("-m", "h200-x2", "-m", "v100-16-x2"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Printed:
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return ESCAPE.sub("", self.out + self.err).splitlines()

    @property
    def width(self) -> int:
        return max(map(cell_len, self.lines))

    @property
    def words(self) -> list[str]:
        return [word for line in self.lines for word in line.split()]


OnTerminal = Callable[..., Printed]


@pytest.fixture
def on_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> OnTerminal:
    """What a command prints on a terminal of a width."""

    def run(width: int, *arguments: str, **environment: str) -> Printed:
        out, err = Terminal(), Terminal()
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {"COLUMNS": str(width), "TERM": "xterm", "COLORTERM": "truecolor", **environment}.items():
            monkeypatch.setenv(name, value)
        with monkeypatch.context() as streams:
            streams.setattr(sys, "stdout", out)
            streams.setattr(sys, "stderr", err)
            with contextlib.suppress(typer.Exit):
                app(list(arguments), standalone_mode=False)
        return Printed(out.getvalue(), err.getvalue())

    return run


COMMANDS = {
    "devices": ("devices",),
    "check": ("check", "tiny.py:tiny", "-m", "h200-x2", "-m", "./small.toml"),
    "compile": ("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.vxp"),
    "compile, refused": ("compile", "mlp.py:mlp", "-m", "./small.toml"),
    "a mistake": ("compile", "mlp.py:mlp", "-m", "h300"),
    "explain": ("explain", "mlp.py:mlp", "silu", "-m", "h200-x2"),
    "run": ("run", "mlp.py:mlp", "-m", "h200-x2", "--bind", "numpy"),
    "sanitize": ("sanitize", "mlp.py:mlp", "-m", "h200-x2", "--orders", "1"),
}


def untimed(words: list[str]) -> list[str]:
    """Sorted, as tables stand on their side where it is narrow; without a run's times."""
    return sorted(w for w in words if not re.fullmatch(r"─+|[0-9.]+|[num]?s", w))


@pytest.mark.parametrize("what", COMMANDS)
def test_what_a_terminal_shows_fits_it_and_says_all_that_a_pipe_gets(
    cli: Cli, on_terminal: OnTerminal, what: str
) -> None:
    done = cli(*COMMANDS[what])
    piped = Printed(done.stdout, done.stderr)
    assert "\x1b" not in piped.out + piped.err
    for width in WIDTHS:
        shown = on_terminal(width, *COMMANDS[what])
        shown.err = re.sub(r"\x1b\[\?25l.*\x1b\[2K", "", shown.err, flags=re.DOTALL)  # a progress bar, gone again
        assert shown.width <= width, max(shown.lines, key=cell_len)
        assert "…" not in shown.out + shown.err
        assert "\x1b[" in shown.out + shown.err
        if "largest of a run" in piped.out and width < 160:  # why and at stand below the value
            assert set(untimed(piped.words)) - {"value", "why", "at"} <= set(untimed(shown.words))
        else:
            assert untimed(shown.words) == untimed(piped.words)


def test_llama2_7b_on_two_machines_fits_80_columns(on_terminal: OnTerminal) -> None:
    shown = on_terminal(80, *LLAMA)
    assert shown.width <= 80
    assert {"%prefill.layers.0.k:", "%handover.layers.2.k", "4096", "125.35", "744.00", "14.5"} <= set(shown.words)


@pytest.mark.parametrize("off", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colours_gets_none(on_terminal: OnTerminal, off: dict[str, str]) -> None:
    for arguments in (COMMANDS["check"], COMMANDS["explain"], ("show", "mlp.py:mlp"), COMMANDS["a mistake"]):
        printed = on_terminal(100, *arguments, **off)
        assert "\x1b" not in printed.out + printed.err
        assert printed.out + printed.err


def test_a_name_longer_than_the_terminal_is_wrapped_and_whole(cli: Cli, on_terminal: OnTerminal) -> None:
    name = "a_value_with_a_name_" * 12
    cli.write("mlp.py", (cli.folder / "mlp.py").read_text().replace('"x"', f'"{name}"'))
    for width in (40, *WIDTHS):
        shown = on_terminal(width, "check", "mlp.py:mlp", "-m", "h200-x2")
        assert shown.width <= width
        firsts = [line[: line.find("  ")] if "  " in line else line for line in shown.lines]
        assert name in "".join(firsts)


def test_at_40_columns_numbers_wrap_and_none_is_cut(on_terminal: OnTerminal) -> None:
    shown = on_terminal(40, "check", "mlp.py:mlp", "-m", "h200-x2")
    assert shown.width <= 40
    assert {"512.00", "140.40", "139.90", "64.00"} <= set(shown.words)
    assert "…" not in shown.out


@pytest.mark.parametrize("arguments", [("mlp.py:mlp",), ("tiny.py:tiny", "-m", "h200-x2")])
def test_a_text_on_a_terminal_is_the_text_with_colours_between(
    cli: Cli, on_terminal: OnTerminal, arguments: tuple[str, ...]
) -> None:
    text = cli.succeeds("show", *arguments)
    shown = on_terminal(80, "show", *arguments).out
    assert ESCAPE.sub("", shown) == text
    assert shown.count("\x1b[0m") > text.count("%")  # each value's name, and more


def test_places_have_the_colours_that_they_have_in_pictures(on_terminal: OnTerminal) -> None:
    shown = on_terminal(100, "show", "mlp.py:mlp", "-m", "h200-x2").out
    table = on_terminal(100, "check", "mlp.py:mlp", "-m", "h200-x2").out
    for place in ("gpu:0", "gpu:1"):
        (colour,) = set(re.findall(rf"\x1b\[([0-9;]+)m{place}\x1b", shown))
        assert colour.startswith("1;38;2;")
        assert f"\x1b[{colour}m{place}\x1b" in table
    assert len(set(re.findall(r"\x1b\[(1;38;2;[0-9;]+)mgpu:[01]\x1b", shown))) == 2


def test_what_is_in_a_string_is_coloured_as_a_string(cli: Cli, on_terminal: OnTerminal) -> None:
    cli.write("g.vxg", 'graph "%a @gpu:7 f32[2] // \\" why" {\n  arg %x : f32[2]\n  result "y" = %x\n}\n')
    first = on_terminal(80, "show", "g.vxg").out.splitlines()[0]
    assert first == '\x1b[1mgraph\x1b[0m \x1b[32m"%a @gpu:7 f32[2] // \\" why"\x1b[0m {'


def test_devices_lists_every_memory_of_every_machine_in_100_columns(cli: Cli) -> None:
    lines = cli.succeeds("devices").splitlines()
    assert max(map(len, lines)) <= 100
    for name in shipped_machines():
        (row,) = [line for line in lines if line.split()[:1] == [name]]
        machine = load_machine(name)
        for memory in machine.memories:
            stem = memory.name.rstrip("0123456789")
            assert stem in row
            assert show_bytes(memory.capacity) in row
        assert str(machine.topologies[-1]) in row


def test_a_real_terminal_is_told_from_a_pipe(cli: Cli) -> None:
    """The one test with a pseudo terminal: colours there, and standard error in the same process plain in a pipe."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from vxgraph.tools.cli import main; main()", "check", "mlp.py:mlp"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*command, "-m", "h200-x2", "-m", "cpu"], stdout=theirs, stderr=subprocess.PIPE, env=environment
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # Linux's way to say that nobody holds the other end
            break
    os.close(ours)
    assert (process.communicate()[1], process.returncode) == (b"", 1)
    assert b"\x1b[1;32mh200-x2: mlp fits\x1b[0m" in shown
    assert Printed(shown.decode(), "").width <= 80
