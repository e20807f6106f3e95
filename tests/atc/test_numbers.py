"""Compiled models give what ONNX Runtime gives on the original, within what float16 allows."""

import warnings

import numpy as np
import onnx
import onnx_models as models
import pytest

from cannlab import om


@pytest.fixture(scope="module")
def torch_net():
    """A residual CNN with every layer kind of a classifier, batch norms with real statistics."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, channels, stride):
            super().__init__()
            out = channels * stride
            self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.down = nn.Conv2d(channels, out, 1, stride) if stride > 1 else nn.Identity()

        def forward(self, x):
            y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(y + self.down(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
            self.blocks = nn.Sequential(Block(16, 1), Block(16, 2))
            self.pool = nn.AvgPool2d(2)
            self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
            self.drop = nn.Dropout()
            self.fc1 = nn.Linear(64, 32)
            self.fc2 = nn.Linear(32, 10)

        def forward(self, x):
            x = self.pool(self.blocks(self.stem(x)))
            x = torch.cat([x, torch.sigmoid(self.depthwise(x))], 1)
            x = nn.functional.adaptive_avg_pool2d(x, 1)
            x = self.drop(x.view(x.size(0), -1))
            return torch.softmax(self.fc2(torch.relu(self.fc1(x))), 1)

    torch.manual_seed(0)
    net = Net().eval()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_()
    return net


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_exported_cnn(torch_net, opset, tmp_path):
    import torch

    file = tmp_path / "exported.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            torch_net,
            torch.zeros(1, 3, 32, 32),
            file,
            opset_version=opset,
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "n"}},
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
        )
    made = onnx.load(file)
    kinds = [item.op_type for item in made.graph.node]
    assert kinds.count("BatchNormalization") == 5
    compiled = models.convert(made, tmp_path, "--input_shape=x:4,3,32,32")
    assert compiled.inputs[0].dims == (4, 3, 32, 32)
    assert compiled.outputs[0].name.endswith(":0:y")
    x = models.random(4, 3, 32, 32, seed=7)
    (got,) = models.run(compiled, x)
    (wanted,) = models.reference(made, x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, atol=2e-3)
    types = [task.op_type for task in compiled.tasks]
    assert types.count("Conv2D") == 6
    assert types.count("DepthwiseConv2D") == 1
    assert "BatchNorm" not in types
    assert "Relu" not in types


@pytest.mark.parametrize("opset", [8, 11, 13, 18])
def test_conv_bn_relu(opset, tmp_path):
    made = models.conv_bn_relu(opset)
    x = models.random(1, 3, 8, 8)
    (got,) = models.run(models.convert(made, tmp_path), x)
    np.testing.assert_allclose(got, models.reference(made, x)[0], atol=2e-2, rtol=4e-3)


@pytest.mark.parametrize("opset", [9, 13])
def test_perceptron(opset, tmp_path):
    made = models.perceptron(opset)
    x = models.random(2, 12)
    (got,) = models.run(models.convert(made, tmp_path), x)
    np.testing.assert_allclose(got, models.reference(made, x)[0], atol=2e-3)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_pooling(op_type, tmp_path):
    made = models.model(
        [
            models.node(op_type, ["x"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            models.node("GlobalAveragePool", ["p"], ["g"]),
            models.node("Flatten", ["g"], ["y"]),
        ],
        {"x": [2, 5, 9, 9]},
        {"y": [2, 5]},
    )
    x = models.random(2, 5, 9, 9)
    (got,) = models.run(models.convert(made, tmp_path), x)
    np.testing.assert_allclose(got, models.reference(made, x)[0], atol=3e-3)


def test_batch_norm_alone(tmp_path):
    made = models.model(
        [models.node("BatchNormalization", ["x", "s", "o", "m", "v"], ["y"])],
        {"x": [2, 3, 4, 4]},
        {"y": [2, 3, 4, 4]},
        {
            "s": np.array([1, 2, 0.5], np.float32),
            "o": np.array([0, 1, -1], np.float32),
            "m": np.array([0.1, 0.2, 0.3], np.float32),
            "v": np.array([1, 0.5, 2], np.float32),
        },
    )
    x = models.random(2, 3, 4, 4)
    compiled = models.convert(made, tmp_path)
    np.testing.assert_allclose(models.run(compiled, x)[0], models.reference(made, x)[0], atol=1e-2)
    assert "BNInfer" in [task.op_type for task in compiled.tasks]


def test_several_inputs_and_outputs(tmp_path):
    made = models.model(
        [
            models.node("Concat", ["a", "b"], ["c"], "cat", axis=1),
            models.node("Sub", ["a", "b"], ["d"], "sub"),
            models.node("Split", ["c"], ["e", "f"], "split", axis=1),
        ],
        {"a": [2, 4], "b": [2, 4]},
        {"d": [2, 4], "f": [2, 4], "c": [2, 8]},
    )
    a, b = models.random(2, 4, seed=1), models.random(2, 4, seed=2)
    compiled = models.convert(made, tmp_path)
    assert [tensor.name for tensor in compiled.outputs] == ["sub:0:d", "split:1:f", "cat:0:c"]
    for got, wanted in zip(models.run(compiled, a, b), models.reference(made, a, b), strict=True):
        np.testing.assert_allclose(got, wanted, atol=4e-3)


def test_shape_arithmetic_folds_away(tmp_path):
    made = models.model(
        [
            models.node("Shape", ["x"], ["s"]),
            models.node("Gather", ["s", "zero"], ["n"], axis=0),
            models.node("Unsqueeze", ["n", "axes"], ["n1"]),
            models.node("Concat", ["n1", "minus"], ["target"], axis=0),
            models.node("Reshape", ["x", "target"], ["r"]),
            models.node("Relu", ["r"], ["y"]),
        ],
        {"x": ["n", 3, 4]},
        {"y": ["n", 12]},
        {"zero": np.array(0), "axes": np.array([0]), "minus": np.array([-1])},
    )
    compiled = models.convert(made, tmp_path, "--input_shape=x:5,3,4")
    assert compiled.outputs[0].dims == (5, 12)
    assert [task.op_type for task in compiled.tasks] == ["Cast", "Relu", "Cast"]
    x = models.random(5, 3, 4)
    np.testing.assert_allclose(models.run(compiled, x)[0], np.maximum(x.reshape(5, 12), 0), atol=4e-3)


def test_identity_and_dropout_vanish(tmp_path):
    made = models.model(
        [
            models.node("Identity", ["x"], ["i"]),
            models.node("Dropout", ["i"], ["d"]),
            models.node("Neg", ["d"], ["n"]),
            models.node("Identity", ["n"], ["y"]),
        ],
        {"x": [3]},
        {"y": [3]},
    )
    compiled = models.convert(made, tmp_path)
    assert [task.op_type for task in compiled.tasks] == ["Cast", "Neg", "Cast"]
    x = models.random(3)
    np.testing.assert_array_equal(models.run(compiled, x)[0], -x.astype(np.float16).astype(np.float32))


def test_same_bytes_twice_whatever_the_folder(tmp_path):
    outputs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        compiled = models.convert(models.residual(), folder)
        outputs.append(om.to_bytes(compiled).replace(str(folder).encode(), b""))
        assert str(folder) in compiled.command
    # Only the command line differs, and with it the offsets and digests.
    first, second = (om.read(tmp_path / name / "net.om") for name in ("one", "two"))
    assert first.graph_bytes == second.graph_bytes
    assert first.weight_bytes == second.weight_bytes
    assert first.tasks == second.tasks


def test_same_bytes_for_the_same_command(tmp_path):
    first = om.to_bytes(models.convert(models.residual(), tmp_path))
    assert om.to_bytes(models.convert(models.residual(), tmp_path)) == first


def test_om_on_disk_is_what_was_compiled(tmp_path):
    compiled = models.convert(models.residual(), tmp_path)
    assert om.to_bytes(compiled) == (tmp_path / "net.om").read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_cut_or_altered_om_is_refused(tmp_path):
    models.convert(models.residual(), tmp_path)
    data = (tmp_path / "net.om").read_bytes()
    for sixteenth in range(16):
        with pytest.raises(om.OmError):
            om.read(data[: len(data) * sixteenth // 16])
    altered = bytearray(data)
    for at in range(0, len(data), 97):
        altered[at] ^= 1
        with pytest.raises(om.OmError):
            om.read(altered)
        altered[at] ^= 1
