"""Which operators work element by element, and in how many kernels' ends they may run."""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes import gelu
from cannlab.atc.wiring import Wiring

ACTIVATIONS = frozenset(
    ("Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "PRelu", "Selu", "Sigmoid", "Softplus", "Tanh", "Relu")
)
"""Functions of one tensor that networks put after a convolution or a product."""

UNARY = ACTIVATIONS | frozenset(
    ("Abs", "Ceil", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sqrt")
)
BINARY = frozenset(("Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"))


def unit(w: Wiring, node: Node | None) -> bool:
    """True for an elementwise operator that stands alone: a node of one of these types, or a composed GELU."""
    if node is None or node.domain != "ai.onnx" or w.rewritten(node):
        return False
    if node.kernel == gelu.KERNEL:
        return all(item.kernel == gelu.KERNEL for item in w.members(node))
    return node.op_type in UNARY | BINARY and not node.kernel and len(w.members(node)) == 1


def activation(w: Wiring, node: Node | None) -> bool:
    """True for an elementwise operator with one variable whose result has the variable's shape."""
    if not unit(w, node):
        return False
    assert node is not None
    if node.kernel == gelu.KERNEL:
        return True
    variables = [name for name in node.inputs if name and name not in w.graph.constants]
    return node.op_type in ACTIVATIONS and len(variables) == 1


def result(w: Wiring, node: Node) -> str:
    """The tensor that an elementwise operator writes."""
    return w.tail(node)


def next_unit(w: Wiring, tensor: str) -> Node | None:
    """The elementwise operator that alone reads a tensor (a GELU reads it with several nodes)."""
    if w.is_output(tensor):
        return None
    tasks = {node.task for node in w.readers(tensor)}
    node = w.leader(w.readers(tensor)[0]) if len(tasks) == 1 else None
    return node if unit(w, node) else None


def same_shape(w: Wiring, *tensors: str) -> bool:
    """True if all tensors have one shape."""
    return len({w.graph.shape(name) for name in tensors}) == 1
