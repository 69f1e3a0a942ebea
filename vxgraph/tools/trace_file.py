"""A trace that we wrote, read back as a timeline: `vxgraph show mlp.vxp --trace run.json` draws it.

run.json: is a trace of another program: found digest 'sha256:51f0...', wanted 'sha256:ad46...' ('mlp')
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vxgraph.errors import VxError
from vxgraph.program.chrome import FORMAT
from vxgraph.program.instructions import Loop, Queued, flatten
from vxgraph.program.model import Program
from vxgraph.program.timeline import Section, Slice, Timeline

WANTED = "wanted what --trace writes"
SHOWN = 80  # characters of what a file says

Microseconds = Annotated[float, Field(allow_inf_nan=False, ge=-1e15, le=1e15)]
Count = Annotated[int, Field(ge=-1, le=2**31)]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _Args(_Model):
    """What is on our slices: an instruction's, or a section's."""

    instruction: str = ""
    observed: str = ""
    step: Count = -1
    loop: str = ""
    first: Count = 0
    last: Count = 0


class _Event(_Model):
    ph: str
    cat: str = ""
    ts: Microseconds = 0.0
    dur: Annotated[Microseconds, Field(ge=0)] = 0.0
    args: _Args = _Args()


class _About(_Model):
    format: int
    digest: str
    source: Literal["predicted", "observed"]
    clock: Literal["virtual", "host", "device"]
    seconds: Annotated[float, Field(allow_inf_nan=False, ge=0)]
    sizes: dict[str, Annotated[int, Field(ge=0, le=2**63)]]
    dropped: Annotated[int, Field(alias="events dropped", ge=0)]


class _File(_Model):
    about: _About = Field(alias="otherData")
    events: list[_Event] = Field(alias="traceEvents")


def load_timeline(path: Path, program: Program) -> Timeline:
    """The timeline of a trace's file; VxError where it cannot be read, is none of ours, or is of another program."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise VxError(f"{path}: cannot read: {error.strerror}; {WANTED}") from None
    except UnicodeDecodeError:
        raise VxError(f"{path}: is no trace of ours: it is no Unicode; {WANTED}") from None
    except ValueError as error:  # a NUL in the path
        raise VxError(f"{path}: cannot read: {error}") from None
    return read_timeline(text, program, str(path))


def read_timeline(text: str, program: Program, path: str) -> Timeline:
    """The timeline of a trace's text; VxError, which names `path`, where it is none of ours or of another program."""
    file = _parse(text, path)
    if file.about.format != FORMAT:
        raise VxError(f"{path}: is a trace of format {file.about.format}, wanted {FORMAT}; write it anew")
    if file.about.digest != program.digest:
        found = file.about.digest[:SHOWN]
        raise VxError(
            f"{path}: is a trace of another program: found digest {found!r}, wanted {program.digest!r} "
            f"({program.name!r}); trace a run of this one"
        )
    return Timeline(
        source=file.about.source,
        clock=file.about.clock,
        seconds=file.about.seconds,
        slices=tuple(sorted(_slices(file, program, path), key=lambda s: s.start)),
        sections=tuple(_sections(file, program, path)),
        left_out=file.about.dropped,
        sizes=file.about.sizes,
    )


def _parse(text: str, path: str) -> _File:
    try:
        return _File.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"][:1].lower() + first["msg"][1:]
        raise VxError(f"{path}: is no trace of ours: {where + ': ' if where else ''}{what[:SHOWN]}; {WANTED}") from None


def _slices(file: _File, program: Program, path: str) -> Iterator[Slice]:
    known = {f"%{i.name}": i for i, _ in flatten(program.body) if isinstance(i, Queued)}
    for number, event in enumerate(file.events):
        if event.ph != "X" or event.cat == "loop":
            continue
        instr = known.get(event.args.instruction)
        if instr is None:
            raise _unknown(path, number, "instruction", event.args.instruction, program)
        yield Slice(instr, event.ts * 1e-6, event.dur * 1e-6, event.args.step, event.args.observed)


def _sections(file: _File, program: Program, path: str) -> Iterator[Section]:
    known = {f"%{i.name}": i.name for i, _ in flatten(program.body) if isinstance(i, Loop)}
    for number, event in enumerate(file.events):
        if event.ph != "X" or event.cat != "loop":
            continue
        args = event.args
        if args.loop not in known:
            raise _unknown(path, number, "loop", args.loop, program)
        yield Section(known[args.loop], args.first, args.last, event.ts * 1e-6, (event.ts + event.dur) * 1e-6)


def _unknown(path: str, number: int, what: str, name: str, program: Program) -> VxError:
    return VxError(
        f"{path}: event {number} is of {what} {name[:SHOWN]!r}, which {program.name!r} has not: the file was edited"
    )
