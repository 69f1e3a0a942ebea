"""What can go wrong, and whose mistake it was.

    model.py:41: matmul: f32[4, 64] has 64 columns but f32[32, 64] has 32 rows
      operands: %x: f32[4, 64], %w: f32[32, 64]

`VxError` and its family are the user's mistakes: one message that says where, what was found, what was wanted and what
to do. `InternalError` is ours: a broken invariant, never to be caught and explained away.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loc:
    """A place in the user's source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_shown: dict[str, str] = {}


def user_loc() -> Loc:
    """The line of the caller's code that is being run: the innermost frame outside this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # the only way to a caller's line without a traceback
    # By module, not by file: a dataclass's generated __init__ has no file.
    while frame.f_globals.get("__name__", "").partition(".")[0] == "vxgraph" and frame.f_back is not None:
        frame = frame.f_back
    return Loc(_show(frame.f_code.co_filename), frame.f_lineno)


def _show(file: str) -> str:
    """The file relative to the current directory where it is below it."""
    if file not in _shown:
        _shown[file] = file.removeprefix(os.getcwd() + os.sep)
    return _shown[file]


class VxError(Exception):
    """A mistake of the user's. `str()` is the whole message: `loc: message`, then one indented line per detail."""

    def __init__(self, message: str, *, loc: Loc | None = None, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.details = details

    def __str__(self) -> str:
        head = f"{self.loc}: {self.message}" if self.loc else self.message
        return "\n".join((head, *(f"  {line}" for line in self.details)))


class GraphError(VxError):
    """The graph is wrong: a name used twice, a cycle, a value that is not there, types that do not unify."""


class PlacementError(VxError):
    """A node cannot run where it was put."""


class MachineError(VxError):
    """A machine file, a topology id or a device name is wrong."""


class TextError(VxError):
    """A graph's or a program's text does not parse."""


class ProgramError(VxError):
    """A program does not prove: an operand not resident, a missing order, an overlapping slot."""


class AdmissionError(VxError):
    """The program does not fit the machine. The first `len(rows)` details are its table, and `rows` that table's cells,
    for those who lay it out anew."""

    def __init__(
        self,
        message: str,
        *,
        loc: Loc | None = None,
        details: tuple[str, ...] = (),
        rows: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        super().__init__(message, loc=loc, details=details)
        self.rows = rows


class BindError(VxError):
    """A topology cannot be bound to anything that is here."""


class RunError(VxError):
    """Bad inputs to a run, or a run that had to stop."""


class HazardError(RunError):
    """What a run did is right by luck at best: no order of the plan makes sure of it. `kind` names what it is."""

    def __init__(self, message: str, *, kind: str, loc: Loc | None = None, details: tuple[str, ...] = ()) -> None:
        super().__init__(message, loc=loc, details=details)
        self.kind = kind


class ConformanceError(VxError):
    """What ran is not what was planned."""


class CheckpointError(VxError):
    """A model file is truncated, of another format, or does not fit its own configuration."""


class InternalError(Exception):
    """A broken invariant of vxgraph itself; the message names the pass or the step that broke it."""
