"""Gemm becomes what ATC's parser makes of it: a MatMul, then Muls and an Add where they are needed.

Source: onnx-rules (Gemm: MatMulV2, Muls, Add; alpha is lost when there is no third input).
"""

from __future__ import annotations

import numpy as np

from cannlab.atc.graph import Graph, Node

NAME = "GemmExpansion"


def run(graph: Graph) -> int:
    """Expand every Gemm; returns how many."""
    gemms = [node for node in graph.nodes if node.op_type == "Gemm" and node.domain == "ai.onnx"]
    for gemm in gemms:
        at = graph.nodes.index(gemm)
        graph.nodes[at : at + 1] = _expand(graph, gemm)
    return len(gemms)


def _expand(graph: Graph, gemm: Node) -> list[Node]:
    nodes: list[Node] = []
    dtype = gemm.inputs[0]

    def add(op_type: str, suffix: str, inputs: list[str], output: str = "") -> str:
        name = f"{gemm.name}{suffix}"
        tensor = output or f"{gemm.outputs[0]}/{suffix.strip('_') or op_type}"
        nodes.append(Node(name, op_type, "ai.onnx", inputs, [tensor], origins=gemm.sources))
        graph.types.setdefault(tensor, (graph.dtype(dtype), None))
        return tensor

    def scaled(tensor: str, factor: float, suffix: str) -> str:
        if factor == 1.0:
            return tensor
        scale = graph.fresh(f"{gemm.name}{suffix}_value")
        array = graph.constants.get(tensor)
        like = (
            np.float16 if graph.dtype(tensor) == 10 or (array is not None and array.dtype == np.float16) else np.float32
        )
        graph.constants[scale] = np.array(factor, like)
        return add("Mul", suffix, [tensor, scale])

    def operand(tensor: str, transposed: int, suffix: str) -> str:
        if not transposed:
            return tensor
        if tensor in graph.constants:
            name = f"{tensor}/transposed"
            graph.constants[name] = np.ascontiguousarray(graph.constants[tensor].T)
            return name
        result = add("Transpose", suffix, [tensor])
        nodes[-1].set("perm", [1, 0])
        return result

    a = operand(gemm.inputs[0], gemm.get("transA", 0), "_trans_a")
    b = operand(gemm.inputs[1], gemm.get("transB", 0), "_trans_b")
    if len(gemm.inputs) < 3 or not gemm.inputs[2]:
        add("MatMul", "", [a, b], gemm.outputs[0])
        return nodes
    product = add("MatMul", "", [a, b])
    product = scaled(product, gemm.get("alpha", 1.0), "_alpha")
    bias = scaled(gemm.inputs[2], gemm.get("beta", 1.0), "_beta")
    add("Add", "_bias", [product, bias], gemm.outputs[0])
    return nodes
