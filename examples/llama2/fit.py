"""Whether a saved program is one for these weights: the same parameters, rotated and normalised in the same way.

    s.vxp was compiled for another model than stories15M.bin
      layers.0.wq: f32[576, 576] in the program, f32[288, 288] in the checkpoint

Shapes alone do not tell: interleaved rotary pairs on weights stored in halves give fluent, wrong text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vxgraph as vx
from examples.llama2.config import DType, LlamaConfig, Weights, stored_params
from examples.llama2.model import DTYPES
from vxgraph import ops
from vxgraph.program.instructions import Dispatch, Emit, Loop, flatten

ARGS = {"tokens", "steps", "stop_ids", "temperature", "top_p", "seed"}
SHOWN = 4


def types_of(program: vx.Program, file: Path) -> tuple[DType, Weights]:
    """What a saved program computes in, and stores its matrices in.

    Raises `VxError` for a program that is not this example's.
    """
    found: dict[str, Weights | None] = {
        p.name: _name_of(p.type.dtype) for p in program.params if p.name in ("embed", "norm")
    }
    dtype = found.get("norm")
    weights = found.get("embed")
    if dtype is None or dtype == "int8" or weights is None or not _has_shape_of_a_llama(program):
        raise vx.VxError(
            f"{file}: program {program.name!r} is no Llama; wanted one that 'python -m examples.llama2 compile' wrote"
        )
    return dtype, weights


def _name_of(dtype: vx.DType) -> Weights | None:
    return next((name for name, stored in DTYPES.items() if stored is dtype), None)


def _has_shape_of_a_llama(program: vx.Program) -> bool:
    """What is read of a program before its params are compared: its args, its one kind of emit, its loop."""
    ranks = {i.name: i.type.rank for i in (*program.args, *program.params)}
    emits = {i.name_out for i, _ in flatten(program.body) if isinstance(i, Emit)}
    loops = any(isinstance(i, Loop) for i in program.body)
    args = {arg.name for arg in program.args}
    return args == ARGS and emits == {"token"} and loops and ranks["tokens"] == 1 and ranks["embed"] == 2


def check_fits(program: vx.Program, file: Path, config: LlamaConfig, checkpoint: Path) -> None:
    """`VxError` that lists what differs, where a saved program is not for the checkpoint's configuration."""
    differences = [*_params(program, config), *_attributes(program, config)]
    if differences:
        more = (f"and {len(differences) - SHOWN} more",) if len(differences) > SHOWN else ()
        raise vx.VxError(
            f"{file} was compiled for another model than {checkpoint}", details=(*differences[:SHOWN], *more)
        )


def _params(program: vx.Program, config: LlamaConfig) -> Iterator[str]:
    here = {p.name: str(p.type) for p in program.params}
    there = {name: str(DTYPES[storage][shape]) for name, (storage, shape) in stored_params(config).items()}
    for name in dict.fromkeys((*here, *there)):
        if here.get(name) != there.get(name):
            yield f"{name}: {here.get(name, 'none')} in the program, {there.get(name, 'none')} in the checkpoint"


def _attributes(program: vx.Program, config: LlamaConfig) -> Iterator[str]:
    """What the ops compute with and no shape shows."""
    scaling = config.rope_scaling
    scale = scaling and (scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_max_len)
    wanted = {
        "rope theta": config.rope_theta,
        "rope interleaved": config.rope_interleaved,
        "rope scaling": scale,
        "rmsnorm eps": config.eps,
    }
    found: dict[str, dict[Any, None]] = {name: {} for name in wanted}
    for instr, _ in flatten(program.body):
        match instr:
            case Dispatch(op=ops.Rope() as rope):
                values = {"rope theta": rope.theta, "rope interleaved": rope.interleaved, "rope scaling": rope.scaling}
            case Dispatch(op=ops.RmsNorm() as norm):
                values = {"rmsnorm eps": norm.eps}
            case _:
                continue
        for name, value in values.items():
            found[name][value] = None
    for name, value in wanted.items():
        if list(found[name]) != [value]:
            yield f"{name}: {', '.join(map(str, found[name]))} in the program, {value} in the checkpoint"
