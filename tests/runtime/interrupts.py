"""Ctrl-C at a chosen line: deterministic, so that every line of a run can have its turn.

    with Interrupt(after=120) as interrupt:
        session.run(inputs)                  raises KeyboardInterrupt before the 121st line that the runtime executes
    interrupt.where                          ("/executor.py", 203), or None where there were fewer lines

Lines of `vxgraph/runtime` count, the backends' and contextlib's too. The line of a `with` whose block has ended does
not: CPython looks for signals where a function starts, where a loop goes back and after a call, never between a block
and its `__exit__`. `places` are the lines before, all of them where nothing interrupts; `firsts` and `lasts` choose
among them.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

import vxgraph.runtime

Place = tuple[str, int]  # a file and a line of it
HERE = str(Path(vxgraph.runtime.__file__).parent)
WATCHED = HERE, contextlib.__file__


class Interrupt:
    """Raises KeyboardInterrupt before the line that follows `after` others."""

    def __init__(self, after: int | None = None, *, swallow: bool = True) -> None:
        self.after = after
        self.swallow = swallow
        self.places: list[Place] = []
        self.where: Place | None = None

    def __enter__(self) -> Self:
        sys.settrace(self._call)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> bool:
        sys.settrace(None)
        return self.swallow and isinstance(error, KeyboardInterrupt)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(WATCHED):
            return None
        exits, places, after = _exits(frame.f_code), self.places, self.after

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line" and frame.f_lasti not in exits:
                if len(places) == after:
                    self.where = file.removeprefix(HERE), frame.f_lineno
                    raise KeyboardInterrupt  # CPython stops tracing here
                places.append((file.removeprefix(HERE), frame.f_lineno))
            return line

        return line


def _exits(code: CodeType) -> frozenset[int]:
    """`_find_exits`, without hashing the code."""
    if id(code) not in _known:
        _known[id(code)] = code, _find_exits(code)
    return _known[id(code)][1]


_known: dict[int, tuple[CodeType, frozenset[int]]] = {}


def _find_exits(code: CodeType) -> frozenset[int]:
    """Where a block has ended and its `__exit__` is called (with three times None, or with an exception), or has begun
    and nothing has run yet."""
    found: set[int] = set()
    window: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        window = [*window[-2:], instruction]
        if len(window) == 3 and all(i.opname == "LOAD_CONST" and i.argval is None for i in window):
            found.add(window[0].offset)
        if instruction.opname == "WITH_EXCEPT_START":
            found.update(i.offset for i in window)
        if instruction.opname == "NOP" and window[0].opname == "BEFORE_WITH":
            found.add(instruction.offset)  # a `try` that begins a block: in no one's care yet
    return frozenset(found)


def firsts(places: Sequence[Place], besides: Collection[Place] = ()) -> list[int]:
    """For each line its first execution, as a number to give as `after`; not for those in `besides`."""
    found = {place: n for n, place in reversed(list(enumerate(places))) if place not in besides}
    return sorted(found.values())


def lasts(places: Sequence[Place]) -> list[int]:
    """For each line its last execution."""
    return sorted({place: n for n, place in enumerate(places)}.values())
