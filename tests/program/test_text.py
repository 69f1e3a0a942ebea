"""Programs as text and as files: both ways, proved again, refused with file and line."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vxgraph as vx
from tests.program.samples import SAMPLES
from tests.strategies import graphs
from vxgraph.errors import ProgramError, TextError, VxError
from vxgraph.ir.graph import Graph
from vxgraph.program.text import digest_of

MACHINE = vx.load_machine("cpu-x8")
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# Both ways.


@pytest.mark.parametrize("name", SAMPLES)
def test_reading_gives_the_program_and_printing_the_bytes_again(name: str) -> None:
    program = SAMPLES[name].program()
    read = vx.parse_program(program.text())
    assert read == program
    assert read.text() == program.text()
    assert read.digest == program.digest


@given(graphs())
@QUICK
def test_any_program_reads_back_as_it_is_and_prints_the_same_bytes(graph: Graph) -> None:
    program = vx.compile(graph, MACHINE)
    read = vx.parse_program(program.text())
    assert read == program
    assert read.text() == program.text()


def test_reasons_and_lines_come_back_too() -> None:
    program = SAMPLES["mlp"].program()
    read = vx.parse_program(program.text())
    assert [(i.why, i.loc) for i in read.body] == [(i.why, i.loc) for i in program.body]
    assert [s.loc for s in read.slots] == [s.loc for s in program.slots]


def test_without_lines_of_their_own_things_have_the_text_s_lines() -> None:
    text = re.sub(r' loc "[^"]*"', "", SAMPLES["mlp"].program().text())
    read = vx.parse_program(text, "mlp.vxp")
    assert [str(p.loc) for p in read.params] == ["mlp.vxp:3", "mlp.vxp:4"]
    assert str(read.body[0].loc) == "mlp.vxp:21"


def test_a_program_reads_without_the_graph_and_runs() -> None:
    sample = SAMPLES["hand_over"]
    again = vx.run(vx.parse_program(sample.program().text()), sample.inputs, bind="numpy")
    assert (again["y"] == vx.run(sample.program(), sample.inputs, bind="numpy")["y"]).all()


# The digest.


def digest_line(program: vx.Program) -> str:
    return f'  digest "{program.digest}"\n'


def test_the_digest_does_not_know_reasons_and_lines() -> None:
    program = SAMPLES["hand_over"].program()
    text = re.sub(r' (why|loc) "[^"]*"', "", program.text())
    assert vx.parse_program(text).digest == program.digest
    other = re.sub(r' why "[^"]*"', ' why "another reason"', program.text())
    assert vx.parse_program(other).digest == program.digest


@pytest.mark.parametrize("name", SAMPLES)
def test_every_other_edit_of_a_word_or_a_number_changes_the_digest_or_does_not_read(name: str) -> None:
    program = SAMPLES[name].program()
    body = re.sub(r' (why|loc) "[^"]*"', "", program.text().replace(digest_line(program), ""))
    read = 0
    for match in list(re.finditer(r"%?[A-Za-z_][\w.]*|\d+", body))[1::3]:
        word = match.group()
        new = str(int(word) + 256) if word.isdigit() else word + "_x"
        text = body[: match.start()] + new + body[match.end() :]
        try:
            changed = vx.parse_program(text)
        except VxError:
            continue
        read += 1
        assert changed.digest != program.digest, match
    assert read > 0


EDITED = (
    "the digest is not that of this text, so it was edited; compile again, or delete the digest line to have the "
    "edited program proved and loaded"
)


def test_an_edited_text_is_refused_by_its_digest_line() -> None:
    text = SAMPLES["mlp"].program().text().replace('"h200-x2"', '"h100-x2"')
    line = 1 + text[: text.index("  digest")].count("\n")
    with pytest.raises(ProgramError) as error:
        vx.parse_program(text, "mlp.vxp")
    assert str(error.value) == f"mlp.vxp:{line}: {EDITED}"


def test_an_edited_text_without_a_digest_line_is_proved_and_has_a_digest_of_its_own() -> None:
    program = SAMPLES["mlp"].program()
    text = program.text().replace(digest_line(program), "").replace("silu(", "relu(").replace("%silu", "%relu")
    edited = vx.parse_program(text)
    assert edited.digest != program.digest
    assert vx.parse_program(edited.text()) == edited


def test_the_digest_is_sha256_of_the_text_without_reasons_lines_and_itself() -> None:
    program = SAMPLES["mlp"].program()
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", program.digest)
    assert digest_of(replace(program, name="other")) != program.digest
    assert digest_of(replace(program, memories=())) != program.digest


# What does not read.

MLP = "mlp.vxp"
BAD: dict[str, tuple[str, str, str, str]] = {
    "another start": ("mlp", r"\Aprogram", "graph", "1: expected 'program' after the start, found 'graph'"),
    "no name": ("mlp", r'\Aprogram "mlp"', "program mlp", "1: expected the program's name, found 'mlp'"),
    "another version": (
        "mlp",
        "version 1",
        "version 2",
        "1: the program is in format 2, this vxgraph reads 1; compile it again",
    ),
    "no version": ("mlp", " version 1", "", "1: expected 'version' after the program's name, found 'for'"),
    "no machine": ("mlp", ' for "h200-x2"', "", "1: expected 'for' after the version, found '{'"),
    "no brace": ("mlp", '"h200-x2" {', '"h200-x2"', "2: expected '{' after the machine's name, found 'arg'"),
    "an arg without a type": ("mlp", "arg %x : f32", "arg %x f32", "2: expected ':' after %x, found 'f32'"),
    "an unknown dtype": (
        "mlp",
        "arg %x : f32",
        "arg %x : f31",
        "2: f31 is no dtype; there are f32, f16, bf16, i8, i32, i64, u8, bool",
    ),
    "a memory's numbers": (
        "mlp",
        r'(memory "hbm0" \[gpu:0\]) .*',
        r"\1 [1, 2]",
        "5: expected 6 integers: params, kv, activations, staging, reserved, capacity",
    ),
    "a memory's places": ("mlp", r'memory "hbm0" \[gpu:0\]', 'memory "hbm0" [0]', "5: expected a list of topologies"),
    "an arena's numbers": (
        "mlp",
        r'(arena gpu:0 in "hbm0") .*',
        r"\1 [1, 2, 3, 4, 5.0]",
        "7: expected 5 integers: total, params, kv, activations, staging",
    ),
    "an arena's memory": (
        "mlp",
        "arena gpu:0 in",
        "arena gpu:0",
        "7: expected 'in' after arena gpu:0, found '\"hbm0\"'",
    ),
    "a slot's numbers": ("mlp", r"\[65536, 256\]", "[65536]", "9: expected 2 integers: offset, size"),
    "a slot's kind": (
        "mlp",
        r"\[65536, 256\] staging",
        "[65536, 256] stage",
        "9: 'stage' is no kind of slot; there are param, kv, activation, staging",
    ),
    "a slot's place": (
        "mlp",
        r"(slot %x.gpu0 : f32\[1, 64\]) @gpu:0",
        r"\1",
        "9: expected '@' after the slot's type, found '['",
    ),
    "no load section": ("mlp", r"(?s)  load \{.*?  \}\n", "", "16: expected 'load' after the slots, found 'run'"),
    "no run section": (
        "mlp",
        r"(?s)  run \{.*?  \}\n",
        "",
        "20: expected 'run' after the load section, found 'result'",
    ),
    "no instruction": ("mlp", r"%silu = silu", "silu", "23: expected an instruction, found 'silu'"),
    "an unknown op": ("mlp", r"= silu\(", "= sylu(", "23: there is no op 'sylu'"),
    "an unknown attribute": (
        "mlp",
        r"silu\(%matmul\)",
        "silu(%matmul) {by = 2}",
        "23: silu has no attribute 'by'; it has none",
    ),
    "no type": (
        "mlp",
        r"(silu\(%matmul\)) : f32\[1, 256\]",
        r"\1",
        "23: expected ':' after silu's operands, found '@'",
    ),
    "more types than outputs": (
        "mlp",
        r"(silu\(%matmul\) : f32\[1, 256\])",
        r"\1, f32[1]",
        "23: 1 outputs, but 2 types",
    ),
    "two outputs of a move": (
        "mlp",
        "%silu.gpu1 = transfer_peer",
        "%silu.gpu1, %b = transfer_peer",
        "24: transfer_peer defines one value, not %silu.gpu1, %b",
    ),
    "no place": (
        "mlp",
        r"(silu\(%matmul\) : f32\[1, 256\]) @gpu:0",
        r"\1",
        "23: expected '@' after the type, found 'why'",
    ),
    "a place outside its band": (
        "mlp",
        r"(silu\(%matmul\) : f32\[1, 256\]) @gpu:0",
        r"\1 @gpu:100",
        "23: gpu:100 is outside its band; indices run from 0 to 99",
    ),
    "a transfer to nowhere": ("mlp", " -> gpu:1 direct", "", "24: expected '->' after @gpu:0, found 'after'"),
    "an unknown route": (
        "mlp",
        "gpu:1 direct",
        "gpu:1 fast",
        "24: 'fast' is no route; there are local, direct, staged",
    ),
    "a wait that ends in a comma": (
        "mlp",
        "after %silu ",
        "after %silu, ",
        "24: expected a value after the comma, found 'why'; a list does not end in a comma",
    ),
    "a wait for nothing": ("mlp", "after %silu ", "after ", "24: expected a value like %x, found 'why'"),
    "a loop without steps": ("swap", "loop max_steps 3", "loop", "28: expected 'max_steps' after loop, found '{'"),
    "a carry of three": (
        "swap",
        "-> %add.step.next.1 -> %loop",
        "-> %loop",
        "30: expected '->' after %loop, found 'carry'",
    ),
    "a result without a value": ("mlp", r'result "y" = .*', 'result "y" =', "29: expected a value like %x, found '}'"),
    "a line is no file:line": ("mlp", r'(arg %x .*) loc ".*"', r'\1 loc "here"', "2: 'here' is no file:line"),
    "a donation of nothing": (
        "hand_over",
        "donation %cache_init from",
        "donation %cache_init",
        "51: expected 'from' after %cache_init, found '%mul.gpu1'",
    ),
    "something after the end": ("mlp", r"\}\n\Z", "}\nmore\n", "30: expected the end after the program, found 'more'"),
    "no end": ("mlp", r"\}\n\Z", "", "29: expected '}' after the program's lines, found 'the end of the text'"),
    "a character that means nothing": ("mlp", "  run", "  ! run", "20: unexpected character '!'"),
    "an open string": ("mlp", 'result "y"', 'result "y', "28: unexpected character '\"'"),
}


@pytest.mark.parametrize("what", BAD)
def test_it_does_not_read_with(what: str) -> None:
    name, old, new, message = BAD[what]
    program = SAMPLES[name].program()
    text = program.text().replace(digest_line(program), "")
    text, count = re.subn(old, new, text, count=1)
    assert count == 1
    with pytest.raises(TextError) as error:
        vx.parse_program(text, MLP)
    assert str(error.value) == f"{MLP}:{message}"


FUZZED = [SAMPLES[n].program().text() for n in ("mlp", "hand_over", "emits", "swap")]
BITS = [
    "",
    "%",
    "{",
    "}",
    "[",
    "]",
    "-1",
    "99999999999999999999",
    "1e999",
    '"',
    "\\",
    "loop",
    "dim T = 2\n",
    "\x00",
    "é",
    "gpu:7",
    "@",
    ",",
]


@given(st.sampled_from(FUZZED), st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_text_raises_nothing_but_our_errors(text: str, data: st.DataObject) -> None:
    text = re.sub(r"  digest .*\n", "", text) if data.draw(st.booleans()) else text
    for _ in range(data.draw(st.integers(1, 3))):
        match data.draw(st.sampled_from(["cut", "insert", "line", "token"])):
            case "cut":
                a = data.draw(st.integers(0, len(text)))
                text = text[:a] + text[a + data.draw(st.integers(1, 40)) :]
            case "insert":
                a = data.draw(st.integers(0, len(text)))
                text = text[:a] + data.draw(st.sampled_from(BITS)) + text[a:]
            case "line":
                lines = text.splitlines(keepends=True) or [""]
                a, b = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
                lines[a] = lines[b]
                text = "".join(lines)
            case _:
                words = list(re.finditer(r"%?[\w.]+", text)) or [re.match("", text)]
                a, b = (data.draw(st.sampled_from(words)) for _ in range(2))
                text = text[: a.start()] + b.group() + text[a.end() :]
    with suppress(VxError):
        vx.parse_program(text, "fuzz.vxp")


# Files.


def test_a_saved_program_loads_as_it_was(tmp_path: Path) -> None:
    program = SAMPLES["hand_over"].program()
    program.save(tmp_path / "p.vxp")
    assert vx.load_program(tmp_path / "p.vxp") == program
    assert os.listdir(tmp_path) == ["p.vxp"]


def test_a_saved_program_can_be_read_by_whom_the_umask_says(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        SAMPLES["mlp"].program().save(str(tmp_path / "p.vxp"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "p.vxp").stat().st_mode) == 0o644


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "p.vxp"
    with pytest.raises(ProgramError) as error:
        SAMPLES["mlp"].program().save(path)
    assert str(error.value) == f"{path}: cannot write: No such file or directory"


def test_a_folder_in_the_file_s_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as error:
        SAMPLES["mlp"].program().save(tmp_path)
    assert str(error.value) == f"{tmp_path}: cannot write: Is a directory"
    assert [p.name for p in tmp_path.parent.glob(f"{tmp_path.name}.*")] == []


def test_a_disk_that_fills_up_leaves_the_old_file_whole_and_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.vxp"
    SAMPLES["swap"].program().save(path)
    before = path.read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ProgramError) as error:
        SAMPLES["mlp"].program().save(path)
    assert str(error.value) == f"{path}: cannot write: No space left on device"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["p.vxp"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as error:
        vx.load_program(tmp_path / "p.vxp")
    assert str(error.value) == f"{tmp_path / 'p.vxp'}: cannot read: No such file or directory"


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.vxp").write_bytes(b"GGUF\x03\x00\xff\xfe")
    with pytest.raises(ProgramError) as error:
        vx.load_program(tmp_path / "p.vxp")
    assert str(error.value) == (f"{tmp_path / 'p.vxp'}: is no text; wanted a program that 'vxgraph compile -o' wrote")


def test_a_file_of_another_version_says_which_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "p.vxp"
    path.write_text(SAMPLES["mlp"].program().text().replace("version 1", "version 3"))
    with pytest.raises(TextError) as error:
        vx.load_program(path)
    assert str(error.value) == f"{path}:1: the program is in format 3, this vxgraph reads 1; compile it again"
