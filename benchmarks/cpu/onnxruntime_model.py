"""ONNX Runtime, its CPU provider, caches bound once so that nothing is copied between calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks.cpu.engine import F32, Stepper
from benchmarks.cpu.onnx_graph import write_onnx
from benchmarks.cpu.sizes import POSITIONS
from examples.llama2.weights import open_checkpoint


class OnnxRuntime(Stepper):
    """A file's weights in f32, as a graph that is written beside the file the first time."""

    def __init__(self, path: Path, threads: int) -> None:
        checkpoint = open_checkpoint(path, "f32")
        config, graph = checkpoint.config, path.with_suffix(".onnx")
        if not graph.exists():
            write_onnx(graph, config, checkpoint.params)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        cache = (1, config.kv_heads, POSITIONS, config.head_dim)
        self._caches = {f"{kv}.{i}": _zeros(cache) for i in range(config.layers) for kv in "kv"}
        self._logits = _zeros((1, 1, config.vocab))

    def forward(self, tokens: Sequence[int], position: int) -> F32:
        total = position + len(tokens)
        binding = self._session.io_binding()
        binding.bind_cpu_input("tokens", np.array([tokens], np.int64))
        binding.bind_cpu_input("seen", np.array([total - 1], np.int32))
        binding.bind_cpu_input("total", np.array(total, np.int32))
        for name, cache in self._caches.items():
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(f"{name}.new", cache)
        binding.bind_ortvalue_output("logits", self._logits)
        self._session.run_with_iobinding(binding)
        return self._logits.numpy()[0, 0]


def _zeros(shape: tuple[int, ...]) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
