"""TbeConv2DReluv2Pass: a Relu after a convolution runs in the convolution's kernel, before the result is stored."""

from __future__ import annotations

from cannlab.atc.graph import Graph
from cannlab.atc.passes.joining import is_depthwise, join, joins, tail

NAME = "TbeConv2DReluv2Pass"


def run(graph: Graph) -> int:
    """Join every Conv + Relu (depthwise ones have a pass of their own); returns how many."""
    count = 0
    for conv in [node for node in graph.nodes if node.op_type == "Conv" and not is_depthwise(graph, node)]:
        reader = graph.only_reader(tail(graph, conv.task).outputs[0])
        if reader is not None and joins(graph, conv, reader, frozenset(("Relu",))):
            join(conv, reader)
            count += 1
    return count
