"""`vxgraph sanitize`: what it tries, what it says, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tools.conftest import Cli
from vxgraph.program.model import Program
from vxgraph.tools.target import Target

MLP = ("mlp.py:mlp", "-m", "h200-x2")


def test_a_right_program_has_no_hazard_in_any_order(cli: Cli) -> None:
    assert cli.succeeds("sanitize", *MLP, "--orders", "3", "--seed", "5").splitlines() == [
        "drawn from seed 5: args; params",
        "no hazard in 4 orders: the latest and 3 random from seed 5; "
        "8 calls and 7 pairs of accesses to the same bytes in each",
    ]


def test_the_latest_order_alone(cli: Cli) -> None:
    assert "no hazard in the latest order; 8 calls" in cli.succeeds("sanitize", *MLP, "--orders", "0")


def test_a_hazard_is_one_message_and_exit_code_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Target.program

    def forgetful(self: Target, machine: object) -> Program:
        program = compiled(self, machine)  # type: ignore[arg-type]
        body = tuple(replace(i, after=()) if getattr(i, "name", "") == "matmul.1" else i for i in program.body)
        return replace(program, body=body)

    monkeypatch.setattr(Target, "program", forgetful)
    lines = cli.fails("sanitize", *MLP).splitlines()
    assert (
        "dispatch %matmul.1 (matmul) reads %silu.gpu1 while transfer_peer %silu.gpu1 may still be writing it"
        in lines[0]
    )
    assert [line.split(":")[0].strip() for line in lines[1:3]] == ["read", "write"]
