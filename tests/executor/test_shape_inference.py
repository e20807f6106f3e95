"""Shapes are inferred without following the values of long vectors."""

import resource

import onnx
import pytest
from onnx import TensorProto, helper

from cannlab.machine.shape_inference import infer_shapes


def model(nodes, shape, kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_empty_tensor_value_info("y")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def dims(inferred):
    return [dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim]


def flat():
    return helper.make_node("Constant", [], ["s"], value=helper.make_tensor("s", TensorProto.INT64, [1], [-1]))


@pytest.mark.parametrize("shape", [[1 << 40], [1 << 20, 1 << 20]])
def test_a_long_vector_takes_no_memory(shape):
    """A vector of 2^40 elements would take 150 TB."""
    nodes = [flat(), helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Add", ["r", "r"], ["y"])]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = infer_shapes(model(nodes, shape), strict_mode=True, check_type=True)
    assert dims(found) == [1 << 40]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_values_that_decide_shapes_are_followed():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["i"], value=helper.make_tensor("i", TensorProto.INT64, [2], [2, 0])),
        helper.make_node("Gather", ["s", "i"], ["w"]),
        helper.make_node("Constant", [], ["m"], value=helper.make_tensor("m", TensorProto.INT64, [1], [-1])),
        helper.make_node("Concat", ["w", "m"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    assert dims(infer_shapes(model(nodes, [2, 3, 4]), strict_mode=True)) == [4, 2, 3]


def test_what_does_not_fit_is_refused_as_onnx_does():
    node = helper.make_node("MatMul", ["x", "x"], ["y"])
    with pytest.raises(onnx.shape_inference.InferenceError):
        infer_shapes(model([node], [2, 3]), strict_mode=True)
