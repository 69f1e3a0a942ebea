"""What is fuzzed: for each format the valid inputs, and a use of it that goes beyond parsing.

A target's `run(data, folder)` returns, or raises a VxError: anything else is a finding. What is accepted is used too: a
graph is printed and read again, a checkpoint's tensors are decoded, a tokenizer encodes.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import typer.main
from click.testing import CliRunner

import vxgraph as vx
from examples.llama2.tokenizer import open_tokenizer
from examples.llama2.weights import open_checkpoint
from tests.fuzz import seeds
from tests.program.samples import SAMPLES
from vxgraph.tools.arrays import read_arrays
from vxgraph.tools.cli import app

Run = Callable[[bytes, Path], None]


class BrokenError(Exception):
    """A promise that is not an exception's type: a text that does not read back, a command that shows a traceback."""


@dataclass(frozen=True, slots=True)
class Target:
    """A format: `text` says which mutations suit it."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    run: Run
    text: bool = True
    mutants: int = 200  # in every run of the tests
    seconds: float = 5  # that an execution may take where it is fuzzed by hand


def graph(data: bytes, _: Path) -> None:
    read = vx.parse_graph(data.decode(errors="replace"))
    if vx.parse_graph(read.text()) != read:
        raise BrokenError("a graph's text does not read back as the same graph")


def program(data: bytes, folder: Path) -> None:
    file = folder / "p.vxp"
    file.write_bytes(data)
    read = vx.load_program(file)
    if vx.parse_program(read.text()).text() != read.text():
        raise BrokenError("a program's text does not read back as the same program")


def machine(data: bytes, folder: Path) -> None:
    file = folder / "box.toml"
    file.write_bytes(data)
    _ = vx.compile(_unpinned_mlp(), vx.load_machine(file)).memory


@cache
def _unpinned_mlp() -> vx.Graph:
    return vx.parse_graph(re.sub(" @gpu:[0-9]", "", seeds.graphs()[0].decode()))


def checkpoint(data: bytes, folder: Path) -> None:
    file = folder / "model.any"
    file.write_bytes(data)
    _decode(open_checkpoint(file).params)


def _decode(params: vx.Params) -> None:
    for name in params:
        _ = params[name]


def _in_huggingface(name: str, *, shards: int = 1) -> Run:
    """A folder that is right but for the file `name`."""

    def run(data: bytes, folder: Path) -> None:
        model = folder / "hf"
        if not model.exists():
            seeds.huggingface_folder(folder, shards=shards)
        (model / name).write_bytes(data)
        _decode(open_checkpoint(model).params)

    return run


def _tokenizer(name: str) -> Run:
    def run(data: bytes, folder: Path) -> None:
        (folder / name).write_bytes(data)
        tokenizer = open_tokenizer(folder / name)
        ids = tokenizer.encode("Hello <s> \u00e9\U0001f600  world")
        tokenizer.decode(ids)
        tokenizer.decode(range(min(tokenizer.vocab, 300)))

    return run


def tokenizer_config(data: bytes, folder: Path) -> None:
    """tokenizer_config.json, generation_config.json and config.json are read alike."""
    if not (folder / "tokenizer.json").exists():
        (folder / "tokenizer.json").write_bytes(seeds.tokenizer_jsons()[0])
    name = ("tokenizer_config.json", "config.json", "generation_config.json")[zlib.crc32(data) % 3]
    for other in folder.glob("*config.json"):
        other.unlink()
    (folder / name).write_bytes(data)
    open_tokenizer(folder / "tokenizer.json")


def chat_template(data: bytes, folder: Path) -> None:
    if not (folder / "tokenizer.json").exists():
        (folder / "tokenizer.json").write_bytes(seeds.tokenizer_jsons()[0])
    (folder / "chat_template.jinja").write_bytes(data)
    tokenizer = open_tokenizer(folder / "tokenizer.json")
    ids = tokenizer.chat([{"role": "user", "content": " a </s>"}])
    if not all(0 <= token < tokenizer.vocab for token in ids):
        raise BrokenError("a chat has an id that the vocabulary has not")


def arrays(data: bytes, folder: Path) -> None:
    file = folder / "in.npz"
    file.write_bytes(data)
    _ = read_arrays(file, _mlp_program().args)


@cache
def _mlp_program() -> vx.Program:
    return SAMPLES["mlp"].program()


# The command line.

OUTPUT = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|Traceback|This is a defect")
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "t.vxg": (
        ("show", "t.vxg"),
        ("show", "t.vxg", "--format", "dot"),
        ("show", "t.vxg", "-m", "h200-x2"),
        ("check", "t.vxg", "-m", "h200-x2", "-m", "cpu"),
        ("check", "t.vxg", "-m", "rtx4090-x2", "--json"),
        ("compile", "t.vxg", "-m", "h200-x2", "-o", "out.vxp"),
        ("explain", "t.vxg", "NAME", "-m", "h200-x2"),
        ("explain", "t.vxg", "NAME"),
        ("run", "t.vxg", "-m", "h200-x2", "--bind", "numpy"),
    ),
    "t.vxp": (
        ("show", "t.vxp"),
        ("show", "t.vxp", "--format", "dot"),
        ("check", "t.vxp", "-m", "h200-x2"),
        ("check", "t.vxp", "-m", "rtx4090-x2", "--json"),
        ("explain", "t.vxp", "NAME"),
        ("explain", "t.vxp", "NAME", "-m", "h200-x2"),
        ("run", "t.vxp", "--bind", "numpy", "--trace", "trace.json", "-o", "out.npz"),
        ("sanitize", "t.vxp", "--orders", "2"),
    ),
    "box.toml": (
        ("check", "mlp.vxg", "-m", "./box.toml"),
        ("check", "mlp.vxp", "-m", "./box.toml", "--json"),
        ("compile", "mlp.vxg", "-m", "./box.toml", "-o", "out.vxp"),
        ("explain", "mlp.vxg", "matmul", "-m", "./box.toml"),
    ),
    "in.npz": (("run", "mlp.vxp", "--bind", "numpy", "--inputs", "in.npz", "-o", "out.npz"),),
}
NAME = re.compile(rb"%([A-Za-z_]\w*(?:\.\w+)*)")


def command_on(file: str) -> Run:
    """A command, chosen by the data, on a file that holds it."""

    def run(data: bytes, folder: Path) -> None:
        _files(folder)
        (folder / file).write_bytes(data)
        chosen = COMMANDS[file][zlib.crc32(data) % len(COMMANDS[file])]
        if chosen[0] in ("run", "sanitize") and b"loop" in data:
            chosen = COMMANDS[file][0]  # a loop may ask for as many steps as it likes
        names = NAME.findall(data) or [b"x"]
        name = names[zlib.crc32(data[::-1]) % len(names)].decode()
        _invoke(folder, [name if word == "NAME" else word for word in chosen])

    return run


def arguments(data: bytes, folder: Path) -> None:
    """A command line, one argument a line; none that names a place outside of the folder, or asks for hours of work."""
    _files(folder)
    found = [line.decode(errors="surrogateescape") for line in data.split(b"\n")]
    if any(word.startswith(("/", "~")) or "=/" in word or ".." in word or word.startswith("-o/") for word in found):
        return
    if any(word.startswith("--orders") for word in found) and any(re.search("[0-9]{3}", word) for word in found):
        return
    _invoke(folder, found)


@cache
def _command() -> click.Command:
    return typer.main.get_command(app)


def _files(folder: Path) -> None:
    for name, text in (("mlp.vxg", seeds.graphs()[0]), ("mlp.vxp", seeds.programs()[0])):
        if not (folder / name).exists():
            (folder / name).write_bytes(text)
    if not (folder / "in.npz").exists():
        (folder / "in.npz").write_bytes(seeds.array_files()[0])


def _invoke(folder: Path, words: list[str]) -> None:
    here = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(_command(), words)
    finally:
        os.chdir(here)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    said = done.stdout_bytes + done.stderr_bytes
    if done.exit_code not in (0, 1, 2) or OUTPUT.search(said):
        raise BrokenError(f"vxgraph {' '.join(words)}: exit code {done.exit_code}\n{said.decode(errors='replace')}")
    if left := [path.name for path in folder.iterdir() if path.name.endswith(".part")]:
        raise BrokenError(f"vxgraph {' '.join(words)}: {left[0]} is left half-written")


def command_lines() -> tuple[bytes, ...]:
    lines = [
        line for lines in COMMANDS.values() for line in lines if line[-1] != "box.toml" and "./box.toml" not in line
    ]
    more = (
        ("run", "mlp.vxp", "--bind", "gpu:0=numpy", "--bind", "gpu:1=numpy", "--seed", "7", "--audit"),
        ("run", "mlp.vxp", "--size", "T=4", "--bind", "numpy", "--params", "in.npz"),
        ("run", "mlp.vxp", "--require-gpu"),
        ("show", "missing.py:f", "--set", "hidden=12", "--place", "strict"),
        ("devices",),
        ("--version",),
        ("--help",),
    )
    words = [tuple(w.replace("t.vx", "mlp.vx") for w in line) for line in (*lines, *more)]
    return tuple("\n".join(line).encode() for line in words)


TARGETS = {
    target.name: target
    for target in (
        Target("graph", seeds.graphs, graph),
        Target("program", lambda: (*map(seeds.undigested, seeds.programs()), seeds.programs()[0]), program),
        Target("machine", seeds.machine_files, machine),
        Target("gguf", seeds.gguf_files, checkpoint, text=False),
        Target("llama2c", seeds.llama2c_files, checkpoint, text=False),
        Target("safetensors", seeds.safetensors_files, _in_huggingface("model.safetensors"), text=False),
        Target("shard-index", seeds.shard_indexes, _in_huggingface("model.safetensors.index.json", shards=2)),
        Target("model-config", seeds.model_configs, _in_huggingface("config.json")),
        Target("gguf-tokenizer", seeds.gguf_tokenizers, _tokenizer("t.gguf"), text=False),
        Target("tokenizer-json", seeds.tokenizer_jsons, _tokenizer("tokenizer.json")),
        Target("tokenizer-config", seeds.tokenizer_configs, tokenizer_config),
        # A process each, and up to two seconds of its time.
        Target("chat-template", seeds.chat_templates, chat_template, mutants=40, seconds=20),
        Target("tokenizer-bin", seeds.llama2c_tokenizers, _tokenizer("tokenizer.bin"), text=False),
        Target("sentencepiece", seeds.sentencepiece_models, _tokenizer("tokenizer.model"), text=False),
        Target("arrays", seeds.array_files, arrays, text=False),
        Target("cli-graph", seeds.graphs, command_on("t.vxg")),
        Target("cli-program", lambda: tuple(map(seeds.undigested, seeds.programs())), command_on("t.vxp")),
        Target("cli-machine", seeds.machine_files, command_on("box.toml")),
        Target("cli-arrays", seeds.array_files, command_on("in.npz"), text=False),
        Target("cli-arguments", command_lines, arguments),
    )
}
