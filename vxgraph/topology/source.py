"""Where machine files are: shipped with the package under a name, or anywhere under a path."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from vxgraph.errors import MachineError

MAX_BYTES = 2**18  # a hundred times what is shipped
# tomllib takes time and memory by the square of a dotted key's parts: 25 s for one of 64 KiB.
MAX_LINE = 1000
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
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
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
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MachineError(f"{source}:{line}: not UTF-8, as TOML must be") from None
    _check_size(text, data, source)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).rpartition(" (at ")
        match = re.match(r"line (\d+)", where)
        line = int(match[1]) if match else data.count(b"\n") + 1
        raise MachineError(f"{source}:{line}: not TOML: {what}") from None
    except RecursionError:
        raise MachineError(
            f"{source}: its arrays or tables are nested too deep; a machine file needs three levels"
        ) from None
    except ValueError as error:  # a date that there is not
        raise MachineError(f"{source}: not TOML: {error}") from None


def _check_size(text: str, data: bytes, source: str) -> None:
    if len(data) > MAX_BYTES:
        raise MachineError(f"{source}: larger than {MAX_BYTES:,} bytes, which no machine file is")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            raise MachineError(
                f"{source}:{number}: a line of {len(line):,} characters; wanted at most {MAX_LINE:,}: an array may go "
                "over several lines"
            )
