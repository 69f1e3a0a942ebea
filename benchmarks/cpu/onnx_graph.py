"""Llama as an ONNX graph, in the operators that ONNX Runtime has its fastest kernels for.

    15m.onnx   15m.onnx.data

Per layer SimplifiedLayerNormalization, MatMul with [in, out] weights and q, k, v in one, and GroupQueryAttention, which
rotates, appends to the caches and attends. A cache goes in as `k.0` and comes out as `k.0.new`, in the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from benchmarks.cpu.sizes import POSITIONS
from examples.llama2.config import LlamaConfig

ALIGNED = 4096  # bytes; what can be mapped
MICROSOFT = "com.microsoft"


def write_onnx(path: Path, config: LlamaConfig, params: Mapping[str, Any]) -> None:
    """The graph, and beside it a file of its weights."""
    data = path.with_name(path.name + ".data")
    with data.open("wb") as file:
        model = _Model(config, params, file, data.name).build()
    path.write_bytes(model.SerializeToString())


class _Model:
    """The graph so far."""

    def __init__(self, config: LlamaConfig, params: Mapping[str, Any], file: BinaryIO, name: str) -> None:
        self.config, self.params, self.file, self.name = config, params, file, name
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def build(self) -> ModelProto:
        self._add_tables()
        x = self._node("Gather", "embed", "tokens")
        for layer in range(self.config.layers):
            x = self._layer(x, layer)
        last = self._node("Gather", x, "last", axis=1)
        head = self.params["embed" if self.config.tied else "lm_head"]
        self._product(self._normalised(last, "norm"), "head", head, out="logits")
        caches = [f"{kv}.{layer}" for layer in range(self.config.layers) for kv in "kv"]
        tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "T"])
        seen = helper.make_tensor_value_info("seen", TensorProto.INT32, [1])
        total = helper.make_tensor_value_info("total", TensorProto.INT32, [])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1, self.config.vocab])
        inputs = [tokens, seen, total, *(self._cache(name) for name in caches)]
        outputs = [logits, *(self._cache(f"{name}.new") for name in caches)]
        graph = helper.make_graph(self.nodes, self.config.name, inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def _add_tables(self) -> None:
        half = np.arange(0, self.config.head_dim, 2) / self.config.head_dim
        angles = np.outer(np.arange(POSITIONS), self.config.rope_theta**-half)
        self._weight("embed", self.params["embed"])
        self._weight("cos", np.cos(angles))
        self._weight("sin", np.sin(angles))
        self.weights.append(helper.make_tensor("last", TensorProto.INT64, [1], [-1]))

    def _layer(self, x: str, layer: int) -> str:
        at, heads, kv_heads = f"layers.{layer}.", self.config.heads, self.config.kv_heads
        qkv = np.concatenate([self.params[at + name] for name in ("wq", "wk", "wv")])
        mixed = self._node(
            "GroupQueryAttention",
            self._product(self._normalised(x, at + "attention_norm"), at + "qkv", qkv),
            *("", "", f"k.{layer}", f"v.{layer}", "seen", "total", "cos", "sin"),
            also=(f"k.{layer}.new", f"v.{layer}.new"),
            domain=MICROSOFT,
            num_heads=heads,
            kv_num_heads=kv_heads,
            do_rotary=1,
            rotary_interleaved=1,
            scale=self.config.head_dim**-0.5,
        )
        x = self._node("Add", x, self._param_product(mixed, at + "wo"))
        h = self._normalised(x, at + "ffn_norm")
        gate, up = (self._param_product(h, at + name) for name in ("w_gate", "w_up"))
        act = self._node("Mul", self._node("Mul", gate, self._node("Sigmoid", gate)), up)
        return self._node("Add", x, self._param_product(act, at + "w_down"))

    def _normalised(self, x: str, weight: str) -> str:
        self._weight(weight, self.params[weight])
        return self._node("SimplifiedLayerNormalization", x, weight, epsilon=self.config.eps, axis=-1, stash_type=1)

    def _param_product(self, x: str, name: str) -> str:
        return self._product(x, name, self.params[name])

    def _product(self, x: str, name: str, weight: Any, out: str | None = None) -> str:
        self._weight(name, np.transpose(weight))
        return self._node("MatMul", x, name, out=out)

    def _node(
        self, op: str, *inputs: str, out: str | None = None, also: tuple[str, ...] = (), **attributes: Any
    ) -> str:
        out = out or f"{op}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out, *also], **attributes))
        return out

    def _weight(self, name: str, values: Any) -> None:
        array = np.ascontiguousarray(values, np.float32)
        self.file.write(bytes(-self.file.tell() % ALIGNED))
        place = {"location": self.name, "offset": self.file.tell(), "length": array.nbytes}
        array.tofile(self.file)
        self.file.flush()
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self.weights.append(tensor)

    def _cache(self, name: str) -> ValueInfoProto:
        shape = [1, self.config.kv_heads, POSITIONS, self.config.head_dim]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
