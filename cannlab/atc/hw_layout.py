"""``--is_input_adjust_hw_layout`` and ``--is_output_adjust_hw_layout``: float16 inputs and outputs in NC1HWC0.

Such a tensor holds its channels in groups of 16, the last dimension; the last group is filled up with zeros. The nodes
that stand between it and the plain one are no operators: convolutions read this layout anyway. Tensors of other than
four dimensions stay as they are. Source: documentation of the two options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph, Node

if TYPE_CHECKING:
    from cannlab.atc.compiler import Request

KERNEL = "TransData"
INPUT, OUTPUT = "--is_input_adjust_hw_layout", "--is_output_adjust_hw_layout"
C0 = 16
"""Channels in a group."""


def insert(graph: Graph, request: Request, declared: dict[str, int]) -> frozenset[str]:
    """Change the layout of the inputs and outputs that the options name.

    Args:
        graph: with the shapes of its inputs; its outputs are those of ``--out_nodes``.
        declared: TensorProto.DataType numbers of inputs and outputs; outputs in NC1HWC0 become float16 in it.

    Returns:
        Names of the inputs and outputs that are in NC1HWC0.

    Raises:
        AtcError: rules ``atc.hw_layout_count``, ``atc.value_not_emulated`` for shapes that are open.
    """
    changed = []
    for name, asked in zip(request.half_inputs, request.hw_inputs, strict=False):
        if asked and _four(graph, name, INPUT) and _input(graph, name):
            changed.append(name)
    places = [part.strip() for part in request.out_nodes.split(";") if part.strip()]
    if places and any(request.hw_outputs):
        count, wanted = len(request.hw_outputs), len(places)
        if count != wanted:
            value = ",".join(str(item).lower() for item in request.hw_outputs)
            raise atc_error(
                "hw_layout_count", option=OUTPUT, value=value, count=count, other="--out_nodes", wanted=wanted
            )
        graph.infer()
        for name, asked in zip(list(graph.outputs), request.hw_outputs, strict=True):
            if not asked:
                continue
            declared[name] = int(TensorProto.FLOAT16)
            if _four(graph, name, OUTPUT) and _output(graph, name):
                changed.append(name)
    return frozenset(changed)


def _four(graph: Graph, name: str, option: str) -> bool:
    if graph.rank(name) != 4:
        return False
    if graph.shape(name) is None:
        raise atc_error(
            "value_not_emulated", option=option, value="true", usable="false, or a shape without open dimensions"
        )
    return True


def _node(graph: Graph, op_type: str, inputs: list[str], target: str, leader: str) -> Node:
    name = f"{target}/{op_type}"
    return Node(name, op_type, "ai.onnx", inputs, [target], origins=(), task=leader, kernel=KERNEL, inner=True)


def _constant(graph: Graph, name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    graph.constants[name] = values
    return name


def _input(graph: Graph, name: str) -> bool:
    dtype, dims = graph.types[name][0], graph.known_shape(name)
    images, channels, height, width = dims
    groups = -(-channels // C0)
    plain = f"{name}/NCHW"
    graph.replace_tensor(name, plain)
    first, second = f"{name}/N_C1_C0_H_W", f"{name}/padded"
    leader = f"{first}/Transpose"
    transpose = _node(graph, "Transpose", [name], first, leader)
    transpose.set("perm", [0, 1, 4, 2, 3])
    shape = _constant(graph, f"{name}/shape", np.array([images, groups * C0, height, width], np.int64))
    gather = _node(graph, "Gather", [second, _constant(graph, f"{name}/channels", np.arange(channels))], plain, leader)
    gather.set("axis", 1)
    graph.nodes[:0] = [transpose, _node(graph, "Reshape", [first, shape], second, leader), gather]
    graph.types[name] = (dtype, (images, groups, height, width, C0))
    return True


def _output(graph: Graph, name: str) -> bool:
    writer = graph.producer(name)
    if writer is None or name in graph.inputs:
        return False
    dtype, (images, channels, height, width) = graph.types[name][0], graph.known_shape(name)
    groups = -(-channels // C0)
    plain = f"{name}/NCHW"
    for node in graph.nodes:
        node.inputs = [plain if item == name else item for item in node.inputs]
        node.outputs = [plain if item == name else item for item in node.outputs]
    graph.types[plain] = graph.types.pop(name)
    filled, split = f"{name}/padded", f"{name}/N_C1_C0_H_W"
    leader = f"{name}/Transpose"
    zeros = np.zeros((images, groups * C0 - channels, height, width), helper.tensor_dtype_to_np_dtype(dtype))
    concat = _node(graph, "Concat", [plain, _constant(graph, f"{name}/zeros", zeros)], filled, leader)
    concat.set("axis", 1)
    shape = _constant(graph, f"{name}/shape", np.array([images, groups, C0, height, width], np.int64))
    reshape = _node(graph, "Reshape", [filled if zeros.size else plain, shape], split, leader)
    transpose = _node(graph, "Transpose", [split], name, leader)
    transpose.set("perm", [0, 1, 3, 4, 2])
    graph.nodes += [*([concat] if zeros.size else []), reshape, transpose]
    return True


def asked(text: str) -> tuple[bool, ...]:
    """The values of one of the options."""
    return tuple(part.strip() == "true" for part in text.split(",")) if text else ()
