"""What a program is run on from the command line: arrays from .npz files, or drawn by their types.

f32[T, 64]   normal numbers of deviation 0.02; T is what --size says, or 16 at most
i32[T]       zeros, but a loop's limit is 16 steps at most
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from vxgraph.errors import RunError
from vxgraph.ir.types import Array, Dim, Sizes, TensorType, bf16
from vxgraph.program.instructions import Loop, flatten
from vxgraph.program.model import HostInput, Program

DEVIATION = 0.02
SENSIBLE = 16  # the size of a symbol and the steps of a loop that nobody stated


class DrawnArrays(Mapping[str, Array]):
    """An array for each input, drawn when it is asked for, from the seed and the input's position alone."""

    def __init__(self, inputs: tuple[HostInput, ...], sizes: Sizes, seed: int, limits: Mapping[str, int]) -> None:
        self._inputs = {i.name: (k, i.type) for k, i in enumerate(inputs)}
        self._sizes = sizes
        self._seed = seed
        self._limits = limits

    def __getitem__(self, name: str) -> Array:
        index, type = self._inputs[name]
        if name in self._limits:
            return np.full(type.shape(self._sizes), self._limits[name], type.dtype.numpy)
        return _draw(type, self._sizes, np.random.default_rng([self._seed, index]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)


def _draw(type: TensorType, sizes: Sizes, rng: np.random.Generator) -> Array:
    if type.dtype.kind != "float":
        return np.zeros(type.shape(sizes), type.dtype.numpy)
    drawn = rng.standard_normal(type.shape(sizes), np.float32)
    return np.asarray(drawn * np.float32(DEVIATION)).astype(type.dtype.numpy, copy=False)


def draw_args(program: Program, sizes: Sizes, seed: int) -> DrawnArrays:
    """An array for each arg; a loop's limit gets steps to do."""
    loops = [i for i, _ in flatten(program.body) if isinstance(i, Loop)]
    limits = {i.limit: min(i.max_steps, SENSIBLE) for i in loops if i.limit is not None}
    return DrawnArrays(program.args, sizes, seed, limits)


def draw_params(program: Program, seed: int) -> DrawnArrays:
    """An array for each param, drawn when it is uploaded, so that a large model is never whole in the host's memory."""
    return DrawnArrays(program.params, {}, seed + 1, {})


def sizes_of(program: Program, stated: Mapping[str, int]) -> dict[str, int]:
    """The size of each symbol: stated, or small. RunError for a size out of range or of no symbol."""
    symbols = {d.name: d for d in program.dims if d.symbolic}
    for name, size in stated.items():
        if name not in symbols:
            known = ", ".join(f"{d.name} <= {d.bound}" for d in symbols.values()) or "none"
            raise RunError(f"--size {name}: the program has no such symbol; its symbols: {known}")
        _check_size(symbols[name], size)
    return {d.name: stated.get(d.name, max(d.min, min(d.bound, SENSIBLE))) for d in symbols.values()}


def _check_size(dim: Dim, size: int) -> None:
    if not dim.min <= size <= dim.bound:
        raise RunError(f"--size {dim.name}={size}: {dim.name} runs from {dim.min} to {dim.bound}")


# Files.


def read_arrays(path: Path, inputs: tuple[HostInput, ...]) -> dict[str, Array]:
    """The arrays of an .npz file; bf16, which NumPy's format knows as two raw bytes, is read as the input's type."""
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as held:
            found: dict[str, Array] = {name: held[name] for name in held.files}
    except OSError as error:
        raise RunError(f"{path}: cannot read: {error.strerror or error}") from None
    except (ValueError, zipfile.BadZipFile, EOFError):
        raise RunError(
            f"{path}: is no .npz file of arrays; wanted what numpy.savez(path, name=array, ...) writes"
        ) from None
    halves = {i.name for i in inputs if i.type.dtype == bf16}
    return {
        name: a.view(bf16.numpy) if name in halves and a.dtype == np.dtype("V2") else a for name, a in found.items()
    }
