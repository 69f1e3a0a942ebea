"""The engines by name, and how each is opened in the process that is its own.

    vxgraph f32     vxgraph plain f32     numpy loop f32     ONNX Runtime f32     torch f32     llama.cpp f32 ...

Modules of peers are imported where an engine is opened, so that those which are not installed are not missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.cpu.engine import Engine
from benchmarks.cpu.sizes import SIZES, model_file
from examples.llama2.config import LlamaConfig, Weights


@dataclass(frozen=True, slots=True)
class Setting:
    """What one size is measured with."""

    folder: Path  # of model files
    size: str
    threads: int
    tokens: int  # decoded in a turn

    @property
    def config(self) -> LlamaConfig:
        """The size's shapes."""
        return SIZES[self.size]


@dataclass(frozen=True, slots=True)
class Spec:
    """One engine with weights stored one way."""

    name: str
    storage: str
    open: Callable[[Setting], Engine]
    may_differ: float  # the largest difference of a logit from the f32 reference; their standard deviation is 1
    modules: tuple[str, ...] = ()
    install: str = ""

    @property
    def missing(self) -> str | None:
        """How to get what it needs, when that is not here."""
        gone = [module for module in self.modules if find_spec(module) is None]
        return f"no {' and no '.join(gone)} here: {self.install}" if gone else None


def _vxgraph(setting: Setting, bind: str, weights: Weights) -> Engine:
    from benchmarks.cpu.vxgraph_session import VxgraphSession

    return VxgraphSession(model_file(setting.folder, setting.config, "f32"), bind, weights)


def _numpy_loop(setting: Setting) -> Engine:
    from benchmarks.cpu.numpy_loop import NumpyLoop

    return NumpyLoop(model_file(setting.folder, setting.config, "f32"))


def _onnxruntime(setting: Setting) -> Engine:
    from benchmarks.cpu.onnxruntime_model import OnnxRuntime

    return OnnxRuntime(model_file(setting.folder, setting.config, "f32"), setting.threads)


def _torch(setting: Setting) -> Engine:
    from benchmarks.cpu.torch_model import TorchLlama

    return TorchLlama(model_file(setting.folder, setting.config, "f32"), setting.threads)


def _llama_cpp(setting: Setting, storage: str) -> Engine:
    from benchmarks.cpu.llama_cpp_model import LlamaCpp

    return LlamaCpp(model_file(setting.folder, setting.config, storage), setting.threads)


# How far rounded weights move a logit, with room; f32 hardly does.
_ROUNDED = {"f32": 1e-3, "bf16": 0.1, "int8": 0.3, "q8_0": 0.3}


def _ours(name: str, bind: str, storage: Weights) -> Spec:
    return Spec(f"{name} {storage}", storage, lambda setting: _vxgraph(setting, bind, storage), _ROUNDED[storage])


def _llama(storage: str) -> Spec:
    # Its own defaults, which are its fastest: caches in f16. With f32 caches and no flash attention it is 5e-6 off.
    may_differ = max(_ROUNDED[storage], 0.03)
    install = "CMAKE_ARGS=-DLLAVA_BUILD=OFF pip install llama-cpp-python, which compiles for some minutes"
    return Spec(
        f"llama.cpp {storage}",
        storage,
        lambda setting: _llama_cpp(setting, storage),
        may_differ,
        ("llama_cpp",),
        install,
    )


REFERENCE = "numpy loop f32"
ENGINES = {
    spec.name: spec
    for spec in (
        Spec(REFERENCE, "f32", _numpy_loop, 1e-3),
        _ours("vxgraph", "numpy", "f32"),
        _ours("vxgraph", "numpy", "bf16"),
        _ours("vxgraph", "numpy", "int8"),
        _ours("vxgraph plain", "numpy:plain", "f32"),
        Spec("ONNX Runtime f32", "f32", _onnxruntime, 1e-3, ("onnxruntime", "onnx"), "pip install onnxruntime onnx"),
        Spec("torch f32", "f32", _torch, 1e-3, ("torch",), "pip install torch==2.13.0"),
        _llama("f32"),
        _llama("bf16"),
        _llama("q8_0"),
    )
}
