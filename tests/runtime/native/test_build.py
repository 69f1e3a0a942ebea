"""A library is compiled once for a machine, and where that fails everybody is told why."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path

import pytest

import vxgraph as vx
from vxgraph.runtime.backends.numpy import backend as numpy_backend
from vxgraph.runtime.backends.numpy.about import about_kernels
from vxgraph.runtime.backends.numpy.native import build, library
from vxgraph.runtime.backends.numpy.native.build import SOURCES, NoBuildError, Recipe, built, cache_folder, recipe
from vxgraph.runtime.backends.numpy.native.library import Library, NoLibrary, load

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="this machine has no C compiler named cc")
ANSWER = "int answer(void) { return %d; }\n"


@pytest.fixture
def small(tmp_path: Path) -> Recipe:
    """A recipe whose only source is quick to compile."""
    sources = tmp_path / "c"
    sources.mkdir()
    (sources / "answer.c").write_text(ANSWER % 42)
    return Recipe(sources, str(shutil.which("cc")), "cc 12", ("-shared", "-fPIC"), "a cpu")


def compiler(folder: Path, script: str) -> str:
    """A compiler that is a shell script."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def answer(path: Path) -> int:
    return CDLL(str(path)).answer()


def test_a_second_build_finds_the_first_ones_file(small: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first = built(small, folder)
    before = first.stat().st_mtime_ns
    assert answer(first) == 42
    assert built(replace(small, compiler=small.compiler), folder) == first
    assert first.stat().st_mtime_ns == before
    assert os.listdir(folder) == [first.name]  # nothing half-made is left
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_another_source_compiler_flag_or_cpu_is_another_file(small: Recipe, tmp_path: Path) -> None:
    others = [replace(small, version="cc 13"), replace(small, flags=("-O1",)), replace(small, cpu="another cpu")]
    assert len({small.key, *(other.key for other in others)}) == 4
    before = small.key
    (small.sources / "answer.c").write_text(ANSWER % 43)
    assert small.key != before
    (small.sources / "answer.h").write_text("")
    assert small.key != before


def test_a_file_that_was_cut_short_is_made_again_and_never_loaded(small: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    path = built(small, folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    again = built(small, folder)
    assert answer(again) == 42
    assert os.listdir(folder) == [again.name]


def test_two_processes_that_build_at_once_both_get_a_whole_file(small: Recipe, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ctypes import CDLL\n"
        "from vxgraph.runtime.backends.numpy.native.build import Recipe, built\n"
        f"made_of = Recipe(Path({str(small.sources)!r}), {small.compiler!r}, 'cc 12', {small.flags!r}, 'a cpu')\n"
        f"print(CDLL(str(built(made_of, Path({str(tmp_path / 'cache')!r})))).answer())\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == ["42\n", "42\n"]
    assert all(name.startswith(f"native-{small.key}-") for name in os.listdir(tmp_path / "cache"))


def test_without_a_compiler_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoBuildError) as e:
        recipe()
    assert str(e.value) == "no C compiler is on the PATH (cc, gcc, clang); install one, such as gcc"


def test_a_compiler_that_fails_is_quoted(small: Recipe, tmp_path: Path) -> None:
    broken = compiler(
        tmp_path, "echo \"In file included from x.c\nx.c:3:1: error: unknown type name 'v8f'\" >&2; exit 1"
    )
    with pytest.raises(NoBuildError) as e:
        built(replace(small, compiler=broken), tmp_path / "cache")
    assert str(e.value) == f"{broken} fails: x.c:3:1: error: unknown type name 'v8f'"
    assert os.listdir(tmp_path / "cache") == []


def test_a_compiler_that_writes_nothing_or_ends_without_a_word_is_told(small: Recipe, tmp_path: Path) -> None:
    for script, why in (("exit 0", "exit status 0"), ("exit 3", "exit status 3")):
        broken = compiler(tmp_path, script)
        assert load(replace(small, compiler=broken), tmp_path / "cache") == NoLibrary(f"{broken} fails: {why}")


def test_a_compiler_that_hangs_is_ended(small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SECONDS", 0.05)
    slow = compiler(tmp_path, "exec sleep 60")
    assert load(replace(small, compiler=slow), tmp_path / "cache") == NoLibrary(f"{slow} took more than 0.05 seconds")


def test_a_compiler_that_does_not_start_is_told(small: Recipe, tmp_path: Path) -> None:
    missing = str(tmp_path / "gone")
    assert load(replace(small, compiler=missing), tmp_path / "cache") == NoLibrary(
        f"{missing} does not start: No such file or directory"
    )


def test_what_is_no_library_is_not_loaded(small: Recipe, tmp_path: Path) -> None:
    odd = compiler(tmp_path, 'while [ "$1" != -o ]; do shift; done; echo "not ELF" > "$2"')
    found = load(replace(small, compiler=odd), tmp_path / "cache")
    assert isinstance(found, NoLibrary)
    (path,) = (tmp_path / "cache").iterdir()
    assert found.reason.startswith(f"{path} does not load: ")


def test_where_the_cache_cannot_be_written_the_library_is_this_processs_own(tmp_path: Path) -> None:
    """A file stands where the folder should be: root may write into folders of any mode."""
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "vxgraph"
    sources = tmp_path / "c"
    sources.mkdir()
    for name in ("pool.c", "pool.h"):
        shutil.copy(SOURCES / name, sources)
    found = load(replace(recipe(sources), flags=("-O0", "-std=gnu17", "-shared", "-fPIC", "-pthread")), folder)
    assert isinstance(found, Library)
    assert found.note == f"{folder} cannot be written: Not a directory: compiled for this process only"
    assert found.address("pool_open")
    assert not found.path.exists()


def test_the_cache_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "vxgraph"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")  # to be ignored, says the convention
    assert cache_folder() == Path.home() / ".cache" / "vxgraph"


def test_without_a_library_programs_run_in_numpy_and_devices_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    none = NoLibrary("no C compiler is on the PATH (cc, gcc, clang); install one, such as gcc")
    monkeypatch.setattr(numpy_backend, "library", lambda: none)
    monkeypatch.setattr("vxgraph.runtime.backends.numpy.about.library", lambda: none)
    backend = numpy_backend.NumpyBackend()
    backend.open(vx.CPU[0], "numpy")
    types = (vx.f32[1, 4], vx.f32[8, 4])
    assert backend.kernel(vx.ops.MatMul(transpose_b=True), types, (vx.f32[1, 8],), vx.CPU[0]).by == "numpy"
    backend.close()
    said = dict(about_kernels())
    assert said["kernels in C"] == f"none: {none.reason}"
    assert {"matmul", "attention"} <= set(said["in NumPy"].split(", "))


def test_devices_says_what_runs_an_op() -> None:
    found = library.library()
    assert isinstance(found, Library)
    said = dict(about_kernels())
    assert "matmul" in said["kernels in C"].split(", ")
    assert said["library"] == str(found.path)
    assert found.made_of.version in said["compiler"]


def test_a_line_is_shown_while_the_compiler_works_where_there_is_a_terminal(
    small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built(small, tmp_path / "unseen")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for _ in range(2):  # the second time there is nothing to compile
        built(small, tmp_path / "seen")
    assert capsys.readouterr() == ("", "compiling the CPU kernels, once for this machine ...\r\x1b[K")
