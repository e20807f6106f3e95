"""What ONNX Runtime has a kernel for: an om must not hold an operator that the executor cannot run."""

from __future__ import annotations

from functools import cache

import onnx
import onnxruntime
from onnx import TensorProto, helper

from cannlab.machine.ort_errors import ORT_ERRORS
from cannlab.machine.rounding import HALVES


def runs(node: onnx.NodeProto, opset: int, types: tuple[int, ...]) -> bool:
    """True if the executor can run a node.

    Args:
        node: of the default domain.
        opset: version of the default domain.
        types: TensorProto.DataType numbers of its inputs, 0 for one left out; fp16 and bf16 are carried in fp32.
    """
    carried = tuple(TensorProto.FLOAT if number in HALVES else number for number in types)
    bare = onnx.NodeProto(op_type=node.op_type)
    bare.attribute.extend(item for item in node.attribute if item.type != onnx.AttributeProto.GRAPH)
    return _has_kernel(bare.SerializeToString(deterministic=True), opset, carried, len(node.output))


@cache
def _has_kernel(node: bytes, opset: int, types: tuple[int, ...], outputs: int) -> bool:
    bare = onnx.NodeProto.FromString(node)
    names = [f"x{index}" if number else "" for index, number in enumerate(types)]
    bare.input.extend(names)
    bare.output.extend(f"y{index}" for index in range(outputs))
    graph = helper.make_graph(
        [bare],
        "one",
        [helper.make_tensor_value_info(name, number, None) for name, number in zip(names, types, strict=True) if name],
        [onnx.ValueInfoProto(name=name) for name in bare.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except ORT_ERRORS as problem:
        return type(problem).__name__ != "NotImplemented"
    return True
