"""How long a program would take, from the command line."""

from __future__ import annotations

import json

import pytest

from tests.tools.conftest import Cli


def test_a_prediction_says_the_run_the_first_value_the_steps_and_the_queues(cli: Cli) -> None:
    shown = cli.succeeds("predict", "tiny.py:tiny", "-m", "h200-x2", "--size", "T=8", "--steps", "3")
    lines = shown.splitlines()
    assert lines[0].startswith("tiny on h200-x2, T = 8: ")
    assert lines[0].endswith(" us, predicted")
    assert lines[1].startswith("first emitted value after ")
    assert lines[2].startswith("loop %loop.1: 3 steps, ")
    assert lines[4].split() == ["queue", "instructions", "busy", "share"]
    assert [line.split()[:2] for line in lines[6:10]] == [
        ["gpu:0.compute", "5"],
        ["gpu:0.copy", "2"],
        ["gpu:1.compute", "15"],
        ["gpu:1.copy", "4"],
    ]


def test_a_predictions_trace_is_what_perfetto_opens_and_has_the_same_slices(cli: Cli) -> None:
    shown = cli.succeeds("predict", "mlp.py:mlp", "-m", "h200-x2", "--trace", "mlp.json")
    assert shown.endswith("written: mlp.json\n")
    trace = json.loads((cli.folder / "mlp.json").read_text())
    assert trace["otherData"]["source"] == "predicted"
    names = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"]
    assert names == [
        "upload %x.gpu0",
        "dispatch %matmul (matmul)",
        "dispatch %silu (silu)",
        "transfer_peer %silu.gpu1",
        "dispatch %matmul.1 (matmul)",
        "download %matmul.1.host",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "T=8", "--size", "T=9"], "--size T is given twice: 8 and 9"),
        (["--size", "T=65"], "size T=65: T runs from 1 to 64"),
        (["--size", "U=6"], "size U: the program has no such symbol; its symbols: T <= 64"),
    ],
)
def test_sizes_that_cannot_be_are_told(cli: Cli, options: list[str], message: str) -> None:
    assert cli.fails("predict", "tiny.py:tiny", "-m", "h200-x2", *options) == f"error: {message}\n"


def test_a_saved_program_is_predicted_on_its_own_machine_if_that_is_shipped(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.vxp")
    assert cli.succeeds("predict", "mlp.vxp") == cli.succeeds("predict", "mlp.py:mlp", "-m", "h200-x2")
    cli.succeeds("show", "mlp.py:mlp", "-m", "./small.toml", "-o", "small.vxp")
    assert cli.fails("predict", "small.vxp").splitlines()[0] == (
        "error: mlp is for machine 'small', which is not shipped; give its file, like -m my.toml"
    )
    assert cli.succeeds("predict", "small.vxp", "-m", "./small.toml").startswith("mlp on small: ")
