"""The checker of finished plans: every way of breaking one is refused, with the instruction, the value and the line."""

from __future__ import annotations

import re

import pytest

import vxgraph as vx
from tests.program.samples import SAMPLES
from vxgraph.errors import ProgramError

LINE = "model.py:7"


def text_of(name: str) -> str:
    """A sample's program as text without a digest, every source line being model.py:7."""
    text = SAMPLES[name].program().text()
    return re.sub(r'loc "[^"]*"', f'loc "{LINE}"', re.sub(r"  digest .*\n", "", text))


def edited(name: str, *changes: tuple[str, str]) -> str:
    """A sample's text with these lines changed; each `old` is a pattern that fits once."""
    text = text_of(name)
    for old, new in changes:
        text, count = re.subn(old, new, text, flags=re.MULTILINE)
        assert count == 1, (old, count)
    return text


def line(start: str) -> str:
    """The pattern of a whole line."""
    return rf"^ *{re.escape(start)}.*\n"


REFUSED: dict[str, tuple[str, list[tuple[str, str]], str]] = {
    "a transfer is deleted": (
        "mlp",
        [(line("%silu.gpu1 = transfer_peer"), ""), (" after %silu.gpu1", "")],
        f"{LINE}: matmul %matmul.1 on gpu:1: reads %silu.gpu1, which nothing has written",
    ),
    "the hand-over is deleted": (
        "hand_over",
        [(line("%mul.gpu1 = transfer_peer"), ""), (" after %mul.gpu1", "")],
        f"{LINE}: cache_init %cache_init on gpu:1: reads %mul.gpu1, which nothing has written",
    ),
    "an upload is deleted": (
        "mlp",
        [(line("%w2.gpu1 = upload"), "")],
        f"{LINE}: matmul %matmul.1 on gpu:1: reads %w2.gpu1, which nothing has written",
    ),
    "a wait for a maker is dropped": (
        "mlp",
        [(" after %silu ", " ")],
        f"{LINE}: transfer_peer %silu.gpu1 from gpu:0 to gpu:1: reads %silu, but does not wait for the instruction on "
        "gpu:0.compute that writes it",
    ),
    "a wait for a reader is dropped": (
        "emits",
        [(" after %add.step.host", "")],
        f"{LINE}: copy %add.step.next on gpu:0: writes %add.step.next over %add.step, which an instruction on "
        "gpu:0.copy may still use",
    ),
    "a wait for something later": (
        "mlp",
        [("after %x.gpu0", "after %x.gpu0, %matmul.1")],
        f"{LINE}: matmul %matmul on gpu:0: waits for %matmul.1, which is not sure to come before it: "
        "it might wait for ever",
    ),
    "a wait after a loop for one of its steps": (
        "read_after",
        [("(%sub = sub.* @gpu:1 after )", r"\1%mul, ")],
        f"{LINE}: sub %sub on gpu:1: waits for %mul, which is not sure to come before it: it might wait for ever",
    ),
    "a transfer's places are swapped": (
        "mlp",
        [("@gpu:0 -> gpu:1", "@gpu:1 -> gpu:0")],
        f"{LINE}: transfer_peer %silu.gpu1 from gpu:1 to gpu:0: wants %silu on gpu:1, but it lives on gpu:0",
    ),
    "a dispatch is at the other place": (
        "mlp",
        [(r"(%silu = silu.*) @gpu:0", r"\1 @gpu:1")],
        f"{LINE}: silu %silu on gpu:1: wants %matmul on gpu:1, but it lives on gpu:0",
    ),
    "a slot is shifted off its alignment": (
        "mlp",
        [(r"\[66816, 1024\]", "[66832, 1024]")],
        f"{LINE}: %silu: its offset 66832 is no multiple of 256",
    ),
    "a slot leaves its arena": (
        "mlp",
        [(r"\[66816, 1024\]", "[67072, 1024]")],
        f"{LINE}: %silu: bytes 67072 to 68096 lie outside gpu:0's arena of 67840 bytes",
    ),
    "a slot is too small": (
        "mlp",
        [(r"\[66816, 1024\]", "[66816, 1020]")],
        f"{LINE}: %silu: f32[1, 256] takes up to 1024 bytes, its slot has 1020",
    ),
    "a slot is used again too early": (
        "mlp",
        [(r"\[66816, 1024\]", "[65792, 1024]")],
        f"{LINE}: silu %silu on gpu:0: writes %silu over its own operand %matmul",
    ),
    "a slot overlaps one that is still read": (
        "swap",
        [(r"(%add.step.next : .*)\[0, 16\]", r"\1[768, 16]")],
        f"{LINE}: copy %add.1.step.next on gpu:0: reads %add.step, but its bytes hold %add.step.next",
    ),
    "a value has two slots": (
        "mlp",
        [(r"^( *slot %silu : .*)$", r"\1\n\1")],
        f"{LINE}: %silu has two slots",
    ),
    "a slot is where there is no arena": (
        "mlp",
        [(line("arena gpu:1"), "")],
        f"{LINE}: %w2.gpu1 lives on gpu:1, which has no arena",
    ),
    "an arena does not add up": (
        "mlp",
        [(r"\[66816, 65536, 0, 256, 1024\]", "[66816, 65536, 0, 256, 0]")],
        "arena gpu:1: 65536 + 0 + 256 + 0 is not 66816 bytes",
    ),
    "two arenas are at one place": (
        "mlp",
        [(r"^( *arena gpu:1.*)$", r"\1\n\1")],
        "two arenas are at one topology",
    ),
    "an arena is in a memory that is not there": (
        "mlp",
        [(r'arena gpu:1 in "hbm1"', 'arena gpu:1 in "elsewhere"')],
        "arena gpu:1 is in memory 'elsewhere', which is none of the program's there",
    ),
    "an arena is in the memory of another place": (
        "mlp",
        [(r'arena gpu:1 in "hbm1"', 'arena gpu:1 in "hbm0"')],
        "arena gpu:1 is in memory 'hbm0', which is none of the program's there",
    ),
    "two memories have one name": (
        "mlp",
        [(r'memory "hbm1"', 'memory "hbm0"')],
        "two memories have one name",
    ),
    "two instructions of a queue change places": (
        "mlp",
        [(r"( *%matmul = .*\n)( *%silu = .*\n)", r"\2\1")],
        f"{LINE}: silu %silu on gpu:0: reads %matmul, which nothing has written",
    ),
    "a transfer has another dtype": (
        "mlp",
        [(r"(transfer_peer\(%silu\) :) f32", r"\1 i32")],
        f"{LINE}: transfer_peer %silu.gpu1 from gpu:0 to gpu:1: wants %silu as i32[1, 256], but it is f32[1, 256]",
    ),
    "an upload has another type than the arg": (
        "mlp",
        [("arg %x : f32", "arg %x : i32")],
        f"{LINE}: upload %x.gpu0 to gpu:0: %x is i32[1, 64], not f32[1, 64]",
    ),
    "a dispatch gives another type": (
        "mlp",
        [
            (r"(silu\(%matmul\) :) f32\[1, 256\]", r"\1 f32[256, 1]"),
            (r"(slot %silu :) f32\[1, 256\]", r"\1 f32[256, 1]"),
        ],
        f"{LINE}: silu %silu on gpu:0: gives f32[1, 256], the program says f32[256, 1]",
    ),
    "operands do not fit the op": (
        "mlp",
        [(r"matmul\(%x.gpu0, %w1.gpu0\)", "matmul(%x.gpu0, %x.gpu0)")],
        f"{LINE}: matmul %matmul on gpu:0: f32[1, 64] has 64 columns but f32[1, 64] has 1 rows",
    ),
    "an op has too few operands": (
        "mlp",
        [(r"matmul\(%x.gpu0, %w1.gpu0\)", "matmul(%x.gpu0)")],
        f"{LINE}: matmul %matmul on gpu:0: takes another number of operands than 1",
    ),
    "an operand has no slot": (
        "mlp",
        [(r"silu\(%matmul\)", "silu(%nothing)")],
        f"{LINE}: silu %silu on gpu:0: %nothing has no slot",
    ),
    "what only the host does is dispatched": (
        "mlp",
        [(r"silu\(%matmul\)", "to(%matmul) {dst = gpu:0}")],
        f"{LINE}: to %silu on gpu:0: is no kernel",
    ),
    "a name is defined twice": (
        "mlp",
        [(r"^( *%silu = .*)$", r"\1\n\1")],
        f"{LINE}: silu %silu on gpu:0: defines %silu, which is defined already",
    ),
    "a result is not on the host": (
        "mlp",
        [('result "y" = %matmul.1.host', 'result "y" = %matmul.1')],
        "result 'y' names %matmul.1, which is not on the host at the end",
    ),
    "an emit is not on the host": (
        "emits",
        [('emit "value" = %mul.host', 'emit "value" = %mul')],
        "run: emit 'value' hands out %mul, which is not on the host",
    ),
    "an emit of two types": (
        "emits",
        [('emit "given" = %x', 'emit "before" = %n')],
        "run: emit 'before' is f32[2] here and i32[] elsewhere",
    ),
    "an emit with a result's name": (
        "emits",
        [('emit "given" = %x', 'emit "steps" = %x')],
        "run: 'steps' is a result and an emit",
    ),
    "an emit is there twice": (
        "emits",
        [('^( *emit "value" = %mul.host)$', r"\1\n\1")],
        "run: emit 'value' is there twice",
    ),
    "what a step downloads is read after the loop": (
        "emits",
        [('result "steps" = %loop.2', 'result "steps" = %add.step.host')],
        "result 'steps' names %add.step.host, which is not on the host at the end",
    ),
    "what a step makes is read after the loop": (
        "read_after",
        [(r"transfer_peer\(%loop\)", "transfer_peer(%mul)")],
        f"{LINE}: transfer_peer %loop.gpu1 from gpu:0 to gpu:1: reads %mul, which nothing has written",
    ),
    "a loop's limit is no number on the host": (
        "emits",
        [("limit %n", "limit %x")],
        f"{LINE}: loop %loop.2: its limit %x is no i32[] on the host",
    ),
    "a loop's stop predicate is no bool on the host": (
        "emits",
        [("stop %compare.host", "stop %mul.host")],
        f"{LINE}: loop %loop.2: its stop predicate %mul.host is no bool[] on the host",
    ),
    "a loop carries on what lies elsewhere": (
        "swap",
        [("-> %add.step.next.1 ->", "-> %add.step.next ->")],
        f"{LINE}: loop %loop.2: carries %add.step.next as %add.step, but they are not the same bytes",
    ),
    "a carried value is not made again": (
        "swap",
        [(line("%add.step.next.1 = copy"), "")],
        f"{LINE}: loop %loop.2: reads %add.step.next.1, but its bytes hold %add.step",
    ),
    "a captured value is overwritten, as the second step finds": (
        "loop_with_captures",
        [(r"(slot %matmul.1 : .*)\[512, 32\]", r"\1[0, 32]")],
        f"{LINE}: matmul %matmul.1 on gpu:1: writes %matmul.1 over its own operand %w.gpu1",
    ),
    "a constant from before the loop is overwritten, as the second step finds": (
        "emits",
        [(r"(slot %compare : .*)\[\d+, 1\]", r"\1[768, 1]")],
        f"{LINE}: add %add.1 on gpu:0: reads %constant.3.pre, but its bytes hold %compare",
    ),
    "a param is overwritten once it has been read, as the next run would find": (
        "mlp",
        [(r"(slot %silu : .*)\[66816, 1024\]", r"\1[0, 1024]")],
        f"{LINE}: upload %w1.gpu0 to gpu:0: is done once, but a run writes %silu over it and the next run reads it",
    ),
    "a view lies elsewhere": (
        "views",
        [(r"(slot %reshape : .*)\[256, 128\]", r"\1[0, 128]")],
        f"{LINE}: view %reshape on gpu:0: %reshape does not lie where %relu does",
    ),
    "a view has other elements": (
        "views",
        [
            (r"(slot %reshape.3 :) f32\[T, 8\]", r"\1 f32[32]"),
            (r"(%reshape.3 = view.* :) f32\[T, 8\]", r"\1 f32[32]"),
        ],
        f"{LINE}: view %reshape.3 on gpu:1: f32[T, 4, 2] has T x 8 elements but f32[32] has 32",
    ),
    "a view says another type than its slot": (
        "views",
        [(r"(%reshape.3 = view.* :) f32\[T, 8\]", r"\1 f32[T, 2, 4]")],
        f"{LINE}: view %reshape.3 on gpu:1: says f32[T, 2, 4] on gpu:1, but %reshape.3 is f32[T, 8] on gpu:1",
    ),
    "a param has a size that only a run has": (
        "views",
        [(r"(arg %x : .*\n)", r"\1  param %w : f32[T, 8]\n")],
        "param %w is f32[T, 8], but it is made resident before a run has sizes",
    ),
    "a symbol has no size": (
        "views",
        [(r"arg %x : f32\[T, 8\]", "arg %x : f32[4, 8]")],
        "dim T has no size at run time: no arg has it in its type",
    ),
    "a run's work is in the load section": (
        "mlp",
        [
            (r"load \{\n", "load {\n    %c = constant() {type = f32[], values = [1.0]} : f32[] @gpu:0\n"),
            (r"^( *load \{)", "  \\1"),
            (r"( *slot %x.gpu0 .*\n)", "\\1  slot %c : f32[] @gpu:0 [66816, 4] activation\n"),
        ],
        "load: the load section uploads params and does nothing else",
    ),
    "an arg is uploaded in the load section": (
        "mlp",
        [
            (r"upload\(%w1\) : f32\[64, 256\]", "upload(%x) : f32[1, 64]"),
            (r"slot %w1.gpu0 : f32\[64, 256\] @gpu:0 \[0, 65536\]", "slot %w1.gpu0 : f32[1, 64] @gpu:0 [0, 256]"),
        ],
        f"{LINE}: upload %w1.gpu0 to gpu:0: %x is not on the host",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_when(what: str) -> None:
    name, changes, message = REFUSED[what]
    with pytest.raises(ProgramError) as error:
        vx.parse_program(edited(name, *changes), "edited.vxp")
    assert str(error.value) == message


@pytest.mark.parametrize("name", SAMPLES)
def test_a_text_without_its_digest_line_proves(name: str) -> None:
    assert vx.parse_program(text_of(name)) == SAMPLES[name].program()
