"""ATbeMatmulElemwiseFusionPass: a Relu after a MatMul (with its bias) runs in the MatMul's kernel."""

from __future__ import annotations

from cannlab.atc.graph import Graph
from cannlab.atc.passes.joining import join, joins, tail

NAME = "ATbeMatmulElemwiseFusionPass"


def run(graph: Graph) -> int:
    """Join every MatMul (+ Add) + Relu; returns how many."""
    count = 0
    for matmul in [node for node in graph.nodes if node.op_type == "MatMul" and node.domain == "ai.onnx"]:
        reader = graph.only_reader(tail(graph, matmul.task).outputs[0])
        if reader is not None and joins(graph, matmul, reader, frozenset(("Relu",))):
            join(matmul, reader)
            count += 1
    return count
