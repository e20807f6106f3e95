"""The operators that are left of small networks of each family, exported by torch."""

import warnings
from collections import Counter

import numpy as np
import onnx
import onnx_models as models
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn


class Residual(nn.Module):
    """ResNet's first stage: stem, a plain block, one with a projection, the head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b))
            for a, b, k, s in ((16, 16, 3, 1), (16, 16, 3, 1), (16, 32, 3, 2), (32, 32, 3, 1), (16, 32, 1, 2))
        )
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x)
        a, b, c, d, down = self.convs
        x = torch.relu(b(torch.relu(a(x))) + x)
        x = torch.relu(d(torch.relu(c(x))) + down(x))
        return self.fc(x.mean([2, 3]))


class Inverted(nn.Module):
    """MobileNetV2's block: expand, depthwise, project, add."""

    def __init__(self):
        super().__init__()

        def part(a, b, k, g):
            return nn.Sequential(nn.Conv2d(a, b, k, 1, k // 2, groups=g, bias=False), nn.BatchNorm2d(b))

        self.body = nn.Sequential(part(8, 32, 1, 1), nn.ReLU6(), part(32, 32, 3, 32), nn.ReLU6(), part(32, 8, 1, 1))

    def forward(self, x):
        return x + self.body(x)


class Fire(nn.Module):
    """SqueezeNet's block."""

    def __init__(self):
        super().__init__()
        self.squeeze, self.one, self.three = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.one(x)), torch.relu(self.three(x))], 1)


class Dense(nn.Module):
    """DenseNet's layer: normalisation first."""

    def __init__(self):
        super().__init__()
        self.n1, self.c1 = nn.BatchNorm2d(8), nn.Conv2d(8, 16, 1, bias=False)
        self.n2, self.c2 = nn.BatchNorm2d(16), nn.Conv2d(16, 4, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.c2(torch.relu(self.n2(self.c1(torch.relu(self.n1(x))))))], 1)


class Swish(nn.Module):
    """EfficientNet's start, and VGG's plain pair."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.leaky = nn.Sequential(nn.Conv2d(8, 8, 1), nn.LeakyReLU(0.1))

    def forward(self, x):
        return self.leaky(torch.relu(self.b(nn.functional.silu(self.a(x)))))


class Next(nn.Module):
    """ConvNeXt's block."""

    def __init__(self):
        super().__init__()
        self.dw, self.norm = nn.Conv2d(16, 16, 7, padding=3, groups=16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.gamma = nn.Parameter(torch.rand(16))

    def forward(self, x):
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        return x + (self.down(nn.functional.gelu(self.up(y))) * self.gamma).permute(0, 3, 1, 2)


class Encoder(nn.Module):
    """A layer of BERT (norms after) or ViT (norms before)."""

    def __init__(self, before):
        super().__init__()
        self.before = before
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def attention(self, x):
        q, k, v = (m(x).view(2, 16, 2, 16).transpose(1, 2) for m in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(-1, -2) / 4, -1)
        return self.o((scores @ v).transpose(1, 2).reshape(2, 16, 32))

    def forward(self, x):
        if self.before:
            x = x + self.attention(self.n1(x))
            return x + self.down(nn.functional.gelu(self.up(self.n2(x))))
        x = self.n1(x + self.attention(x))
        return self.n2(x + self.down(nn.functional.gelu(self.up(x))))


IMAGE = (1, 8, 8, 8)
FAMILIES = {
    "residual": (Residual, (1, 3, 32, 32), {"Conv2D": 6, "ReduceMean": 1, "MatMulV2": 1}, "Ascend310P3"),
    "inverted": (Inverted, IMAGE, {"Conv2D": 2, "DepthwiseConv2D": 1}, "Ascend310P3"),
    "fire": (Fire, IMAGE, {"Conv2D": 3, "ConcatD": 1}, "Ascend310P3"),
    "dense": (Dense, IMAGE, {"BNInfer": 1, "Relu": 1, "Conv2D": 2, "ConcatD": 1}, "Ascend310P3"),
    "swish": (Swish, IMAGE, {"Conv2D": 3}, "Ascend310P3"),
    "next": (
        Next,
        (1, 16, 8, 8),
        {"DepthwiseConv2D": 1, "Transpose": 2, "LayerNorm": 1, "MatMulV2": 2, "Add": 1},
        "Ascend310P3",
    ),
    "bert": (
        lambda: Encoder(before=False),
        (2, 16, 32),
        {"MatMulV2": 6, "BatchMatMulV2": 2, "SoftmaxV2": 1, "LayerNorm": 2},
        "Ascend310P3",
    ),
    "bert on A2": (
        lambda: Encoder(before=False),
        (2, 16, 32),
        {"MatMulV2": 6, "BatchMatMulV2": 2, "SoftmaxV2": 1, "AddLayerNorm": 2},
        "Ascend910B1",
    ),
    "vit": (
        lambda: Encoder(before=True),
        (2, 16, 32),
        {"MatMulV2": 6, "BatchMatMulV2": 2, "SoftmaxV2": 1, "LayerNorm": 2},
        "Ascend310P3",
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("opset", [13, 17])
def test_family(family, opset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build, shape, operators, soc = FAMILIES[family]
    torch.manual_seed(0)
    net = build().eval()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    keep = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, torch.zeros(shape), "f.onnx", opset_version=opset, dynamo=False, **keep)
    made = onnx.load("f.onnx")
    compiled = models.convert(
        made, tmp_path, "--input_shape=" + made.graph.input[0].name + ":" + str(shape)[1:-1], soc=soc
    )
    own = [task for task in compiled.tasks if task.op_type != "TransData" and task.nodes]
    assert Counter(task.op_type for task in own) == operators
    kernels = [item for item in made.graph.node if item.op_type not in ("Constant", "Identity", "Reshape", "Shape")]
    assert len(own) < len(kernels)
    x = models.random(*shape, seed=3)
    (got,), (wanted,) = models.run(compiled, x), models.reference(made, x)
    np.testing.assert_allclose(got, wanted, atol=2e-2)
