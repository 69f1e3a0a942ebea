"""What commands work on, and every way in which it can be missing or wrong."""

from __future__ import annotations

import pytest

from tests.tools.conftest import Cli
from vxgraph.program.text import load_program
from vxgraph.topology.load import shipped_machines


def test_set_values_are_converted_by_the_annotations(cli: Cli) -> None:
    assert "%w1 : f32[64, 32]" in cli.succeeds("show", "mlp.py:mlp", "--set", "hidden=32")
    assert "@gpu:1" not in cli.succeeds("show", "mlp.py:mlp", "--set", "split=false")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["hidde=32"],
            "mlp.py:4: --set hidde: mlp has no such parameter; did you mean 'hidden'?\n"
            "  mlp(hidden: int = 256, split: bool = True)\n",
        ),
        (
            ["hidden=wide"],
            "mlp.py:4: --set hidden=wide: wanted a valid integer, unable to parse string as an integer "
            "(hidden: int = 256)\n",
        ),
        (
            ["split=maybe"],
            "mlp.py:4: --set split=maybe: wanted a valid boolean, unable to interpret input (split: bool = True)\n",
        ),
        (["hidden"], "--set hidden: wanted name=value\n"),
        (["hidden=1", "hidden=2"], "--set hidden is given twice: 1 and 2\n"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_wanted(cli: Cli, settings: list[str], message: str) -> None:
    given = [part for setting in settings for part in ("--set", setting)]
    assert cli.fails("show", "mlp.py:mlp", *given) == f"error: {message}"


def test_a_setting_that_is_missing_is_asked_for(cli: Cli) -> None:
    cli.write("need.py", "def need(width: int, depth: int):\n    pass\n")
    assert cli.fails("show", "need.py:need", "--set", "depth=1") == (
        "error: need.py:1: need needs values for width; give --set width=...\n  need(width: int, depth: int)\n"
    )


def test_a_parameter_that_text_cannot_be_is_refused(cli: Cli) -> None:
    cli.write("odd.py", "class Odd: ...\ndef odd(o: Odd):\n    pass\n")
    assert cli.fails("show", "odd.py:odd", "--set", "o=1") == (
        "error: odd.py:2: --set o: the command line sets int, float, bool and str, not o: __target__.Odd\n"
    )


def test_a_function_that_is_not_there_lists_those_that_are(cli: Cli) -> None:
    assert cli.fails("show", "mlp.py:mpl") == (
        "error: mlp.py: has no function 'mpl'; did you mean 'mlp'?\n  functions: mlp\n"
    )


def test_a_file_without_a_function_lists_its_functions(cli: Cli) -> None:
    assert cli.fails("show", "mlp.py") == (
        "error: mlp.py: no function is named; wanted mlp.py:function, with one of: mlp\n"
    )


def test_a_file_that_is_not_there_is_one_line(cli: Cli) -> None:
    assert cli.fails("show", "gone.py:mlp") == "error: gone.py: there is no such file\n"
    assert cli.fails("show", "gone.vxg") == (
        "error: gone.vxg: cannot read: No such file or directory; "
        "wanted file.py:function, or a saved graph or program\n"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import numppy\n",
            "bad.py:1: importing bad.py raised ModuleNotFoundError: No module named 'numppy'",
        ),
        ("x = 1\ny = x / 0\n", "bad.py:2: importing bad.py raised ZeroDivisionError: division by zero"),
        ("def f(:\n", "bad.py:1: importing bad.py: invalid syntax"),
        ("import sys\nsys.exit(4)\n", "bad.py:2: importing bad.py raised SystemExit: 4"),
        ("import json\njson.loads('{')\n", "bad.py:2: importing bad.py raised JSONDecodeError: Expecting property name "
         "enclosed in double quotes: line 1 column 2 (char 1)"),
        ("def f():\n    return [][1]\n", "bad.py:2: f() raised IndexError: list index out of range"),
        ("def g():\n    return {}['k']\ndef f():\n    return g()\n", "bad.py:2: f() raised KeyError: 'k'"),
        ("def f():\n    pass\n", "bad.py:1: f() returned NoneType, wanted the graph: end it with 'return g'"),
    ],
)  # fmt: skip
def test_what_the_users_code_raises_is_one_message_at_the_users_line(cli: Cli, source: str, message: str) -> None:
    cli.write("bad.py", source)
    assert cli.fails("show", "bad.py:f") == f"error: {message}\n"


def test_a_mistake_in_the_graph_is_shown_as_it_is(cli: Cli) -> None:
    cli.write("mlp.py", (cli.folder / "mlp.py").read_text().replace("h @ w2", "h @ w1"))
    assert cli.fails("check", "mlp.py:mlp", "-m", "h200-x2", "-m", "cpu") == (
        "error: mlp.py:12: matmul: f32[1, 256] has 256 columns but f32[64, 256] has 64 rows\n"
        "  operands: %silu: f32[1, 256], %w1: f32[64, 256]\n"
    )


def test_a_graph_that_must_be_placed_asks_for_a_machine(cli: Cli) -> None:
    assert cli.fails("run", "mlp.py:mlp") == (
        f"error: mlp.py:mlp is a graph, which is placed on a machine first; give one, like -m h200-x2\n"
        f"  shipped: {', '.join(shipped_machines())}\n"
    )


def test_a_function_that_takes_the_machine_is_given_it(cli: Cli) -> None:
    cli.write("on.py", """\
import vxgraph as vx

def on(machine, size: int = 4):
    with vx.Graph("on") as g:
        with vx.on(machine.topologies[-1]):
            vx.output("y", vx.exp(vx.input("x", vx.f32[size])))
    return g
""")  # fmt: skip
    assert "@gpu:1" in cli.succeeds("show", "on.py:on", "-m", "h200-x2")
    assert "@cpu:2" in cli.succeeds("show", "on.py:on", "-m", "cpu-x3")
    assert cli.fails("show", "on.py:on") == (
        "error: on.py:3: on takes the machine that it builds for; give one, like -m h200-x2\n"
    )


def test_a_function_may_return_a_graph_that_is_built_or_a_program(cli: Cli) -> None:
    cli.write("made.py", (cli.folder / "mlp.py").read_text() + """
def built():
    return mlp().build()

def program():
    return vx.compile(mlp(), vx.load_machine("h200-x2"))
""")  # fmt: skip
    assert cli.succeeds("show", "made.py:built") == cli.succeeds("show", "made.py:mlp")
    assert cli.succeeds("show", "made.py:program").startswith('program "mlp" version')


def test_a_file_in_a_package_imports_its_package(cli: Cli) -> None:
    cli.write("apart/__init__.py", "")
    cli.write("apart/inner/__init__.py", "")
    cli.write("apart/inner/sizes.py", "WIDTH = 24\n")
    cli.write("apart/inner/net.py", """\
import vxgraph as vx
from apart.inner.sizes import WIDTH

def net():
    with vx.Graph("net") as g:
        vx.output("y", vx.exp(vx.input("x", vx.f32[WIDTH])))
    return g
""")  # fmt: skip
    assert "f32[24]" in cli.succeeds("show", "apart/inner/net.py:net")


def test_a_file_that_another_package_of_its_name_hides_is_an_error(cli: Cli) -> None:
    cli.write("vxgraph/__init__.py", "")
    cli.write("vxgraph/errors.py", "def f(): ...\n")
    told = cli.fails("show", "vxgraph/errors.py:f")
    assert told.startswith("error: vxgraph/errors.py: vxgraph.errors is imported from ")
    assert told.endswith("errors.py instead, which comes first on this Python's path\n")


def test_saved_graphs_and_programs_are_told_apart_by_their_first_word(cli: Cli) -> None:
    cli.succeeds("show", "mlp.py:mlp", "-o", "mlp.txt")
    cli.succeeds("compile", "mlp.py:mlp", "-m", "h200-x2", "-o", "mlp.any")
    assert cli.succeeds("show", "mlp.txt").startswith('graph "mlp" {')
    assert cli.succeeds("show", "mlp.any").startswith('program "mlp" version')
    assert cli.succeeds("show", "mlp.txt", "-m", "h200-x2") == cli.succeeds("show", "mlp.any")
    assert load_program("mlp.any").name == "mlp"


def test_a_file_that_is_neither_is_refused(cli: Cli) -> None:
    cli.write("notes.txt", "graphic novels\n")
    (cli.folder / "raw.bin").write_bytes(b"\xff\xfe\x00")
    for name in ("notes.txt", "raw.bin"):
        assert cli.fails("show", name) == (
            f"error: {name}: neither a graph's text nor a program's; those begin with 'graph' or 'program'\n"
        )


def test_a_saved_target_has_its_values_already(cli: Cli) -> None:
    cli.succeeds("show", "mlp.py:mlp", "-o", "mlp.vxg")
    assert cli.fails("show", "mlp.vxg", "--set", "hidden=4") == (
        "error: --set hidden=4: mlp.vxg is saved, with its values in it; set them where it is built\n"
    )


def test_a_mistake_in_a_saved_graph_names_its_line(cli: Cli) -> None:
    cli.write("bad.vxg", 'graph "g" {\n  arg %x : f32[4\n}\n')
    assert cli.fails("show", "bad.vxg").startswith("error: bad.vxg:3: ")
