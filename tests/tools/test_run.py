"""`vxgraph run`: what it computes, what it says, and what it takes and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.ctrl_c import interrupted
from tests.tools.conftest import Cli
from vxgraph.errors import ConformanceError
from vxgraph.runtime.report import Report

MLP = ("mlp.py:mlp", "-m", "h200-x2", "--bind", "numpy")


def arrays(seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(s, np.float32) for n, s in {"x": (1, 64), "w1": (64, 256), "w2": (256, 64)}.items()}


def test_results_are_those_of_numpy(cli: Cli) -> None:
    given = arrays()
    np.savez("in.npz", x=given["x"])
    np.savez("params.npz", w1=given["w1"], w2=given["w2"])
    shown = cli.succeeds("run", *MLP, "--inputs", "in.npz", "--params", "params.npz", "-o", "out.npz")
    h = given["x"] @ given["w1"]
    wanted = (h / (1 + np.exp(-h))) @ given["w2"]
    with np.load("out.npz") as out:
        np.testing.assert_allclose(out["y"], wanted, rtol=1e-4, atol=1e-4)
    assert "drawn" not in shown
    assert f"y        f32[1, 64]   {wanted[0, 0]:.4g}"[:24] in shown


def test_the_summary_says_where_it_ran_and_what_crossed(cli: Cli) -> None:
    lines = [" ".join(line.split()) for line in cli.succeeds("run", *MLP).splitlines()]
    untimed = [re.sub(r" [0-9.]+ [num]?s$", " TIME", line) for line in lines]
    assert "place device kernels resident in out host time" in lines
    assert "gpu:0 numpy:gpu:0 2 64.00 KiB 256 B 1.00 KiB TIME" in untimed
    assert "gpu:1 numpy:gpu:1 1 64.00 KiB 1.00 KiB 256 B TIME" in untimed
    assert "from to transfers planned observed host time" in lines
    assert "gpu:0 gpu:1 1 1,024 B 1,024 B TIME" in untimed
    assert "drawn from seed 0: args; params" in lines
    assert lines[-1] == "the run is the plan: places, counts and bytes were observed, and are as planned"


def test_without_a_gpu_it_says_so_and_runs(cli: Cli) -> None:
    shown = cli.succeeds("run", "mlp.py:mlp", "-m", "h200-x2", "--audit")
    if "numpy:gpu:0" in shown:
        assert shown.startswith("no GPU here: gpu:0 and gpu:1 run on NumPy\n")


def test_a_seed_draws_the_same_and_another_does_not(cli: Cli) -> None:
    found: list[np.ndarray] = []
    for seed in ("1", "1", "2"):
        cli.succeeds("run", *MLP, "--seed", seed, "-o", "out.npz")
        with np.load("out.npz") as out:
            found.append(out["y"])
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_sizes_and_steps_are_sensible_where_nobody_states_them(cli: Cli) -> None:
    shown = cli.succeeds("run", "tiny.py:tiny", "-m", "h200-x2", "--bind", "numpy", "-o", "out.npz")
    assert "drawn from seed 0: args, T = 16; params\n" in shown
    assert ": 16 steps\n" in shown
    with np.load("out.npz") as out:
        assert (out["steps"], out["norm"].shape) == (16, (16, 1))
    shown = cli.succeeds("run", "tiny.py:tiny", "-m", "h200-x2", "--bind", "numpy", "--size", "T=3")
    assert "drawn from seed 0: args, T = 3; params\n" in shown


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("T=65", "--size T=65: T runs from 1 to 64"),
        ("S=3", "--size S: the program has no such symbol; its symbols: T <= 64"),
        ("T=many", "--size T=many: wanted a dim's name and a number, like T=16"),
    ],
)
def test_a_wrong_size_is_told(cli: Cli, size: str, message: str) -> None:
    assert cli.fails("run", "tiny.py:tiny", "-m", "h200-x2", "--size", size) == f"error: {message}\n"


def test_given_arrays_have_their_own_sizes(cli: Cli) -> None:
    np.savez("in.npz", x=np.ones((2, 16), np.float32), n=np.int32(1))
    assert cli.fails("run", "tiny.py:tiny", "-m", "h200-x2", "--size", "T=2", "--inputs", "in.npz") == (
        "error: --size T=2: the arrays of in.npz have sizes of their own\n"
    )
    shown = cli.succeeds("run", "tiny.py:tiny", "-m", "h200-x2", "--bind", "numpy", "--inputs", "in.npz")
    assert ": 1 steps\n" in shown


def test_a_file_of_wrong_arrays_is_told(cli: Cli) -> None:
    np.savez("in.npz", x=np.zeros((1, 64)))
    assert cli.fails("run", *MLP, "--inputs", "in.npz") == (
        "error: mlp.py:6: arg 'x' is float64[1, 64], wanted f32[1, 64]; cast it: value.astype(np.float32)\n"
    )
    cli.write("text.npz", "hello")
    np.save("one.npy", np.zeros(3))
    for name in ("text.npz", "one.npy"):
        assert cli.fails("run", *MLP, "--params", name) == (
            f"error: {name}: is no .npz file of arrays; wanted what numpy.savez(path, name=array, ...) writes\n"
        )
    assert cli.fails("run", *MLP, "--inputs", "gone.npz") == (
        "error: gone.npz: cannot read: No such file or directory\n"
    )


def test_bf16_arrays_pass_through_files(cli: Cli) -> None:
    cli.write("half.py", """\
import vxgraph as vx

def half():
    with vx.Graph("half") as g:
        with vx.on(vx.CPU[0]):
            vx.output("y", vx.neg(vx.input("x", vx.bf16[3])))
    return g
""")  # fmt: skip
    x = np.array([1.5, -2.0, 0.25], ml_dtypes.bfloat16)
    np.savez("in.npz", x=x)
    shown = cli.succeeds("run", "half.py:half", "-m", "cpu", "--inputs", "in.npz", "-o", "out.npz")
    assert "bf16[3]   -1.5, 2, -0.25\n" in shown
    with np.load("out.npz") as out:
        assert np.array_equal(out["y"].view(ml_dtypes.bfloat16), -x)


def test_the_trace_is_a_chrome_trace(cli: Cli) -> None:
    shown = cli.succeeds("run", *MLP, "--trace", "mlp.json")
    assert shown.endswith("written: mlp.json\n")
    trace = json.loads((cli.folder / "mlp.json").read_text())
    assert {"%silu", "gpu:0.compute"} <= {
        word for e in trace["traceEvents"] for word in json.dumps(e).split('"')
    } or any("silu" in e["name"] for e in trace["traceEvents"])


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (["gpu:0=numpy"], "gpu:1 is not bound; the program runs on gpu:0 and gpu:1, bound: gpu:0"),
        (["gpu:0=numpy", "gpu:0=numpy"], "--bind gpu:0 is given twice: numpy and numpy"),
        (["gpu:0=numpy", "gpu:1"], "--bind gpu:1: wanted a place and a device, like gpu:0=cuda:0"),
        (["gpu:0=numpy", "gpu:1=numpy", "cpu:0=numpy"],
         "cpu:0 is not in the program; the program runs on gpu:0 and gpu:1"),
    ],
)  # fmt: skip
def test_a_wrong_binding_is_told(cli: Cli, bind: list[str], message: str) -> None:
    given = [part for b in bind for part in ("--bind", b)]
    assert cli.fails("run", "mlp.py:mlp", "-m", "h200-x2", *given) == f"error: {message}\n"


def test_a_gpu_that_is_required_is_not_replaced(cli: Cli) -> None:
    assert cli.fails("run", *MLP, "--require-gpu") == (
        "error: a GPU is required, but gpu:0 and gpu:1 would run on numpy\n"
    )


def test_what_does_not_fit_is_not_run(cli: Cli) -> None:
    assert cli.fails("run", "mlp.py:mlp", "-m", "./small.toml").startswith("error: mlp does not fit small\n")


def test_a_run_that_is_not_the_plan_is_an_error_and_writes_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(self: Report) -> bool:
        raise ConformanceError("dispatch %silu: planned on gpu:0, observed on numpy:gpu:1")

    monkeypatch.setattr(Report, "conforms", differs)
    assert cli.fails("run", *MLP, "-o", "out.npz") == (
        "error: dispatch %silu: planned on gpu:0, observed on numpy:gpu:1\n"
    )
    assert not (cli.folder / "out.npz").exists()


LONG = """\
import vxgraph as vx


def long() -> vx.Graph:
    with vx.Graph("long") as g:
        x = vx.input("x", vx.f32[8, 8])

        def step(v):
            with vx.on(vx.GPU[0]):
                h = vx.softmax(v @ v, axis=-1)
            with vx.on(vx.GPU[1]):
                return [h + 1]

        (y,), _ = vx.loop(step, [x], max_steps=400)
        vx.output("y", y)
    return g
"""


def untimed(text: str) -> str:
    """What a run prints, but for its times."""
    return re.sub(r" *[0-9.]+ [num]?s$", " ...", text, flags=re.MULTILINE)


def test_ctrl_c_ends_with_one_line_exit_code_130_and_nothing_written(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(LONG)
    arguments = ("run", "long.py:long", "-m", "h200-x2", "--bind", "numpy", "-o", "y.npz", "--trace", "y.json")
    whole, others = interrupted("vxgraph.tools.cli", arguments, tmp_path, times=8)
    assert (whole.code, whole.stderr) == (0, "")
    for outcome in others:
        if outcome.code >= 0:
            # It may come when all is printed; without the line it came while typer was at work.
            said = untimed(outcome.stdout)
            ended = outcome.code == 130 and said in ("", untimed(whole.stdout))
            through = (outcome.code, outcome.stderr, said) == (0, "", untimed(whole.stdout))
            assert through or (ended and outcome.stderr in ("interrupted\n", "")), outcome
    assert any(outcome.code == 130 for outcome in others)
    assert {f.name for f in tmp_path.iterdir()} - {"__pycache__"} == {"long.py", "y.npz", "y.json"}
    json.loads((tmp_path / "y.json").read_text())
    with np.load(tmp_path / "y.npz") as written:
        assert written["y"].shape == (8, 8)
