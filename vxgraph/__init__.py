"""vxgraph: dataflow graphs whose every node has a place, compiled into programs whose every crossing is explicit.

    import vxgraph as vx

Types and topologies are here at once; the DSL, the compiler, machines and the runtime load when they are first named,
so that importing vxgraph is quick and loads none of pydantic, networkx, graphviz and cupy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vxgraph.display import set_renderer
from vxgraph.errors import (
    AdmissionError,
    BindError,
    CheckpointError,
    ConformanceError,
    GraphError,
    HazardError,
    InternalError,
    Loc,
    MachineError,
    PlacementError,
    ProgramError,
    RunError,
    TextError,
    VxError,
)
from vxgraph.ir.types import Dim, DType, TensorType, bf16, f16, f32, i8, i32, i64, u8
from vxgraph.ir.types import bool_ as bool
from vxgraph.topology.ids import CPU, GPU, NPU, Topology, parse_topology, topology_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vxgraph.display import View
    from vxgraph.dsl import *  # noqa: F403
    from vxgraph.ir.text import parse_graph
    from vxgraph.program.compile import compile
    from vxgraph.program.model import Program
    from vxgraph.program.text import load_program, parse_program
    from vxgraph.runtime.backends.sanitizer.sanitize import sanitize
    from vxgraph.runtime.session import Session, run
    from vxgraph.tools.pictures import draw
    from vxgraph.topology.load import load_machine, shipped_machines
    from vxgraph.topology.model import Machine

_DSL = (
    "Graph",
    "Value",
    "add",
    "argmax",
    "attention",
    "cache_append",
    "cache_init",
    "cast",
    "compare",
    "concat",
    "constant",
    "div",
    "embed",
    "emit",
    "exp",
    "gelu",
    "input",
    "iota",
    "loop",
    "matmul",
    "max",
    "maximum",
    "mean",
    "minimum",
    "mul",
    "neg",
    "on",
    "output",
    "param",
    "prefer",
    "quantized_matmul",
    "relu",
    "reshape",
    "rmsnorm",
    "rope",
    "rsqrt",
    "sample",
    "scope",
    "silu",
    "size",
    "slice",
    "softmax",
    "sqrt",
    "stop",
    "sub",
    "sum",
    "transpose",
    "where",
)

_LAZY = {
    **dict.fromkeys(_DSL, "vxgraph.dsl"),
    "Machine": "vxgraph.topology.model",
    "Program": "vxgraph.program.model",
    "Session": "vxgraph.runtime.session",
    "compile": "vxgraph.program.compile",
    "draw": "vxgraph.tools.pictures",
    "load_machine": "vxgraph.topology.load",
    "load_program": "vxgraph.program.text",
    "parse_graph": "vxgraph.ir.text",
    "parse_program": "vxgraph.program.text",
    "run": "vxgraph.runtime.session",
    "sanitize": "vxgraph.runtime.backends.sanitizer.sanitize",
    "shipped_machines": "vxgraph.topology.load",
}


def _views(shown: object) -> Mapping[str, View]:
    """What a notebook shows of an object; loaded when one does."""
    return importlib.import_module("vxgraph.tools.notebook").views(shown)


set_renderer(_views)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'vxgraph' has no attribute {name!r}")
    importlib.import_module("vxgraph.ops")  # a text that is parsed first of all names ops too
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


__all__ = [
    "CPU",
    "GPU",
    "NPU",
    "AdmissionError",
    "BindError",
    "CheckpointError",
    "ConformanceError",
    "DType",
    "Dim",
    "GraphError",
    "HazardError",
    "InternalError",
    "Loc",
    "Machine",
    "MachineError",
    "PlacementError",
    "Program",
    "ProgramError",
    "RunError",
    "Session",
    "TensorType",
    "TextError",
    "Topology",
    "VxError",
    "bf16",
    "bool",
    "compile",
    "draw",
    "f16",
    "f32",
    "i8",
    "i32",
    "i64",
    "load_machine",
    "load_program",
    "parse_graph",
    "parse_program",
    "parse_topology",
    "run",
    "sanitize",
    "shipped_machines",
    "topology_of",
    "u8",
]
__all__ += list(_DSL)  # pyright: ignore[reportUnsupportedDunderAll]
