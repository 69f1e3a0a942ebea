"""`vxgraph compile`: what it writes, and what it refuses to write."""

from __future__ import annotations

from tests.tools.conftest import Cli
from vxgraph.program.text import load_program


def test_the_program_is_written_and_summed_up(cli: Cli) -> None:
    shown = cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "--set", "hidden=32", "-o", "mlp.vxp")
    program = load_program("mlp.vxp")
    first, second, *table, digest, written = shown.splitlines()
    assert first == "mlp for h200-x2: 8 instructions on gpu:0, gpu:1"
    assert second == "between devices per run, at most: 128 B"
    assert table[0].split() == [
        "memory", "used", "by", "params", "kv", "activations", "staging", "reserved", "peak", "capacity", "headroom",
    ]  # fmt: skip
    assert digest == program.digest
    assert written == "written: mlp.vxp"


def test_without_a_file_nothing_is_written(cli: Cli) -> None:
    before = sorted(cli.folder.rglob("*.vx*"))
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2")
    assert sorted(cli.folder.rglob("*.vx*")) == before == []


def test_what_does_not_fit_is_refused_and_not_written(cli: Cli) -> None:
    told = cli.fails("compile", "mlp.py:mlp", "-m", "./small.toml", "-o", "mlp.vxp")
    assert told.startswith("error: mlp does not fit small\n  memory  used by  params ")
    assert not (cli.folder / "mlp.vxp").exists()


def test_a_folder_that_is_not_there_is_one_message(cli: Cli) -> None:
    assert cli.fails("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "no/mlp.vxp") == (
        "error: no/mlp.vxp: cannot write: No such file or directory\n"
    )


def test_strict_placement_names_the_nodes_without_a_pin(cli: Cli) -> None:
    source = (cli.folder / "mlp.py").read_text()
    cli.write(
        "mlp.py", source.replace("        with vx.on(vx.GPU[0]):\n            h", "        if True:\n            h")
    )
    assert cli.fails("compile", "mlp.py:mlp", "-m", "h200-x2", "--place", "strict") == (
        "error: strict placement: 2 node(s) of graph 'mlp' have no pin; "
        "put them under vx.on(...), or compile with place='auto'\n"
        "  mlp.py:10: %matmul = matmul\n"
        "  mlp.py:10: %silu = silu\n"
    )


def test_a_saved_program_is_compiled_for_another_machine(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "a.vxp")
    cli.succeeds("compile", "a.vxp", "-m", "a100-40-x2", "-o", "b.vxp")
    assert load_program("b.vxp").machine == "a100-40-x2"
    assert load_program("b.vxp").body == load_program("a.vxp").body
