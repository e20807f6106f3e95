"""How fast atc compiles and the executor runs, against ONNX Runtime on the same float16 model.

    python benchmarks/bench_atc.py

Prints, for a ResNet-18-like network at several sizes: seconds of one conversion, milliseconds of one run, and the
ratio to ONNX Runtime running the om's own float16 graph (which it computes in float32 without rounding between
operators) with the same number of threads.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from cannlab import atc, om
from cannlab.machine.executor import THREADS, Model

REPEATS = 15


def resnet(size: int, width: int) -> onnx.ModelProto:
    """Four stages of two residual blocks, random weights, one image of ``size``."""
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def conv(x: str, channels: int, out: int, kernel: int, stride: int, name: str) -> str:
        values = random.standard_normal((out, channels, kernel, kernel)) * (2 / (channels * kernel**2)) ** 0.5
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"{name}.w"))
        weights.append(numpy_helper.from_array(np.zeros(out, np.float32), f"{name}.b"))
        pads = [kernel // 2] * 4
        inputs = [x, f"{name}.w", f"{name}.b"]
        shape = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": pads}
        nodes.append(helper.make_node("Conv", inputs, [f"{name}.y"], name, **shape))
        return f"{name}.y"

    def add(op_type: str, inputs: list[str], name: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op_type, inputs, [f"{name}.y"], name, **attributes))
        return f"{name}.y"

    x = add("Relu", [conv("x", 3, width, 7, 2, "stem")], "stem_relu")
    x = add("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage and not block else 1
            out = width << stage
            name = f"s{stage}b{block}"
            skip = conv(x, channels, out, 1, stride, f"{name}d") if stride > 1 else x
            y = add("Relu", [conv(x, channels, out, 3, stride, f"{name}c1")], f"{name}r1")
            y = conv(y, out, out, 3, 1, f"{name}c2")
            x = add("Relu", [add("Add", [y, skip], f"{name}a")], f"{name}r2")
            channels = out
    x = add("Flatten", [add("GlobalAveragePool", [x], "gap")], "flat")
    weights.append(numpy_helper.from_array(random.standard_normal((channels, 1000)).astype(np.float32) * 0.05, "fc.w"))
    weights.append(numpy_helper.from_array(np.zeros(1000, np.float32), "fc.b"))
    x = add("Gemm", [x, "fc.w", "fc.b"], "fc")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "resnet",
        [info("x", TensorProto.FLOAT, [1, 3, size, size])],
        [info(x, TensorProto.FLOAT, [1, 1000])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def best(run: Callable[[], object]) -> float:
    """Shortest of several runs, ms."""
    run()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def main() -> int:
    print(f"{'image':>6} {'width':>6} {'atc s':>7} {'load s':>7} {'ours ms':>8} {'ORT fp16 ms':>12} {'ratio':>6}")
    for size, width in ((64, 32), (224, 32), (224, 64)):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "net.onnx"
            onnx.save(resnet(size, width), source)
            words = [f"--model={source}", "--framework=5", f"--output={folder}/net", "--soc_version=Ascend310P3"]
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                status = atc.main([*words, "--export_compile_stat=0"])
            compile_s = time.perf_counter() - start
            if status:
                return status
            compiled = om.read(f"{folder}/net.om")
            start = time.perf_counter()
            model = Model(compiled)
            load_s = time.perf_counter() - start
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = THREADS
            options.log_severity_level = 3
            plain = onnxruntime.InferenceSession(
                compiled.graph(weights=True).SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            x = np.random.default_rng(1).standard_normal((1, 3, size, size)).astype(np.float32)
            ours = best(lambda model=model, x=x: model.run([x]))
            theirs = best(lambda plain=plain, x=x: plain.run(None, {"x": x}))
            figures = f"{ours:>8.2f} {theirs:>12.2f} {ours / theirs:>6.2f}"
            print(f"{size:>6} {width:>6} {compile_s:>7.2f} {load_s:>7.2f} {figures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
