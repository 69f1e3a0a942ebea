"""The command line in process, in a folder of its own with a few graphs in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from vxgraph.tools.cli import app

MLP = """\
import vxgraph as vx


def mlp(hidden: int = 256, split: bool = True) -> vx.Graph:
    with vx.Graph("mlp") as g:
        x = vx.input("x", vx.f32[1, 64])
        w1 = vx.param("w1", vx.f32[64, hidden])
        w2 = vx.param("w2", vx.f32[hidden, 64])
        with vx.on(vx.GPU[0]):
            h = vx.silu(x @ w1)
        with vx.on(vx.GPU[1 if split else 0]):
            vx.output("y", h @ w2)
    return g
"""

TINY = """\
import vxgraph as vx

T = vx.Dim("T", min=1, max=64)


def tiny(layers: int = 2) -> vx.Graph:
    with vx.Graph("tiny") as g:
        x = vx.input("x", vx.f32[T, 16])
        n = vx.input("n", vx.i32[()])
        weights = [vx.param(f"w{i}", vx.f32[16, 16]) for i in range(layers)]
        with vx.on(vx.GPU[0]):
            h = x
            for i, w in enumerate(weights):
                with vx.scope(f"prefill.layers.{i}"):
                    h = vx.silu(h @ w)
            last = h[-1:]

        def step(v):
            for i, w in enumerate(weights):
                with vx.scope(f"decode.layers.{i}"):
                    v = vx.silu(v @ w)
            vx.emit("norm", vx.sum(v, axis=1))
            return [v]

        with vx.on(vx.GPU[1]):
            (out,), done = vx.loop(step, [last], max_steps=32, steps=n)
        vx.output("y", out)
        vx.output("steps", done)
    return g
"""

SMALL = """\
host = "host"

[[memory]]
name = "host"
capacity = { gib = 1, from = "policy" }
bandwidth = { gb_per_s = 10, from = "policy" }
granule = { kib = 4, from = "policy" }
reserved = { bytes = 0, from = "policy" }

[[memory]]
name = "vram0"
capacity = { kib = 96, from = "policy" }
bandwidth = { gb_per_s = 100, from = "policy" }
granule = { kib = 4, from = "policy" }
reserved = { kib = 16, from = "policy" }

[[memory]]
name = "vram1"
capacity = { kib = 48, from = "policy" }
bandwidth = { gb_per_s = 100, from = "policy" }
granule = { kib = 4, from = "policy" }
reserved = { kib = 16, from = "policy" }

[[device]]
topology = "gpu:0"
memory = "vram0"
reads = ["vram0"]
flops.f32 = { tflop_per_s = 1, from = "policy" }

[[device]]
topology = "gpu:1"
memory = "vram1"
reads = ["vram1"]
flops.f32 = { tflop_per_s = 1, from = "policy" }

[[link]]
among = ["host", "vram0", "vram1"]
bandwidth = { gb_per_s = 1, from = "policy" }
latency = { us = 10, from = "policy" }
"""


class Cli:
    """`cli("check", "mlp.py:mlp", ...)` in a folder that holds mlp.py, tiny.py and small.toml."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in {"mlp.py": MLP, "tiny.py": TINY, "small.toml": SMALL}.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    def succeeds(self, *arguments: str) -> str:
        """What a command that succeeds prints."""
        done = self(*arguments)
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        return done.stdout

    def fails(self, *arguments: str) -> str:
        """The message of a command that refuses."""
        done = self(*arguments)
        assert done.exit_code == 1, done.output
        assert done.stdout == ""
        return done.stderr


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # targets add the root of their packages
    return Cli(tmp_path)
