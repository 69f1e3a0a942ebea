"""Running the user's Python: a file as a module, and what it raises as one message with the user's line.

model.py:3: importing model.py raised ModuleNotFoundError: No module named 'numppy'
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType

from vxgraph.errors import InternalError, Loc, VxError

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NOT_THE_USERS = (_OURS, "<frozen", *(sysconfig.get_path(key) + os.sep for key in ("stdlib", "purelib", "platlib")))
_ALONE = "__target__"  # the name of a module that lies in no package


class UserCodeError(VxError):
    """The user's own Python raised something."""


def import_file(path: Path) -> ModuleType:
    """The file as a module, under its dotted name where it lies in a package, so that its imports work."""
    try:
        if not path.is_file():
            raise UserCodeError(f"{path}: there is no such file")
    except OSError as error:  # a name too long, a folder that nobody may look into
        raise UserCodeError(f"{path}: {error.strerror}") from None
    with in_user_code(f"importing {path}", path):
        package, root = _package_of(path.resolve())
        _put_first(root)
        module = importlib.import_module(package) if "." in package else _import_alone(path)
    if module.__file__ is None or Path(module.__file__).resolve() != path.resolve():
        raise UserCodeError(
            f"{path}: {package} is imported from {module.__file__} instead, which comes first on this Python's path"
        )
    return module


def _package_of(file: Path) -> tuple[str, Path]:
    """The file's dotted name, and the first folder above it that is no package."""
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts)), folder


def _put_first(root: Path) -> None:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))


def _import_alone(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_ALONE, path)
    if spec is None or spec.loader is None:
        raise UserCodeError(f"{path}: is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_ALONE] = module  # dataclasses look their module up while it is imported
    spec.loader.exec_module(module)
    return module


@contextmanager
def in_user_code(doing: str, path: Path) -> Generator[None]:
    """Whatever is raised inside becomes one UserCodeError at the user's innermost line; VxErrors pass."""
    try:
        yield
    except (VxError, InternalError):
        raise
    except SyntaxError as error:
        loc = Loc(_shown(error.filename or str(path)), error.lineno or 1)
        raise UserCodeError(f"{doing}: {error.msg}", loc=loc) from None
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise UserCodeError(f"{doing} raised {text}", loc=_users_line(error.__traceback__)) from None


def _users_line(tb: TracebackType | None) -> Loc | None:
    """The innermost frame that is neither ours nor a library's."""
    for frame in reversed(traceback.extract_tb(tb)):
        if not frame.filename.startswith(_NOT_THE_USERS):
            return Loc(_shown(frame.filename), frame.lineno or 1)
    return None


def _shown(file: str) -> str:
    return file.removeprefix(os.getcwd() + os.sep)
