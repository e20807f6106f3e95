"""Sizes of an operator's operands that must agree and that ONNX's own shape inference does not compare.

Each rule gives pairs of sizes with their names; a shape that is not known is ``None`` and not compared.
Source: the definitions of the operators in the ONNX specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from cannlab.atc.graph import Graph, Node

Dims: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[str, int, str, int]
Rule: TypeAlias = "Callable[[Node, list[Dims | None]], Iterator[Pair]]"


def _convolution(node: Node, dims: list[Dims | None]) -> Iterator[Pair]:
    x, weight = dims[0], dims[1]
    if x is None or weight is None or len(x) < 3 or len(weight) != len(x):
        return
    groups = int(node.get("group", 1))
    transposed = node.op_type == "ConvTranspose"
    channels = weight[0] if transposed else weight[1] * groups
    yield "channels of the input", x[1], "channels that the weights are for", channels
    outputs = weight[1] * groups if transposed else weight[0]
    if len(dims) > 2 and dims[2] is not None:
        yield "elements of the bias", dims[2][0] if dims[2] else 1, "output channels", outputs


def _per_channel(node: Node, dims: list[Dims | None]) -> Iterator[Pair]:
    x = dims[0]
    if x is None or len(x) < 2:
        return
    for number, values in enumerate(dims[1:], 1):
        if values is not None and len(values) == 1:
            yield f"elements of input {number}", values[0], "channels of the input", x[1]


def _recurrent(node: Node, dims: list[Dims | None]) -> Iterator[Pair]:
    x, weight = dims[0], dims[1]
    if x is not None and weight is not None and len(x) == 3 and len(weight) == 3:
        yield "features of the input", x[2], "features that the weights are for", weight[2]


RULES: dict[str, Rule] = {
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "BatchNormalization": _per_channel,
    "InstanceNormalization": _per_channel,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
}
"""By ONNX type."""


def disagreement(graph: Graph) -> str | None:
    """The first two sizes of a graph that do not agree, in words; None if all do."""
    for node in graph.nodes:
        rule = RULES.get(node.op_type) if node.domain == "ai.onnx" else None
        if rule is None or len(node.inputs) < 2:
            continue
        shapes = [graph.shape(name) if name else None for name in node.inputs]
        for what, size, other, wanted in rule(node, shapes):
            if size != wanted:
                return f"(op_type:{node.op_type}, node name: {node.name}): {size} {what}, but {wanted} {other}"
    return None
