"""The compiled kernels in this process: loaded once, or the reason why there are none.

match library():
    case Library() as lib: lib.address("gemv_f32")
    case NoLibrary(reason): ...                       "no C compiler is on the PATH ..."
"""

from __future__ import annotations

import tempfile
from ctypes import CDLL, c_int, c_int32, c_int64, c_void_p, cast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vxgraph.errors import InternalError
from vxgraph.runtime.backends.numpy.native.build import NoBuildError, Recipe, built, cache_folder, recipe


@dataclass(frozen=True, slots=True)
class Library:
    """The loaded library; `note` says what people should know about it, or is empty."""

    path: Path
    made_of: Recipe
    lib: CDLL
    note: str = ""

    def address(self, function: str) -> int:
        """Where a kernel begins."""
        try:
            return cast(getattr(self.lib, function), c_void_p).value or 0
        except AttributeError as error:
            raise InternalError(f"the C source has no function {function!r}") from error


@dataclass(frozen=True, slots=True)
class NoLibrary:
    """Nothing is loaded: NumPy's kernels do it all."""

    reason: str


@cache
def library() -> Library | NoLibrary:
    """This process's library, compiled first where the cache has none."""
    try:
        return load(recipe(), cache_folder())
    except (NoBuildError, RuntimeError) as error:  # RuntimeError: Path.home() of a user who has none
        return NoLibrary(str(error))


def load(made_of: Recipe, folder: Path) -> Library | NoLibrary:
    """The library from `folder`, or from a temporary one where that cannot be written."""
    try:
        return _loaded(made_of, built(made_of, folder), "")
    except NoBuildError as error:
        if not isinstance(error.__cause__, OSError) or not str(error).startswith(str(folder)):
            return NoLibrary(str(error))
        note = f"{error}: compiled for this process only"
    with tempfile.TemporaryDirectory(prefix="vxgraph-") as inside:
        try:
            return _loaded(made_of, built(made_of, Path(inside)), note)
        except NoBuildError as error:
            return NoLibrary(str(error))


def _loaded(made_of: Recipe, path: Path, note: str) -> Library | NoLibrary:
    try:
        lib = CDLL(str(path))
        lib.pool_open.restype, lib.pool_open.argtypes = c_void_p, (c_int, c_int)
        lib.pool_threads.restype, lib.pool_threads.argtypes = c_int, (c_void_p,)
        lib.pool_reserve.restype, lib.pool_reserve.argtypes = c_int, (c_void_p, c_int64, c_int64)
        lib.pool_run.restype, lib.pool_run.argtypes = c_int32, (c_void_p, c_void_p, c_int32)
        lib.pool_close.restype, lib.pool_close.argtypes = None, (c_void_p,)
    except (OSError, AttributeError) as error:
        return NoLibrary(f"{path} does not load: {error}")
    return Library(path, made_of, lib, note)
