"""Params on their way to the devices: each is asked for once, checked, and let go before the next.

A dict's arrays are checked before anything is uploaded, for they are here already; a lazy mapping (a checkpoint that
reads or dequantises on access) is asked for its names first and for each array when its turn comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from vxgraph.ir.types import Array
from vxgraph.program.instructions import Upload
from vxgraph.program.model import HostInput, Program
from vxgraph.runtime.inputs import check_array, check_names


class ParamFeed(Mapping[str, Array]):
    """Arrays by name. Each is held from its first upload to its last."""

    def __init__(self, program: Program, params: Mapping[str, Any]) -> None:
        check_names("param", program.params, params)
        self._params = params
        self._wanted: dict[str, HostInput] = {p.name: p for p in program.params}
        self._uploads = Counter(i.src for i in program.load if isinstance(i, Upload))
        self._held: dict[str, Array] = {}
        if isinstance(params, dict):
            for param in program.params:
                check_array("param", param, params[param.name])

    def __getitem__(self, name: str) -> Array:
        """The array for one upload; RunError where it is not of the param's type."""
        array = self._held.pop(name, None)
        if array is None:
            array = check_array("param", self._wanted[name], self._params[name])
        self._uploads[name] -= 1
        if self._uploads[name] > 0:
            self._held[name] = array
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._wanted  # not by asking for the array

    def __iter__(self) -> Iterator[str]:
        return iter(self._wanted)

    def __len__(self) -> int:
        return len(self._wanted)
