"""TbeConv2DEltwisePass: the Add of a residual connection, and a Relu after it, run in the convolution's kernel."""

from __future__ import annotations

from cannlab.atc.graph import Graph
from cannlab.atc.passes.joining import join, joins, tail

NAME = "TbeConv2DEltwisePass"


def run(graph: Graph) -> int:
    """Join every Conv + Add (+ Relu) of tensors of one shape; returns how many. Of two convolutions that feed one Add
    the later one takes it."""
    count = 0
    for conv in [node for node in graph.nodes if node.op_type == "Conv" and node.domain == "ai.onnx"]:
        end = tail(graph, conv.task)
        if end is not conv:
            continue
        add = graph.only_reader(end.outputs[0])
        if add is None or not joins(graph, conv, add, frozenset(("Add",))):
            continue
        shapes = {graph.shape(name) for name in (*add.inputs, *add.outputs)}
        if len(shapes) != 1 or None in shapes:
            continue
        join(conv, add)
        relu = graph.only_reader(add.outputs[0])
        if relu is not None and joins(graph, conv, relu, frozenset(("Relu",))):
            join(conv, relu)
        count += 1
    return count
