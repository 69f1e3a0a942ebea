"""A header that claims more than its file has is refused before anything is made for it."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import vxgraph as vx
from examples.llama2.tokenizer import open_tokenizer
from examples.llama2.weights import open_checkpoint
from tests.fuzz import seeds
from tests.fuzz.judge import limited
from vxgraph.errors import VxError
from vxgraph.tools.arrays import read_arrays

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

HUGE = 2**60


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(*, tensors: int = 0, keys: int = 0, body: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + body


def huge_tensor() -> bytes:
    data = seeds.gguf_files()[0]
    at = data.index(b"token_embd.weight") + len(b"token_embd.weight") + 4
    return data[:at] + struct.pack("<Q", HUGE) + data[at + 8 :]


def safetensors(shape: list[int], end: int, header: int | None = None) -> bytes:
    told = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
    return struct.pack("<Q", len(told) if header is None else header) + told


def npz(shape: str, descr: str = "<f4") -> bytes:
    file = BytesIO()
    np.savez(file, x=np.zeros(1, np.float32))
    wanted = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    data = file.getvalue()
    at = data.index(b"{'descr'")
    return data[:at] + wanted.encode().ljust(117) + data[at + 117 :]


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a tensor count": ("m.gguf", lambda: gguf(tensors=HUGE)),
    "a key count": ("m.gguf", lambda: gguf(keys=HUGE)),
    "a key's length": ("m.gguf", lambda: gguf(keys=1, body=struct.pack("<Q", HUGE))),
    "an array's count": ("m.gguf", lambda: gguf(keys=1, body=text("k") + struct.pack("<IIQ", 9, 0, HUGE))),
    "an array of texts": ("m.gguf", lambda: gguf(keys=1, body=text("k") + struct.pack("<IIQ", 9, 8, HUGE))),
    "a tensor's rank": ("m.gguf", lambda: gguf(tensors=1, body=text("t") + struct.pack("<I", 2**32 - 1))),
    "a tensor's dims": ("m.gguf", huge_tensor),
    "legacy sizes": ("m.bin", lambda: struct.pack("<7i", *[2**30] * 7)),
    "many layers": ("m.bin", lambda: struct.pack("<7i", 2, 2, 2**31 - 1, 1, 1, 4, 4)),
    "versioned sizes": ("m.bin", lambda: struct.pack("<I8iB", 0x616B3432, 1, *[2**30] * 7, 1).ljust(256, b"\0")),
    "a header's length": ("hf", lambda: safetensors([1], 4, HUGE)),
    "a shape": ("hf", lambda: safetensors([HUGE], 4 * HUGE)),
    "a shape that wraps": ("hf", lambda: safetensors([2**32, 2**32], 0)),
    "an id": ("tokenizer.json", lambda: seeds.tokenizer_jsons()[0].replace(b":154", b":4294967295")),
    "a padding": (
        "tokenizer.json",
        lambda: seeds.tokenizer_jsons()[0].replace(
            b'"padding":null',
            b'"padding":{"strategy":{"Fixed":4294967296},"direction":"Right","pad_to_multiple_of":null,"pad_id":0,'
            b'"pad_type_id":0,"pad_token":"x"}',
        ),
    ),
    "a piece's length": ("tokenizer.bin", lambda: seeds.llama2c_tokenizers()[0] + struct.pack("<fi", 0.0, 2**31 - 1)),
    "a message's length": (
        "tokenizer.model",
        lambda: seeds.sentencepiece_models()[0] + b"\x0a" + b"\xff" * 8 + b"\x7f",
    ),
    "an array": ("in.npz", lambda: npz(f"({HUGE},)")),
    "an array of large items": ("in.npz", lambda: npz("(1,)", "S1152921504606846976")),
    "an array of no items": ("in.npz", lambda: npz(f"({HUGE}, 0)")),
}


def open_it(path: Path) -> None:
    match path.suffix or path.name:
        case ".npz":
            read_arrays(path, vx.parse_program(seeds.programs()[0].decode()).args)
        case ".json" | ".model":
            open_tokenizer(path).encode("Hello")
        case ".bin" if path.name == "tokenizer.bin":
            open_tokenizer(path)
        case _:
            open_checkpoint(path)


def written(name: str, data: bytes, folder: Path) -> Path:
    if name != "hf":
        (folder / name).write_bytes(data)
        return folder / name
    model = seeds.huggingface_folder(folder)
    (model / "model.safetensors").write_bytes(data)
    return model


@pytest.mark.parametrize("claim", FILES)
def test_a_claim_is_held_against_the_file_before_it_is_believed(claim: str, tmp_path: Path) -> None:
    name, data = FILES[claim]
    path = written(name, data(), tmp_path)
    fair = 40 * sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file()) + 2**20
    with limited(2**28):
        _warm(path)
        tracemalloc.start()
        try:
            if claim == "a padding":  # which nothing here uses
                open_it(path)
            else:
                with pytest.raises(VxError):
                    open_it(path)
            assert tracemalloc.get_traced_memory()[1] < fair
        finally:
            tracemalloc.stop()


def _warm(path: Path) -> None:
    """Imports are not the claim's doing."""
    with suppress(VxError):
        open_it(path)


def test_a_deflated_array_is_as_large_as_its_input_and_no_larger(tmp_path: Path) -> None:
    """A zip bomb of 64 MiB in 64 KiB."""
    path = tmp_path / "in.npz"
    np.savez_compressed(path, x=np.zeros((1, 2**24), np.float32))
    args = vx.parse_program(seeds.programs()[0].decode()).args
    with limited(2**25), pytest.raises(VxError) as error:
        read_arrays(path, args)
    assert str(error.value) == (
        f"{path}: array 'x.npy' claims 67108864 bytes, which is more than f32[1, 64] can have in any dtype"
    )
