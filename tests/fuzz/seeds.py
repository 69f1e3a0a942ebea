"""The valid inputs that mutation starts from, made from the project's own samples, as small as their format allows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np

from tests.examples import tiny_tokenizer
from tests.examples.tiny_llama import (
    TINY,
    gguf_name,
    hf_config,
    hf_name,
    llama2c_bytes,
    random_params,
    write_gguf,
    write_hf,
)
from tests.program.samples import SAMPLES
from vxgraph.topology import machines
from vxgraph.topology.source import shipped_machines

GOLDEN = Path(__file__).parents[1] / "golden"
MACHINES = Path(next(iter(machines.__path__)))
LLAMA = replace(TINY, dim=8, hidden=8, layers=1, heads=2, kv_heads=1, head_dim=4, vocab=4, max_len=4)
UNTIED = replace(LLAMA, tied=False)


def _golden(word: str) -> list[bytes]:
    texts = [p.read_bytes() for p in sorted(GOLDEN.rglob("*.txt"))]
    return [text for text in texts if text.startswith(word.encode())]


@cache
def graphs() -> tuple[bytes, ...]:
    return (*(s.graph().text().encode() for s in SAMPLES.values()), *_golden("graph"))


@cache
def programs() -> tuple[bytes, ...]:
    return (*(s.program().text().encode() for s in SAMPLES.values()), *_golden("program"))


def undigested(program: bytes) -> bytes:
    """The program without its digest, so that an edit is proved rather than noticed."""
    return b"\n".join(line for line in program.split(b"\n") if not line.startswith(b"  digest"))


@cache
def machine_files() -> tuple[bytes, ...]:
    return tuple((MACHINES / f"{name}.toml").read_bytes() for name in shipped_machines())


def _written(write: Callable[[Path], Path]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder)).read_bytes()


@cache
def gguf_files() -> tuple[bytes, ...]:
    tensors = {gguf_name(name): value for name, value in random_params(LLAMA).items()}
    wide = replace(LLAMA, dim=32, hidden=32, head_dim=16)
    wider = {gguf_name(name): value for name, value in random_params(wide).items()}
    return (
        _written(lambda folder: write_gguf(folder / "f32.gguf", LLAMA, tensors)),
        _written(lambda folder: write_gguf(folder / "q8.gguf", wide, wider, kind="Q8_0")),
    )


@cache
def gguf_tokenizers() -> tuple[bytes, ...]:
    spm = _written(lambda folder: tiny_tokenizer.write_gguf(folder / "spm.gguf", **tiny_tokenizer.SPM_KEYS))
    bpe = _written(lambda folder: tiny_tokenizer.write_gguf(folder / "bpe.gguf", **tiny_tokenizer.bpe_keys()))
    return spm, bpe


@cache
def llama2c_files() -> tuple[bytes, ...]:
    tied = [llama2c_bytes(LLAMA, random_params(LLAMA), version, 8) for version in (0, 1, 2)]
    return (*tied, llama2c_bytes(UNTIED, random_params(UNTIED), 0))


def _folder(shards: int) -> Callable[[Path], Path]:
    tensors = {hf_name(name): value for name, value in random_params(LLAMA).items()}
    return lambda folder: write_hf(folder / "hf", LLAMA, tensors, shards)


def huggingface_folder(folder: Path, *, shards: int = 1) -> Path:
    return _folder(shards)(folder)


@cache
def safetensors_files() -> tuple[bytes, ...]:
    return (_written(lambda folder: huggingface_folder(folder) / "model.safetensors"),)


@cache
def shard_indexes() -> tuple[bytes, ...]:
    return (_written(lambda folder: huggingface_folder(folder, shards=2) / "model.safetensors.index.json"),)


@cache
def model_configs() -> tuple[bytes, ...]:
    llama3 = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    changes = ({}, {"rope_scaling": llama3}, {"head_dim": 4, "eos_token_id": [2, 3]}, {"rope_parameters": llama3})
    return tuple(json.dumps(hf_config(LLAMA, **change)).encode() for change in changes)


@cache
def tokenizer_jsons() -> tuple[bytes, ...]:
    files = ("tokenizer.json",)
    spm = [_written(lambda folder, n=name: tiny_tokenizer.write_huggingface(folder) / n) for name in files]
    return tuple(json.dumps(json.loads(text), separators=(",", ":")).encode() for text in (*spm, _byte_level()))


def _byte_level() -> bytes:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    ids = {name: token for token, name in enumerate(tiny_tokenizer.bpe_tokens())}
    merges = [tuple(merge.split(" ")) for merge in tiny_tokenizer.BPE_MERGES]
    package = Tokenizer(models.BPE(vocab=ids, merges=merges))
    package.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    package.decoder = decoders.ByteLevel()
    package.add_special_tokens([AddedToken(name) for name in tiny_tokenizer.BPE_SPECIAL])
    return package.to_str().encode()


@cache
def tokenizer_configs() -> tuple[bytes, ...]:
    template = tiny_tokenizer.TEMPLATE
    named = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": template}
    several = {"chat_template": [{"name": "default", "template": template}, {"name": "tools", "template": ""}]}
    return tuple(
        json.dumps(config).encode() for config in (named, several, {"eos_token_id": [2, 1], "bos_token_id": 1})
    )


@cache
def chat_templates() -> tuple[bytes, ...]:
    """Four that are like those of models, then what jinja2's sandbox lets through."""
    llama2 = (
        "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}"
        "{% endif %}{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}"
        "{{ bos_token + '[INST] ' + m['content'].strip() + ' [/INST]' }}{% endfor %}"
    )
    llama3 = (
        "{%- set date = '26 Jul 2024' if strftime_now is not defined else strftime_now('%d %b %Y') %}"
        "{%- for m in messages %}<s>{{ m.role }} {{ date }}\n{{ m.content | trim }}</s>{% endfor -%}"
        "{% if tools %}{{ tools | tojson(indent=4) }}{% endif %}{% if add_generation_prompt %}<s>{% endif %}"
    )
    macros = "{% macro turn(m) -%}{{ m.role | upper }}: {{ m['content'] | replace('a', 'b') }}{%- endmacro %}"
    honest = (tiny_tokenizer.TEMPLATE, llama2, llama3, macros + "{% for m in messages %}{{ turn(m) }}{% endfor %}")
    hostile = (
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a * b }}{% endfor %}{% endfor %}",
        "{% set n = namespace(x='a') %}{% for _ in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "{{ ('a' * 10**9) | center(10**9) }}{{ '%999999999d' % 9**9 }}",
        "{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(messages) }}{{ '\\ud800' }}{{ ''.__class__ }}",
    )
    return tuple(text.encode() for text in (*honest, *hostile))


@cache
def llama2c_tokenizers() -> tuple[bytes, ...]:
    return (tiny_tokenizer.llama2c(),)


@cache
def sentencepiece_models() -> tuple[bytes, ...]:
    return (tiny_tokenizer.sentencepiece(),)


@cache
def array_files() -> tuple[bytes, ...]:
    """Arrays for the sample `mlp`, stored and deflated, and those of other types."""
    x = np.ones((1, 64), np.float32)
    written: list[bytes] = []
    for save in (np.savez, np.savez_compressed):
        file = BytesIO()
        save(file, x=x)
        written.append(file.getvalue())
    file = BytesIO()
    np.savez(file, x=x.T, half=np.zeros(3, "V2"), text=np.array("x"), big=np.zeros(2, ">i8"))
    return (*written, file.getvalue())
