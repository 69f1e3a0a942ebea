"""What a command feeds a program with: files where they are given, else what is drawn, and a line that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vxgraph.errors import RunError
from vxgraph.ir.types import Array
from vxgraph.program.model import Program
from vxgraph.tools.arrays import draw_args, draw_params, read_arrays, sizes_of

MOST_DIGITS = 19  # of a size


@dataclass(frozen=True, slots=True)
class Feed:
    """Args and params, and what was drawn of them."""

    args: Mapping[str, Array]
    params: Mapping[str, Array]
    drawn: str  # "drawn from seed 0: args, T = 16; params", or nothing


def feed(program: Program, *, inputs: Path | None, params: Path | None, sizes: Sequence[str], seed: int) -> Feed:
    """Reads or draws; RunError for a file that is none, a size out of range, or sizes where a file has them."""
    args, drawn = _args(program, inputs, sizes, seed)
    held = draw_params(program, seed) if params is None else read_arrays(params, program.params)
    drawn += ["params"] if params is None and program.params else []
    return Feed(args, held, f"drawn from seed {seed}: {'; '.join(drawn)}" if drawn else "")


def _args(
    program: Program, file: Path | None, sizes: Sequence[str], seed: int
) -> tuple[Mapping[str, Array], list[str]]:
    """The args, and what was drawn for them."""
    if file is not None:
        if sizes:
            raise RunError(f"--size {sizes[0]}: the arrays of {file} have sizes of their own")
        return read_arrays(file, program.args), []
    stated = sizes_of(program, dict(map(parse_size, sizes)))
    shown = "".join(f", {name} = {size}" for name, size in stated.items())
    return draw_args(program, stated, seed), [f"args{shown}"] if program.args else []


def parse_size(text: str) -> tuple[str, int]:
    """`T=16` as a name and a number; RunError for anything else."""
    name, _, number = text.partition("=")
    if not number.isdecimal() or len(number) > MOST_DIGITS:
        raise RunError(f"--size {text}: wanted a dim's name and a number, like T=16")
    return name, int(number)
