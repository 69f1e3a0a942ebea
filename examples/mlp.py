"""Two layers on two devices: the smallest program with a crossing.

python -m examples.mlp
vxgraph show examples/mlp.py:mlp -m h200-x2
vxgraph check examples/mlp.py:mlp -m h200-x2 -m rtx4090-x2
"""

from __future__ import annotations

import sys

import numpy as np

import vxgraph as vx


def mlp() -> vx.Graph:
    """silu(x @ w1) on gpu:0, then @ w2 on gpu:1."""
    with vx.Graph("mlp") as g:
        x = vx.input("x", vx.f32[1, 64])
        w1 = vx.param("w1", vx.f32[64, 256])
        w2 = vx.param("w2", vx.f32[256, 64])
        with vx.on(vx.GPU[0]):
            h = vx.silu(x @ w1)
        with vx.on(vx.GPU[1]):
            vx.output("y", h @ w2)
    return g


def main() -> None:
    """Compiles, runs on NumPy, and checks the run."""
    program = vx.compile(mlp(), vx.load_machine("h200-x2"))
    random = np.random.default_rng(0)
    x0, w1, w2 = (random.standard_normal(shape, dtype=np.float32) for shape in ((1, 64), (64, 256), (256, 64)))
    with vx.Session(program, {"w1": w1, "w2": w2}, bind="numpy") as session:
        y = session.run({"x": x0})["y"]
        h = x0 @ w1
        difference = float(np.abs(y - (h / (1 + np.exp(-h))) @ w2).max())
        session.report.conforms()
        sys.stdout.write(f"{session.report}\nlargest difference from NumPy: {difference:.1e}\n")


if __name__ == "__main__":
    main()
