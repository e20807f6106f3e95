"""Small ONNX models for the tests, built by hand, and ways to compile and run them."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from cannlab import atc, om
from cannlab.machine.executor import Model

DTYPES = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.int64: TensorProto.INT64}


def node(op_type, inputs, outputs, name=None, **attributes):
    return helper.make_node(op_type, inputs, outputs, name or f"{op_type}_{outputs[0]}", **attributes)


def model(nodes, inputs, outputs, constants=None, opset=13, domains=(), dtype=TensorProto.FLOAT):
    """``inputs`` and ``outputs`` are name -> shape, ``constants`` name -> array."""

    def infos(entries):
        return [
            helper.make_tensor_value_info(name, dtype if not isinstance(shape, tuple) else shape[0], list(shape[1]))
            if isinstance(shape, tuple)
            else helper.make_tensor_value_info(name, dtype, shape)
            for name, shape in entries.items()
        ]

    graph = helper.make_graph(
        nodes,
        "net",
        infos(inputs),
        infos(outputs),
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, version) for domain, version in domains)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 8
    return made


def convert(made, tmp_path, *options, soc="Ascend310P3"):
    """Compile a model with atc; returns the om, or fails."""
    source = tmp_path / "net.onnx"
    onnx.save(made, source)
    words = [f"--model={source}", "--framework=5", f"--output={tmp_path / 'net'}", f"--soc_version={soc}"]
    assert atc.main([*words, *options]) == 0
    return om.read(tmp_path / "net.om", soc=soc)


def run(model_om, *inputs):
    """Outputs of an om."""
    return Model(model_om).run(list(inputs))[0]


def reference(made, *inputs):
    """Outputs of the original model in ONNX Runtime."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def random(*shape, seed=0, scale=1.0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def conv_bn_relu(opset=13):
    """Conv, BatchNormalization, Relu."""
    return model(
        [
            node("Conv", ["x", "w", "b"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c", "scale", "offset", "mean", "var"], ["n"], "bn", epsilon=1e-3),
            node("Relu", ["n"], ["y"], "relu"),
        ],
        {"x": [1, 3, 8, 8]},
        {"y": [1, 8, 8, 8]},
        {
            "w": random(8, 3, 3, 3, seed=1, scale=0.3),
            "b": random(8, seed=2),
            "scale": random(8, seed=3) + 1.5,
            "offset": random(8, seed=4),
            "mean": random(8, seed=5),
            "var": random(8, seed=6) ** 2 + 0.5,
        },
        opset,
    )


def residual():
    """Two convolutions, the second with an Add of the input and a Relu."""
    return model(
        [
            node("Conv", ["x", "w1"], ["c1"], "conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Relu", ["c1"], ["r1"], "relu1"),
            node("Conv", ["r1", "w2"], ["c2"], "conv2", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Add", ["c2", "x"], ["a"], "add"),
            node("Relu", ["a"], ["y"], "relu2"),
        ],
        {"x": [1, 4, 6, 6]},
        {"y": [1, 4, 6, 6]},
        {"w1": random(4, 4, 3, 3, seed=1, scale=0.3), "w2": random(4, 4, 3, 3, seed=2, scale=0.3)},
    )


def perceptron(opset=13):
    """Gemm, Relu, Gemm, Softmax."""
    return model(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"], "fc1", transB=1),
            node("Relu", ["h"], ["r"], "relu"),
            node("Gemm", ["r", "w2", "b2"], ["z"], "fc2", alpha=0.5, beta=2.0),
            node("Softmax", ["z"], ["y"], "softmax", axis=1),
        ],
        {"x": [2, 12]},
        {"y": [2, 5]},
        {
            "w1": random(16, 12, seed=1, scale=0.3),
            "b1": random(16, seed=2),
            "w2": random(16, 5, seed=3, scale=0.3),
            "b2": random(5, seed=4),
        },
        opset,
    )


def sum_then_quarter():
    """(x + x) * 0.25: overflows float16 in the middle where x is 60000."""
    return model(
        [node("Add", ["x", "x"], ["s"], "add"), node("Mul", ["s", "q"], ["y"], "mul")],
        {"x": [4]},
        {"y": [4]},
        {"q": np.array(0.25, np.float32)},
    )


def depthwise():
    """Depthwise Conv, Relu."""
    return model(
        [
            node("Conv", ["x", "w"], ["c"], "dw", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=4),
            node("Relu", ["c"], ["y"], "relu"),
        ],
        {"x": [1, 4, 6, 6]},
        {"y": [1, 4, 6, 6]},
        {"w": random(4, 1, 3, 3, seed=1, scale=0.3)},
    )
