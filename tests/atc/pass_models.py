"""For every fusion pass a small model that it changes, and the operators before and after."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_models as models
from onnx import TensorProto
from onnx_models import model, node, random

HALF = TensorProto.FLOAT16


@dataclass
class Case:
    """``before`` and ``after`` are the GE types of the operators; ``needs``: passes that it builds on."""

    build: Callable[[], onnx.ModelProto]
    before: list[str]
    after: list[str]
    needs: tuple[str, ...] = ()
    times: int = 1
    positive: bool = False

    def inputs(self, made, seed=5):
        found = []
        for number, info in enumerate(made.graph.input):
            dims = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            dtype = np.float16 if info.type.tensor_type.elem_type == HALF else np.float32
            found.append(random(*dims, seed=seed + number, dtype=dtype))
        return found


def conv(x, y, name, *more, **attributes):
    return node("Conv", [x, *more], [y], name, **attributes)


X = {"x": [1, 4, 6, 6]}
W = {"w": random(4, 4, 3, 3, seed=1, scale=0.3)}
SAME = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def after_conv(*nodes, y="y", shape=(1, 4, 6, 6), constants=None, opset=13, inputs=None):
    """A convolution of x to c, and what follows."""
    first = conv("x", "c", "conv", "w", **SAME)
    return model([first, *nodes], {**X, **(inputs or {})}, {y: list(shape)}, {**W, **(constants or {})}, opset)


def channels(seed, low=0.0):
    return np.abs(random(4, 1, 1, seed=seed)) + low if low else random(4, 1, 1, seed=seed)


def bias_add():
    return after_conv(node("Add", ["c", "k"], ["y"], "add"), constants={"k": channels(3)})


def scale():
    return after_conv(
        node("Mul", ["c", "k"], ["m"], "mul"),
        node("Add", ["m", "o"], ["y"], "add"),
        constants={"k": channels(3), "o": channels(4)},
    )


def conv_bn_with_cast():
    """A float16 convolution, a Cast, an Identity, a float32 normalisation."""
    return model(
        [
            conv("x", "c", "conv", "w", **SAME),
            node("Cast", ["c"], ["f"], "cast", to=TensorProto.FLOAT),
            node("Identity", ["f"], ["i"], "identity"),
            node("BatchNormalization", ["i", "s", "o", "m", "v"], ["y"], "bn"),
        ],
        {"x": (HALF, [1, 4, 6, 6])},
        {"y": (TensorProto.FLOAT, [1, 4, 6, 6])},
        {"w": random(4, 4, 3, 3, seed=1, scale=0.1, dtype=np.float16), **norm(4)},
    )


def norm(count):
    return {
        "s": random(count, seed=3) + 1.5,
        "o": random(count, seed=4),
        "m": random(count, seed=5),
        "v": random(count, seed=6) ** 2 + 0.5,
    }


def batchnorm():
    return model([node("BatchNormalization", ["x", "s", "o", "m", "v"], ["y"], "bn")], X, {"y": X["x"]}, norm(4))


def deconv_bn():
    return model(
        [
            node("ConvTranspose", ["x", "w"], ["c"], "deconv", kernel_shape=[2, 2], strides=[2, 2]),
            node("BatchNormalization", ["c", "s", "o", "m", "v"], ["y"], "bn"),
        ],
        X,
        {"y": [1, 3, 12, 12]},
        {"w": random(4, 3, 2, 2, seed=1, scale=0.3), **norm(3)},
    )


def composed_batchnorm():
    return model(
        [
            node("Sub", ["x", "m"], ["a"], "sub"),
            node("Div", ["a", "d"], ["b"], "div"),
            node("Mul", ["b", "g"], ["e"], "mul"),
            node("Add", ["e", "o"], ["y"], "add"),
        ],
        X,
        {"y": X["x"]},
        {"m": channels(1), "d": channels(2, 0.5), "g": channels(3), "o": channels(4)},
    )


def common():
    return model(
        [
            node("Exp", ["x"], ["a"], "exp1"),
            node("Exp", ["x"], ["b"], "exp2"),
            node("Softmax", ["a"], ["s"], "soft", axis=1),
            node("Mul", ["s", "b"], ["y"], "mul"),
        ],
        {"x": [2, 8]},
        {"y": [2, 8]},
    )


def cast_to_itself():
    return model(
        [node("Cast", ["x"], ["a"], "cast", to=TensorProto.FLOAT), node("Softmax", ["a"], ["y"], "soft", axis=1)],
        {"x": [2, 8]},
        {"y": [2, 8]},
    )


def cast_relu_cast():
    return model(
        [
            node("Softmax", ["x"], ["s"], "soft", axis=1),
            node("Cast", ["s"], ["a"], "up", to=TensorProto.FLOAT),
            node("Relu", ["a"], ["r"], "relu"),
            node("Cast", ["r"], ["b"], "down", to=HALF),
            node("Softmax", ["b"], ["y"], "soft2", axis=1),
        ],
        {"x": (HALF, [2, 8])},
        {"y": (HALF, [2, 8])},
    )


def split_of_one():
    return model(
        [node("Split", ["x"], ["a"], "split", axis=1), node("Softmax", ["a"], ["y"], "soft", axis=1)],
        {"x": [2, 8]},
        {"y": [2, 8]},
    )


def grouped():
    return model(
        [
            node("Split", ["x"], ["a", "b"], "split", axis=1),
            conv("a", "c", "conv1", "w1", "b1", **SAME),
            conv("b", "d", "conv2", "w2", "b2", **SAME),
            node("Concat", ["c", "d"], ["y"], "cat", axis=1),
        ],
        X,
        {"y": [1, 6, 6, 6]},
        {
            "w1": random(3, 2, 3, 3, seed=1),
            "w2": random(3, 2, 3, 3, seed=2),
            "b1": random(3, seed=3),
            "b2": random(3, seed=4),
        },
    )


def empty_mean():
    return model(
        [
            node("Softmax", ["x"], ["s"], "soft", axis=3),
            node("ReduceMean", ["s"], ["m"], "mean", axes=[2], keepdims=0),
            node("Softmax", ["m"], ["y"], "soft2", axis=1),
        ],
        {"x": [1, 4, 1, 6]},
        {"y": [1, 4, 6]},
    )


def empty_sum():
    return model(
        [node("ReduceSum", ["x", "axes"], ["m"], "sum"), node("Softmax", ["m"], ["y"], "soft2", axis=1)],
        {"x": [1, 4, 1, 6]},
        {"y": [1, 4, 1, 6]},
        {"axes": np.array([2], np.int64)},
    )


def global_pool():
    return after_conv(node("GlobalAveragePool", ["c"], ["y"], "pool"), shape=(1, 4, 1, 1))


def slices():
    return model(
        [node("Slice", ["x", "b", "e", "a"], ["y"], "slice")],
        {"x": [4, 8]},
        {"y": [4, 5]},
        {"b": np.array([1], np.int64), "e": np.array([6], np.int64), "a": np.array([1], np.int64)},
    )


def pad_conv(group=1, value=0.0, fill=(0, 0, 1, 2, 0, 0, 3, 1)):
    return model(
        [
            node("Pad", ["x", "p", "f"], ["a"], "pad"),
            conv("a", "y", "conv", "w", kernel_shape=[3, 3], pads=[1, 0, 0, 1], group=group),
        ],
        X,
        {"y": None},
        {
            "p": np.array(fill, np.int64),
            "f": np.array(value, np.float32),
            "w": random(4, 4 // group, 3, 3, seed=1, scale=0.3),
        },
    )


def pad_pool(first="Relu"):
    return model(
        [
            node(first, ["x"], ["r"], "first"),
            node("Pad", ["r", "p"], ["a"], "pad"),
            node("MaxPool", ["a"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
        ],
        X,
        {"y": [1, 4, 3, 3]},
        {"p": np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64)},
    )


def layer_norm(shape=(2, 5, 16), affine=True, cast=False, prefix="", x="x", y="y", square="Pow"):
    """Nodes and constants of a LayerNorm made of small operators."""
    p = prefix
    count = shape[-1]
    nodes = [
        node("ReduceMean", [x], [p + "mean"], p + "mean", axes=[-1]),
        node("Sub", [x, p + "mean"], [p + "d"], p + "sub"),
        node("Pow", [p + "d", p + "two"], [p + "q"], p + "pow")
        if square == "Pow"
        else node("Mul", [p + "d", p + "d"], [p + "q"], p + "square"),
        node("ReduceMean", [p + "q"], [p + "var"], p + "var", axes=[-1]),
        node("Add", [p + "var", p + "eps"], [p + "e"], p + "eps_add"),
        node("Sqrt", [p + "e"], [p + "root"], p + "sqrt"),
        node("Div", [p + "d", p + "root"], [p + "n" if affine else y], p + "div"),
    ]
    if affine:
        nodes += [
            node("Mul", [p + "n", p + "g"], [p + "h"], p + "gamma"),
            node("Add", [p + "h", p + "o"], [y], p + "beta"),
        ]
    constants = {
        p + "two": np.array(2, np.float32),
        p + "eps": np.array(1e-5, np.float32),
        p + "g": random(count, seed=7) + 1,
        p + "o": random(count, seed=8),
    }
    return nodes, constants


def layer_norm_model(**options):
    nodes, constants = layer_norm(**options)
    used = {name for item in nodes for name in item.input}
    kept = {name: value for name, value in constants.items() if name in used}
    return model(nodes, {"x": [2, 5, 16]}, {"y": [2, 5, 16]}, kept)


def add_layer_norm():
    nodes, constants = layer_norm(x="s")
    return model(
        [node("Add", ["x", "z"], ["s"], "residual"), *nodes[:-1], nodes[-1], node("Exp", ["s"], ["t"], "exp")],
        {"x": [2, 5, 16], "z": [2, 5, 16]},
        {"y": [2, 5, 16], "t": [2, 5, 16]},
        constants,
    )


def gelu_nodes(x="x", y="y", prefix=""):
    p = prefix
    return [
        node("Div", [x, p + "r"], [p + "a"], p + "g_div"),
        node("Erf", [p + "a"], [p + "b"], p + "g_erf"),
        node("Add", [p + "b", p + "one"], [p + "c1"], p + "g_add"),
        node("Mul", [x, p + "c1"], [p + "e1"], p + "g_mul"),
        node("Mul", [p + "e1", p + "half"], [y], p + "g_half"),
    ], {
        p + "r": np.array(2**0.5, np.float32),
        p + "one": np.array(1, np.float32),
        p + "half": np.array(0.5, np.float32),
    }


def gelu():
    nodes, constants = gelu_nodes()
    return model(nodes, {"x": [4, 8]}, {"y": [4, 8]}, constants)


def gelu_tanh():
    return model(
        [
            node("Pow", ["x", "three"], ["a"]),
            node("Mul", ["k", "a"], ["b"]),
            node("Add", ["x", "b"], ["c"]),
            node("Mul", ["c", "s"], ["d"]),
            node("Tanh", ["d"], ["e"]),
            node("Add", ["e", "one"], ["f"]),
            node("Mul", ["x", "half"], ["g"]),
            node("Mul", ["g", "f"], ["y"]),
        ],
        {"x": [4, 8]},
        {"y": [4, 8]},
        {
            "three": np.array(3, np.float32),
            "k": np.array(0.044715, np.float32),
            "s": np.array((2 / np.pi) ** 0.5, np.float32),
            "one": np.array(1, np.float32),
            "half": np.array(0.5, np.float32),
        },
    )


def softmax():
    return model(
        [
            node("ReduceMax", ["x"], ["m"], "max", axes=[-1]),
            node("Sub", ["x", "m"], ["d"], "sub"),
            node("Exp", ["d"], ["e"], "exp"),
            node("ReduceSum", ["e", "axes"], ["s"], "sum"),
            node("Div", ["e", "s"], ["y"], "div"),
        ],
        {"x": [4, 8]},
        {"y": [4, 8]},
        {"axes": np.array([-1], np.int64)},
    )


def division():
    return model([node("Div", ["x", "k"], ["y"], "div")], {"x": [4, 8]}, {"y": [4, 8]}, {"k": np.array(8, np.float32)})


def matmul_transposed(perm=(0, 2, 1)):
    return model(
        [node("Transpose", ["z"], ["t"], "transpose", perm=list(perm)), node("MatMul", ["x", "t"], ["y"], "matmul")],
        {"x": [2, 4, 8], "z": [2, 6, 8]},
        {"y": [2, 4, 6]},
    )


def many(op_type):
    count = 70
    names = [f"p{number}" for number in range(count)]
    if op_type == "Concat":
        cut = [node("Slice", ["x", f"b{n}", f"e{n}", "axis"], [names[n]], f"slice{n}") for n in range(count)]
        constants = {f"b{n}": np.array([count - 1 - n], np.int64) for n in range(count)}
        constants |= {f"e{n}": np.array([count - n], np.int64) for n in range(count)}
        return model(
            [*cut, node("Concat", names, ["y"], "cat", axis=1)],
            {"x": [2, count]},
            {"y": [2, count]},
            {**constants, "axis": np.array([1], np.int64)},
        )
    return model(
        [node("Split", ["x"], names, "split", axis=1), node("Concat", [*names[1::2], names[0]], ["y"], "cat", axis=1)],
        {"x": [2, count]},
        {"y": [2, count // 2 + 1]},
    )


def linear(*after, shape=(3, 12), constants=None, inputs=None, y=(3, 16)):
    return model(
        [node("MatMul", ["x", "w"], ["p"], "matmul"), *after],
        {"x": list(shape), **(inputs or {})},
        {"y": list(y)},
        {"w": random(12, 16, seed=1, scale=0.3), **(constants or {})},
    )


def matmul_bias():
    return linear(node("Add", ["p", "b"], ["y"], "bias"), constants={"b": random(16, seed=2)})


def matmul_cast():
    return model(
        [node("MatMul", ["x", "w"], ["p"], "matmul"), node("Cast", ["p"], ["y"], "cast", to=TensorProto.FLOAT)],
        {"x": (HALF, [3, 12])},
        {"y": (TensorProto.FLOAT, [3, 16])},
        {"w": random(12, 16, seed=1, scale=0.1, dtype=np.float16)},
    )


def matmul_rows():
    return linear(node("Softmax", ["p"], ["y"], "soft", axis=-1), shape=(2, 3, 12), y=(2, 3, 16))


def heads(first="Softmax"):
    return model(
        [
            node(first, ["x"], ["s"], "first"),
            node("Reshape", ["s", "shape"], ["r"], "reshape"),
            node("Transpose", ["r"], ["y"], "transpose", perm=[0, 2, 1, 3]),
        ],
        {"x": [1, 16, 32]},
        {"y": [1, 2, 16, 16]},
        {"shape": np.array([1, 16, 2, 16], np.int64)},
    )


def unheads():
    return model(
        [
            node("Transpose", ["x"], ["t"], "transpose", perm=[0, 2, 1, 3]),
            node("Reshape", ["t", "shape"], ["r"], "reshape"),
            node("Softmax", ["r"], ["y"], "soft", axis=-1),
        ],
        {"x": [1, 2, 16, 16]},
        {"y": [1, 16, 32]},
        {"shape": np.array([1, 16, 32], np.int64)},
    )


def stem():
    return model(
        [
            conv("x", "c", "conv", "w", kernel_shape=[7, 7], strides=[2, 2], pads=[3, 3, 3, 3]),
            node("Relu", ["c"], ["r"], "relu"),
            node("MaxPool", ["r"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        ],
        {"x": [1, 3, 32, 32]},
        {"y": [1, 8, 8, 8]},
        {"w": random(8, 3, 7, 7, seed=1, scale=0.1)},
    )


def scores():
    return model(
        [
            node("MatMul", ["x", "z"], ["p"], "matmul"),
            node("Mul", ["p", "k"], ["m"], "scale"),
            node("Add", ["m", "mask"], ["y"], "mask"),
        ],
        {"x": [2, 4, 8], "z": [2, 8, 6], "mask": [2, 1, 6]},
        {"y": [2, 4, 6]},
        {"k": np.array(0.125, np.float32)},
    )


def projected(batch=False):
    """A product, then the change to heads."""
    return model(
        [
            node("MatMul", ["x", "z" if batch else "w"], ["p"], "matmul"),
            node("Reshape", ["p", "shape"], ["r"], "reshape"),
            node("Transpose", ["r"], ["y"], "transpose", perm=[0, 2, 1, 3]),
        ],
        {"x": [1, 16, 12], **({"z": [1, 12, 32]} if batch else {})},
        {"y": [1, 2, 16, 16]},
        {"shape": np.array([1, 16, 2, 16], np.int64), **({} if batch else {"w": random(12, 32, seed=1, scale=0.3)})},
    )


def swish():
    return after_conv(node("Sigmoid", ["c"], ["s"], "sigmoid"), node("Mul", ["c", "s"], ["y"], "mul"))


def depthwise_clip():
    return model(
        [
            conv("x", "c", "dw", "w", group=4, **SAME),
            node("Clip", ["c", "low", "high"], ["y"], "relu6"),
        ],
        X,
        {"y": X["x"]},
        {
            "w": random(4, 1, 3, 3, seed=1),
            "low": np.array(0, np.float32),
            "high": np.array(6, np.float32),
        },
    )


def reduce_then():
    return model(
        [node("ReduceMean", ["x"], ["m"], "mean", axes=[1]), node("Sqrt", ["m"], ["a"], "root"),
         node("Where", ["c", "a", "m2"], ["y"], "where")],
        {"x": [2, 8], "m2": [2, 1]},
        {"y": [2, 1]},
        {"c": np.array([[False], [False]])},
    )  # fmt: skip


def mean_and_scale():
    return model(
        [node("ReduceMean", ["x"], ["m"], "mean", axes=[1]), node("Tanh", ["m"], ["y"], "tanh")],
        {"x": [2, 8]},
        {"y": [2, 1]},
    )


def chain():
    names = ["x", *"abcdefg", "y"]
    kinds = ["Tanh", "Exp", "Neg", "Sigmoid", "Abs", "Tanh", "Neg", "Exp"]
    return model(
        [node(kind, [names[n]], [names[n + 1]], f"n{n}") for n, kind in enumerate(kinds)], {"x": [4]}, {"y": [4]}
    )


def eltwise_cast():
    return model(
        [node("Mul", ["x", "z"], ["m"], "mul"), node("Cast", ["m"], ["y"], "cast", to=HALF)],
        {"x": [2, 8], "z": [2, 8]},
        {"y": (HALF, [2, 8])},
    )


LN = ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "RealDiv", "Mul", "Add"]

CASES = {
    "CommonSubexpressionEliminationPass": Case(common, ["Exp", "Exp", "SoftmaxV2", "Mul"], ["Exp", "SoftmaxV2", "Mul"]),
    "CastRemoveFusionPass": Case(cast_to_itself, ["Cast", "SoftmaxV2"], ["SoftmaxV2"]),
    "CastReluCastFusionPass": Case(
        cast_relu_cast, ["SoftmaxV2", "Cast", "Relu", "Cast", "SoftmaxV2"], ["SoftmaxV2", "Relu", "SoftmaxV2"]
    ),
    "ASplitNodeRemoveFusionPass": Case(split_of_one, ["SplitD", "SoftmaxV2"], ["SoftmaxV2"]),
    "AABiasaddConvFusion": Case(bias_add, ["Conv2D", "Add"], ["Conv2D"]),
    "ASplitConv2dConcatPass": Case(grouped, ["SplitD", "Conv2D", "Conv2D", "ConcatD"], ["Conv2D"]),
    "ABatchnormFusionPass": Case(composed_batchnorm, ["Sub", "RealDiv", "Mul", "Add"], ["BatchNorm"]),
    "ConvBatchnormFusionPass": Case(conv_bn_with_cast, ["Conv2D", "Cast", "BatchNorm"], ["Conv2D", "Cast"]),
    "Conv2DTransposeBatchnormFusionPass": Case(deconv_bn, ["Conv2DTranspose", "BatchNorm"], ["Conv2DTranspose"]),
    "ConvScaleFusionPass": Case(scale, ["Conv2D", "Mul", "Add"], ["Conv2D"]),
    "AReduceMeanFusionPass": Case(empty_mean, ["SoftmaxV2", "ReduceMean", "SoftmaxV2"], ["SoftmaxV2", "SoftmaxV2"]),
    "AReduceSumFusionPass": Case(empty_sum, ["ReduceSum", "SoftmaxV2"], ["SoftmaxV2"]),
    "Globalavgpoolpass": Case(global_pool, ["Conv2D", "ReduceMean"], ["Conv2D", "ReduceMean"]),
    "ConstToAttrPass": Case(slices, ["StridedSliceD"], ["StridedSliceD"]),
    "PadMaxPoolFusionPass": Case(pad_pool, ["Relu", "PadV3", "MaxPoolV3"], ["Relu", "MaxPoolV3"]),
    "PadConv2dFusionPass": Case(pad_conv, ["PadV3", "Conv2D"], ["Conv2D"]),
    "PadDepthwiseConv2dFusionPass": Case(lambda: pad_conv(4), ["PadV3", "DepthwiseConv2D"], ["DepthwiseConv2D"]),
    "LayerNormONNXFusionPass": Case(layer_norm_model, LN, ["LayerNorm"]),
    "GeluFusionPass": Case(gelu, ["RealDiv", "Erf", "Add", "Mul", "Mul"], ["Gelu"]),
    "SoftmaxSmallOpFusionPass": Case(softmax, ["ReduceMax", "Sub", "Exp", "ReduceSum", "RealDiv"], ["SoftmaxV2"]),
    "AddLayerNormFusionPass": Case(
        add_layer_norm, ["Add", "LayerNorm", "Exp"], ["AddLayerNorm", "Exp"], ("LayerNormONNXFusionPass",)
    ),
    "RealDiv2MulsFusionPass": Case(division, ["RealDiv"], ["Mul"]),
    "BatchMatMulFusionPass": Case(matmul_transposed, ["Transpose", "BatchMatMulV2"], ["BatchMatMulV2"]),
    "ZConcatDFusionPass": Case(
        lambda: many("Concat"), ["StridedSliceD"] * 70 + ["ConcatD"], ["StridedSliceD"] * 70 + ["ConcatD"] * 3
    ),
    "ZSplitVDFusionPass": Case(lambda: many("Split"), ["SplitD", "ConcatD"], ["SplitD"] * 3 + ["ConcatD"]),
    "MatMulBiasAddFusionPass": Case(matmul_bias, ["MatMulV2", "Add"], ["MatMulV2"]),
    "MatmulCastFusionPass": Case(matmul_cast, ["MatMulV2", "Cast"], ["MatMulV2"]),
    "BatchMatMulV2ReshapeFusionPass": Case(matmul_rows, ["BatchMatMulV2", "SoftmaxV2"], ["MatMulV2", "SoftmaxV2"]),
    "BatchNormBnInferFusionPass": Case(batchnorm, ["BatchNorm"], ["BNInfer"]),
    "ReshapeTransposeFusionPass": Case(heads, ["SoftmaxV2", "Transpose"], ["SoftmaxV2", "ConfusionTransposeD"]),
    "TransposeReshapeFusionPass": Case(unheads, ["Transpose", "SoftmaxV2"], ["ConfusionTransposeD", "SoftmaxV2"]),
    "TbeConvReluMaxpoolingFusionPass": Case(stem, ["Conv2D", "Relu", "MaxPoolV3"], ["Conv2D"]),
    "TbeConv2DReluv2Pass": Case(models.conv_bn_relu, ["Conv2D", "BatchNorm", "Relu"], ["Conv2D", "BatchNorm", "Relu"]),
    "ATbeMatmulElemwiseFusionPass": Case(
        lambda: linear(node("Relu", ["p"], ["y"], "relu")), ["MatMulV2", "Relu"], ["MatMulV2"]
    ),
    "BatchMatmulConfusiontransposeUbFusion": Case(
        lambda: projected(batch=True),
        ["BatchMatMulV2", "ConfusionTransposeD"],
        ["BatchMatMulV2"],
        ("ReshapeTransposeFusionPass",),
    ),
    "MatmulConfusiontransposeUbFusion": Case(
        projected, ["BatchMatMulV2", "ConfusionTransposeD"], ["BatchMatMulV2"], ("ReshapeTransposeFusionPass",)
    ),
    "TbeBatchMatmulFusedMulAddFusionPass": Case(scores, ["BatchMatMulV2", "Mul", "Add"], ["BatchMatMulV2"]),
    "TbeConv2DEltwisePass": Case(
        models.residual, ["Conv2D", "Relu", "Conv2D", "Add", "Relu"], ["Conv2D", "Relu", "Conv2D"]
    ),
    "TbeDepthwiseConvElemwiseFusionPass": Case(depthwise_clip, ["DepthwiseConv2D", "ClipByValue"], ["DepthwiseConv2D"]),
    "TbeConvCommonRules0FusionPass": Case(swish, ["Conv2D", "Sigmoid", "Mul"], ["Conv2D"]),
    "TbeReduceElemwiseFusionPass": Case(mean_and_scale, ["ReduceMean", "Tanh"], ["ReduceMean"]),
    "TbeEltwiseFusionPass": Case(
        chain, ["Tanh", "Exp", "Neg", "Sigmoid", "Abs", "Tanh", "Neg", "Exp"], ["Tanh", "Neg"], times=2
    ),
    "TbeEltwiseCastFusionPass": Case(eltwise_cast, ["Mul", "Cast"], ["Mul"]),
}
CASES["TbeConv2DReluv2Pass"] = Case(
    lambda: after_conv(node("Relu", ["c"], ["y"], "relu")), ["Conv2D", "Relu"], ["Conv2D"]
)


def conv_bn_read_twice():
    made = models.conv_bn_relu()
    made.graph.node.append(node("Exp", ["c"], ["z"], "exp"))
    made.graph.output.append(onnx.helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 8, 8, 8]))
    return made


def layer_norm_read_inside():
    nodes, constants = layer_norm()
    return model(
        [*nodes, node("Exp", ["root"], ["z"], "exp")], {"x": [2, 5, 16]}, {"y": [2, 5, 16], "z": [2, 5, 1]}, constants
    )


REFUSED = {
    ("ConvBatchnormFusionPass", "another reader"): conv_bn_read_twice,
    ("PadConv2dFusionPass", "zeros"): lambda: pad_conv(value=1.5),
    ("PadConv2dFusionPass", "channels"): lambda: model(
        [node("Pad", ["x", "p"], ["a"], "pad"), conv("a", "y", "conv", "w", **SAME)],
        X,
        {"y": [1, 4, 6, 6]},
        {"p": np.array([0, 1, 0, 0, 0, 0, 0, 0], np.int64), "w": random(4, 5, 3, 3)},
    ),
    ("PadMaxPoolFusionPass", "below the padding"): lambda: pad_pool("Tanh"),
    ("LayerNormONNXFusionPass", "another reader"): layer_norm_read_inside,
    ("RealDiv2MulsFusionPass", "1e-6"): lambda: model(
        [node("Div", ["x", "k"], ["y"], "div")], {"x": [4]}, {"y": [4]}, {"k": np.array(-2, np.float32)}
    ),
    ("BatchMatMulFusionPass", "other axes"): lambda: model(
        [node("Transpose", ["z"], ["t"], "transpose", perm=[1, 0, 2]), node("MatMul", ["x", "t"], ["y"], "matmul")],
        {"x": [2, 4, 8], "z": [8, 2, 6]},
        {"y": [2, 4, 6]},
    ),
    ("MatMulBiasAddFusionPass", "vector"): lambda: linear(
        node("Add", ["p", "b"], ["y"], "bias"), constants={"b": random(3, 1, seed=2)}
    ),
    ("ReshapeTransposeFusionPass", "multiples of 16"): lambda: model(
        [
            node("Reshape", ["x", "s"], ["r"], "reshape"),
            node("Transpose", ["r"], ["y"], "transpose", perm=[0, 2, 1, 3]),
        ],
        {"x": [1, 7, 32]},
        {"y": [1, 2, 7, 16]},
        {"s": np.array([1, 7, 2, 16], np.int64)},
    ),
    ("TbeConv2DReluv2Pass", "must be stored"): lambda: model(
        [
            conv("x", "c", "conv", "w", **SAME),
            node("Relu", ["c"], ["r"], "relu"),
            node("Softmax", ["c"], ["s"], "soft", axis=1),
        ],
        X,
        {"r": X["x"], "s": X["x"]},
        W,
    ),
    ("TbeConv2DEltwisePass", "broadcast"): lambda: after_conv(
        node("Add", ["c", "z"], ["y"], "add"), inputs={"z": [1, 4, 1, 1]}
    ),
}
REFUSALS = sorted(REFUSED)


def random_network(seed):
    """A random graph on (1, 8, 8, 8): convolutions, normalisations, activations, branches that meet again."""
    draw = np.random.default_rng(seed)
    nodes, constants, alive = [], {}, ["x"]
    count = 0

    def constant(array):
        name = f"k{len(constants)}"
        constants[name] = np.asarray(array, np.float32)
        return name

    def emit(op_type, inputs, **attributes):
        nonlocal count
        count += 1
        nodes.append(node(op_type, inputs, [f"t{count}"], f"{op_type.lower()}{count}", **attributes))
        return f"t{count}"

    def step(x):
        kind = draw.integers(12)
        if kind <= 2:
            group = int(draw.choice([1, 1, 2, 8]))
            w = constant(draw.standard_normal((8, 8 // group, 3, 3)) * 0.2)
            return emit("Conv", [x, w], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=group)
        if kind == 3:
            values = (
                draw.standard_normal(8) + 1,
                draw.standard_normal(8),
                draw.standard_normal(8),
                draw.random(8) + 0.5,
            )
            return emit("BatchNormalization", [x, *map(constant, values)])
        if kind <= 5:
            return emit(str(draw.choice(["Relu", "Sigmoid", "Tanh", "HardSigmoid", "LeakyRelu", "Identity"])), [x])
        if kind == 6:
            return emit("Mul", [x, emit("Sigmoid", [x])])
        if kind == 7:
            shape = [(8, 1, 1), (1,), (1, 8, 8, 8), (8, 8), (1, 8, 1, 1)][draw.integers(5)]
            return emit(str(draw.choice(["Add", "Mul", "Sub"])), [x, constant(draw.standard_normal(shape))])
        if kind == 8:
            return emit(str(draw.choice(["Add", "Mul", "Max"])), [x, alive[draw.integers(len(alive))]])
        if kind == 9:
            pads = constant([0, 0, 1, 1, 0, 0, 1, 1])
            constants[pads] = constants[pads].astype(np.int64)
            padded = emit("Pad", [emit("Relu", [x]), pads])
            return emit("MaxPool", [padded], kernel_shape=[3, 3], strides=[1, 1])
        if kind == 10:
            perm = [0, 1, 3, 2]
            y = emit("Transpose", [x], perm=perm)
            return emit("Transpose", [y], perm=perm) if draw.random() < 0.5 else y
        left = emit("Transpose", [alive[draw.integers(len(alive))]], perm=[0, 1, 3, 2])
        return emit("Tanh", [emit("MatMul", [emit("Tanh", [x]), emit("Tanh", [left])])])

    for _ in range(draw.integers(4, 14)):
        alive.append(step(alive[-1] if draw.random() < 0.8 else alive[draw.integers(len(alive))]))
    outputs = [alive[-1], *({str(name) for name in draw.choice(alive[1:], 1)} - {alive[-1]})]
    return model(nodes, {"x": [1, 8, 8, 8]}, {name: [1, 8, 8, 8] for name in outputs}, constants)
