"""MatMulBiasAddFusionPass: the Add of a constant vector after a MatMul becomes the MatMul's bias."""

from __future__ import annotations

from cannlab.atc.graph import Graph
from cannlab.atc.passes.joining import join, joins

NAME = "MatMulBiasAddFusionPass"


def run(graph: Graph) -> int:
    """Join every MatMul + Add of a constant that is a vector over the last axis; returns how many."""
    count = 0
    for matmul in [node for node in graph.nodes if node.op_type == "MatMul" and node.domain == "ai.onnx"]:
        add = graph.only_reader(matmul.outputs[0])
        if add is None or not joins(graph, matmul, add, frozenset(("Add",))):
            continue
        others = [name for name in add.inputs if name != matmul.outputs[0]]
        shape = graph.shape(matmul.outputs[0])
        if len(others) == 1 and others[0] in graph.constants and shape:
            bias = graph.constants[others[0]]
            if bias.size == shape[-1] and bias.ndim >= 1 and bias.shape[-1] == shape[-1]:
                join(matmul, add)
                count += 1
    return count
