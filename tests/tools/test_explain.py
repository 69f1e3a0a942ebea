"""Why a value is where it is, and what a proposed pin really changes."""

from __future__ import annotations

import pytest

import vxgraph as vx
from tests.tools.conftest import Cli
from vxgraph.tools.prices import peer_bytes

ON = ("-m", "h200-x2")


def test_a_value_that_crosses_has_its_reason_its_price_and_its_way_out(cli: Cli) -> None:
    assert cli.succeeds("explain", "mlp.py:mlp", "silu", *ON) == (
        "%silu: f32[1, 256], from mlp.py:10\n"
        "  made      silu(%matmul) on gpu:0: pinned by vx.on\n"
        "  bytes     1.00 KiB in hbm0 at offset 66816, activation\n"
        "  read by   %silu.gpu1 (its copy)\n"
        "  moves     %silu.gpu1: gpu:0 to gpu:1 direct, 1.00 KiB, once per run, 3 us: read by %matmul.1\n"
        "  to end it pin %matmul.1 (mlp.py:12) to gpu:0: 1.00 KiB less between devices per run\n"
        "            then %w2 (64.00 KiB) is resident on gpu:0, not on gpu:1\n"
    )


def test_the_pin_that_is_proposed_does_what_is_said(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", *ON, "-o", "before.vxp")
    source = (cli.folder / "mlp.py").read_text()
    cli.write("mlp.py", source.replace("vx.GPU[1 if split else 0]", "vx.GPU[0]"))
    cli.succeeds("compile", "mlp.py:mlp", *ON, "-o", "after.vxp")
    before, after = vx.load_program("before.vxp"), vx.load_program("after.vxp")
    assert peer_bytes(before) - peer_bytes(after) == 1024
    assert [str(i.topology) for i in after.load if i.src == "w2"] == ["gpu:0"]  # type: ignore[union-attr]


def test_a_pin_that_does_not_fit_is_said_not_to(cli: Cli) -> None:
    cli.write("small.toml", (cli.folder / "small.toml").read_text().replace("kib = 48", "kib = 200"))
    assert cli.succeeds("explain", "mlp.py:mlp", "silu", "-m", "./small.toml").endswith(
        "            then %w2 (64.00 KiB) is resident on gpu:0, not on gpu:1\n"
        "            but then it does not fit: vram0 lacks 52.00 KiB\n"
    )


def test_a_pin_that_moves_more_is_no_gain(cli: Cli) -> None:
    cli.write("fan.py", """\
import vxgraph as vx

def fan():
    with vx.Graph("fan") as g:
        with vx.on(vx.GPU[0]):
            a = vx.exp(vx.input("x", vx.f32[64]), name="a")
            b = vx.sum(a, axis=0, name="b")
        with vx.on(vx.GPU[1]):
            c = vx.neg(b, name="c")
        with vx.on(vx.GPU[0]):
            vx.output("y", a * c)
    return g
""")  # fmt: skip
    rows = cli.succeeds("explain", "fan.py:fan", "b", *ON).splitlines()
    assert "  to end it pin %c (fan.py:9) to gpu:0: 8 B less between devices per run" in rows
    assert "  no gain   pin %b (fan.py:7) to gpu:1: 252 B more between devices per run" in rows


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "x",
            "%x: f32[1, 64], from mlp.py:6\n"
            "  made      given per call, in the caller's memory\n"
            "  read by   %x.gpu0 (its copy)\n"
            "  moves     %x.gpu0: host to gpu:0, 256 B, once per run, 8 us: read by %matmul\n",
        ),
        (
            "%w1",
            "%w1: f32[64, 256], from mlp.py:7\n"
            "  made      a param: given once, resident where it is read\n"
            "  read by   %w1.gpu0 (its copy)\n"
            "  moves     %w1.gpu0: host to gpu:0, 64.00 KiB, once, to load, 9.02 us: read by %matmul\n",
        ),
        (
            "y",
            "%matmul.1.host: f32[1, 64], from mlp.py:12\n"
            "  made      a copy of %matmul.1 in the caller's memory: result 'y'\n"
            '  read by   result "y"\n'
            "  moves     %matmul.1.host: gpu:1 to host, 256 B, once per run, 8 us: result 'y'\n",
        ),
        (
            "matmul",
            "%matmul: f32[1, 256], from mlp.py:10\n"
            "  made      matmul(%x.gpu0, %w1.gpu0) on gpu:0: pinned by vx.on\n"
            "  bytes     1.00 KiB in hbm0 at offset 65792, activation\n"
            "  read by   %silu = silu on gpu:0 (mlp.py:10)\n"
            "  moves     nothing: it is read where it is\n",
        ),
    ],
)
def test_args_params_results_and_local_values_have_their_own_stories(cli: Cli, name: str, told: str) -> None:
    assert cli.succeeds("explain", "mlp.py:mlp", name, *ON) == told


def test_an_unknown_name_is_told_with_names_like_it(cli: Cli) -> None:
    assert cli.fails("explain", "mlp.py:mlp", "sillu", *ON) == (
        "error: mlp has no value %sillu\n  names like it: %silu\n"
    )
    assert cli.fails("explain", "mlp.py:mlp", "_", *ON) == (
        "error: mlp has no value %_\n  the names are in the text that 'vxgraph show' prints\n"
    )


GONE = """\
import vxgraph as vx

def gone():
    with vx.Graph("gone") as g:
        x, w = vx.input("x", vx.f32[4, 8]), vx.param("w", vx.f32[8, 8])
        with vx.on(vx.GPU[0]):
            h = vx.matmul(x, vx.transpose(w, (1, 0), name="t"), name="h")
            b = vx.mul(vx.silu(h, name="a"), h, name="b")
            vx.exp(b, name="unread")
        with vx.on(vx.GPU[1]):
            vx.output("y", vx.neg(b.to(vx.GPU[1], name="sent")))
    return g
"""


def test_a_value_that_a_pass_took_away_says_which_and_what_stands_for_it(cli: Cli) -> None:
    cli.write("gone.py", GONE)
    first = cli.succeeds("explain", "gone.py:gone", "a", *ON).splitlines()[:2]
    assert first == [
        "%a: the compiler's pass fuse took it away: it is computed as a part of %b",
        "%b: f32[4, 8], from gone.py:8",
    ]
    assert cli.succeeds("explain", "gone.py:gone", "unread", *ON) == (
        "%unread: the compiler's pass canonicalise took it away: nothing reads it\n"
    )
    assert cli.succeeds("explain", "gone.py:gone", "t", *ON) == (
        "%t: the compiler's pass canonicalise took it away: %h reads %x.gpu0, %w.gpu0 instead\n"
    )


def test_a_transfer_that_was_written_is_kept_until_it_is_taken_out(cli: Cli) -> None:
    cli.write("gone.py", GONE)
    assert cli.succeeds("explain", "gone.py:gone", "sent", *ON).endswith(
        "  moves     %sent: gpu:0 to gpu:1 direct, 128 B, once per run, 3 us: sent there by .to()\n"
        "  to end it take out the .to(gpu:1) that asks for it: one that is written is always kept\n"
    )


def test_a_loops_values_say_how_they_are_carried_and_how_often_they_move(cli: Cli) -> None:
    assert cli.succeeds("explain", "tiny.py:tiny", "slice.step", *ON).splitlines()[1] == (
        "  made      carried through loop %loop.1: %slice.gpu1 first, then the last step's %decode.layers.1.silu"
    )
    assert "32 times per run" in cli.succeeds("explain", "tiny.py:tiny", "sum", *ON)
    assert cli.succeeds("explain", "tiny.py:tiny", "steps", *ON).splitlines()[:2] == [
        "%loop.1: i32[], from tiny.py:26",
        "  made      the number of steps that the loop did",
    ]


def test_a_saved_program_is_explained_as_far_as_it_goes(cli: Cli) -> None:
    cli.succeeds("compile", "mlp.py:mlp", *ON, "-o", "mlp.vxp")
    assert cli.succeeds("explain", "mlp.vxp", "silu").endswith(
        "  moves     %silu.gpu1: gpu:0 to gpu:1 direct, 1.00 KiB, once per run: read by %matmul.1\n"
        "  to end it give the graph and a machine, not a saved program, to have other pins tried\n"
    )
