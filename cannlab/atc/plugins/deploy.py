"""What the plugins put in place of an operator: rewritings of one node into nodes that compute what the chip computes.

Each gets the graph and the node, and returns the nodes that stand for it. Nodes that a kernel does inside itself carry
the node's own task; the others are operators of their own, as in the real expansion. Source: onnx-rules, per operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from cannlab.atc.graph import Graph, Node
from cannlab.atc.plugins import pooling, resampling

Deployment = Callable[[Graph, Node], list[Node]]


class Builder:
    """Nodes in place of one."""

    def __init__(self, graph: Graph, node: Node, *, inside: bool) -> None:
        self.graph = graph
        self.node = node
        self.inside = inside
        self.nodes: list[Node] = []

    def constant(self, array: NDArray[Any]) -> str:
        """A new constant."""
        name = self.graph.fresh(f"{self.node.name}_value")
        self.graph.constants[name] = array
        return name

    def add(self, op_type: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """One more node; its output's name. The node that writes the original output has the original name."""
        target = output or self.graph.fresh(f"{self.node.outputs[0]}/{op_type}")
        name = self.node.name if output else self.graph.fresh(f"{self.node.name}_{len(self.nodes)}_{op_type}")
        task = self.node.name if self.inside else ""
        made = Node(name, op_type, "ai.onnx", inputs, [target], origins=self.node.sources, task=task)
        made.inner = self.inside and not output
        made.stands_for = self.node.op_type if self.inside and output else ""
        for key, value in attributes.items():
            made.set(key, value)
        self.graph.types[target] = (TensorProto.UNDEFINED, None)
        self.nodes.append(made)
        return target


def promote(graph: Graph, node: Node) -> list[Node]:
    """Casts in front of operands of different types."""
    numbers = [graph.dtype(name) for name in node.inputs]
    kinds = [np.dtype(helper.tensor_dtype_to_np_dtype(number)) for number in numbers]
    floats = [kind for kind in kinds if kind.kind == "f"]
    target = floats[0] if len(floats) == 1 else np.promote_types(*kinds)
    to = int(helper.np_dtype_to_tensor_dtype(target))
    builder = Builder(graph, node, inside=True)
    node.inputs = [
        name if number == to else builder.add("Cast", [name], to=to)
        for name, number in zip(node.inputs, numbers, strict=True)
    ]
    return [*builder.nodes, node]


def cast_like(graph: Graph, node: Node) -> list[Node]:
    """A Cast to the second input's type."""
    node.set("to", graph.dtype(node.inputs[1]))
    node.attributes.pop("saturate", None)
    node.op_type, node.inputs = "Cast", node.inputs[:1]
    return [node]


def clip_in_float32(graph: Graph, node: Node) -> list[Node]:
    """Clip below opset 11: a Cast to float32 first."""
    builder = Builder(graph, node, inside=False)
    node.inputs = [builder.add("Cast", node.inputs[:1], to=TensorProto.FLOAT)]
    return [*builder.nodes, node]


def thresholded_relu(graph: Graph, node: Node) -> list[Node]:
    """x * (x > alpha), so that inf and NaN below the threshold become NaN."""
    builder = Builder(graph, node, inside=False)
    (x,) = node.inputs
    to = graph.dtype(x)
    alpha = builder.constant(np.array(node.get("alpha", 1.0), helper.tensor_dtype_to_np_dtype(to)))
    mask = builder.add("Cast", [builder.add("Greater", [x, alpha])], to=to)
    builder.add("Mul", [x, mask], node.outputs[0])
    return builder.nodes


def max_over_two_axes(graph: Graph, node: Node) -> list[Node]:
    """GlobalMaxPool as ReduceMax over axes 2 and the last one."""
    node.op_type = "ReduceMax"
    node.set("keepdims", 1)
    _set_axes(graph, node, [2, -1], since=18)
    return [node]


def valid_window(graph: Graph, node: Node) -> list[Node]:
    """A large pooling window: no ceil_mode, no automatic padding."""
    for name in ("ceil_mode", "auto_pad"):
        node.attributes.pop(name, None)
    return [node]


def drop_last_window(graph: Graph, node: Node) -> list[Node]:
    """Pooling with ceil_mode whose last window would lie in the padding: padding instead of ceil_mode."""
    dims = graph.known_shape(node.inputs[0])
    found = pooling.windows(node, dims)
    before = node.get("pads", [0] * (2 * len(found)))[: len(found)]
    node.set("pads", [*before, *(window.end for window in found)])
    node.attributes.pop("ceil_mode")
    return [node]


def per_axis(graph: Graph, node: Node) -> list[Node]:
    """A Softmax of opset 8 to 12 along one axis only: that axis is the last one for the node."""
    rank = graph.rank(node.inputs[0])
    assert rank is not None
    axis = node.get("axis", 1) % rank
    order = [index for index in range(rank) if index != axis] + [axis]
    back = [order.index(index) for index in range(rank)]
    target = node.outputs[0]
    builder = Builder(graph, node, inside=True)
    moved = builder.add("Transpose", node.inputs, perm=order)
    node.inputs, node.outputs = [moved], [f"{target}/moved"]
    node.set("axis", rank - 1)
    builder.nodes.append(node)
    name = graph.fresh(f"{node.name}_back")
    last = Node(name, "Transpose", "ai.onnx", list(node.outputs), [target], origins=node.sources, task=node.task)
    last.inner = True
    last.set("perm", back)
    return [*builder.nodes, last]


def odd_window(graph: Graph, node: Node) -> list[Node]:
    """LRN of even size: one channel less in the window, alpha still divided by the size."""
    size, alpha = node.get("size"), node.get("alpha", 1e-4)
    node.set("size", size - 1)
    node.set("alpha", alpha * (size - 1) / size)
    return [node]


def divide_by_norm(graph: Graph, node: Node) -> list[Node]:
    """LpNormalization without a guard against a norm of 0."""
    builder = Builder(graph, node, inside=False)
    norm = builder.add("ReduceL1" if node.get("p", 2) == 1 else "ReduceL2", node.inputs, keepdims=1)
    _set_axes(graph, builder.nodes[-1], [node.get("axis", -1)], since=18)
    builder.add("Div", [node.inputs[0], norm], node.outputs[0])
    return builder.nodes


def mean_variance(graph: Graph, node: Node) -> list[Node]:
    """MeanVarianceNormalization as its kernel computes it: 1e-9 is added to the variance, not to its root."""
    builder = Builder(graph, node, inside=True)
    axes = list(node.get("axes", [0, 2, 3]))
    x = node.inputs[0]

    def mean(tensor: str) -> str:
        name = builder.add("ReduceMean", [tensor], keepdims=1)
        _set_axes(graph, builder.nodes[-1], axes, since=18)
        return name

    centred = builder.add("Sub", [x, mean(x)])
    variance = mean(builder.add("Mul", [centred, centred]))
    small = builder.constant(np.array(1e-9, np.float32))
    if graph.dtype(x) == TensorProto.FLOAT16:
        small = builder.add("Cast", [small], to=TensorProto.FLOAT16)
    builder.add("Div", [centred, builder.add("Sqrt", [builder.add("Add", [variance, small])])], node.outputs[0])
    return builder.nodes


def one_hot(graph: Graph, node: Node) -> list[Node]:
    """OneHot with indices modulo depth, as the expansion computes them."""
    builder = Builder(graph, node, inside=True)
    depth = node.inputs[1]
    if depth in graph.constants:
        depth = builder.constant(graph.constants[depth].reshape(()))
    shifted = builder.add("Add", [node.inputs[0], depth])
    inside = builder.add("Mod", [shifted, depth], fmod=1)
    node.inputs = [inside, *node.inputs[1:]]
    return [*builder.nodes, node]


def indices_in_int32(graph: Graph, node: Node) -> list[Node]:
    """TopK and ArgMin write their indices as int32."""
    target = node.outputs[-1]
    if not target:
        return [node]
    node.outputs[-1] = f"{target}/int64"
    cast = Node(f"{node.name}_int32", "Cast", "ai.onnx", [node.outputs[-1]], [target], origins=(), task=node.task)
    cast.set("to", TensorProto.INT32)
    cast.inner = True
    return [node, cast]


def seeded(graph: Graph, node: Node) -> list[Node]:
    """Random numbers with a seed, so that they are the same in every run."""
    node.set("seed", float(int(node.get("seed", 0.0))))
    if node.op_type.endswith("Like") and node.get("dtype") is None:
        node.set("dtype", TensorProto.FLOAT)
    return [node]


def resize_nearest(graph: Graph, node: Node) -> list[Node]:
    """The elements that the nearest kernel takes, axis by axis."""
    plan = resampling.plan(graph, node)
    assert plan is not None
    return _gathered(graph, node, {axis: index for axis, index in enumerate(plan.indices) if axis >= 2})


def upsample(graph: Graph, node: Node) -> list[Node]:
    """Upsample, and a linear Resize of opset 10: half-pixel coordinates."""
    dims = graph.known_shape(node.inputs[0])
    scales = graph.constants[node.inputs[1]]
    sizes = [int(np.float32(dim) * scale) for dim, scale in zip(dims, scales, strict=True)]
    axes = [axis for axis, scale in enumerate(scales) if scale != 1]
    if node.get("mode", b"nearest") == b"nearest":
        chosen = {axis: resampling.half_pixel_nearest(dims[axis], sizes[axis], float(scales[axis])) for axis in axes}
        return _gathered(graph, node, chosen)
    builder = Builder(graph, node, inside=True)
    value = node.inputs[0]
    rank = len(dims)
    dtype = helper.tensor_dtype_to_np_dtype(graph.dtype(value))
    for axis in axes:
        weights = resampling.half_pixel_weights(dims[axis], sizes[axis], float(scales[axis])).astype(dtype)
        order = [index for index in range(rank) if index != axis] + [axis]
        moved = builder.add("Transpose", [value], perm=order)
        product = builder.add("MatMul", [moved, builder.constant(np.ascontiguousarray(weights.T))])
        value = builder.add("Transpose", [product], perm=[order.index(index) for index in range(rank)])
    return _ending_in(node, builder)


def _gathered(graph: Graph, node: Node, indices: dict[int, NDArray[Any]]) -> list[Node]:
    builder = Builder(graph, node, inside=True)
    value = node.inputs[0]
    for axis, index in indices.items():
        value = builder.add("Gather", [value, builder.constant(index)], axis=axis)
    return _ending_in(node, builder)


def _ending_in(node: Node, builder: Builder) -> list[Node]:
    """Let the last node write the original output under the original name."""
    last = builder.nodes[-1]
    last.name, last.outputs, last.stands_for, last.inner = node.name, list(node.outputs), node.op_type, False
    return builder.nodes


def _set_axes(graph: Graph, node: Node, axes: list[int], *, since: int) -> None:
    """Axes as an attribute, or as an input from an opset on."""
    if graph.opset < since:
        node.set("axes", axes)
        return
    name = graph.fresh(f"{node.name}_axes")
    graph.constants[name] = np.array(axes, np.int64)
    node.inputs = [node.inputs[0], name]


BY_NAME: dict[str, Deployment] = {
    item.__name__: item
    for item in (
        cast_like, clip_in_float32, divide_by_norm, drop_last_window, indices_in_int32, max_over_two_axes,
        mean_variance, odd_window, one_hot, per_axis, promote,
        resize_nearest, seeded, thresholded_relu, upsample, valid_window,
    )
}  # fmt: skip
"""All rewritings by the name that the table calls them."""
