"""llama.cpp through llama-cpp-python, by its C functions: no tokenizer, no sampler, logits of the last token alone."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np

from benchmarks.cpu.engine import F32, Stepper
from benchmarks.cpu.sizes import POSITIONS, PROMPT


@llama_cpp.llama_log_callback
def _silent(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    """llama.cpp tells stderr what it loads."""


class LlamaCpp(Stepper):
    """A GGUF file, mapped as llama.cpp does unless it is told not to."""

    def __init__(self, path: Path, threads: int) -> None:
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {path.name}")
        self._vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        self._context = llama_cpp.llama_init_from_model(self._model, _context_params(threads))

    def forward(self, tokens: Sequence[int], position: int) -> F32:
        if position == 0:
            llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), False)
        ids = (llama_cpp.llama_token * len(tokens))(*tokens)
        failed = llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(ids, len(tokens)))
        if failed:
            raise RuntimeError(f"llama_decode gives {failed}")
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self._context, -1), (self._vocab,))


def _context_params(threads: int) -> llama_cpp.llama_context_params:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = POSITIONS
    params.n_batch = params.n_ubatch = PROMPT
    params.n_threads = params.n_threads_batch = threads
    return params
