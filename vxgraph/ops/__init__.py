"""The meaning of every op: one class each, with its typing rule, its cost and its NumPy reference side by side."""

from vxgraph.ops.attention import Attention
from vxgraph.ops.cache import CacheAppend, CacheInit
from vxgraph.ops.compare import Cast, Compare, Where
from vxgraph.ops.create import Constant, Iota, Size, constant_of
from vxgraph.ops.elementwise import (
    Add,
    Binary,
    Div,
    Exp,
    Gelu,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Relu,
    Rsqrt,
    Silu,
    Sqrt,
    Sub,
    Unary,
)
from vxgraph.ops.fused import Fused
from vxgraph.ops.loop import Loop
from vxgraph.ops.matmul import MatMul
from vxgraph.ops.nn import Embed, RmsNorm, Softmax
from vxgraph.ops.quantized import QuantizedMatMul, quantize
from vxgraph.ops.reduce import ArgMax, Max, Mean, Sum
from vxgraph.ops.rope import Rope, inverse_frequencies
from vxgraph.ops.sample import Sample
from vxgraph.ops.shape import Concat, Copy, Reshape, Slice, Transpose
from vxgraph.ops.transfer import Download, To, TransferPeer, Upload

__all__ = [
    "Add",
    "ArgMax",
    "Attention",
    "Binary",
    "CacheAppend",
    "CacheInit",
    "Cast",
    "Compare",
    "Concat",
    "Constant",
    "Copy",
    "Div",
    "Download",
    "Embed",
    "Exp",
    "Fused",
    "Gelu",
    "Iota",
    "Loop",
    "MatMul",
    "Max",
    "Maximum",
    "Mean",
    "Minimum",
    "Mul",
    "Neg",
    "QuantizedMatMul",
    "Relu",
    "Reshape",
    "RmsNorm",
    "Rope",
    "Rsqrt",
    "Sample",
    "Silu",
    "Size",
    "Slice",
    "Softmax",
    "Sqrt",
    "Sub",
    "Sum",
    "To",
    "TransferPeer",
    "Transpose",
    "Unary",
    "Upload",
    "Where",
    "constant_of",
    "inverse_frequencies",
    "quantize",
]
