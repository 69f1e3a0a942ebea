"""What fuzzing found in the command line: paths, numbers, arrays, and names that a terminal or Graphviz would obey."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer.main
from click.testing import CliRunner

import vxgraph as vx
from tests.fuzz import seeds
from vxgraph.tools.cli import app
from vxgraph.tools.files import write_arrays

COMMAND = typer.main.get_command(app)
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("show", "mlp.vxg")`: what it says, where it exits with 0; in a folder with a graph and its program."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp.vxg").write_bytes(seeds.graphs()[0])
    (tmp_path / "mlp.vxp").write_bytes(seeds.programs()[0])

    def run(*words: str, exits: int = 0) -> str:
        done = CliRunner().invoke(COMMAND, list(words))
        assert done.exit_code == exits, done.output
        assert not re.search(r"[^\n\t -~\u00a0-\uffff]", done.output)
        return done.output

    return run


LONG = "a" * 5000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", f"{LONG}.py:f"), f"error: {LONG[:1000]} ... {LONG[:477]}.py: File name too long"),
        (("show", "x\0y"), "error: x\\x00y: cannot read: embedded null byte"),
        (("show", "x\0.py:f"), "error: x\\x00.py: there is no such file"),
        (
            ("show", "mlp.vxg", "-m", "./x\0.toml"),
            "error: x\\x00.toml: cannot read this machine file: embedded null byte",
        ),
        (("show", "mlp.vxg", "-o", "."), "error: .: cannot write: Is a directory"),
        (("show", "mlp.vxg", "-o", ""), "error: .: cannot write: Is a directory"),
        (("compile", "mlp.vxg", "-m", "h200-x2", "-o", "/"), "error: /: cannot write: Is a directory"),
        (("run", "mlp.vxp", "--bind", "numpy", "--inputs", "."), "error: .: cannot read: Is a directory"),
        (
            ("run", "mlp.vxp", "--bind", "numpy", "--size", "T=" + "9" * 20),
            "error: --size T=99999999999999999999: wanted a dim's name and a number, like T=16",
        ),
    ],
)
def test_an_argument_that_nothing_can_be_done_with(run: Run, words: tuple[str, ...], message: str) -> None:
    assert run(*words, exits=1).splitlines()[-1] == message
    assert sorted(os.listdir()) == ["mlp.vxg", "mlp.vxp"]


def test_a_number_of_more_digits_than_python_reads(run: Run) -> None:
    assert "wanted a dim's name and a number" in run("run", "mlp.vxp", "--size", "T=" + "9" * 5000, exits=1)
    assert "Invalid value for '--seed'" in run("run", "mlp.vxp", "--seed", "9" * 5000, exits=2)


def test_a_device_that_is_written_to_stays_a_device(run: Run) -> None:
    """As root, the file that took its place was /dev/null for everyone."""
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("compile", "mlp.vxg", "-m", "h200-x2", "-o", "pipe").endswith("written: pipe\n")
    assert os.read(reader, 20) == b'program "mlp" versio'
    os.close(reader)
    assert not Path("pipe").is_file()


# Arrays.


def member(name: str, header: str, data: bytes = b"") -> None:
    """in.npz with one array, its header as given."""
    raw = header.encode().ljust(117) + b"\n"
    with zipfile.ZipFile("in.npz", "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr(name, b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data)


IS_NONE = "error: in.npz: is no .npz file of arrays; wanted what numpy.savez(path, name=array, ...) writes\n"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,)}",
            "error: in.npz: array 'x.npy' claims 4611686018427387904 bytes, which is more than f32[1, 64] can have in "
            "any dtype\n",
        ),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 64)}", IS_NONE),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1, 64)}", IS_NONE),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 64)}", IS_NONE),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os')}", IS_NONE),
        ("((((((((((", IS_NONE),
    ],
)
def test_an_array_is_not_read_before_its_size_is_known_to_be_right(run: Run, header: str, message: str) -> None:
    member("x.npy", header, b"\x80\x04cos\nsystem\n" * 10)
    assert run("run", "mlp.vxp", "--bind", "numpy", "--inputs", "in.npz", exits=1) == message


def test_what_is_no_input_of_the_program_is_not_read(run: Run) -> None:
    member("bomb.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}")
    found = run("run", "mlp.vxp", "--bind", "numpy", "--inputs", "in.npz", exits=1)
    assert found == "error: there is no arg 'bomb'\n  args: x\n"
    with zipfile.ZipFile("in.npz", "w") as held:
        held.writestr("x", b"not an array")
    assert run("run", "mlp.vxp", "--bind", "numpy", "--inputs", "in.npz", exits=1) == IS_NONE


@pytest.mark.parametrize(("at", "byte"), [(6, 255), (8, 1), (10, 99), (42, 255)])
def test_a_damaged_zip_file_is_one_message(run: Run, at: int, byte: int) -> None:
    """By where the damage was it gave NotImplementedError, RuntimeError, zlib.error and others."""
    data = bytearray(seeds.array_files()[1])
    data[data.index(b"PK\x01\x02") + at] = byte
    Path("in.npz").write_bytes(data)
    assert run("run", "mlp.vxp", "--bind", "numpy", "--inputs", "in.npz", exits=1) == IS_NONE


def test_a_result_whose_name_a_zip_file_cannot_have(tmp_path: Path) -> None:
    for name in ("a\0b", "\ud800", "a" * 2**16):
        with pytest.raises(vx.VxError) as error:
            write_arrays(tmp_path / "out.npz", {name: np.zeros(1)})
        shown = f"{name[:40]!r} is no name for an array in an .npz file; give the output another one"
        assert str(error.value) == shown
    assert os.listdir(tmp_path) == []


# More than there is.


def test_an_arena_of_more_than_the_host_has_is_refused_before_it_is_asked_for(run: Run) -> None:
    program = seeds.undigested(seeds.programs()[0]).decode()
    huge = 10**18 + 65536
    text = re.sub(r'(arena gpu:0 in "hbm0") \[.*\]', rf"\1 [{huge}, 65536, 0, {10**18}, 0]", program)
    Path("huge.vxp").write_text(text)
    found = run("run", "huge.vxp", "--bind", "numpy", exits=1)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found == (
        f"error: gpu:0: 1,000,000,000,000,065,536 bytes are wanted, but this host has {memory:,} and {memory:,} of "
        "them left\n"
    )
    larger = text.replace(str(huge), str(2**64 - 65536)).replace(str(10**18), str(2**64 - 2 * 65536))
    Path("huge.vxp").write_text(larger)
    assert "18,446,744,073,709,486,080 bytes are wanted" in run("run", "huge.vxp", "--bind", "numpy", exits=1)


def test_an_arg_that_the_host_cannot_hold_is_not_drawn(run: Run) -> None:
    program = seeds.undigested(seeds.programs()[0]).decode()
    Path("u.vxp").write_text(program.replace("  arg %x", "  arg %u : f32[1000000000000000]\n  arg %x"))
    assert run("run", "u.vxp", "--bind", "numpy", exits=1) == (
        "error: %u: f32[1000000000000000] takes 4,000,000,000,000,000 bytes, which this host has not to draw it in\n"
    )


def test_the_version_of_what_is_not_installed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError

    def version(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("vxgraph.tools.version.version", version)
    assert run("--version") == "vxgraph (from its source, not installed)\n"


# Names.

EVIL = r"\u001b]0;pwned\u0007\u001b[31m\r\n\u202eok\ud800:smile: [red]x[/red]"
SHOWN = r"\x1b]0;pwned\x07\x1b[31m\r\n\u202eok\ud800:smile: [red]x[/red]"


def evil(text: str) -> str:
    text = re.sub(r'"(mlp|y|hbm0|h200-x2)"', lambda _: f'"{EVIL}"', re.sub(r"\n  digest.*", "", text))
    return re.sub(r' loc "[^"]*"', lambda _: f' loc "{EVIL}:1"', text)


@pytest.mark.parametrize("file", ["e.vxg", "e.vxp"])
@pytest.mark.parametrize(
    "words",
    [
        ("show", "FILE"),
        ("show", "FILE", "--format", "dot"),
        ("check", "FILE", "-m", "h200-x2"),
        ("compile", "FILE", "-m", "h200-x2"),
        ("run", "FILE", "-m", "h200-x2", "--bind", "numpy"),
        ("explain", "FILE", "matmul", "-m", "h200-x2"),
        ("explain", "FILE", "nope", "-m", "h200-x2"),
        ("check", "FILE", "-m", "l4"),
    ],
)
def test_no_name_in_a_file_reaches_the_terminal_as_anything_but_its_letters(
    run: Run, file: str, words: tuple[str, ...]
) -> None:
    Path("e.vxg").write_text(evil(seeds.graphs()[0].decode()))
    Path("e.vxp").write_text(evil(seeds.programs()[0].decode()))
    refuses = "nope" in words or "l4" in words
    found = run(*(file if word == "FILE" else word for word in words), exits=int(refuses))
    assert (file == "e.vxp" and "l4" in words) or "ud800:smile: [red]x[/red]" in found


def test_a_name_is_shown_in_full_and_in_one_line(run: Run) -> None:
    Path("e.vxg").write_text(evil(seeds.graphs()[0].decode()))
    assert run("compile", "e.vxg", "-m", "h200-x2").splitlines()[0] == (
        f"{SHOWN} for h200-x2: 8 instructions on gpu:0, gpu:1"
    )


MARKUP = ("<b>x</b>", "<<IMG SRC='/etc/passwd'/>>", "a:b\\\\", "a\\\\N\\\\E", "--><script>alert(1)</script>", "&lt;")


@pytest.mark.parametrize("name", MARKUP)
def test_no_name_is_markup_in_a_drawing(run: Run, name: str) -> None:
    Path("m.vxg").write_text(f'graph "{name}" {{ arg %x : f32[4]\n %y = neg(%x) : f32[4]\n result "{name}" = %y }}')
    dot = run("show", "m.vxg", "--format", "dot")
    assert "=<" not in dot
    run("show", "m.vxg", "-o", "m.svg")
    import xml.etree.ElementTree as ElementTree

    drawn = ElementTree.parse("m.svg")
    texts = [element.text for element in drawn.iter() if element.tag.endswith("}text")]
    plain = name.replace("\\\\", "\\")
    assert plain in texts
    assert f'result "{plain}"' in texts
    assert not [e.tag for e in drawn.iter() if e.tag.endswith(("}script", "}image", "}a"))]
