"""Constants that hold one number for each channel, and folding them into convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.atc.graph import Graph, Node
from cannlab.atc.wiring import Wiring


def vector(w: Wiring, tensor: str, like: str) -> NDArray[np.float64] | None:
    """The numbers of a constant that is broadcast along every axis but the channels (axis 1) of ``like``."""
    value, shape = w.constant(tensor), w.graph.fixed_dims(like)
    if value is None or len(shape) < 3 or value.dtype.kind != "f" or value.ndim > len(shape) or shape[1] is None:
        return None
    dims = (1,) * (len(shape) - value.ndim) + value.shape
    if dims[1] not in (1, shape[1]) or any(dim != 1 for axis, dim in enumerate(dims) if axis != 1):
        return None
    return np.broadcast_to(value.reshape(-1).astype(np.float64), (shape[1],))


def through_casts(w: Wiring, node: Node) -> Node:
    """The last node of the chain of Casts between floating-point types, and Identities, after a node."""
    reader = w.only_reader(node.outputs[0], "Cast", "Identity")
    floating = reader is not None and np.dtype(w.graph.known_type(reader.outputs[0]).numpy).kind == "f"
    return through_casts(w, reader) if reader is not None and floating else node


def parameters(w: Wiring, conv: Node) -> tuple[NDArray[Any], NDArray[np.float64]] | None:
    """Weight and bias (zeros if there is none) of a convolution; None if they are not constants."""
    weight = w.constant(conv.inputs[1])
    named = conv.inputs[2] if len(conv.inputs) > 2 else ""
    given = w.constant(named) if named else None
    if weight is None or (named and given is None):
        return None
    channels = w.graph.fixed_dims(conv.outputs[0])[1]
    if channels is None:
        return None
    return weight, np.zeros(channels) if given is None else given.astype(np.float64)


def fold(w: Wiring, conv: Node, factor: NDArray[np.float64] | None, offset: NDArray[np.float64] | float) -> None:
    """Let a convolution compute ``factor * result + offset``, both by channel. Its parameters are constants."""
    found = parameters(w, conv)
    assert found is not None
    weight, bias = found
    if factor is not None:
        # A convolution's weight has the output channels first, a transposed one's (of one group) second.
        axis = 1 if conv.op_type == "ConvTranspose" else 0
        shape = tuple(-1 if number == axis else 1 for number in range(weight.ndim))
        scaled = np.multiply(weight, factor.reshape(shape), dtype=np.float64).astype(weight.dtype)
        inputs = [conv.inputs[0], w.add_constant(f"{conv.name}_weight", scaled)]
        bias = bias * factor
    else:
        inputs = conv.inputs[:2]
    inputs.append(w.add_constant(f"{conv.name}_bias", (bias + offset).astype(weight.dtype)))
    before = conv.inputs[1:]
    w.rewire(conv, inputs=inputs)
    for name in before:
        w.forget(name)


def take(w: Wiring, conv: Node, end: Node, gone: Node) -> None:
    """Remove ``gone``, which reads what ``end`` (the convolution, or a Cast after it) writes."""
    conv.origins = conv.sources + gone.sources
    if gone.inputs[0] != end.outputs[0]:
        w.rewire(gone, inputs=[end.outputs[0]])
    w.hand_over(gone, end)


def is_depthwise(graph: Graph, conv: Node) -> bool:
    """True for a convolution with one input channel in each group."""
    weight = graph.known_shape(conv.inputs[1])
    group = conv.get("group", 1)
    return bool(group > 1 and weight[1] == 1 and weight[0] == group)
