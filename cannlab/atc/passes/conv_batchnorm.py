"""ConvBatchnormFusionPass: a batch normalisation after a convolution goes into the convolution's weights."""

from __future__ import annotations

import numpy as np

from cannlab.atc.graph import Graph, Node

NAME = "ConvBatchnormFusionPass"


def run(graph: Graph) -> int:
    """Fold every Conv + BatchNormalization with constant parameters; returns how many."""
    count = 0
    for conv in [node for node in graph.nodes if node.op_type == "Conv" and node.domain == "ai.onnx"]:
        norm = graph.only_reader(conv.outputs[0])
        if norm is None or norm.op_type != "BatchNormalization" or norm.inputs[0] != conv.outputs[0]:
            continue
        constants = [*norm.inputs[1:], *(name for name in conv.inputs[1:] if name)]
        if norm.get("training_mode", 0) or any(name not in graph.constants for name in constants):
            continue
        _fold(graph, conv, norm)
        count += 1
    graph.drop_dead()
    return count


def _fold(graph: Graph, conv: Node, norm: Node) -> None:
    scale, offset, mean, variance = (graph.constants[name].astype(np.float64) for name in norm.inputs[1:5])
    weight = graph.constants[conv.inputs[1]]
    has_bias = len(conv.inputs) > 2 and conv.inputs[2]
    bias = graph.constants[conv.inputs[2]].astype(np.float64) if has_bias else 0.0
    factor = scale / np.sqrt(variance + norm.get("epsilon", 1e-5))
    shape = (-1,) + (1,) * (weight.ndim - 1)
    new_weight, new_bias = graph.fresh(f"{conv.name}_weight"), graph.fresh(f"{conv.name}_bias")
    graph.constants[new_weight] = (weight * factor.reshape(shape)).astype(weight.dtype)
    graph.constants[new_bias] = (offset + (bias - mean) * factor).astype(weight.dtype)
    conv.inputs = [conv.inputs[0], new_weight, new_bias]
    conv.outputs = norm.outputs[:1]
    conv.origins = conv.sources + norm.sources
    graph.nodes.remove(norm)
