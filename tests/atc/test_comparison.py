"""The comparison tool finds what was planted, names the layer and the cause."""

import json

import numpy as np
import onnx
import onnx_models as models
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannlab.atc.comparison import compare
from cannlab.atc.errors import AtcError
from cannlab.cli.app import call


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_good_model(tmp_path):
    made = models.residual()
    found = compare(made, models.convert(made, tmp_path), seed=3)
    assert [layer.operator for layer in found.layers] == ["conv1relu1", "conv2addrelu2"]
    assert found.first_bad is None
    for layer in found.layers:
        assert layer.errors.cosine > 0.99999
        assert 0 < layer.errors.relative < 2e-3
        assert layer.own.relative < 2e-3
    assert "All 2 layers are within" in found.text()
    assert found.to_json() == compare(made, models.convert(made, tmp_path), seed=3).to_json()
    assert found.to_json() != compare(made, models.convert(made, tmp_path), seed=4).to_json()


def test_measures():
    from cannlab.atc.comparison import errors

    found = errors(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
    assert found.max_abs == 0.5
    assert found.max_rel == 0.125
    assert found.relative == pytest.approx(0.1)
    assert found.cosine == pytest.approx((9 + 18) / (5 * (9 + 20.25) ** 0.5))
    assert not errors(np.array([np.inf]), np.array([1.0])).finite


def test_planted_overflow(tmp_path):
    """The second of three layers leaves float16's range."""
    made = models.model(
        [
            models.node("MatMul", ["x", "w"], ["a"], "first"),
            models.node("Softmax", ["a"], ["s"], "soft"),
            models.node("MatMul", ["s", "big"], ["b"], "huge"),
            models.node("Softmax", ["b"], ["t"], "soft2"),
            models.node("MatMul", ["t", "v"], ["y"], "last"),
        ],
        {"x": [4, 8]},
        {"y": [4, 8]},
        {
            "w": models.random(8, 8, seed=1),
            "v": models.random(8, 8, seed=3),
            "big": np.abs(models.random(8, 8, seed=2, scale=60000)) + 60000,
        },
    )
    found = compare(made, models.convert(made, tmp_path, "--is_weight_clip=0"))
    bad = found.first_bad
    assert (bad.operator, bad.nodes, bad.tensor) == ("huge", ("huge",), "b")
    assert bad.cause.rule == "atc.layer_overflow"
    assert bad.cause.facts["largest"] == f"{models.reference(_with_output(made, 'b'), _x(made))[1].max():.4g}"
    assert "huge" in found.verdict()
    assert "FIRST BAD" in found.text()


def _x(made):
    return np.random.default_rng([0, 0]).standard_normal((4, 8)).astype(np.float32)


def _with_output(made, name):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    copy.graph.output.append(onnx.ValueInfoProto(name=name))
    return copy


@pytest.mark.parametrize("fused", [False, True])
def test_planted_wrong_normalisation(fused, tmp_path):
    """The om was compiled from a model with another mean and variance."""
    made = models.conv_bn_relu()
    if not fused:
        made.graph.node[2].op_type = "Sigmoid"
        made.graph.node[0].CopyFrom(models.node("Sigmoid", ["x8"], ["c"], "conv"))
        made.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("x8", TensorProto.FLOAT, [1, 8, 8, 8]))
    other = onnx.ModelProto()
    other.CopyFrom(made)
    for item in other.graph.initializer:
        if item.name == "mean":
            item.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(item) + np.float32(0.3), "mean"))
    found = compare(made, models.convert(other, tmp_path))
    bad = found.first_bad
    assert "bn" in bad.nodes
    if fused:
        assert bad.operator == "convrelu"
        assert bad.cause.rule == "atc.layer_other"
    else:
        assert bad.cause.rule == "atc.layer_scaled_channels"
        assert float(bad.cause.facts["factor"]) == pytest.approx(1, abs=0.02)


def test_planted_wrong_scale(tmp_path):
    made = models.model(
        [models.node("Softmax", ["x"], ["s"], "soft"), models.node("MatMul", ["s", "w"], ["y"], "fc")],
        {"x": [4, 8]},
        {"y": [4, 8]},
        {"w": models.random(8, 8, seed=1)},
    )
    other = onnx.ModelProto()
    other.CopyFrom(made)
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(models.random(8, 8, seed=1) * np.float32(1.5), "w"))
    bad = compare(made, models.convert(other, tmp_path)).first_bad
    assert bad.cause.rule == "atc.layer_scaled"
    assert bad.cause.facts["factor"] == "1.5"


def variance_by_squares():
    """E[x^2] - E[x]^2 of values around 100: cancels in float16."""
    return models.model(
        [
            models.node("Add", ["x", "hundred"], ["u"], "shift"),
            models.node("Softmax", ["x"], ["unused"], "soft"),
            models.node("ReduceMean", ["u"], ["m"], "mean", axes=[1]),
            models.node("Mul", ["m", "m"], ["mm"], "square_of_mean"),
            models.node("Mul", ["u", "u"], ["q"], "squares"),
            models.node("ReduceMean", ["q"], ["qm"], "mean_of_squares", axes=[1]),
            models.node("Sub", ["qm", "mm"], ["v"], "variance"),
            models.node("MatMul", ["v", "w"], ["y"], "fc"),
        ],
        {"x": [8, 64]},
        {"y": [8, 4], "unused": [8, 64]},
        {"hundred": np.array(100, np.float32), "w": models.random(1, 4, seed=1)},
    )


def test_planted_loss_in_a_reduction(tmp_path):
    made = variance_by_squares()
    bad = compare(made, models.convert(made, tmp_path)).first_bad
    assert "variance" in bad.nodes
    assert bad.cause.rule == "atc.layer_cancellation"
    assert bad.cause.facts["largest"] > 9000
    good = compare(made, models.convert(made, tmp_path, "--precision_mode=force_fp32", soc="Ascend910B1"))
    assert good.first_bad is None


def test_planted_epsilon(tmp_path):
    """An epsilon of 1e-12 is 0 in float16: a row of zeros divides 0 by 0."""
    made = models.model(
        [
            models.node("ReduceMean", ["x"], ["m"], "mean", axes=[1]),
            models.node("Add", ["m", "eps"], ["e"], "eps_add"),
            models.node("Concat", ["e", "e"], ["c"], "cat", axis=1),
            models.node("Reciprocal", ["e"], ["r"], "reciprocal"),
        ],
        {"x": [2, 4]},
        {"r": [2, 1], "c": [2, 2]},
        {"eps": np.array(1e-12, np.float32)},
    )
    compiled = models.convert(made, tmp_path, "--precision_mode=force_fp16")
    bad = compare(made, compiled, {"x": np.zeros((2, 4), np.float32)}).first_bad
    assert "eps_add" in bad.nodes
    assert bad.cause.rule == "atc.layer_lost_constant"
    assert bad.cause.facts["stored"] == 0


def test_own_error_reads_what_the_chip_stores(tmp_path):
    """Where fp16 saturates an operator that reads 640000 reads 65504: its root is 256 instead of 800."""
    made = models.model(
        [models.node("Mul", ["x", "x"], ["q"], "square"), models.node("Sqrt", ["q"], ["y"], "root")],
        {"x": [4, 8]},
        {"y": [4, 8]},
    )
    (tmp_path / "off.cfg").write_text(json.dumps({"Switch": {"UBFusion": {"ALL": "off"}}}))
    for soc, own in (("Ascend310P3", 1 - 65504**0.5 / 800), ("Ascend910B1", np.inf)):
        compiled = models.convert(made, tmp_path, f"--fusion_switch_file={tmp_path / 'off.cfg'}", soc=soc)
        layer = compare(made, compiled, {"x": np.full((4, 8), 800, np.float32)}).layers[-1]
        assert layer.nodes == ("root",)
        assert layer.own.relative == pytest.approx(own, abs=1e-3)


def test_what_follows_a_bad_layer_is_not_blamed(tmp_path):
    made = variance_by_squares()
    found = compare(made, models.convert(made, tmp_path))
    last = found.layers[-1]
    assert last.nodes == ("fc",)
    assert last.bad
    assert last.own.relative < 2e-3
    assert last.cause.rule == "atc.layer_inherited"


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"z": np.zeros(3)}, "no input 'z'"),
        ({"x": np.zeros((1, 4, 5, 6))}, "[1, 4, 5, 6]"),
    ],
)
def test_bad_inputs(inputs, reason, tmp_path):
    made = models.residual()
    with pytest.raises(AtcError) as caught:
        compare(made, models.convert(made, tmp_path), inputs)
    assert caught.value.diagnosis.rule == "atc.compare_inputs"
    assert reason in caught.value.diagnosis.what


def test_another_model(tmp_path):
    with pytest.raises(AtcError) as caught:
        compare(models.sum_then_quarter(), models.convert(models.perceptron(), tmp_path))
    assert caught.value.diagnosis.rule == "atc.compare_inputs"


def test_notebook_table(tmp_path):
    made = variance_by_squares()
    text = compare(made, models.convert(made, tmp_path))._repr_html_()
    assert text.count("<tr") == text.count("</tr>") == 1 + len(compare(made, models.convert(made, tmp_path)).layers)
    assert "background" in text
    assert "large numbers cancel" in text


def test_command(tmp_path, capsys):
    made = variance_by_squares()
    models.convert(made, tmp_path)
    np.savez(tmp_path / "in.npz", x=models.random(8, 64, seed=9))
    capsys.readouterr()
    assert call(["compare", "net.onnx", "net.om", "--inputs", "in.npz", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["first_bad"] == "v"
    assert data["seed"] is None
    models.convert(models.residual(), tmp_path)
    capsys.readouterr()
    assert call(["compare", "net.onnx", "net.om", "--seed", "7"]) == 0
    assert "seed 7" in capsys.readouterr().out
    assert call(["compare", "nothing.onnx", "net.om"]) == 1
    assert "nothing.onnx" in capsys.readouterr().err


def nested():
    """An If in an If; the outer then-branch squares, the inner ones of the else-branch scale."""

    def info(name, dtype=TensorProto.FLOAT, dims=(4,)):
        return helper.make_tensor_value_info(name, dtype, list(dims))

    def branch(name, nodes, result, constants=()):
        return helper.make_graph(nodes, name, [], [info(result)], list(constants))

    ten = numpy_helper.from_array(np.array(10, np.float32), "ten")
    less = branch("less", [models.node("Neg", ["r"], ["n"], "neg")], "n")
    more = branch("more", [models.node("Mul", ["r", "ten"], ["t"], "times")], "t", [ten])
    square = branch("square", [models.node("Mul", ["r", "r"], ["s"], "square")], "s")
    choice = branch("choice", [helper.make_node("If", ["d"], ["e"], "inner", then_branch=less, else_branch=more)], "e")
    nodes = [
        models.node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("If", ["c"], ["y"], "outer", then_branch=square, else_branch=choice),
    ]
    inputs = [info("x"), info("c", TensorProto.BOOL, ()), info("d", TensorProto.BOOL, ())]
    graph = helper.make_graph(nodes, "net", inputs, [info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(
    ("c", "d", "layer", "others"),
    [(True, True, "s", "nt"), (False, True, "n", "st"), (False, False, "t", "sn")],
)
def test_the_branches_that_are_taken(c, d, layer, others, tmp_path):
    made = nested()
    compiled = models.convert(made, tmp_path)
    inputs = {"x": np.array([1, 2, 3, 300], np.float32), "c": np.array(c), "d": np.array(d)}
    found = compare(made, compiled, inputs)
    tensors = [item.tensor for item in found.layers]
    assert layer in tensors
    assert not set(others) & {*tensors}
    if layer != "s":
        assert found.first_bad is None
        return
    assert found.first_bad.tensor == "s"  # 300 x 300 leaves float16
    assert found.first_bad.cause.rule == "atc.layer_overflow"
    assert found.first_bad.own is not None
