"""The plugins' rules: every rule has an example, every operator of the table one of three treatments."""

import numpy as np
import onnx
import onnx_models as models
import pytest
from onnx import TensorProto, helper

from cannlab import soc
from cannlab.atc import compiler, support
from cannlab.atc.errors import AtcError
from cannlab.atc.plugins import deploy
from cannlab.atc.plugins.facts import BUILT_IN, FUNCTIONS
from cannlab.atc.plugins.table import STAGES, expressions, table
from cannlab.machine import custom_ops
from cannlab.machine.executor import Model

CHIP = soc.get("Ascend910B1")
STANDARD = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
MODE = "must_keep_origin_dtype"

IMAGE = [1, 2, 6, 6]
F, H, I32, I64, U8, BOOL = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.BOOL,
)


def one(op_type, inputs, outputs=1, opset=13, constants=None, **attributes):
    """A model of one node. ``inputs`` are shapes, (type, shape) pairs, arrays (constants) or None (left out)."""
    names, infos, held = [], [], dict(constants or {})
    for index, item in enumerate(inputs):
        name = f"x{index}"
        if item is None:
            names.append("")
            continue
        names.append(name)
        if isinstance(item, np.ndarray):
            held[name] = item
        else:
            dtype, shape = item if isinstance(item, tuple) else (F, item)
            infos.append(helper.make_tensor_value_info(name, dtype, shape))
    written = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op_type, names, written, "node", **attributes)
    ends = [onnx.ValueInfoProto(name=name) for name in written]
    if not infos:  # a model needs an input
        infos = [helper.make_tensor_value_info("unused", F, [1])]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph([node], "net", infos, ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def compiled(model, mode=MODE):
    return compiler.compile_model(model, compiler.Request(CHIP, precision_mode=mode), lambda level, text: None)


def results(made, *arrays):
    return Model(made.om).run(list(arrays))[0]


def ints(*values):
    return np.array(values, np.int64)


# -- refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "BitShift direction": one("BitShift", [(U8, [2]), (U8, [2])], direction="UP"),
    "Clip min, max": one("Clip", [[2]]),
    "IsInf detect_negative, detect_positive": one("IsInf", [[2]], detect_negative=0),
    "Selu alpha, gamma": one("Selu", [[2]], alpha=2.0),
    "Dropout ratio, training_mode": one("Dropout", [[2], np.array(0.5, np.float32)]),
    "Dropout mask": one("Dropout", [[2]], outputs=2),
    "Sum input shapes": one("Sum", [[2, 3], [3]]),
    "Mean input shapes": one("Mean", [[2, 3], [3]]),
    "Conv kernel_shape, strides, dilations, pads": one("Conv", [IMAGE, np.ones((2, 2, 1, 1), np.float32)], group=1),
    "Conv pads": one("Conv", [IMAGE, np.ones((2, 2, 3, 3), np.float32)], pads=[1, 1, 1]),
    "Conv auto_pad": one(
        "Conv", [[1, 1, 4, 4, 4], np.ones((1, 1, 3, 3, 3), np.float32)], kernel_shape=[3, 3, 3], auto_pad="SAME_UPPER"
    ),
    "Conv strides, dilations, pads": one(
        "Conv", [[1, 1, 4, 4, 4], np.ones((1, 1, 3, 3, 3), np.float32)], kernel_shape=[3, 3, 3]
    ),
    "ConvTranspose kernel_shape": one("ConvTranspose", [IMAGE, np.ones((2, 2, 3, 3), np.float32)]),
    "ConvTranspose pads": one(
        "ConvTranspose", [IMAGE, np.ones((2, 2, 3, 3), np.float32)], kernel_shape=[3, 3], pads=[1, 1, 1]
    ),
    "ConvTranspose output_padding": one(
        "ConvTranspose", [IMAGE, np.ones((2, 2, 3, 3), np.float32)], kernel_shape=[3, 3], output_padding=[1]
    ),
    "ConvTranspose output_shape": one(
        "ConvTranspose", [IMAGE, np.ones((2, 2, 3, 3), np.float32)], kernel_shape=[3, 3], output_shape=[8]
    ),
    "AveragePool pads": one("AveragePool", [IMAGE], kernel_shape=[2, 2], pads=[1, 1, 1]),
    "AveragePool kernel_shape": one("AveragePool", [[1, 1, 2, 2, 2, 2]], kernel_shape=[1, 1, 1, 1]),
    "MaxPool Indices": one("MaxPool", [IMAGE], outputs=2, kernel_shape=[2, 2]),
    "MaxPool storage_order": one("MaxPool", [IMAGE], kernel_shape=[2, 2], storage_order=1),
    "MaxPool kernel_shape": one("MaxPool", [[1, 1, 2, 2, 2, 2]], kernel_shape=[1, 1, 1, 1]),
    "MaxPool pads": one("MaxPool", [IMAGE], kernel_shape=[2, 2], pads=[1, 1, 1]),
    "LpPool kernel_shape": one("LpPool", [[1, 1, 2, 2, 2, 2]], kernel_shape=[1, 1, 1, 1]),
    "LpPool pads": one("LpPool", [IMAGE], kernel_shape=[2, 2], pads=[1, 1, 1]),
    "MaxRoiPool pooled_shape": one("MaxRoiPool", [IMAGE, [1, 5]], pooled_shape=[2]),
    "Col2Im dilations, pads, strides": one("Col2Im", [[1, 4, 4], ints(4, 4), ints(2, 2)], opset=18),
    "Col2Im pads": one(
        "Col2Im",
        [[1, 4, 4], ints(4, 4), ints(2, 2)],
        opset=18,
        dilations=[1, 1],
        pads=[0, 0, 0, 0],
        strides=[1, 1],
    ),
    "Col2Im dilations, strides": one(
        "Col2Im", [[1, 4, 4], ints(4, 4), ints(2, 2)], opset=18, dilations=[1], pads=[0, 0], strides=[1, 1]
    ),
    "LayerNormalization B": one("LayerNormalization", [[2, 4], np.ones(4, np.float32), None], opset=17),
    "LRN size": one("LRN", [IMAGE], size=0),
    "Gemm C": one("Gemm", [[2, 3], [3, 4], None]),
    "MatMul input rank": one("MatMul", [[1] * 8 + [2], [2, 2]]),
    "Einsum equation": one("Einsum", [[2]], equation=""),
    "Einsum input type": one("Einsum", [(TensorProto.DOUBLE, [2])], equation="i->"),
    "DepthToSpace blocksize": one("DepthToSpace", [[1, 4, 2, 2]], blocksize=1),
    "SpaceToDepth blocksize": one("SpaceToDepth", [IMAGE], blocksize=0),
    "Expand shape": one("Expand", [[2, 1, 3], ints(4, 3)]),
    "Pad pads": one("Pad", [[2, 3]], opset=10, pads=[1, 1, 1]),
    "Pad axes": one("Pad", [[2, 3], ints(1, 1), None, ints(0)], opset=18),
    "Pad input rank": one("Pad", [[], np.zeros(0, np.int64)]),
    "Range delta": one("Range", [ints(0).reshape(()), ints(4).reshape(()), ints(0).reshape(())]),
    "Range start, limit, delta": one("Range", [ints(0).reshape(()), ints(4).reshape(()), ints(-1).reshape(())]),
    "Reshape shape": one("Reshape", [[2, 3], ints(2, 2)]),
    "Split split": one("Split", [[4]], outputs=2, opset=11, split=[1, 1, 2]),
    "Split num_outputs": one("Split", [[7]], outputs=2, opset=18, num_outputs=2),
    "Transpose perm": one("Transpose", [[2, 3]]),
    "Resize axes": one("Resize", [IMAGE, None, np.array([2, 2], np.float32)], opset=18, axes=[2, 3], mode="linear"),
    "Resize mode": one("Resize", [IMAGE, np.array([1, 1, 2, 2], np.float32)], opset=10, mode="cubic"),
    "Resize input rank": one("Resize", [[1, 2, 6], None, np.array([1, 1, 2], np.float32)]),
    "ReverseSequence batch_axis": one("ReverseSequence", [[2, 3, 4], ints(1, 1, 1)], batch_axis=2, time_axis=0),
    "ArgMax select_last_index": one("ArgMax", [[2, 3]], select_last_index=1),
    "ArgMin select_last_index": one("ArgMin", [[2, 3]], select_last_index=1),
    "GatherND batch_dims": one("GatherND", [[2, 3], (I64, [2, 1])], batch_dims=1),
    "GridSample mode, padding_mode": one("GridSample", [IMAGE, [1, 3, 3, 2]], opset=16),
    "EyeLike k": one("EyeLike", [[3, 4]]),
    "OneHot axis": one("OneHot", [(I64, [3]), np.array(4, np.int64), np.array([0, 1], np.float32)], axis=-2),
    "OneHot input types": one("OneHot", [(I64, [3]), np.array(4, np.int32), np.array([0, 1], np.float32)]),
    "ScatterElements reduction": one("ScatterElements", [[4], (I64, [2]), [2]], opset=18, reduction="max"),
    "ScatterElements input type": one("ScatterElements", [(BOOL, [4]), (I64, [2]), (BOOL, [2])]),
    "ScatterND reduction": one("ScatterND", [[4], (I64, [2, 1]), [2]], opset=16, reduction="mul"),
    "RandomNormal dtype": one("RandomNormal", [], shape=[2], dtype=TensorProto.BFLOAT16),
    "RandomUniform dtype": one("RandomUniform", [], shape=[2], dtype=TensorProto.DOUBLE),
    "RandomNormalLike dtype": one("RandomNormalLike", [[2]], dtype=TensorProto.BFLOAT16, opset=18),
    "RandomUniformLike dtype": one("RandomUniformLike", [[2]], dtype=TensorProto.BFLOAT16, opset=18),
    "MeanVarianceNormalization output 1": None,
}
"""Operator and what the rule is about -> a model that it refuses (None: ONNX itself allows no such node)."""

BY_ONNX = {
    "Cast to", "Concat axis", "Slice starts, ends", "Unsqueeze axes", "Upsample mode", "Upsample scales", "TopK k",
    "MaxUnpool kernel_shape", "Conv inputs", "ConvTranspose inputs", "Trilu inputs", "If attributes",
    "MeanVarianceNormalization outputs", "DepthToSpace input rank", "GridSample input rank", "Concat input types",
    "Max input types", "Min input types", "RandomNormal shape", "BitShift attributes",
    "Resize roi, scales",
}  # fmt: skip
"""Rules whose nodes the check against ONNX's own definition refuses first, or that need an operator before them."""

CODES = {"parse": "E19999", "expand": "E19999", "io": "E19999", "shape": "E89999", "kernel": "EZ3002"}


def refusing():
    """The rules that refuse, by operator and what they are about."""
    found = {}
    for rules in table().rules.values():
        for rule in rules:
            if rule.refuse and rule.cann != "current":
                found.setdefault(f"{rule.op_type} {rule.about}", []).append(rule)
    return found


def test_every_refusal_has_an_example():
    typed = {key for key in refusing() if key.endswith("input types")}
    known = set(REFUSED) | BY_ONNX | typed
    assert set(refusing()) <= known, set(refusing()) - known


@pytest.mark.parametrize("key", [key for key, model in REFUSED.items() if model is not None])
def test_refused(key, monkeypatch):
    rules = refusing()[key]
    rule = rules[0]
    with pytest.raises(AtcError) as caught:
        compiled(REFUSED[key])
    first = caught.value.diagnosis
    assert first.facts["op_type"] == rule.op_type, first
    assert first.facts["about"] == rule.about, first
    assert first.code in {CODES[item.refuse] for item in rules}
    assert rule.about in first.what
    assert any(first.remedy.endswith(item.do) for item in rules)
    if rule.refuse == "kernel":
        assert [item.code for item in caught.value.diagnoses] == ["EZ3002", "EZ3003"]
    monkeypatch.setenv("CANNLAB_CANN", "current")
    if rule.refuse in ("parse", "expand", "shape"):
        with pytest.raises(AtcError) as caught:
            compiled(REFUSED[key])
        assert caught.value.diagnosis.code == "EZ9999"


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_indices_of_topk_do_not_go_with_int64(op_type, monkeypatch):
    """TopK gives int32 here; ATC-07."""
    nodes = [
        models.node("TopK", ["x", "k"], ["v", "i"], "topk"),
        models.node(op_type, ["i", "offset"], ["y"], "binary"),
    ]
    made = models.model(nodes, {"x": [5]}, {"y": (TensorProto.INT64, [2])}, {"k": ints(2), "offset": ints(10)})
    del made.graph.output[0].type.tensor_type.shape.dim[:]
    made.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="y"))
    with pytest.raises(AtcError) as caught:
        compiled(made)
    assert caught.value.diagnosis.code == "E89999"
    assert "the op dtype is not same" in caught.value.diagnosis.what or "int32 and int64" in caught.value.diagnosis.what
    if op_type == "Add":
        monkeypatch.setenv("CANNLAB_CANN", "current")
        (result,) = results(compiled(made), np.array([1, 5, 2, 4, 3], np.float32))
        assert result.dtype == np.int64
        assert result.tolist() == [11, 13]


def test_more_inputs_than_the_operator_has():
    axes = one("ReduceSumSquare", [[2, 3], ints(1)], opset=18)
    with pytest.raises(AtcError) as caught:
        compiled(axes)
    assert caught.value.diagnosis.code == "E19999"
    assert "input 1" in caught.value.diagnosis.what


# -- converted into something else --------------------------------------------------------------------------


def deployed_like(model, other, *arrays):
    """A model is converted with a note, and gives what ``other`` gives in ONNX Runtime."""
    made = compiled(model)
    assert [item.rule for item in made.warnings if item.rule == "atc.deployed"], made.warnings
    wanted = models.reference(other, *arrays)
    for got, expected in zip(results(made, *arrays), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    original = models.reference(model, *arrays)
    assert any(
        got.shape != first.shape or not np.allclose(got, first, rtol=1e-4, equal_nan=True)
        for got, first in zip(wanted, original, strict=True)
    ), "the example shows no difference"


X = models.random(*IMAGE, seed=5)


@pytest.mark.parametrize(
    ("op_type", "inputs", "before", "after", "opset"),
    [
        ("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 2]}, {"kernel_shape": [2, 2]}, 13),
        (
            "MaxPool",
            [IMAGE],
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
            13,
        ),
        (
            "AveragePool",
            [IMAGE],
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
            13,
        ),
        (
            "LpPool",
            [IMAGE],
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
            {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
            13,
        ),
        ("LpPool", [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 2]}, {"kernel_shape": [2, 2]}, 18),
        ("LogSoftmax", [[2, 3, 4]], {}, {"axis": 2}, 11),
        ("Hardmax", [[2, 3, 4]], {}, {"axis": 2}, 11),
        ("Shape", [[2, 3, 4]], {"start": 1}, {}, 15),
        (
            "Resize",
            [IMAGE, None, np.array([1, 1, 0.5, 0.5], np.float32)],
            {"mode": "cubic", "cubic_coeff_a": -0.5},
            {"mode": "cubic"},
            13,
        ),
        (
            "Resize",
            [IMAGE, None, np.array([1, 1, 0.4, 0.4], np.float32)],
            {"mode": "cubic", "exclude_outside": 1},
            {"mode": "cubic"},
            13,
        ),
        (
            "Resize",
            [IMAGE, None, np.array([1, 1, 0.4, 0.4], np.float32)],
            {"mode": "linear", "antialias": 1},
            {"mode": "linear"},
            18,
        ),
    ],
)
def test_attributes_that_are_not_read(op_type, inputs, before, after, opset):
    shape = inputs[0]
    deployed_like(
        one(op_type, inputs, opset=opset, **before),
        one(op_type, inputs, opset=opset, **after),
        models.random(*shape, seed=5),
    )


def test_window_of_even_size():
    made = compiled(one("LRN", [[1, 6, 2, 2]], size=4, alpha=0.4))
    assert any(item.rule == "atc.deployed" for item in made.warnings)
    x = models.random(1, 6, 2, 2)
    other = one("LRN", [[1, 6, 2, 2]], size=3, alpha=0.3)
    np.testing.assert_allclose(results(made, x)[0], models.reference(other, x)[0], rtol=1e-5)


def test_remainder_has_the_sign_of_the_dividend():
    model = one("Mod", [(I32, [4]), np.array([3, 3, -3, -3], np.int32)])
    made = compiled(model)
    assert any(item.rule == "atc.deployed" for item in made.warnings)
    (result,) = results(made, np.array([-7, 7, -7, 7], np.int32))
    assert result.tolist() == [-1, 1, -1, 1]


def test_remainder_of_unsigned_numbers_is_exact():
    made = compiled(one("Mod", [(U8, [2]), np.array([3, 5], np.uint8)]))
    assert not any(item.rule == "atc.deployed" for item in made.warnings)


@pytest.mark.parametrize(("op_type", "axis"), [("Softmax", 1), ("LogSoftmax", 0), ("Hardmax", 1)])
def test_along_one_axis_below_opset_13(op_type, axis):
    x = models.random(2, 3, 4, seed=2)
    deployed_like(one(op_type, [[2, 3, 4]], opset=11, axis=axis), one(op_type, [[2, 3, 4]], opset=13, axis=axis), x)


def test_the_last_axis_is_exact_below_opset_13():
    made = compiled(one("Softmax", [[2, 3, 4]], opset=11, axis=2))
    assert made.warnings == ()


def test_recurrent_attributes_are_dropped():
    weights = [models.random(1, 12, 4, seed=1), models.random(1, 12, 3, seed=2)]
    for extra in ({"clip": 0.1}, {"activations": ["Sigmoid", "Relu", "Relu"]}, {"input_forget": 1}):
        deployed_like(
            one("LSTM", [[5, 2, 4], *weights], outputs=3, hidden_size=3, **extra),
            one("LSTM", [[5, 2, 4], *weights], outputs=3, hidden_size=3),
            models.random(5, 2, 4, seed=3, scale=3),
        )
    weights = [models.random(1, 9, 4, seed=1), models.random(1, 9, 3, seed=2)]
    for extra in ({"clip": 0.1}, {"activations": ["Sigmoid", "Relu"]}):
        deployed_like(
            one("GRU", [[5, 2, 4], *weights], outputs=2, hidden_size=3, **extra),
            one("GRU", [[5, 2, 4], *weights], outputs=2, hidden_size=3),
            models.random(5, 2, 4, seed=3, scale=3),
        )


def test_batch_first_is_ignored():
    for op_type, gates, outputs in (("LSTM", 12, 3), ("GRU", 9, 2)):
        weights = [models.random(1, gates, 4, seed=1), models.random(1, gates, 3, seed=2)]
        made = compiled(one(op_type, [[5, 2, 4], *weights], outputs=outputs, opset=14, hidden_size=3, layout=1))
        assert made.om.outputs[0].dims == (5, 1, 2, 3)  # sequence first


def test_gru_with_linear_before_reset_is_told_to_be_uncertain():
    weights = [models.random(1, 9, 4, seed=1), models.random(1, 9, 3, seed=2)]
    model = one("GRU", [[5, 2, 4], *weights], outputs=2, hidden_size=3, linear_before_reset=1)
    made = compiled(model)
    assert "linear_before_reset" in made.warnings[0].what
    x = models.random(5, 2, 4, seed=3)
    np.testing.assert_allclose(results(made, x)[0], models.reference(model, x)[0], rtol=1e-5)


def test_alpha_of_gemm_without_c():
    x = models.random(2, 3, seed=1)
    weight = models.random(3, 4, seed=2)
    deployed_like(one("Gemm", [[2, 3], weight], alpha=0.5), one("Gemm", [[2, 3], weight]), x)


def test_global_max_of_five_dimensions():
    made = compiled(one("GlobalMaxPool", [[1, 2, 3, 4, 5]]))
    assert any(item.rule == "atc.deployed" for item in made.warnings)
    x = models.random(1, 2, 3, 4, 5)
    np.testing.assert_array_equal(results(made, x)[0], x.max(axis=(2, 4), keepdims=True))


def test_large_window():
    model = one("MaxPool", [[1, 1, 20, 20]], kernel_shape=[17, 17], strides=[2, 2], ceil_mode=1)
    deployed_like(
        model, one("MaxPool", [[1, 1, 20, 20]], kernel_shape=[17, 17], strides=[2, 2]), models.random(1, 1, 20, 20)
    )


def test_norm_of_zero():
    made = compiled(one("LpNormalization", [[2, 3]]))
    (result,) = results(made, np.array([[0, 0, 0], [3, 0, 4]], np.float32))
    assert np.isnan(result[0]).all()
    np.testing.assert_allclose(result[1], [0.6, 0, 0.8])


def test_index_outside_of_one_hot_wraps():
    made = compiled(one("OneHot", [(I64, [3]), np.array(4, np.int64), np.array([0, 1], np.float32)]))
    (result,) = results(made, ints(1, 5, -1))
    assert result.argmax(axis=1).tolist() == [1, 1, 3]


def test_average_instead_of_max_over_a_roi():
    boxes = np.array([[0.0, 0.0, 4.0, 4.0]], np.float32)
    inputs = [IMAGE, boxes, ints(0)]
    deployed_like(
        one("RoiAlign", inputs, mode="max", output_height=2, output_width=2),
        one("RoiAlign", inputs, mode="avg", output_height=2, output_width=2),
        X,
    )


def test_the_dtype_of_pow_is_promoted():
    made = compiled(one("Pow", [(I32, [3]), np.array(0.5, np.float32)]))
    (result,) = results(made, np.array([1, 4, 9], np.int32))
    assert result.dtype == np.float32
    assert result.tolist() == [1, 2, 3]


def test_clip_of_opset_10_gives_float32():
    made = compiled(one("Clip", [(H, [3])], opset=10, min=0.0))
    (result,) = results(made, np.array([-1, 0.5, 2], np.float16))
    assert result.dtype == np.float32
    assert result.tolist() == [0, 0.5, 2]


def test_statistics_of_training():
    parameters = [np.ones(2, np.float32), np.zeros(2, np.float32), np.zeros(2, np.float32), np.ones(2, np.float32)]
    made = compiled(one("BatchNormalization", [IMAGE, *parameters], outputs=3, opset=15, training_mode=1))
    np.testing.assert_allclose(results(made, X)[1], X.mean(axis=(0, 2, 3)), atol=1e-6)


def test_class_zero_is_ignored_without_ignore_index():
    scores, labels = models.random(3, 4, seed=1), ints(0, 2, 1)
    deployed_like(
        one("SoftmaxCrossEntropyLoss", [[3, 4], (I64, [3])]),
        one("SoftmaxCrossEntropyLoss", [[3, 4], (I64, [3])], ignore_index=0),
        scores,
        labels,
    )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("asymmetric", [0, 1, 3, 4]), ("half_pixel", [0, 2, 3, 5]), ("align_corners", [0, 2, 3, 5])],
)
def test_nearest_rounds_as_the_kernel_does(mode, expected):
    """6 to 4: ONNX's default, round_prefer_floor, takes other elements."""
    sizes = ints(1, 1, 1, 4)
    model = one("Resize", [[1, 1, 1, 6], None, None, sizes], mode="nearest", coordinate_transformation_mode=mode)
    (result,) = results(compiled(model), np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6))
    at = np.arange(4)
    index = {
        "asymmetric": np.floor(at * 1.5),
        "half_pixel": np.floor((at + 0.5) * 1.5),
        "align_corners": np.floor(at * 5 / 3 + 0.5),
    }[mode]
    assert expected == index.tolist()
    assert result.reshape(-1).tolist() == expected


def test_nearest_by_a_whole_factor_is_exact():
    model = one(
        "Resize", [IMAGE, None, np.array([1, 1, 2, 2], np.float32)], coordinate_transformation_mode="asymmetric"
    )
    node = model.graph.node[0]
    node.attribute.append(helper.make_attribute("nearest_mode", "floor"))
    made = compiled(model)
    assert made.warnings == ()
    np.testing.assert_array_equal(results(made, X)[0], X.repeat(2, axis=2).repeat(2, axis=3))


def test_linear_upsample_takes_half_pixels():
    factors = np.array([1, 1, 2, 2], np.float32)
    made = compiled(one("Upsample", [IMAGE, factors], opset=9, mode="linear"))
    other = one("Resize", [IMAGE, None, factors], opset=13, mode="linear", coordinate_transformation_mode="half_pixel")
    np.testing.assert_allclose(results(made, X)[0], models.reference(other, X)[0], rtol=1e-5, atol=1e-6)
    assert [task.op_type for task in made.om.tasks if task.lowered] == ["Resize"]
    assert any(item.rule == "atc.deployed" for item in made.warnings)


def test_random_numbers_are_the_same_in_every_run():
    for op_type, inputs, attributes in (
        ("RandomUniform", [], {"shape": [8]}),
        ("RandomNormal", [], {"shape": [8]}),
        ("RandomUniformLike", [[8]], {}),
        ("RandomNormalLike", [[8]], {}),
        ("Bernoulli", [[8]], {}),
    ):
        model = one(op_type, inputs, opset=15, **attributes)
        feeds = [np.full(8 if inputs else 1, 0.5, np.float32)]
        first, second = (results(compiled(model), *feeds)[0] for _ in range(2))
        np.testing.assert_array_equal(first, second)
        assert any("random numbers" in item.what for item in compiled(model).warnings)


def test_constants_in_other_forms_are_empty():
    nodes = [
        helper.make_node("Constant", [], ["c"], "c", value_floats=[1.0, 2.0]),
        models.node("Concat", ["x", "c"], ["y"], axis=0),
    ]
    made = compiled(models.model(nodes, {"x": [3]}, {"y": [3]}))
    assert [item.rule for item in made.warnings] == ["atc.constant_form"]
    (result,) = results(made, np.arange(3, dtype=np.float32))
    assert result.shape == (3,)


# -- exact --------------------------------------------------------------------------------------------------


def test_indices_are_int32_and_otherwise_right():
    made = compiled(one("TopK", [[5], ints(2)], outputs=2))
    values, indices = results(made, np.array([1, 5, 2, 4, 3], np.float32))
    assert indices.dtype == np.int32
    assert indices.tolist() == [1, 3]
    assert values.tolist() == [5, 4]
    made = compiled(one("ArgMin", [[2, 3]], axis=1, keepdims=0))
    (result,) = results(made, np.array([[3, 1, 2], [0, 1, 2]], np.float32))
    assert result.dtype == np.int32
    assert result.tolist() == [1, 0]
    assert made.warnings == ()


def test_threshold_of_minus_infinity():
    made = compiled(one("ThresholdedRelu", [[3]], alpha=1.0))
    (result,) = results(made, np.array([0.5, 2, -np.inf], np.float32))
    assert result[:2].tolist() == [0, 2]
    assert np.isnan(result[2])


def test_transposed_convolution_behind_one_with_output_shape():
    """The second one is padded as SAME_LOWER, although it says nothing."""
    weight = np.ones((1, 1, 3, 3), np.float32)
    nodes = [
        models.node("ConvTranspose", ["x", "w"], ["a"], "a", kernel_shape=[3, 3], strides=[2, 2], output_shape=[8, 8]),
        models.node("ConvTranspose", ["x", "w"], ["b"], "b", kernel_shape=[3, 3]),
    ]
    made = compiled(models.model(nodes, {"x": [1, 1, 4, 4]}, {"a": [1, 1, 8, 8], "b": [1, 1, 6, 6]}, {"w": weight}))
    assert made.om.outputs[1].dims == (1, 1, 4, 4)
    assert [item.facts["name"] for item in made.warnings] == ["b"]


# -- the table ----------------------------------------------------------------------------------------------


def treatment(op_type):
    """What the table does with an operator: the three treatments that a node of it can get."""
    rules = table().rules.get(op_type, ())
    found = {"exact"}
    for rule in rules:
        if rule.refuse:
            found.add("refused")
        elif not rule.exact:
            found.add("deployed")
    if any(not rule.exact and not rule.refuse and unconditional(rule) for rule in rules):
        found.discard("exact")
    return found


def unconditional(rule):
    always = [compile(text, "", "eval") for text in ("True", "dtype_of(0)")]
    return any((rule.when.co_code, rule.when.co_names) == (code.co_code, code.co_names) for code in always)


def test_every_operator_of_the_table_has_a_treatment():
    counted = {}
    for key in support.table():
        if "::" in key:
            continue
        if custom_ops.find("ai.onnx", key) is not None:
            counted[key] = {"exact"}  # quantisation, which ONNX does not have and the chip does
        elif key not in STANDARD:
            # Vendor operators have no definition to compute with: refused, and told apart from unknown ones.
            model = one(key, [[2]], opset=max(support.find("ai.onnx", key).opsets))
            with pytest.raises(AtcError) as caught:
                compiled(model)
            assert caught.value.diagnosis.rule == "atc.operator_not_emulated"
            counted[key] = {"refused"}
        else:
            counted[key] = treatment(key)
    assert len(counted) == 259
    assert sum(value == {"refused"} for value in counted.values()) == 95
    assert {key for key, value in counted.items() if "exact" not in value and key in STANDARD} == {
        "Bernoulli", "LpNormalization", "Multinomial", "OneHot", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike",
    }  # fmt: skip
    assert sum("refused" in value for value in counted.values()) >= 95 + 55
    assert sum("deployed" in value for value in counted.values()) >= 30


def test_the_table_is_well_formed():
    used = set()
    standard = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""]
    attributes = {name for schema in standard for name in schema.attributes}
    assert not attributes & {*FUNCTIONS, "opset", "inputs", "outputs", "attributes"}
    for op_type, rules in table().rules.items():
        assert op_type in STANDARD, op_type
        schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.name == op_type]
        names = {name for schema in schemas for name in schema.attributes}
        for rule in rules:
            ways = [bool(rule.refuse), bool(rule.drop), bool(rule.set), bool(rule.deploy), rule.note]
            assert sum(ways) == 1, rule
            assert rule.refuse in ("", *STAGES)
            assert rule.exact or (rule.about and rule.says and rule.do.endswith(".")), rule
            assert set(rule.drop) | set(rule.set) <= names, rule
            used.add(rule.deploy)
            codes = [rule.when, *(compile(text, "", "eval") for text in expressions(rule.says))]
            asked = {name for code in codes for name in code.co_names} - {"item"}
            assert asked <= {*FUNCTIONS, *BUILT_IN, *names, "opset", "inputs", "outputs", "attributes"}, (rule, asked)
    assert used == {"", *deploy.BY_NAME}
    assert set(table().limits) <= STANDARD
