"""`python -m examples.llama2 generate`: text on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import vxgraph as vx
from examples.llama2.commands.options import (
    MACHINE,
    PLACE,
    DTypeOption,
    MachineOption,
    MaxLenOption,
    ModelOption,
    PlaceOption,
    WeightsOption,
)
from examples.llama2.commands.prompt import read_prompt
from examples.llama2.config import DType, Weights
from examples.llama2.fit import check_fits, types_of
from examples.llama2.generate import Decoding, Generation, check_prompt, plan
from examples.llama2.models import Model, open_model
from examples.llama2.show import summary
from examples.llama2.tokenizer import Tokenizer
from vxgraph.runtime.binding import Bind
from vxgraph.tools.commands.options import bindings_of
from vxgraph.tools.exits import guarded
from vxgraph.tools.files import write_text
from vxgraph.tools.plain import plain_text
from vxgraph.tools.progress import upload_progress
from vxgraph.tools.terminal import show


@guarded
def generate(
    prompt: Annotated[str, typer.Option("--prompt", help="The text to go on from; - reads it from standard input.")],
    model: ModelOption = "smollm2-135m",
    chat: Annotated[bool, typer.Option("--chat", help="The prompt is a message to the assistant.")] = False,
    place: PlaceOption = None,
    machine: MachineOption = None,
    bind: Annotated[
        list[str] | None,
        typer.Option("--bind", metavar="PLACE=DEVICE", help="gpu:0=cuda:0, gpu:0=numpy, or numpy for every place."),
    ] = None,
    require_gpu: Annotated[bool, typer.Option("--require-gpu", help="Fail where a gpu place is not on a GPU.")] = False,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens to generate, at most.")] = 256,
    max_len: MaxLenOption = None,
    dtype: DTypeOption = None,
    weights: WeightsOption = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token; more is more varied.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Sample from the likeliest tokens that have this probability.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    ids: Annotated[bool, typer.Option("--ids", help="Print token ids instead of text.")] = False,
    tokenizer: Annotated[
        Path | None, typer.Option(help="The tokenizer's file.", show_default="in the checkpoint or beside it")
    ] = None,
    program: Annotated[
        Path | None, typer.Option(help="A saved program: its placement, machine, sizes and types hold.")
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Observe every execution, not only each first one.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the run as a Chrome trace (chrome://tracing).")] = None,
) -> None:
    """Generate text, and check that the run was the plan.

    Without a GPU it runs on NumPy, and says so.

    It ends at the model's end of turn, after --max-tokens, or where the context is full.

    Example: python -m examples.llama2 generate --chat --prompt "Write one sentence about the moon." --place pipeline
    """
    decoding = Decoding(max_tokens, temperature, top_p, seed)
    bound = bindings_of(bind or [])
    _check_folder(trace)
    text = read_prompt(prompt)
    saved = _Saved.load(program, place=place, machine=machine, max_len=max_len, dtype=dtype, weights=weights)
    dtype, weights = (saved.dtype, saved.weights) if saved else (dtype, weights)
    opened = open_model(model, dtype=dtype, weights=weights, tokenizer=tokenizer, console=Console(stderr=True))
    config = opened.checkpoint.config
    if saved:
        check_fits(saved.program, saved.file, config, opened.checkpoint.path)
        planned = saved.program
    else:
        planned = plan(config, place or PLACE, vx.load_machine(machine or MACHINE), max_len=max_len)
    prompt_ids = _encode(opened.tokenizer, text, chat=chat)
    check_prompt(planned, prompt_ids)
    watch = {"require_gpu": require_gpu, "audit": audit, "trace": trace is not None}
    with (
        _session(planned, opened, bound, **watch) as session,
        closing(Generation(session, prompt_ids, decoding, stop_ids=opened.tokenizer.stop_ids)) as generation,
    ):
        try:
            if ids:
                _print_ids(generation)
            else:
                _print_text(generation, opened.tokenizer)
        except KeyboardInterrupt:
            _say("\n")  # after the text so far
            raise
        session.report.conforms()
        if trace is not None:
            write_text(trace, json.dumps(session.report.chrome_trace()))
        show(*summary(session, generation), stderr=True, places=planned.topologies)


@dataclass(frozen=True, slots=True)
class _Saved:
    """A program from a file, and what it says of the checkpoint that it wants."""

    file: Path
    program: vx.Program
    dtype: DType
    weights: Weights

    @classmethod
    def load(cls, file: Path | None, **decided: object) -> _Saved | None:
        """None without a file. `VxError` where it is no Llama, or an option is given that it has decided already."""
        if file is None:
            return None
        if given := [name for name, value in decided.items() if value is not None]:
            option = "--" + given[0].replace("_", "-")
            raise vx.VxError(f"{option} is decided in {file}; leave it out, or compile another program with it")
        program = vx.load_program(file)
        return cls(file, program, *types_of(program, file))


def _check_folder(file: Path | None) -> None:
    """`VxError` where a file cannot be written later for want of its folder: a run is long to lose."""
    if file is not None and not os.path.isdir(file.parent):
        raise vx.VxError(f"{file}: there is no folder {file.parent} to write it to")


def _encode(tokenizer: Tokenizer, text: str, *, chat: bool) -> list[int]:
    if not chat:
        return tokenizer.encode(text)
    if not text:
        raise vx.VxError("the prompt is empty: give the assistant a message")
    return tokenizer.chat([{"role": "user", "content": text}])


def _session(
    program: vx.Program, model: Model, bind: Bind, *, require_gpu: bool, audit: bool, trace: bool
) -> vx.Session:
    """A session with the weights in it, and one line on standard error where a gpu is no GPU."""
    with upload_progress() as progress:
        session = vx.Session(
            program,
            model.checkpoint.params,
            bind,
            require_gpu=require_gpu,
            audit=audit,
            trace=trace,
            progress=progress,
        )
    if session.note:
        typer.echo(session.note, err=True)
    return session


def _print_text(generation: Generation, tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream(after=generation.prompt)
    for token in generation:
        _say(plain_text(stream.push(token)))
    _say(plain_text(stream.flush()) + "\n")


def _print_ids(generation: Generation) -> None:
    between = ""
    for token in generation:
        _say(f"{between}{token}")
        between = " "
    _say("\n")


def _say(text: str) -> None:
    # Not every terminal has every language: what this one cannot show is escaped too.
    shown = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(shown, "backslashreplace").decode(shown))
    sys.stdout.flush()
