"""Where machine files are: shipped with the package under a name, or anywhere under a path."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from vxgraph.errors import MachineError

_SHIPPED = resources.files("vxgraph.topology") / "machines"


@dataclass(frozen=True, slots=True)
class MachineFile:
    """A machine file's contents, not yet checked."""

    name: str  # of the machine: the file's, less its suffix
    source: str  # the file as messages call it
    tables: dict[str, object]


def shipped_machines() -> tuple[str, ...]:
    """The names that `load_machine` knows without a path, sorted."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _SHIPPED.iterdir() if file.name.endswith(".toml")))


def read_machine_file(name_or_path: str | Path) -> MachineFile:
    """Reads a shipped machine by name, or a file: a path has a suffix or a separator. MachineError says what failed."""
    if isinstance(name_or_path, str) and not re.search(r"[./\\]", name_or_path):
        return _shipped(name_or_path)
    path = Path(name_or_path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise MachineError(f"{path}: cannot read this machine file: {reason}") from None
    return MachineFile(path.stem, str(path), _parse(data, str(path)))


def _shipped(name: str) -> MachineFile:
    if name not in shipped_machines():
        raise MachineError(
            f"no machine {name!r} is shipped; wanted one of {', '.join(shipped_machines())}, "
            f"or the path of a machine file, like ./{name or 'box'}.toml"
        )
    file = _SHIPPED / f"{name}.toml"
    return MachineFile(name, file.name, _parse(file.read_bytes(), file.name))


def _parse(data: bytes, source: str) -> dict[str, object]:
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MachineError(f"{source}:{line}: not UTF-8, as TOML must be") from None
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).rpartition(" (at ")
        match = re.match(r"line (\d+)", where)
        line = int(match[1]) if match else data.count(b"\n") + 1
        raise MachineError(f"{source}:{line}: not TOML: {what}") from None
