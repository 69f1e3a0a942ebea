"""What is right but for one value, which hypothesis chooses."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vxgraph as vx
from examples.llama2.tokenizer.sentencepiece import read as read_sentencepiece
from examples.llama2.weights.huggingface_config import config_from_huggingface
from tests.examples.tiny_tokenizer import Field, message
from tests.fuzz import seeds
from vxgraph.errors import VxError
from vxgraph.tools.plain import plain, plain_lines, plain_text

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBERS = st.one_of(st.integers(), st.integers(-(2**70), 2**70), st.floats(), st.sampled_from((10**400, 2**63, -1, 0)))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def refusal(opens: Callable[[Path], object], path: Path) -> str:
    """The message, or nothing."""
    try:
        opens(path)
    except VxError as error:
        return str(error)
    return ""


@SETTINGS
@given(st.text())
def test_a_name_is_shown_in_one_line_of_what_can_be_printed(name: str) -> None:
    assert plain(name).isprintable()
    assert plain(name) == name or not name.isprintable()
    assert plain_lines(name).count("\n") == name.count("\n")


@SETTINGS
@given(st.text(), st.integers(0, 20))
def test_a_text_loses_what_a_terminal_acts_on_and_nothing_else(text: str, cut: int) -> None:
    shown = plain_text(text)
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF")]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("LRI", "RLI", "FSI", "PDI")]
    assert plain_text(text[:cut]) + plain_text(text[cut:]) == shown == plain_text(shown)
    kept = [c for c in text if unicodedata.category(c) not in ("Cc", "Cf")]
    assert [c for c in kept if c not in shown] == []


@SETTINGS
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_any_name_goes_through_a_text_and_back(graph: str, result: str, why: str) -> None:
    """Names are the user's; what the text format does to them it undoes."""
    with vx.Graph(graph) as g:
        vx.output(result, vx.neg(vx.input("x", vx.f32[2])))
    built = g.build()
    assert vx.parse_graph(built.text()) == built
    program = vx.compile(built, vx.load_machine("cpu"))
    assert vx.parse_program(program.text()) == program


@SETTINGS
@given(
    st.sampled_from(
        (
            "hidden_size",
            "num_hidden_layers",
            "rope_scaling",
            "rms_norm_eps",
            "eos_token_id",
            "head_dim",
            "num_attention_heads",
            "num_key_value_heads",
            "torch_dtype",
            "model_type",
        )
    ),
    JSON,
)
def test_a_model_config_with_any_value_is_one_or_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    config = json.loads(seeds.model_configs()[0])
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    found = refusal(config_from_huggingface, tmp_path / "config.json")
    assert found.startswith(f"{tmp_path / 'config.json'}: ") or not found


@SETTINGS
@given(
    st.sampled_from(("gib", "gb_per_s", "kib", "bytes", "us", "tflop_per_s", "both_ways", "id", "topology", "among")),
    NUMBERS,
)
def test_a_machine_with_any_number_is_one_or_is_refused(tmp_path: Path, key: str, value: float) -> None:
    lines = seeds.machine_files()[0].decode().splitlines()
    shown = repr(value).replace("Infinity", "inf")
    changed = [
        line.partition(f"{key} = ")[0] + f'{key} = {shown}, from = "spec" }}' if f"{{ {key} = " in line else line
        for line in lines
    ]
    file = tmp_path / "box.toml"
    file.write_text("\n".join(changed if changed != lines else [*lines, f"{key} = {shown}"]))
    found = refusal(vx.load_machine, file)
    assert found.startswith(f"{file}:") or not found


FIELDS = st.builds(Field, st.integers(1, 50), st.integers(0, 2**64 - 1) | st.binary(max_size=12) | st.floats(width=32))


@SETTINGS
@given(st.lists(FIELDS, max_size=6), st.lists(FIELDS, max_size=4))
def test_any_protobuf_message_is_a_vocabulary_or_is_refused(
    tmp_path: Path, outer: list[Field], inner: list[Field]
) -> None:
    path = tmp_path / "tokenizer.model"
    for number in (1, 2, 3):
        path.write_bytes(seeds.sentencepiece_models()[0] + message(*outer, Field(number, message(*inner))))
        found = refusal(read_sentencepiece, path)
        assert found.startswith(f"{path}: ") or not found


@pytest.mark.parametrize("size", [0, 1, 5, 4096])
@SETTINGS
@given(st.data())
def test_any_bytes_are_no_crash(size: int, data: st.DataObject) -> None:
    text = data.draw(st.binary(min_size=size, max_size=size) if size < 100 else st.binary(max_size=200)).decode(
        errors="replace"
    )
    for parse in (vx.parse_graph, vx.parse_program):
        with pytest.raises(VxError):
            parse(text)
