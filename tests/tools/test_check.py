"""Verdicts: what fits, what does not and why, and what moving costs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.tools.conftest import Cli
from vxgraph.program.text import load_program
from vxgraph.tools.prices import show_seconds

Golden = Callable[..., None]


def test_a_machine_that_fits_shows_its_table_and_its_bill(cli: Cli, golden: Golden) -> None:
    golden(cli.succeeds("check", "tiny.py:tiny", "-m", "h200-x2"))


def test_a_machine_that_is_too_small_refuses_with_owners_and_advice(cli: Cli, golden: Golden) -> None:
    done = cli("check", "mlp.py:mlp", "-m", "./small.toml")
    assert (done.exit_code, done.stderr) == (1, "")
    golden(done.stdout)


def test_one_refusal_among_several_machines_is_exit_code_1(cli: Cli) -> None:
    done = cli("check", "mlp.py:mlp", "-m", "h200-x2", "-m", "cpu-x2")
    assert done.exit_code == 1
    assert done.stdout.startswith("h200-x2: mlp fits\n")
    assert (
        "\ncpu-x2: refused: mlp.py:10: %matmul is pinned to gpu:0, but machine cpu-x2 has cpu:0, cpu:1; "
        "pin it to one of these, or compile for a machine that has it\n"
    ) in done.stdout


def test_json_says_all_of_it_in_a_fixed_order(cli: Cli) -> None:
    done = cli("check", "mlp.py:mlp", "-m", "h200-x2", "-m", "./small.toml", "-m", "cpu", "--json")
    assert (done.exit_code, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert list(found) == ["target", "machines"]
    fits, small, lacks = found["machines"]
    assert [m["fits"] for m in (fits, small, lacks)] == [True, False, False]
    assert (
        list(fits)
        == list(small)
        == list(lacks)
        == [
            "machine", "source", "fits", "refusal", "advice", "program", "digest", "dims", "memory", "bill",
            "transfers", "load", "run", "between_devices",
        ]
    )  # fmt: skip
    assert list(fits["transfers"][0]) == [
        "value", "type", "src", "dst", "when", "kind", "route", "count", "nbytes", "seconds", "why", "loc",
    ]  # fmt: skip
    assert list(fits["bill"][0]) == [
        "when", "kind", "src", "dst", "route", "edges", "count", "nbytes", "seconds",
    ]  # fmt: skip
    assert list(fits["memory"][0]) == [
        "memory", "topologies", "params", "kv", "activations", "staging", "reserved", "peak", "capacity", "headroom",
    ]  # fmt: skip
    assert small["refusal"] == "mlp does not fit small"
    assert any(line.startswith("vram1 lacks ") for line in small["advice"])
    assert lacks["program"] is None
    assert lacks["memory"] == []


def test_json_prices_the_programs_own_transfers(cli: Cli) -> None:
    cli.succeeds("compile", "tiny.py:tiny", "-m", "h200-x2", "-o", "tiny.vxp")
    program = load_program("tiny.vxp")
    (verdict,) = json.loads(cli.succeeds("check", "tiny.vxp", "-m", "h200-x2", "--json"))["machines"]
    assert [t["nbytes"] for t in verdict["transfers"]] == [t.nbytes * t.count for t in program.transfers]
    assert verdict["between_devices"]["nbytes"] == 16 * 4
    assert verdict["digest"] == program.digest
    steps = [t for t in verdict["transfers"] if t["when"] == "step"]
    assert [(t["value"], t["count"], t["nbytes"]) for t in steps] == [("sum", 32, 32 * 4)]
    for section in ("load", "run"):
        rows = [t for t in verdict["bill"] if (t["when"] == "load") == (section == "load")]
        assert sum(r["nbytes"] for r in rows) == verdict[section]["nbytes"]


def test_a_saved_program_is_priced_on_another_machines_routes(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.vxp")
    routes: dict[str, tuple[str, str]] = {}
    for machine in ("h200-x2", "rtx4090-x2"):
        (verdict,) = json.loads(cli.succeeds("check", "mlp.vxp", "-m", machine, "--json"))["machines"]
        (peer,) = [t for t in verdict["transfers"] if "host" not in (t["src"], t["dst"])]
        routes[machine] = (peer["kind"], peer["route"])
    assert routes == {"h200-x2": ("direct", "hbm0 > hbm1"), "rtx4090-x2": ("staged", "vram0 > host > vram1")}


def test_a_machine_that_a_saved_program_does_not_fit_refuses_it(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.vxp")
    done = cli("check", "mlp.vxp", "-m", "./small.toml", "-m", "cpu")
    assert done.exit_code == 1
    assert done.stdout.startswith("small: refused: mlp does not fit small\n")
    assert "\ncpu: refused: cpu has no gpu:0; it has cpu:0 (cpu.toml)\n" in done.stdout


def test_a_file_that_is_no_machine_is_an_error_and_no_verdict(cli: Cli) -> None:
    cli.write("box.toml", "host = 3\n")
    assert cli.fails("check", "mlp.py:mlp", "-m", "./box.toml").startswith("error: box.toml: host: found 3, wanted ")


def test_piped_output_has_no_colours_and_is_not_cut(cli: Cli) -> None:
    name = "a_value_with_a_name_" * 12
    cli.write("mlp.py", (cli.folder / "mlp.py").read_text().replace('"x"', f'"{name}"'))
    shown = cli.succeeds("check", "mlp.py:mlp", "-m", "h200-x2")
    assert f"%{name}: f32[1, 64]" in shown
    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 ns"),
        (1.5e-9, "1.5 ns"),
        (9.994e-7, "999 ns"),
        (9.996e-7, "1 us"),
        (9.994e-4, "999 us"),
        (9.996e-4, "1 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (4.789e-3, "4.79 ms"),
        (999.4, "999 s"),
        (999.6, "1000 s"),
        (12345.6, "12346 s"),
    ],
)
def test_a_time_is_three_digits_and_its_unit(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown
