"""Configurations: presets, Hugging Face's config.json with its absent and unsupported keys, parameter shapes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vxgraph as vx
from examples.llama2.config import PRESETS, RopeScaling, param_shapes, preset
from examples.llama2.model import PLACEMENTS, build
from examples.llama2.weights import config_from_huggingface
from tests.examples.tiny_llama import CASES, TINY, UNTIED, hf_config
from vxgraph.errors import CheckpointError, VxError
from vxgraph.ops import Rope, inverse_frequencies

CONFIGS = CASES / "configs"
HF_TINY = replace(TINY, rope_interleaved=False, stop_ids=(2,))
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.fixture
def write(tmp_path):
    def write_config(**changes: Any) -> Path:
        (tmp_path / "tiny").mkdir()
        path = tmp_path / "tiny" / "config.json"
        path.write_text(json.dumps(hf_config(TINY, **changes)))
        return path

    return write_config


def message(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        config_from_huggingface(path)
    return str(caught.value).replace(str(path), path.name)


def test_a_config_json_gives_every_field(write):
    assert config_from_huggingface(write()) == HF_TINY


def test_absent_keys_mean_what_transformers_takes_them_to_mean(write):
    path = write(rope_theta=..., num_key_value_heads=..., torch_dtype=..., bos_token_id=..., eos_token_id=...)
    assert config_from_huggingface(path) == replace(HF_TINY, rope_theta=10000.0, kv_heads=4, bos_id=None, stop_ids=())


def test_head_dim_need_not_be_the_hidden_size_over_heads(write):
    config = config_from_huggingface(write(head_dim=32))
    assert config.head_dim == 32
    assert param_shapes(config)["layers.0.wq"] == (128, 64)
    assert param_shapes(config)["layers.0.wo"] == (64, 128)


@pytest.mark.parametrize(("eos", "stop"), [(2, (2,)), ([128001, 128008], (128001, 128008)), (None, ())])
def test_the_stop_ids_are_one_or_many(write, eos, stop):
    assert config_from_huggingface(write(eos_token_id=eos)).stop_ids == stop


@pytest.mark.parametrize(("name", "dtype"), [("float32", "f32"), ("float16", "f16"), ("bfloat16", "bf16")])
@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
def test_the_dtype_is_read_under_its_old_and_its_new_key(write, key, name, dtype):
    assert config_from_huggingface(write(**({"torch_dtype": ...} | {key: name}))).dtype == dtype


@pytest.mark.case("N06")
@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_llama3_scaling_is_read_under_either_key(write, key):
    config = config_from_huggingface(write(rope_scaling=LLAMA3 | {key: "llama3"}))
    assert config.rope_scaling == RopeScaling(8.0, 1.0, 4.0, 8192)


def test_transformers_5_keeps_the_base_among_the_rope_parameters(write):
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    config = config_from_huggingface(write(rope_theta=..., rope_parameters=rope))
    assert (config.rope_theta, config.rope_scaling) == (500000.0, None)


@pytest.mark.case("N06")
@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_an_unknown_scaling_is_an_error_never_ignored(write, key):
    assert message(write(rope_scaling={key: "yarn", "factor": 2.0})) == (
        "config.json: rope_scaling.rope_type: 'yarn' is not supported; 'llama3' and 'default' are"
    )


@pytest.mark.case("N06")
def test_a_scaling_that_lacks_a_key_names_it(write):
    rope = {key: value for key, value in LLAMA3.items() if key != "low_freq_factor"} | {"rope_type": "llama3"}
    assert message(write(rope_scaling=rope)) == "config.json: rope_scaling.low_freq_factor: Field required"


def test_a_scaling_without_a_kind_is_an_error(write):
    assert message(write(rope_scaling=LLAMA3)) == "config.json: rope_scaling.rope_type: Field required"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"attention_bias": True}, "attention_bias: true is not supported; no projection may have a bias"),
        ({"mlp_bias": True}, "mlp_bias: true is not supported; no projection may have a bias"),
        ({"model_type": "qwen2"}, "model_type: 'qwen2' is not supported; 'llama' and 'mistral' are"),
        ({"hidden_act": "gelu"}, "hidden_act: 'gelu' is not supported; 'silu' is"),
        ({"sliding_window": 4096}, "sliding_window: 4096 is not supported; every position sees all before it"),
        ({"torch_dtype": "float64"}, "torch_dtype: 'float64' is not supported; float32, float16, bfloat16 are"),
        ({"hidden_size": ...}, "hidden_size: Field required"),
        ({"vocab_size": -1}, "vocab_size: Input should be greater than 0"),
        ({"num_attention_heads": 5}, "hidden_size: 64 cannot be split into num_attention_heads = 5"),
        (
            {"num_key_value_heads": 3},
            "model 'tiny': 4 heads cannot share 3 key/value heads evenly; heads must be a multiple of kv_heads",
        ),
        ({"head_dim": 15}, "model 'tiny': head_dim is 15; rotary embedding turns pairs, so it must be even"),
    ],
)
def test_what_this_model_does_not_have_is_refused_by_key(write, changes, text):
    assert message(write(**changes)) == f"config.json: {text}"


def test_every_bad_key_is_listed_at_once(write):
    assert message(write(hidden_size="wide", vocab_size=...)) == (
        "config.json: hidden_size: Input should be a valid integer, unable to parse string as an integer\n"
        "  vocab_size: Field required"
    )


def test_a_file_that_is_not_json_or_not_there_is_one_line(tmp_path):
    path = tmp_path / "config.json"
    assert message(path) == "config.json: No such file or directory"
    path.write_text("{")
    assert message(path) == "config.json: Invalid JSON: EOF while parsing an object at line 1 column 1"
    path.write_bytes(b"\xff\xfe")
    assert message(path) == "config.json: not a text file in UTF-8"


def test_parameters_are_named_in_the_order_of_use():
    one = replace(UNTIED, layers=1)
    shapes = {
        "embed": (40, 64),
        "layers.0.attention_norm": (64,),
        "layers.0.wq": (64, 64),
        "layers.0.wk": (32, 64),
        "layers.0.wv": (32, 64),
        "layers.0.wo": (64, 64),
        "layers.0.ffn_norm": (64,),
        "layers.0.w_gate": (96, 64),
        "layers.0.w_up": (96, 64),
        "layers.0.w_down": (64, 96),
        "norm": (64,),
        "lm_head": (40, 64),
    }
    assert list(param_shapes(one).items()) == list(shapes.items())
    assert list(param_shapes(replace(TINY, layers=1)))[-1] == "norm"


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(VxError) as caught:
        preset("llama4")
    assert str(caught.value) == (
        "no preset is called 'llama4'; there are smollm2-135m, stories15m, tinyllama-1.1b, llama2-7b, llama2-13b, "
        "llama2-70b, llama3.1-8b"
    )


def test_a_size_of_zero_is_refused():
    with pytest.raises(VxError) as caught:
        replace(TINY, max_len=0)
    assert str(caught.value) == "model 'tiny': max_len is 0; it must be at least 1"


# Total parameters as the models' publishers count them.
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("smollm2-135m", 134_515_008),
        ("stories15m", 15_191_712),
        ("tinyllama-1.1b", 1_100_048_384),
        ("llama2-7b", 6_738_415_616),
        ("llama2-13b", 13_015_864_320),
        ("llama2-70b", 68_976_648_192),
        ("llama3.1-8b", 8_030_261_248),
    ],
)
def test_a_preset_has_as_many_parameters_as_the_model(name, count):
    total = 0
    for shape in param_shapes(preset(name)).values():
        rows, *columns = shape
        total += rows * (columns[0] if columns else 1)
    assert total == count


@pytest.mark.skipif(not CONFIGS.exists(), reason="shared/cases/files/configs is not here")
@pytest.mark.parametrize(
    ("name", "file", "differs"),
    [
        # The file fetched is GGUF: interleaved rows, decoded to f32.
        ("smollm2-135m", "smollm2_135m.json", {"rope_interleaved": False, "dtype": "bf16"}),
        ("tinyllama-1.1b", "tinyllama_1b_chat_v1.0.json", {}),
        # Early uploads of Llama 2 said 2048.
        ("llama2-7b", "llama2_7b.json", {"max_len": 2048}),
        ("llama2-13b", "llama2_13b.json", {"max_len": 2048}),
        ("llama2-70b", "llama2_70b.json", {"max_len": 2048}),
        ("llama3.1-8b", "llama3_1_8b.json", {}),
    ],
)
def test_a_preset_says_what_the_published_config_says(name, file, differs):
    assert config_from_huggingface(CONFIGS / file) == replace(preset(name), name=Path(file).stem, **differs)


@pytest.mark.case("N06")
@pytest.mark.skipif(not CONFIGS.exists(), reason="shared/cases/files/configs is not here")
@pytest.mark.parametrize(
    ("file", "theta", "scaling"),
    [
        ("llama2_7b.json", 1e4, None),
        ("codellama_7b.json", 1e6, None),
        ("llama3_1_8b.json", 5e5, RopeScaling(8.0, 1.0, 4.0, 8192)),
        ("llama3_2_1b.json", 5e5, RopeScaling(32.0, 1.0, 4.0, 8192)),
        ("smollm2_135m.json", 1e5, None),
    ],
)
def test_the_rotary_base_and_scaling_of_published_models(file, theta, scaling):
    config = config_from_huggingface(CONFIGS / file)
    assert (config.rope_theta, config.rope_scaling) == (theta, scaling)


@pytest.mark.skipif(not CONFIGS.exists(), reason="shared/cases/files/configs is not here")
def test_every_published_llama_config_parses_and_no_other():
    files = sorted(CONFIGS.glob("*.json"))
    refused = set()
    for file in files:
        try:
            config_from_huggingface(file)
        except CheckpointError:
            refused.add(file.name)
    assert len(files) == 20
    assert refused == {"qwen2_0_5b.json", "qwen3_0.6b.json"}


def test_presets_are_keyed_by_their_names():
    assert {name: config.name for name, config in PRESETS.items()} == {name: name for name in PRESETS}


def llama3(factor: float) -> dict[str, Any]:
    return LLAMA3 | {"rope_type": "llama3", "factor": factor}


@pytest.mark.case("N06")
@pytest.mark.parametrize(
    ("keys", "theta", "wanted"),
    [
        ({"rope_theta": ..., "head_dim": 128}, 1e4, {}),  # Llama 2
        ({"rope_theta": 1e6, "head_dim": 128}, 1e6, {}),  # Code Llama
        ({"rope_theta": 1e5, "head_dim": 64}, 1e5, {}),  # SmolLM2
        (
            {"rope_theta": 5e5, "head_dim": 64, "rope_scaling": llama3(32)},  # Llama 3.2 1B
            5e5,
            {
                14: 3.211445995e-3,
                15: 1.290547928e-3,
                16: 4.295567966e-4,
                17: 9.708287803e-5,
                18: 1.946163818e-5,
                31: 9.418306725e-8,
            },
        ),
        (
            {"rope_theta": 5e5, "head_dim": 128, "rope_scaling": llama3(8)},  # Llama 3.1 8B
            5e5,
            {k: 5e5 ** (-k / 64) for k in range(29)} | {k: 5e5 ** (-k / 64) / 8 for k in range(35, 64)},
        ),
    ],
)
def test_every_rotation_of_a_model_is_at_the_frequencies_of_its_config_json(write, keys, theta, wanted):
    config = config_from_huggingface(write(**keys))
    graph = build(config, PLACEMENTS["disaggregated"](vx.load_machine("cpu-x2"), config.layers), max_len=8).build()
    turns = [n.op for _, n in graph.walk() if isinstance(n.op, Rope)]
    assert len(turns) == 2 * 2 * config.layers  # queries and keys, prefill and decode
    (op,) = set(turns)
    found = inverse_frequencies(op, config.head_dim)
    wanted = wanted or {k: theta ** (-2 * k / config.head_dim) for k in range(config.head_dim // 2)}
    np.testing.assert_allclose([found[k] for k in wanted], list(wanted.values()), rtol=1e-6)
