"""Joining nodes into one fused operator: what the fusions have in common that keep the nodes and merge the kernels."""

from __future__ import annotations

from cannlab.atc.graph import Graph, Node


def tail(graph: Graph, task: str) -> Node:
    """The last node of a fused operator."""
    return [node for node in graph.nodes if node.task == task][-1]


def joins(graph: Graph, leader: Node, reader: Node | None, types: frozenset[str]) -> bool:
    """True if ``reader`` (of the last tensor of ``leader``'s operator) may go into it: it is of one of these types,
    still on its own, and what else it reads is written before the operator begins."""
    if reader is None or reader.op_type not in types or reader.domain != "ai.onnx" or reader.task != reader.name:
        return False
    inside = {name for node in graph.nodes if node.task == leader.task for name in node.outputs}
    before = {*graph.inputs, *graph.constants, ""}
    for node in graph.nodes:
        if node is leader:
            break
        before.update(node.outputs)
    return all(name in before or name in inside for name in reader.inputs)


def join(leader: Node, reader: Node) -> None:
    """Put ``reader`` into ``leader``'s operator."""
    reader.task = leader.task


def is_depthwise(graph: Graph, conv: Node) -> bool:
    """True for a convolution with one input channel in each group."""
    weight = graph.known_shape(conv.inputs[1])
    group = conv.get("group", 1)
    return bool(group > 1 and weight[1] == 1 and weight[0] == group)
