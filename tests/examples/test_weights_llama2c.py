"""llama2.c files: the legacy header and both versions, sizes to the byte, tied and untied."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.llama2.config import param_shapes, preset
from examples.llama2.weights import open_checkpoint
from tests.examples.tiny_llama import CASES, TINY, UNTIED, llama2c_bytes, logits, quantize_q80, random_params
from vxgraph.errors import CheckpointError

STORIES = CASES / "stories260K.bin"
GOLDEN = CASES / "stories260K_golden.npz"
needs_stories = pytest.mark.skipif(not STORIES.exists(), reason="shared/cases/files/stories260K.bin is not here")


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "tiny.bin"
    path.write_bytes(data)
    return path


def message(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    return str(caught.value).replace(str(path), path.name)


@pytest.mark.case("N08")
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("config", [TINY, UNTIED], ids=["tied", "untied"])
def test_both_header_forms_give_back_every_tensor(tmp_path, version, config):
    params = random_params(config)
    checkpoint = open_checkpoint(written(tmp_path, llama2c_bytes(config, params, version)))
    assert checkpoint.config == config
    assert list(checkpoint.params) == list(param_shapes(config))
    for name, value in params.items():
        np.testing.assert_array_equal(checkpoint.params[name], value, err_msg=name)


def test_a_tensor_of_a_float_file_is_a_read_only_view_of_it(tmp_path):
    params = open_checkpoint(written(tmp_path, llama2c_bytes(TINY, random_params(TINY), 0))).params
    assert not params["embed"].flags.owndata
    assert not params["embed"].flags.writeable
    assert params["embed"].dtype == np.float32


@pytest.mark.parametrize("config", [TINY, UNTIED], ids=["tied", "untied"])
def test_version_2_is_int8_times_the_scale_of_its_group(tmp_path, config):
    params = random_params(config)
    checkpoint = open_checkpoint(written(tmp_path, llama2c_bytes(config, params, 2, group=16)))
    for name, value in params.items():
        if value.ndim > 1:
            q, scale = quantize_q80(value, 16)
            value = (q * scale[:, None]).reshape(value.shape)
        np.testing.assert_array_equal(checkpoint.params[name], value, err_msg=name)
    assert checkpoint.config == config


def test_version_2_whose_group_does_not_divide_the_rows_is_refused(tmp_path):
    data = bytearray(llama2c_bytes(TINY, random_params(TINY), 2, group=16))
    data[37:41] = struct.pack("<i", 48)
    assert message(written(tmp_path, bytes(data))) == "tiny.bin: group size 48 does not divide dim 64 and hidden 96"


def test_another_version_is_refused(tmp_path):
    data = bytearray(llama2c_bytes(TINY, random_params(TINY), 1))
    data[4:8] = struct.pack("<i", 3)
    assert message(written(tmp_path, bytes(data))) == (
        "tiny.bin: llama2.c version 3 is not supported; 1 (float32) and 2 (int8) are"
    )


@pytest.mark.case("N09")
@pytest.mark.case("N08")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_file_that_is_cut_short_names_the_first_tensor_that_is_not_whole(tmp_path, version):
    data = llama2c_bytes(UNTIED, random_params(UNTIED), version)
    assert message(written(tmp_path, data[:-1])) == (
        f"tiny.bin: tensor 'lm_head' ends at byte {len(data)}, but the file has {len(data) - 1} bytes\n"
        "  the file is cut short, or its header is of another model; download it again"
    )


@pytest.mark.case("N09")
@pytest.mark.case("N08")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_bytes_after_the_last_tensor_are_refused(tmp_path, version):
    data = llama2c_bytes(UNTIED, random_params(UNTIED), version)
    assert message(written(tmp_path, data + b"1234")) == (
        f"tiny.bin: 4 bytes follow the last tensor, 'lm_head', which ends at byte {len(data)}\n"
        "  the header is of another model, or of another layout"
    )


def test_a_header_that_is_cut_short_says_so(tmp_path):
    assert message(written(tmp_path, b"\x01" * 20)) == (
        "tiny.bin: the header is cut short: 20 bytes of 28; download the file again"
    )
    assert message(written(tmp_path, llama2c_bytes(TINY, random_params(TINY), 1)[:100])) == (
        "tiny.bin: the header is cut short: 100 bytes of 256; download the file again"
    )


def test_a_file_of_no_known_format_says_what_can_be_read(tmp_path):
    assert message(written(tmp_path, struct.pack("<7i", 5, 0, 1, 1, 1, 1, 1) + b"junk")) == (
        "tiny.bin: not a model file that can be read\n"
        "  wanted: GGUF, a llama2.c .bin, or a directory with config.json and safetensors files\n"
        "  as a llama2.c header its sizes would be [5, 0, 1, 1, 1, 1, 1]"
    )


def test_heads_that_cannot_share_the_key_value_heads_are_refused(tmp_path):
    data = struct.pack("<7i", 64, 96, 2, 4, 3, 40, 32)
    assert message(written(tmp_path, data)) == (
        "tiny.bin: model 'tiny': 4 heads cannot share 3 key/value heads evenly; heads must be a multiple of kv_heads"
    )


def test_a_missing_and_an_empty_file_are_told_apart(tmp_path):
    assert message(tmp_path / "none.bin") == "none.bin: No such file or directory"
    assert message(written(tmp_path, b"")) == "tiny.bin: the file is empty; download it again"


def test_the_compute_dtype_can_be_overridden(tmp_path):
    path = written(tmp_path, llama2c_bytes(TINY, params := random_params(TINY), 0))
    half = open_checkpoint(path, dtype="f16")
    assert half.config == replace(TINY, dtype="f16")
    np.testing.assert_array_equal(half.params["layers.1.w_down"], params["layers.1.w_down"].astype(np.float16))


def test_a_value_that_the_dtype_cannot_hold_is_an_error_not_infinity(tmp_path):
    params = random_params(TINY)
    params["norm"][3] = 1e6
    path = written(tmp_path, llama2c_bytes(TINY, params, 0))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path, dtype="f16").params["norm"]
    assert str(caught.value) == f"{path}: tensor 'norm' has values that f16 cannot hold; use f32, as the file does"


@needs_stories
def test_stories260k_gives_the_golden_logits():
    checkpoint = open_checkpoint(STORIES)
    golden = np.load(GOLDEN)
    got = logits(checkpoint.config, checkpoint.params, golden["ids"][:48].tolist())
    np.testing.assert_allclose(got, golden["logits_f64_prefill0_199"][:48], atol=1e-4)


@pytest.mark.case("N08")
@needs_stories
def test_stories260k_is_264128_floats_to_the_byte(tmp_path):
    data = STORIES.read_bytes()
    assert len(data) == 28 + 4 * 264128
    assert message(written(tmp_path, data[:-4])) == (
        "tiny.bin: tensor 'freq_cis' ends at byte 1056540, but the file has 1056536 bytes\n"
        "  the file is cut short, or its header is of another model; download it again"
    )


@pytest.mark.case("N08")
@needs_stories
def test_a_negative_vocabulary_means_a_classifier_of_its_own_after_the_rotary_tables(tmp_path):
    data = bytearray(STORIES.read_bytes())
    data[20:24] = struct.pack("<i", -512)
    tied = open_checkpoint(STORIES)
    untied = open_checkpoint(written(tmp_path, bytes(data) + (2 * tied.params["embed"]).tobytes()))
    assert (untied.config.vocab, untied.config.tied) == (512, False)
    ids = np.load(GOLDEN)["ids"][:16].tolist()
    np.testing.assert_array_equal(logits(untied.config, untied.params, ids), 2 * logits(tied.config, tied.params, ids))


@pytest.mark.case("N08")
@needs_stories
def test_a_negative_vocabulary_without_a_classifier_names_it(tmp_path):
    data = bytearray(STORIES.read_bytes())
    data[20:24] = struct.pack("<i", -512)
    assert message(written(tmp_path, bytes(data))).startswith(
        f"tiny.bin: tensor 'lm_head' ends at byte {len(data) + 4 * 512 * 64}, but the file has {len(data)} bytes"
    )


def test_the_stories15m_preset_has_the_size_of_its_file():
    config = preset("stories15m")
    floats = sum(int(np.prod(shape)) for shape in param_shapes(config).values())
    assert 28 + 4 * (floats + config.max_len * config.head_dim) == 60816028
