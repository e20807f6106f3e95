"""Passes on models whose shapes are known only when they run: nothing may hold for the reference shape alone."""

import numpy as np
import onnx
import onnx_models as models
import pass_models
import pytest
from onnx_models import node

from cannlab import om
from cannlab import soc as socs
from cannlab.atc import compiler
from cannlab.atc.errors import AtcError
from cannlab.atc.passes import registry
from cannlab.atc.passes.switches import Switches
from cannlab.machine.executor import Model

ALL = Switches(dict.fromkeys((item.name for item in registry.PASSES), True))


def opened(made):
    """A copy of the model with an open batch in each input, and the text of --input_shape."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    words = []
    for info in copy.graph.input:
        dims = info.type.tensor_type.shape.dim
        words.append([str(dim.dim_value) for dim in dims])
        words[-1][0] = f"1~{dims[0].dim_value + 2}"
        dims[0].Clear()
    for info in copy.graph.output:
        info.type.tensor_type.ClearField("shape")
    names = [info.name for info in copy.graph.input]
    return copy, ";".join(f"{name}:{','.join(dims)}" for name, dims in zip(names, words, strict=True))


def compiled(made, shape):
    request = compiler.Request(
        soc=socs.get("Ascend910B1"), input_shape=shape, precision_mode="must_keep_origin_dtype", switches=ALL
    )
    return om.read(om.to_bytes(compiler.compile_model(made, request, lambda level, text: None).om))


def agrees(made, program, inputs):
    close = 4e-3 if any(x.dtype == np.float16 for x in inputs) else 5e-5
    for got, wanted in zip(program.run(inputs)[0], models.reference(made, *inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=close, atol=close)


RESHAPED = {"ReshapeTransposeFusionPass", "TransposeReshapeFusionPass"}
RESHAPED |= {"MatmulConfusiontransposeUbFusion", "BatchMatmulConfusiontransposeUbFusion"}
"""Cases with a Reshape to fixed sizes, which takes only one batch when it runs."""


@pytest.mark.parametrize("name", [item.name for item in registry.PASSES])
def test_every_case_of_a_pass_with_an_open_batch(name):
    case = pass_models.CASES[name]
    inputs = case.inputs(case.build())
    made, shape = opened(case.build())
    program = Model(compiled(made, shape))
    agrees(made, program, inputs)
    if name not in RESHAPED:
        agrees(made, program, [np.concatenate([x, x[:1]]) for x in inputs])


def free(nodes, dims, constants=None):
    made = models.model(nodes, {"x": dims}, {"y": [1]}, constants)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def test_a_reduction_over_one_value_of_an_open_tensor():
    made = free([node("ReduceMean", ["x"], ["y"], "mean", axes=[1], keepdims=0)], ["n", 1, "w"])
    program = Model(compiled(made, "x:1~8,1,-1"))
    for n, w in ((1, 1), (3, 5), (8, 224)):
        agrees(made, program, [models.random(n, 1, w)])
    made = free([node("ReduceMean", ["x"], ["y"], "mean", axes=[1], keepdims=0)], ["n", 1, 7])
    compiled_one = compiled(made, "x:-1,1,7")
    assert not compiled_one.tasks
    agrees(made, Model(compiled_one), [models.random(3, 1, 7)])


def test_a_reshape_that_keeps_the_reference_shape_only():
    """At the reference of 6 the Reshape to [-1, 6] changes nothing."""
    made = free(
        [node("Relu", ["x"], ["r"], "relu"), node("Reshape", ["r", "s"], ["y"], "reshape")],
        ["n", "w"],
        {"s": np.array([-1, 6], np.int64)},
    )
    program = Model(compiled(made, "x:1~6,1~6"))
    for n, w in ((6, 6), (4, 3), (2, 3)):
        agrees(made, program, [models.random(n, w)])


def test_a_softmax_of_an_old_opset_with_an_open_batch():
    """Only axis 1 is normalised, as on the chip, although ONNX flattens the axes behind it too."""
    made = models.model(
        [node("Softmax", ["x"], ["y"], "soft", axis=1)], {"x": ["n", 3, 5]}, {"y": ["n", 3, 5]}, opset=11
    )
    program = Model(compiled(made, "x:1~4,3,5"))
    for n in (1, 3):
        ((got,), _) = program.run([models.random(n, 3, 5)])
        np.testing.assert_allclose(got.sum(1), np.ones((n, 5)), rtol=1e-5)


def test_what_open_shapes_leave_undecided_is_told(capsys, tmp_path):
    constants = {"none": np.zeros(0, np.float32), "scales": np.array([1, 1, 1.5, 1.5], np.float32)}
    nodes = [node("Resize", ["x", "none", "scales"], ["y"], "resize", mode=b"nearest")]
    made = models.model(nodes, {"x": [1, 3, "h", "w"]}, {"y": [1, 3, "a", "b"]}, constants, opset=11)
    models.convert(made, tmp_path, "--input_shape=x:1,3,2~8,2~8")
    assert "cannlab: [resize], type [Resize]" in capsys.readouterr().out


def test_an_open_number_of_dimensions_is_not_emulated():
    made = models.model(
        [node("ReduceSum", ["x", "axes"], ["y"], "sum")],
        {"x": [2, 3], "axes": (onnx.TensorProto.INT64, [1])},
        {"y": [2, 1]},
    )
    with pytest.raises(AtcError, match="E10055"):
        compiled(made, "")


def test_the_mask_of_a_dropout_leaves_the_shapes_fixed():
    nodes = [node("Dropout", ["x"], ["d", "mask"], "drop"), node("Relu", ["d"], ["y"], "relu")]
    made = models.model(nodes, {"x": [2, 3]}, {"y": [2, 3]}, opset=9)
    assert not compiled(made, "").gears


def test_many_pieces_of_an_open_axis():
    names = [f"p{number}" for number in range(70)]
    made = free(
        [node("Split", ["x"], names, "split", axis=0), node("Concat", names[::-1], ["y"], "c", axis=0)], ["n", 2]
    )
    program = Model(compiled(made, "x:70~140,2"))
    for n in (70, 140):
        agrees(made, program, [models.random(n, 2)])
