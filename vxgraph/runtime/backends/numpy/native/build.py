"""Compiles the C source for this machine, once, into the user's cache.

    ~/.cache/vxgraph/native-<what it was made of>-<what it holds>.so

The first part is a hash of the sources, the compiler, its flags and the CPU, so that another one of these makes another
file; the second is a hash of the file itself, so that one that was cut short or changed is made anew and never loaded.
A file gets its name when it is whole: processes that build at once do not disturb each other.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

SOURCES = Path(__file__).parent / "c"
NAMES = ("cc", "gcc", "clang")  # of compilers, the first that is there
SECONDS = 180  # that a compiler may take
_TUNED = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
FLAGS = ("-O3", _TUNED, "-std=gnu17", "-shared", "-fPIC", "-pthread")


class NoBuildError(Exception):
    """Why there is nothing to load, in one line."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a library is made of."""

    sources: Path
    compiler: str  # its path
    version: str  # as the compiler tells it
    flags: tuple[str, ...]
    cpu: str  # the model and what it can do

    @property
    def key(self) -> str:
        """The same for what gives the same library."""
        said = [self.compiler, self.version, *self.flags, self.cpu]
        for path in sorted(self.sources.glob("*.[ch]")):
            said += [path.name, path.read_text(encoding="utf-8")]
        return sha256("\0".join(said).encode()).hexdigest()[:16]

    def command(self, into: Path) -> list[str]:
        """The compiler's command line."""
        files = [str(p) for p in sorted(self.sources.glob("*.c"))]
        return [self.compiler, *self.flags, *files, "-o", str(into), "-lm"]


def recipe(sources: Path = SOURCES) -> Recipe:
    """For this machine; NoBuildError where it has no compiler."""
    compiler = next(filter(None, map(shutil.which, NAMES)), None)
    if compiler is None:
        raise NoBuildError(f"no C compiler is on the PATH ({', '.join(NAMES)}); install one, such as gcc")
    return Recipe(sources, compiler, _version(compiler), FLAGS, _cpu())


def cache_folder() -> Path:
    """Where libraries are kept: the user's cache, as the XDG convention names it."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "vxgraph"


def built(made_of: Recipe, folder: Path) -> Path:
    """The library's file, compiled unless it is there; NoBuildError where that fails or `folder` cannot be written."""
    stem = f"native-{made_of.key}-"
    for path in sorted(folder.glob(f"{stem}*.so")):
        if path.name == _name(stem, path):
            return path
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder) as inside:
            fresh = Path(inside) / "native.so"
            _compile(made_of, fresh)
            path = folder / _name(stem, fresh)
            os.replace(fresh, path)
    except OSError as error:
        raise NoBuildError(f"{folder} cannot be written: {error.strerror}") from error
    _drop_others(folder, stem, path)
    return path


def _name(stem: str, path: Path) -> str:
    try:
        return f"{stem}{sha256(path.read_bytes()).hexdigest()[:16]}.so"
    except OSError:
        return ""


def _drop_others(folder: Path, stem: str, kept: Path) -> None:
    """Those of the same key that do not hold what their name says."""
    for path in folder.glob(f"{stem}*.so"):
        if path != kept and path.name != _name(stem, path):
            with suppress(OSError):
                path.unlink()


def _compile(made_of: Recipe, into: Path) -> None:
    with _told():
        try:
            done = subprocess.run(made_of.command(into), capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise NoBuildError(f"{made_of.compiler} took more than {SECONDS} seconds") from None
        except OSError as error:
            raise NoBuildError(f"{made_of.compiler} does not start: {error.strerror}") from error
    if done.returncode or not into.is_file():
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-1:]
        why = errors[0].strip() if errors else f"exit status {done.returncode}"
        raise NoBuildError(f"{made_of.compiler} fails: {why}")


@contextmanager
def _told() -> Generator[None]:
    """One line while the compiler works, where somebody is there to read it."""
    terminal = sys.stderr if sys.__stderr__ is not None and sys.stderr.isatty() else None
    if terminal is not None:
        terminal.write("compiling the CPU kernels, once for this machine ...")
        terminal.flush()
    try:
        yield
    finally:
        if terminal is not None:
            terminal.write("\r\x1b[K")
            terminal.flush()


def _version(compiler: str) -> str:
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoBuildError(f"{compiler} does not start: {error}") from error
    if said.returncode:
        raise NoBuildError(f"{compiler} --version fails: exit status {said.returncode}")
    return said.stdout.partition("\n")[0]


def _cpu() -> str:
    """A home folder may be shared by machines that cannot run each other's code."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return "\n".join([platform.machine(), *sorted(told)])
