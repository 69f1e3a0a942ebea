"""What fuzzing found in the readers of graphs, programs and machine files; each was an exception, a hang or a flood."""

from __future__ import annotations

from pathlib import Path

import pytest

import vxgraph as vx
from tests.work import calls
from vxgraph.errors import MachineError, TextError, VxError
from vxgraph.topology.tables import MAX_MISTAKES, MAX_TABLES

PROGRAM = 'program "p" version 1 for "cpu" {{\n{}  load {{\n  }}\n  run {{\n{}  }}\n}}\n'


def refusal(text: str) -> str:
    with pytest.raises(VxError) as error:
        (vx.parse_graph if text.startswith("graph") else vx.parse_program)(text)
    return str(error.value)


def loops(depth: int, steps: int = 2) -> str:
    heads = "".join(f"%s{k} = loop max_steps {steps} {{\n" for k in range(depth))
    return PROGRAM.format("", heads + "}\n" * depth)


def test_a_program_of_loops_in_loops_ends_where_a_graph_does() -> None:
    vx.parse_program(loops(32))
    assert refusal(loops(33)) == "<program>:37: loops are nested more than 32 deep"
    assert refusal(loops(5000)) == "<program>:37: loops are nested more than 32 deep"


def test_loops_in_loops_are_proved_in_time_of_their_depth() -> None:
    """It was two to the power of it."""
    shallow, deep = (calls(lambda d=depth: vx.parse_program(loops(d))) for depth in (8, 32))
    assert deep < 64 * shallow


def test_loops_in_loops_take_no_more_steps_than_an_index_counts() -> None:
    """Their product was a float too large."""
    vx.parse_program(loops(2, 2**31))
    message = "loops in loops take up to 2147483648 x 2147483648 x 2147483648 steps; at most 9223372036854775807"
    assert refusal(loops(3, 2**31)) == f"<program>:7: {message}"
    body = 'body "b" { arg %x{k} : f32[] \n'
    graph = 'graph "g" { arg %x : f32[]\n' + "".join(
        "%y" + str(k) + " = loop(%x) {carried = 1, max_steps = 2147483648}\n" + body.replace("{k}", str(k))
        for k in range(3)
    )
    assert refusal(graph) == f"<graph>:7: {message}"


def test_a_loop_of_no_steps_is_no_loop() -> None:
    assert refusal(loops(1, 0)) == "<program>:5: max_steps is 0, wanted 1 or more"
    assert refusal(loops(1, -(2**60))) == "<program>:5: max_steps is -1152921504606846976, wanted 1 or more"


def test_the_product_of_a_hundred_thousand_dims_is_not_asked_for() -> None:
    """It took minutes; the work is now that of reading them."""
    few, many = ('graph "g" { arg %x : f32[' + ", ".join(["9223372036854775807"] * n) + "] }" for n in (1_000, 10_000))
    assert refusal(few).endswith(" characters)")
    assert calls(lambda: refusal(many)) < 15 * calls(lambda: refusal(few))


def test_a_name_of_a_million_characters_is_not_all_of_the_message() -> None:
    message = refusal('graph "g" { ' + "a" * 10**6)
    assert message == f"<graph>:1: expected '}}' after the graph's lines, found '{'a' * 455}... (1000046 characters)"


def test_a_memory_of_less_than_nothing_is_refused() -> None:
    memory = '  memory "m" [gpu:0] [-5, 0, 0, 0, 0, 100]\n'
    assert refusal(PROGRAM.format(memory, "")) == '<program>:2: memory "m" has -5 bytes of something'


def test_a_program_has_no_more_places_than_its_proof_keeps_clocks_of() -> None:
    """Ten thousand places took gigabytes for a text of a megabyte."""
    arenas = "".join(f'  arena dsp#{1000 + k} in "m" [0, 0, 0, 0, 0]\n' for k in range(257))
    assert refusal(PROGRAM.format(arenas, "")) == "<program>:258: more than 256 arenas"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('graph "g" { %x = constant() {type = ' + "[" * 10**5, "<graph>:1: lists are nested more than 8 deep"),
        ('graph "' + "\\" * 10**5, "<graph>:1: unexpected character '\"'"),
        (
            'graph "g" { arg %x : f32[' + "9" * 10**5 + "] }",
            "<graph>:1: a dim's name or size is at most 18446744073709551616, found 999999999999999999999999...",
        ),
        ("graph " + "(" * 10**5, "<graph>:1: expected the graph's name, found '('"),
        ('graph "\\ud800\\x" {}', '<graph>:1: "\\ud800\\x" has an escape that JSON does not know'),
    ],
)
def test_depth_and_length_are_one_message(text: str, message: str) -> None:
    assert refusal(text) == message


# Machine files.

MACHINE = """\
host = "host"

[[memory]]
name = "host"
capacity = { gib = 1, from = "policy" }
bandwidth = { gb_per_s = 10, from = "policy" }
granule = { kib = 4, from = "policy" }
reserved = { bytes = 0, from = "policy" }

[[device]]
topology = "cpu:0"
memory = "host"
reads = ["host"]
flops.f32 = { tflop_per_s = 1, from = "policy" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(folder: Path, text: str) -> str:
    (folder / "box.toml").write_text(text)
    with pytest.raises(MachineError) as error:
        vx.load_machine("box.toml")
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a." * 32000 + "a = 1",
            "box.toml:1: a line of 64,005 characters; wanted at most 1,000: an array may go over several lines",
        ),
        ("#" + "\n" * 2**18, "box.toml: larger than 262,144 bytes, which no machine file is"),
        ("a = " + "[" * 900, "box.toml: its arrays or tables are nested too deep; a machine file needs three levels"),
        (
            "a = " + "[\n" * 5000,
            "box.toml: its arrays or tables are nested too deep; a machine file needs three levels",
        ),
        ("a = 1979-02-31", "box.toml:1: not TOML: Invalid date or datetime"),
        (MACHINE.replace("gib = 1,", "gib = 0x" + "f" * 900 + ","), ""),
    ],
)
def test_a_machine_file_of_any_depth_and_length_is_one_message(folder: Path, text: str, message: str) -> None:
    found = complaint(folder, text)
    assert found == message or (not message and found.startswith("box.toml: [[memory]] 1: capacity: gib: found "))


def test_a_name_given_ten_thousand_times_makes_no_hundred_million_links(folder: Path) -> None:
    link = (
        '\n[[link]]\nbandwidth = { gb_per_s = 1, from = "policy" }\nlatency = { us = 1, from = "policy" }\namong = [\n'
    )
    text = MACHINE + link + '"host",\n' * 10_000 + "]\n"
    found = complaint(folder, text)
    assert found.startswith("box.toml: [[link]] 1: among: found ['host', 'host',")
    assert len(found) < 700
    assert calls(lambda: complaint(folder, text)) < 10_000_000


def test_of_a_thousand_mistakes_the_first_are_shown(folder: Path) -> None:
    found = complaint(folder, MACHINE + "\n".join(f"x{k} = 1" for k in range(1000))).splitlines()
    assert len(found) == MAX_MISTAKES + 1
    assert found[-1] == "  and more"


def test_a_machine_has_no_more_memories_than_its_links_can_be_listed_for(folder: Path) -> None:
    table = MACHINE[MACHINE.index("[[memory]]") : MACHINE.index("[[device]]")]
    text = MACHINE + "".join(table.replace('"host"', f'"m{k}"') for k in range(MAX_TABLES))
    assert complaint(folder, text) == "box.toml: memory: more than 256 tables"


def test_parse_errors_are_text_errors() -> None:
    with pytest.raises(TextError):
        vx.parse_program("\x00")
