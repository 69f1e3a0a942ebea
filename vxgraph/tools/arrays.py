"""What a program is run on from the command line: arrays from .npz files, or drawn by their types.

f32[T, 64]   normal numbers of deviation 0.02; T is what --size says, or 16 at most
i32[T]       zeros, but a loop's limit is 16 steps at most
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from vxgraph.errors import RunError, VxError
from vxgraph.ir.types import Array, Dim, Sizes, TensorType, bf16
from vxgraph.program.instructions import Loop, flatten
from vxgraph.program.model import HostInput, Program

DEVIATION = 0.02
LARGEST_ITEM = 16  # bytes of an element: complex128
SMALL = 4096  # bytes that nobody need argue about
SENSIBLE = 16  # the size of a symbol and the steps of a loop that nobody stated


class DrawnArrays(Mapping[str, Array]):
    """An array for each input, drawn when it is asked for, from the seed and the input's position alone.

    RunError for one that the host has no memory for.
    """

    def __init__(self, inputs: tuple[HostInput, ...], sizes: Sizes, seed: int, limits: Mapping[str, int]) -> None:
        self._inputs = {i.name: (k, i.type) for k, i in enumerate(inputs)}
        self._sizes = sizes
        self._seed = seed
        self._limits = limits

    def __getitem__(self, name: str) -> Array:
        index, type = self._inputs[name]
        try:
            if name in self._limits:
                return np.full(type.shape(self._sizes), self._limits[name], type.dtype.numpy)
            return _draw(type, self._sizes, np.random.default_rng([self._seed, index]))
        except (MemoryError, ValueError):  # ValueError: more than an index can count
            nbytes = type.nbytes(self._sizes)
            raise RunError(f"%{name}: {type} takes {nbytes:,} bytes, which this host has not to draw it in") from None

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
        file = path.open("rb")
    except OSError as error:
        raise RunError(f"{path}: cannot read: {error.strerror}") from None
    types = {i.name: i.type for i in inputs}
    try:
        with file, zipfile.ZipFile(file) as held:
            names = {member.removesuffix(".npy"): member for member in held.namelist()}
            return {name: _read_member(held, member, types.get(name)) for name, member in names.items()}
    except VxError as error:
        raise RunError(f"{path}: {error.message}") from None
    # Whatever zipfile, its codecs and NumPy find wrong with bytes that may be anything: they raise a dozen types.
    except Exception:
        raise RunError(
            f"{path}: is no .npz file of arrays; wanted what numpy.savez(path, name=array, ...) writes"
        ) from None


def _read_member(held: zipfile.ZipFile, member: str, type: TensorType | None) -> Array:
    """One array, none of whose bytes are read before they are known to be no more than the input could have."""
    if type is None:
        return np.empty(0)  # not an input's: its name alone will be complained of
    with held.open(member) as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = header(file)
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > type.max_bytes * LARGEST_ITEM + SMALL:
            raise RunError(f"array {member!r} claims {nbytes} bytes, which is more than {type} can have in any dtype")
        if dtype.hasobject or min(shape, default=0) < 0:
            raise ValueError
        array: Array = np.ndarray(shape, dtype, file.read(nbytes), order="F" if by_columns else "C")
    return array.view(bf16.numpy) if type.dtype == bf16 and dtype == np.dtype("V2") else array
