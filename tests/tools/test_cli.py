"""The command as a whole: help, version, exit codes, devices."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.tools.conftest import Cli
from vxgraph.errors import InternalError
from vxgraph.topology.load import shipped_machines

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-c", "from vxgraph.tools.cli import main; main()", *arguments]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("command", ["compile", "check", "show", "explain", "run", "devices"])
def test_each_command_shows_an_example(cli: Cli, command: str) -> None:
    assert f"Example: vxgraph {command}" in " ".join(cli.succeeds(command, "--help").split())


def test_the_help_lists_the_commands_and_the_exit_codes(cli: Cli) -> None:
    shown = " ".join(cli.succeeds("--help").split())
    for command in ("compile", "check", "show", "explain", "run", "devices"):
        assert f"│ {command} " in shown
    assert "Exit codes: 0 done; 1 a mistake in the graph, a file or a value, or a machine that refuses" in shown


def test_the_version_is_the_packages() -> None:
    try:
        wanted = version("vxgraph")
    except PackageNotFoundError:
        pytest.skip("vxgraph is not installed here, so it has no version")
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"vxgraph {wanted}\n")


def test_a_command_line_that_does_not_parse_is_exit_code_2(cli: Cli) -> None:
    for arguments in (["chekc"], ["check", "mlp.py:mlp"], ["show", "mlp.py:mlp", "--format", "gif"]):
        done = cli(*arguments)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert "Usage: " in done.stderr


def test_a_mistake_is_one_message_without_a_traceback(cli: Cli) -> None:
    done = run("compile", "mlp.py:mlp", "-m", "h300")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: no machine 'h300' is shipped; wanted one of {', '.join(shipped_machines())}, "
        "or the path of a machine file, like ./h300.toml\n"
    )


@pytest.mark.parametrize("error", [InternalError("pass fuse broke the graph"), KeyError("silu")])
def test_a_defect_of_ours_is_exit_code_3_with_a_traceback(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("vxgraph.tools.target.plan", broken)
    done = cli("compile", "mlp.py:mlp", "-m", "h200-x2")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("This is a defect of vxgraph: please report it, with the lines above.\n")


def test_a_saved_program_runs_in_a_process_of_its_own(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.vxp")
    done = run("run", "mlp.vxp", "--bind", "numpy")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("the run is the plan: places, counts and bytes were observed, and are as planned\n")


def test_a_pipe_that_closes_early_is_no_defect(cli: Cli) -> None:
    program = "from vxgraph.tools.cli import main; main()"
    done = subprocess.run(
        f"{sys.executable} -c '{program}' show tiny.py:tiny --set layers=2000 | head -n 1",
        shell=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ('graph "tiny" {\n', "")


def test_devices_lists_what_is_here_and_the_machines_shipped(cli: Cli) -> None:
    rows = [line.split() for line in cli.succeeds("devices").splitlines()]
    assert ["numpy", "numpy", "cpu"] in [row[:3] for row in rows]
    assert set(shipped_machines()) <= {row[0] for row in rows if row}
