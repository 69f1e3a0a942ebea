"""What fuzzing found in the readers of checkpoints and tokenizers: exceptions of every kind, and claims believed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vxgraph as vx
from examples.llama2.fit import types_of
from examples.llama2.generate import plan
from examples.llama2.tokenizer import open_tokenizer
from examples.llama2.weights import open_checkpoint
from tests.examples import tiny_tokenizer
from tests.examples.tiny_tokenizer import BYTES, Field, message, sentencepiece
from tests.fuzz import seeds
from tests.work import calls
from vxgraph.errors import CheckpointError
from vxgraph.program.instructions import Emit, Instruction, Loop

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")


def refusal(opens: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(CheckpointError) as error:
        opens(path)
    return str(error.value)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(path: Path, *, keys: bytes = b"", count: int = 0, tensors: bytes = b"", number: int = 0) -> Path:
    """A GGUF file of raw bytes."""
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, number, count) + keys + tensors)
    return path


# GGUF


def test_arrays_in_arrays_have_an_end(tmp_path: Path) -> None:
    nested = text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000
    path = gguf(tmp_path / "m.gguf", keys=nested, count=1)
    assert refusal(open_checkpoint, path) == f"{path}: key 'k' has arrays nested more than 8 deep"


def test_a_tensor_has_the_dims_that_ggml_has(tmp_path: Path) -> None:
    entry = text("t") + struct.pack("<I", 10**5) + struct.pack("<Q", 2**60) * 10**5
    path = gguf(tmp_path / "m.gguf", tensors=entry, number=1)
    assert refusal(open_checkpoint, path) == f"{path}: tensor 't' has 100000 dims; GGUF has at most 4"


@pytest.mark.parametrize(("key", "value"), [("bos", [1]), ("eos", ["x"]), ("eot", "x")])
def test_a_token_id_is_a_number(tmp_path: Path, key: str, value: Any) -> None:
    """A list was a TypeError, and a text went on into the configuration."""
    from gguf import GGUFReader, GGUFValueType, GGUFWriter

    (tmp_path / "a.gguf").write_bytes(seeds.gguf_files()[0])
    read, written = GGUFReader(tmp_path / "a.gguf"), GGUFWriter(path := tmp_path / "m.gguf", "llama")
    for field in read.fields.values():
        if field.name.startswith("llama."):
            written.add_key_value(field.name, field.contents(), field.types[0])
    kind = GGUFValueType.ARRAY if isinstance(value, list) else GGUFValueType.STRING
    written.add_key_value(f"tokenizer.ggml.{key}_token_id", value, kind)
    for tensor in read.tensors:
        written.add_tensor(tensor.name, tensor.data)
    written.write_header_to_file()
    written.write_kv_data_to_file()
    written.write_tensors_to_file()
    written.close()
    found = refusal(open_checkpoint, path)
    assert found == f"{path}: key 'tokenizer.ggml.{key}_token_id' is {value!r}; wanted an integer"


def test_a_vocabulary_that_is_a_number_has_no_length(tmp_path: Path) -> None:
    data = seeds.gguf_files()[0].replace(b"llama.vocab_size", b"llama.vocab_sizf")
    key = text("tokenizer.ggml.tokens") + struct.pack("<II", 4, 7)
    count = struct.unpack_from("<Q", data, 16)[0]
    (tmp_path / "m.gguf").write_bytes(data[:16] + struct.pack("<Q", count + 1) + key + data[24:])
    path = tmp_path / "m.gguf"
    assert refusal(open_checkpoint, path) == f"{path}: key 'llama.vocab_size' is missing"


# Hugging Face folders


def folder(tmp_path: Path, *, shards: int = 1, **changes: Any) -> Path:
    model = seeds.huggingface_folder(tmp_path, shards=shards)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | changes))
    return model


def test_a_config_of_a_million_layers_is_held_against_the_tensors_first(tmp_path: Path) -> None:
    """Listing the names of its tensors took all the memory there is."""
    model = folder(tmp_path, num_hidden_layers=10**9)
    wanted = f"{model / 'config.json'}: num_hidden_layers: 1000000000, but the weights are 11 tensors"
    assert refusal(open_checkpoint, model) == wanted


@pytest.mark.parametrize("size", [2**31, 10**30])
def test_no_size_is_larger_than_an_i32(tmp_path: Path, size: int) -> None:
    model = folder(tmp_path, vocab_size=size)
    wanted = f"{model / 'config.json'}: model 'hf': vocab is {size}; it must be at most 2147483647"
    assert refusal(open_checkpoint, model) == wanted


@pytest.mark.parametrize("key", ["rope_theta", "rms_norm_eps"])
def test_infinity_is_no_constant_of_a_model(tmp_path: Path, key: str) -> None:
    model = folder(tmp_path, **{key: float("inf")})
    assert refusal(open_checkpoint, model) == f"{model / 'config.json'}: {key}: Input should be a finite number"


def test_an_index_that_names_a_shard_of_five_thousand_letters(tmp_path: Path) -> None:
    """Asking whether it is there was an OSError."""
    model = folder(tmp_path, shards=2)
    index = model / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": "a" * 5000}}))
    assert refusal(open_checkpoint, model) == (
        f"{model}/{'a' * 5000}: the file is missing; {index.name} says that it holds tensor 'w'\n  download it again"
    )


@pytest.mark.parametrize("shard", ["../hf/model-00001-of-00002.safetensors", "/etc/passwd", "..", "", "\0"])
def test_an_index_names_files_of_its_own_folder(tmp_path: Path, shard: str) -> None:
    model = folder(tmp_path, shards=2)
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))
    assert "the file is missing; model.safetensors.index.json says that it holds tensor 'w'" in refusal(
        open_checkpoint, model
    )


def test_an_index_that_is_a_folder(tmp_path: Path) -> None:
    model = folder(tmp_path, shards=2)
    index = model / "model.safetensors.index.json"
    index.unlink()
    index.mkdir()
    assert refusal(open_checkpoint, model) == f"{index}: Is a directory"


def test_a_safetensors_shape_of_a_hundred_thousand_dims(tmp_path: Path) -> None:
    model = folder(tmp_path)
    header = json.dumps({"w": {"dtype": "F32", "shape": [2**60] * 10**5, "data_offsets": [0, 4]}}).encode()
    file = model / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    found = refusal(open_checkpoint, model)
    assert found == f"{file}: tensor 'w': shape: List should have at most 8 items after validation, not 100000"


# Tokenizers


def test_a_tokenizer_json_whose_ids_are_billions(tmp_path: Path) -> None:
    """The package made room for all ids up to the largest, and ended the process where there was none."""
    found = json.loads(seeds.tokenizer_jsons()[0])
    found["model"]["vocab"]["Hello"] = 2**31
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(found))
    size = path.stat().st_size
    assert refusal(open_tokenizer, path) == (
        f"{path}: model.vocab has the id 2147483648, which is more than a file of {size} bytes has pieces"
    )


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("tokenizer.json", "[" * 10**5, "not JSON that can be read: it is nested too deep"),
        ("tokenizer.json", "[]", "holds a list, not an object of settings"),
        ("tokenizer_config.json", "[" * 10**5, "not JSON that can be read: it is nested too deep"),
        (
            "config.json",
            '{"eos_token_id": ' + "9" * 5000 + "}",
            "not JSON: Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits; "
            "use sys.set_int_max_str_digits() to increase the limit",
        ),
        (
            "generation_config.json",
            "\ud800",
            "not JSON: 'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte",
        ),
        ("chat_template.jinja", "\ud800", "not a text in UTF-8"),
    ],
)
def test_the_json_beside_a_tokenizer_is_whatever_it_is(tmp_path: Path, name: str, contents: str, message: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(seeds.tokenizer_jsons()[0])
    (tmp_path / name).write_bytes(contents.encode("utf-8", "surrogatepass"))
    assert refusal(open_tokenizer, tmp_path / "tokenizer.json") == f"{tmp_path / name}: {message}"


@pytest.mark.parametrize("templates", [[{}], [{"name": "default"}], ["x"], [{"name": "default", "template": 7}]])
def test_templates_without_a_name_or_a_text_are_none(tmp_path: Path, templates: list[Any]) -> None:
    (tmp_path / "tokenizer.json").write_bytes(seeds.tokenizer_jsons()[0])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    assert open_tokenizer(tmp_path).chat_template is None


def test_a_sentencepiece_byte_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    pieces = [Field(1, message(Field(1, name), Field(2, 0.0), Field(3, 6))) for name in (*BYTES, "x" * 100)]
    path.write_bytes(
        message(*pieces, Field(2, message(Field(3, 2), Field(41, 1), Field(42, 2))), Field(3, b"\x20\x00"))
    )
    found = refusal(open_tokenizer, path)
    assert found == f"{path}: the piece '{'x' * 59} is said to be a byte; those are <0x00> to <0xFF>"


def test_a_sentencepiece_bos_beyond_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(sentencepiece(bos=10**6))
    pieces = len(tiny_tokenizer.SPM)
    assert refusal(open_tokenizer, path) == f"{path}: bos_id is 1000000, but the vocabulary has {pieces} pieces"


@pytest.mark.parametrize("tail", [b"\xff" * 10**5 + b"\x01", b"\x12\x03\xca\x02\x00"], ids=["a long varint", "a text"])
def test_a_sentencepiece_number_that_is_none(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(seeds.sentencepiece_models()[0] + tail)
    work = calls(lambda: refusal(open_tokenizer, path))
    assert refusal(open_tokenizer, path) == f"{path}: not a SentencePiece model, or cut off; fetch it again"
    assert work < 50_000


@pytest.mark.parametrize("change", ["emits", "params"])
def test_a_saved_program_that_only_looks_like_a_llama(tmp_path: Path, change: str) -> None:
    """It was a StopIteration, or a KeyError at its first token."""
    program = plan(seeds.LLAMA, "single", vx.load_machine("h200"))
    assert types_of(program, tmp_path / "m.vxp") == ("f32", "f32")
    if change == "emits":
        broken = replace(program, body=tuple(_renamed(program.body)))
    else:
        params = (replace(p, type=p.type.with_dtype(vx.i32)) if p.name == "embed" else p for p in program.params)
        broken = replace(program, params=tuple(params))
    with pytest.raises(vx.VxError) as error:
        types_of(broken, tmp_path / "m.vxp")
    assert str(error.value) == (
        f"{tmp_path / 'm.vxp'}: program {program.name!r} is no Llama; wanted one that 'python -m examples.llama2 "
        "compile' wrote"
    )


def _renamed(block: tuple[Instruction, ...]) -> Iterator[Instruction]:
    for instr in block:
        match instr:
            case Emit():
                yield replace(instr, name_out="other")
            case Loop():
                yield replace(instr, body=tuple(_renamed(instr.body)))
            case _:
                yield instr
