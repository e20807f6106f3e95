"""ABatchnormFusionPass: a batch normalisation written as Sub, Mul or Div, Mul, Add of constants by channel becomes one.

What follows a convolution is left to the passes that fold it away. Source of the meaning: its name; choice of cannlab.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannlab.atc.graph import Node
from cannlab.atc.passes import channels
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "ABatchnormFusionPass"
Channels = float | NDArray[np.float64]
CHAIN = ("Add", "Sub", "Mul", "Div")


def run(w: Wiring, report: Report) -> None:
    """Make a BatchNormalization of every chain of at least three such operators."""
    for first in w.of(*CHAIN):
        if not w.alive(first) or _variable(w, first) is None:
            continue
        before = w.writer(first.inputs[0])
        if before is not None and before.op_type in ("Conv", "ConvTranspose", *CHAIN) and _folds(w, before, first):
            continue
        chain, factor, offset = [first], *_step(w, first, 1.0, 0.0)
        while (node := w.only_reader(chain[-1].outputs[0], *CHAIN)) is not None and _variable(w, node) is not None:
            chain.append(node)
            factor, offset = _step(w, node, factor, offset)
        if len(chain) < 3:
            continue
        count = w.graph.known_shape(first.outputs[0])[1]
        dtype = w.graph.constants[first.inputs[1]].dtype
        values = (np.broadcast_to(factor, (count,)), np.broadcast_to(offset, (count,)), np.zeros(count), np.ones(count))
        names = [w.add_constant(f"{first.name}_norm", value.astype(dtype)) for value in values]
        last = chain[-1]
        norm = Node(last.name, "BatchNormalization", "ai.onnx", [first.inputs[0], *names], list(last.outputs))
        norm.set("epsilon", 0.0)
        norm.origins = tuple(name for node in chain for name in node.sources)
        w.put(norm, last)
        for node in chain:
            w.remove(node)
        report.did(norm)


def _variable(w: Wiring, node: Node) -> str | None:
    """The variable of a link of the chain: its first input, of the shape of its result."""
    usable = w.operand(node) is not None and node.inputs[1] in w.graph.constants
    if not usable or channels.vector(w, node.inputs[1], node.outputs[0]) is None:
        return None
    same = w.graph.shape(node.inputs[0]) == w.graph.shape(node.outputs[0])
    zero = node.op_type == "Div" and not w.graph.constants[node.inputs[1]].all()
    return node.inputs[0] if same and not zero else None


def _folds(w: Wiring, before: Node, first: Node) -> bool:
    return w.only_reader(before.outputs[0]) is first and (
        before.op_type in ("Conv", "ConvTranspose") or _variable(w, before) is not None
    )


def _step(w: Wiring, node: Node, factor: Channels, offset: Channels) -> tuple[Channels, Channels]:
    value = channels.vector(w, node.inputs[1], node.outputs[0])
    assert value is not None
    if node.op_type in ("Add", "Sub"):
        return factor, offset + value if node.op_type == "Add" else offset - value
    return (factor * value, offset * value) if node.op_type == "Mul" else (factor / value, offset / value)
