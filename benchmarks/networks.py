"""Networks of random weights for the benchmarks."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Builder:
    """Nodes and weights one after another."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op_type: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}.y"], name, **attributes))
        return f"{name}.y"

    def weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def conv(self, x: str, channels: int, out: int, kernel: int, stride: int, name: str) -> str:
        """Convolution and normalisation."""
        scale = (2 / (channels * kernel**2)) ** 0.5
        values = self.random.standard_normal((out, channels, kernel, kernel), dtype=np.float32) * np.float32(scale)
        pads = [kernel // 2] * 4
        shape = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": pads}
        y = self.add("Conv", [x, self.weight(f"{name}.w", values)], name, **shape)
        numbers = [self.random.random(out) + 0.5, self.random.standard_normal(out) * 0.1]
        numbers += [self.random.standard_normal(out) * 0.1, self.random.random(out) + 0.5]
        parameters = [self.weight(f"{name}.{key}", value) for key, value in zip("somv", numbers, strict=True)]
        return self.add("BatchNormalization", [y, *parameters], f"{name}.bn")

    def model(self, shape: list[int], y: str, out: list[int]) -> onnx.ModelProto:
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "net", [info("x", TensorProto.FLOAT, shape)], [info(y, TensorProto.FLOAT, out)], self.weights
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        return model


def bottlenecks(
    batch: int = 1, size: int = 224, width: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3)
) -> onnx.ModelProto:
    """A residual network of bottleneck blocks; by default 25.6 million weights (102 MB), 53 convolutions."""
    b = _Builder()
    x = b.add("Relu", [b.conv("x", 3, width, 7, 2, "stem")], "stem_relu")
    x = b.add("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage, count in enumerate(blocks):
        middle, out = width << stage, 4 * width << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            name = f"s{stage}b{block}"
            skip = x if block else b.conv(x, channels, out, 1, stride, f"{name}d")
            y = b.add("Relu", [b.conv(x, channels, middle, 1, 1, f"{name}c1")], f"{name}r1")
            y = b.add("Relu", [b.conv(y, middle, middle, 3, stride, f"{name}c2")], f"{name}r2")
            y = b.conv(y, middle, out, 1, 1, f"{name}c3")
            x = b.add("Relu", [b.add("Add", [y, skip], f"{name}a")], f"{name}r3")
            channels = out
    x = b.add("Flatten", [b.add("GlobalAveragePool", [x], "gap")], "flat")
    fc = b.weight("fc.w", b.random.standard_normal((channels, 1000), dtype=np.float32) * np.float32(0.02))
    x = b.add("Gemm", [x, fc, b.weight("fc.b", np.zeros(1000))], "fc")
    return b.model([batch, 3, size, size], x, [batch, 1000])


def products(megabytes: int, width: int = 4096) -> onnx.ModelProto:
    """A chain of square products of so many MB of weights altogether."""
    b = _Builder()
    x = "x"
    for number in range(max(1, megabytes * 1_000_000 // (4 * width * width))):
        values = b.random.standard_normal((width, width), dtype=np.float32) * np.float32(width**-0.5)
        x = b.add("Relu", [b.add("MatMul", [x, b.weight(f"w{number}", values)], f"m{number}")], f"r{number}")
    return b.model([1, width], x, [1, width])
