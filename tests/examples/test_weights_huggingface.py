"""Hugging Face directories: shards, damaged files, bf16, tied and untied output layers."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from examples.llama2.config import param_shapes
from examples.llama2.weights import open_checkpoint
from examples.llama2.weights.rotary_layout import half_split_rows
from tests.examples.tiny_llama import TINY, UNTIED, hf_name, logits, random_params, write_hf
from vxgraph.errors import CheckpointError

pytest.importorskip("safetensors")

HF_TINY = replace(TINY, rope_interleaved=False, stop_ids=(2,))
PARAMS = random_params(HF_TINY)
TENSORS = {hf_name(name): value for name, value in PARAMS.items()}
SHARD_1, SHARD_2 = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
LAST = "model.norm.weight"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return write_hf(tmp_path / "tiny", HF_TINY, TENSORS, shards=2)


def message(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    return str(caught.value).replace(f"{path}/", "").replace(str(path), path.name)


def raw_safetensors(path: Path, header: dict[str, object], body: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def rewrite_header(path: Path, change) -> None:
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + size])
    change(header)
    raw_safetensors(path, header, data[8 + size :])


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_every_tensor_comes_back_from_one_file_or_many(tmp_path, shards):
    checkpoint = open_checkpoint(write_hf(tmp_path / "tiny", HF_TINY, TENSORS, shards=shards))
    assert checkpoint.config == HF_TINY
    assert list(checkpoint.params) == list(param_shapes(HF_TINY))
    for name, value in PARAMS.items():
        np.testing.assert_array_equal(checkpoint.params[name], value, err_msg=name)


@pytest.mark.case("N05")
def test_half_split_rows_with_their_own_rotation_give_the_logits_of_interleaved_rows(tmp_path):
    half_split = dict(PARAMS)
    for i in range(TINY.layers):
        half_split[f"layers.{i}.wq"] = half_split_rows(PARAMS[f"layers.{i}.wq"], TINY.heads)
        half_split[f"layers.{i}.wk"] = half_split_rows(PARAMS[f"layers.{i}.wk"], TINY.kv_heads)
    path = write_hf(tmp_path / "tiny", HF_TINY, {hf_name(n): v for n, v in half_split.items()})
    checkpoint = open_checkpoint(path)
    ids = [1, 7, 3, 39, 12]
    want = logits(TINY, PARAMS, ids)
    np.testing.assert_allclose(logits(checkpoint.config, checkpoint.params, ids), want, rtol=1e-9, atol=1e-9)
    assert np.abs(logits(checkpoint.config, PARAMS, ids) - want).max() > 0.1


@pytest.mark.case("N09")
@pytest.mark.parametrize("cut", [1, 8, 20])
def test_a_shard_that_is_cut_short_names_file_and_tensor(sharded, cut):
    shard = sharded / SHARD_2
    shard.write_bytes(shard.read_bytes()[:-cut])
    # safetensors' writer sorts the tensors of a file by dtype and name: the norm comes last.
    nbytes = sum(TENSORS[n].nbytes for n in names_in(sharded, SHARD_2))
    assert message(sharded) == (
        f"{SHARD_2}: tensor {LAST!r} ends at byte {nbytes} of the data, but the file has {nbytes - cut} bytes of it\n"
        "  the file is cut short; download it again"
    )


def names_in(path: Path, shard: str) -> list[str]:
    weight_map = json.loads((path / "model.safetensors.index.json").read_text())["weight_map"]
    return [name for name, file in weight_map.items() if file == shard]


def test_a_shard_that_is_cut_within_its_header_says_so(sharded):
    shard = sharded / SHARD_2
    size = struct.unpack_from("<Q", shard.read_bytes())[0]
    shard.write_bytes(shard.read_bytes()[:100])
    assert message(sharded) == (
        f"{SHARD_2}: the header ends at byte {8 + size}, but the file has 100 bytes; it is cut short, or it is not a "
        "safetensors file"
    )
    shard.write_bytes(b"1234")
    assert message(sharded) == f"{SHARD_2}: the header is cut short: the file has 4 bytes; download it again"


@pytest.mark.case("N09")
def test_bytes_after_the_last_tensor_are_refused(sharded):
    shard = sharded / SHARD_2
    shard.write_bytes(shard.read_bytes() + b"123")
    assert message(sharded) == f"{SHARD_2}: 3 bytes follow {LAST!r}, which should be the last in the file"


@pytest.mark.case("N09")
def test_a_missing_shard_is_named_with_a_tensor_that_it_holds(sharded):
    (sharded / SHARD_2).unlink()
    first = names_in(sharded, SHARD_2)[0]
    assert message(sharded) == (
        f"{SHARD_2}: the file is missing; model.safetensors.index.json says that it holds tensor {first!r}\n"
        "  download it again"
    )


@pytest.mark.case("N09")
def test_an_index_that_points_to_the_wrong_shard_is_refused(sharded):
    index = sharded / "model.safetensors.index.json"
    text = json.loads(index.read_text())
    text["weight_map"][LAST] = SHARD_1
    index.write_text(json.dumps(text))
    assert message(sharded) == (
        f"{SHARD_1}: tensor {LAST!r} is not in this file, but model.safetensors.index.json says it is"
    )


def test_an_index_that_leaves_the_directory_is_refused(sharded):
    index = sharded / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {LAST: f"../tiny/{SHARD_2}"}}))
    assert message(sharded).startswith(f"../tiny/{SHARD_2}: the file is missing; ")


def test_an_index_that_is_not_one_is_refused(sharded):
    (sharded / "model.safetensors.index.json").write_text('{"metadata": {}}')
    assert message(sharded) == "model.safetensors.index.json: weight_map: Field required"


@pytest.mark.case("N09")
def test_bf16_is_exact_in_float32_and_little_endian(tmp_path):
    bf16 = {name: value.astype(ml_dtypes.bfloat16) for name, value in TENSORS.items()}
    bf16[LAST][:3] = [1.0, -2.5, 3.140625]
    path = write_hf(tmp_path / "tiny", HF_TINY, TENSORS)
    write_raw(path, bf16, "BF16")
    checkpoint = open_checkpoint(path)
    assert checkpoint.config.dtype == "bf16"
    assert checkpoint.params["norm"].dtype == ml_dtypes.bfloat16
    in_f32 = open_checkpoint(path, dtype="f32")
    assert in_f32.params["norm"].dtype == np.float32
    assert in_f32.params["norm"][:3].tolist() == [1.0, -2.5, 3.140625]
    for name, value in bf16.items():
        param = next(p for p in PARAMS if hf_name(p) == name)
        np.testing.assert_array_equal(in_f32.params[param], value.astype(np.float32))


def write_raw(path: Path, tensors: dict[str, np.ndarray], dtype: str, **extra: object) -> None:
    header, body = dict(extra), b""
    for name, value in tensors.items():
        part = value.view("<u2").astype("<u2").tobytes() if value.itemsize == 2 else value.astype("<f4").tobytes()
        header[name] = {"dtype": dtype, "shape": value.shape, "data_offsets": [len(body), len(body) + len(part)]}
        body += part
    raw_safetensors(path / "model.safetensors", header, body)


@pytest.mark.case("N09")
@pytest.mark.parametrize("pad", range(4))
def test_empty_metadata_and_unaligned_tensors_are_fine(tmp_path, pad):
    path = write_hf(tmp_path / "tiny", HF_TINY, TENSORS)
    write_raw(path, TENSORS, "F32", __metadata__={} if pad == 0 else {"pad": "x" * pad})
    embed = open_checkpoint(path).params["embed"]
    assert embed.flags.aligned
    np.testing.assert_array_equal(embed, PARAMS["embed"])


@pytest.mark.case("N09")
def test_a_shape_that_differs_from_the_configuration_is_refused(tmp_path):
    name = "model.layers.1.self_attn.k_proj.weight"
    path = write_hf(tmp_path / "tiny", HF_TINY, TENSORS | {name: TENSORS[name][:16]})
    assert message(path) == (
        f"model.safetensors: tensor {name!r} has shape [16, 64], but the model's configuration wants [32, 64]"
    )


@pytest.mark.case("N09")
def test_the_dtype_of_the_file_wins_over_that_of_the_configuration(tmp_path):
    f16 = {name: value.astype(np.float16) for name, value in TENSORS.items()}
    checkpoint = open_checkpoint(write_hf(tmp_path / "tiny", HF_TINY, f16, torch_dtype="bfloat16"))
    assert checkpoint.config.dtype == "f16"
    assert not checkpoint.params["embed"].flags.owndata
    np.testing.assert_array_equal(checkpoint.params["embed"], PARAMS["embed"].astype(np.float16))


def test_norms_in_f32_beside_f16_matrices_are_converted_to_f16(tmp_path):
    mixed = {n: v.astype(np.float16) if v.ndim > 1 else v for n, v in TENSORS.items()}
    checkpoint = open_checkpoint(write_hf(tmp_path / "tiny", HF_TINY, mixed))
    assert checkpoint.config.dtype == "f16"
    assert checkpoint.params["norm"].dtype == np.float16


@pytest.mark.case("N08")
def test_tied_without_an_output_tensor_shares_the_embedding(tmp_path):
    checkpoint = open_checkpoint(write_hf(tmp_path / "tiny", HF_TINY, TENSORS))
    assert checkpoint.config.tied
    assert "lm_head" not in checkpoint.params


@pytest.mark.case("N08")
def test_tied_with_an_output_tensor_still_shares_the_embedding(tmp_path):
    path = write_hf(tmp_path / "tiny", HF_TINY, TENSORS | {"lm_head.weight": 2 * TENSORS["model.embed_tokens.weight"]})
    checkpoint = open_checkpoint(path)
    assert checkpoint.config.tied
    assert "lm_head" not in checkpoint.params


@pytest.mark.case("N08")
def test_untied_with_an_output_tensor_uses_it(tmp_path):
    path = write_hf(tmp_path / "tiny", UNTIED, TENSORS | {"lm_head.weight": 2 * TENSORS["model.embed_tokens.weight"]})
    checkpoint = open_checkpoint(path)
    assert not checkpoint.config.tied
    np.testing.assert_array_equal(checkpoint.params["lm_head"], 2 * PARAMS["embed"])


@pytest.mark.case("N08")
def test_untied_without_an_output_tensor_names_it(tmp_path):
    assert message(write_hf(tmp_path / "tiny", UNTIED, TENSORS)) == (
        "tiny: tensor 'lm_head.weight' is missing\n  the model needs it as lm_head, shape [40, 64]"
    )


def test_a_tensor_that_a_llama_does_not_have_is_refused(tmp_path):
    name = "model.layers.0.self_attn.q_proj.bias"
    assert message(write_hf(tmp_path / "tiny", HF_TINY, TENSORS | {name: np.zeros(64, np.float32)})) == (
        f"tiny: tensor {name!r} is not part of a Llama model\n"
        "  1 such in the file; a model that needs them is not supported"
    )


def test_stored_rotary_frequencies_are_not_needed(tmp_path):
    old = TENSORS | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
    assert len(open_checkpoint(write_hf(tmp_path / "tiny", HF_TINY, old)).params) == len(PARAMS)


def test_an_integer_tensor_is_refused(tmp_path):
    path = write_hf(tmp_path / "tiny", HF_TINY, TENSORS | {LAST: np.ones(64, np.int32)})
    assert message(path) == (
        f"model.safetensors: tensor {LAST!r} has dtype I32, which is not supported; F32, F16, BF16 are"
    )


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"dtype": "F32", "shape": [64], "data_offsets": [0, 255]}, " spans 255 bytes, but F32 [64] takes 256"),
        ({"dtype": "F99", "shape": [64], "data_offsets": [0, 256]}, " has dtype 'F99', which is not known"),
        (
            {"dtype": "F32", "shape": [64], "data_offsets": [4, 260]},
            " starts at byte 4 of the data, but the header ends at byte 0",
        ),
        ({"dtype": "F32", "shape": 64, "data_offsets": [0, 256]}, ": shape: Input should be a valid list"),
    ],
)
def test_a_header_whose_numbers_do_not_agree_is_refused(tmp_path, entry, text):
    path = write_hf(tmp_path / "tiny", HF_TINY, TENSORS)
    raw_safetensors(path / "model.safetensors", {"x": entry}, bytes(256))
    assert message(path) == f"model.safetensors: tensor 'x'{text}"


def test_a_header_that_is_not_json_is_refused(tmp_path):
    path = write_hf(tmp_path / "tiny", HF_TINY, TENSORS)
    (path / "model.safetensors").write_bytes(struct.pack("<Q", 3) + b"[1]")
    assert message(path) == "model.safetensors: the header is damaged: Input should be an object"


def test_tensors_that_overlap_are_refused(sharded):
    def overlap(header):
        header[LAST]["data_offsets"] = [at - 256 for at in header[LAST]["data_offsets"]]

    rewrite_header(sharded / SHARD_2, overlap)
    assert "of the data, but" in message(sharded)
    assert repr(LAST) in message(sharded)


def test_a_directory_without_weights_or_configuration_says_what_is_missing(tmp_path):
    path = tmp_path / "tiny"
    path.mkdir()
    assert message(path) == "config.json: No such file or directory"
    write_hf(tmp_path / "full", HF_TINY, TENSORS)
    (path / "config.json").write_text((tmp_path / "full" / "config.json").read_text())
    assert message(path) == (
        "tiny: neither model.safetensors nor model.safetensors.index.json is there; "
        "weights are read from safetensors only"
    )
