"""A model file, opened: its configuration, and its parameters decoded one at a time.

    checkpoint = open_checkpoint("SmolLM2-135M-Instruct.Q4_1.gguf")
    checkpoint.config.layers            # 30
    checkpoint.params["layers.0.wq"]    # np.ndarray f32 [576, 576], decoded now, kept by nobody

Each reader turns its format into `Stored` tensors; `assemble` proves that they are the ones the configuration asks for
before it hands out any.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from examples.llama2.config import SCALE, DType, LlamaConfig, param_shapes, stored_params
from vxgraph.errors import CheckpointError, GraphError, VxError
from vxgraph.ops import quantize

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

NUMPY_DTYPES: Mapping[DType, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened model file: its tensors by the parameters that they are."""

    path: Path
    config: LlamaConfig
    tensors: Mapping[str, Stored]

    @property
    def params(self) -> Mapping[str, Array]:
        """The parameters as `stored_params(config)` says."""
        return LazyParams(self.tensors, self.config)


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor as a file has it. `decode(dtype)` reads it; `dtype` is the narrowest type that loses nothing."""

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: DType
    decode: Callable[[DType], Array]


class LazyParams(Mapping[str, Array]):
    """Parameters that are decoded each time they are asked for and kept by nobody; float32 files give read-only views.

    Only the scales of int8 matrices are kept from when their matrix is asked for. A conversion that would turn a finite
    value into infinity is a `CheckpointError` that names the tensor, as is one to int8 of what is not finite.
    """

    def __init__(self, tensors: Mapping[str, Stored], config: LlamaConfig) -> None:
        self._tensors = tensors
        self._stored = stored_params(config)
        self._scales: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        storage, _ = self._stored[name]
        matrix = name.removesuffix(SCALE)
        if matrix != name:
            return self._scales[matrix] if matrix in self._scales else self._quantized(matrix)[1]
        return self._quantized(name)[0] if storage == "int8" else self._decoded(name, storage)

    def _decoded(self, name: str, dtype: DType) -> Array:
        tensor = self._tensors[name]
        try:
            with np.errstate(over="raise", invalid="ignore"):
                return tensor.decode(dtype)
        except FloatingPointError:
            raise CheckpointError(
                f"{tensor.file}: tensor {tensor.name!r} has values that {dtype} cannot hold; "
                f"use {tensor.dtype}, as the file does"
            ) from None

    def _quantized(self, name: str) -> tuple[Array, Array]:
        tensor = self._tensors[name]
        try:
            matrix, self._scales[name] = quantize(self._decoded(name, tensor.dtype))
        except GraphError as error:
            raise CheckpointError(f"{tensor.file}: tensor {tensor.name!r}: {error.message}") from None
        return matrix, self._scales[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def assemble(
    path: Path, config: LlamaConfig, names: Mapping[str, str], found: Mapping[str, Stored], dtype: DType | None
) -> Checkpoint:
    """The checkpoint whose parameter `p` is the tensor `found[names[p]]`.

    The compute dtype is `dtype`, or that of the file's matrices (f32 where they differ); values are converted once.
    Raises `CheckpointError` for a tensor that is missing, has another shape, or is not one of the model's.
    """
    shapes = param_shapes(config)
    for param, shape in shapes.items():
        _check_tensor(path, names[param], param, shape, found.get(names[param]))
    _check_no_others(path, found, set(names.values()))
    tensors = {param: found[names[param]] for param in shapes}
    compute = dtype or _common_dtype({tensor.dtype for tensor in tensors.values() if len(tensor.shape) > 1})
    return Checkpoint(path, replace(config, dtype=compute), tensors)


def _check_tensor(path: Path, name: str, param: str, shape: tuple[int, ...], tensor: Stored | None) -> None:
    if tensor is None:
        raise CheckpointError(
            f"{path}: tensor {name!r} is missing", details=(f"the model needs it as {param}, shape {list(shape)}",)
        )
    if tensor.shape != shape:
        raise CheckpointError(
            f"{tensor.file}: tensor {name!r} has shape {list(tensor.shape)}, but the model's configuration wants "
            f"{list(shape)}"
        )


def _check_no_others(path: Path, found: Mapping[str, Stored], known: set[str]) -> None:
    # A bias or a normalisation that is left out gives fluent, wrong text.
    others = [name for name in found if name not in known]
    if others:
        raise CheckpointError(
            f"{path}: tensor {others[0]!r} is not part of a Llama model",
            details=(f"{len(others)} such in the file; a model that needs them is not supported",),
        )


def _common_dtype(dtypes: set[DType]) -> DType:
    return dtypes.pop() if len(dtypes) == 1 else "f32"


def map_file(path: Path) -> Bytes:
    """The bytes of a file, mapped read-only. Raises `CheckpointError` when it is not there or empty."""
    try:
        if path.stat().st_size == 0:
            raise CheckpointError(f"{path}: the file is empty; download it again")
        return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None


def float_decoder(data: Bytes, dtype: DType, shape: tuple[int, ...]) -> Callable[[DType], Array]:
    """A decoder of little-endian floats: a view of `data` where nothing is to be converted."""

    def decode(wanted: DType) -> Array:
        size = NUMPY_DTYPES[dtype].itemsize
        words = np.require(data.view(f"<u{size}"), dtype=f"=u{size}", requirements="A")
        return words.view(NUMPY_DTYPES[dtype]).reshape(shape).astype(NUMPY_DTYPES[wanted], copy=False)

    return decode


@contextmanager
def blame(path: Path) -> Generator[None, None, None]:
    """Turn a `VxError` that knows no file into a `CheckpointError` that starts with this one."""
    try:
        yield
    except CheckpointError:
        raise
    except VxError as error:
        raise CheckpointError(f"{path}: {error.message}", details=error.details) from None
