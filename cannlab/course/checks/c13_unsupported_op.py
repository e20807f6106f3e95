"""Checks of 13_unsupported_op."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import erf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.course.spec import (
    CaseRun,
    Check,
    File,
    Misconception,
    Sign,
    allclose,
    call,
    change,
    file_made,
    gives,
    got,
    how_many_right,
    model_bytes,
    raises,
    read,
    require,
    sign,
    source,
    unmet,
)

if TYPE_CHECKING:
    from numpy.random import Generator
    from onnx import ModelProto, NodeProto

Array = NDArray[Any]
Arrays = Mapping[str, Array]
SOC = "Ascend310P3"
VENDOR = "com.microsoft"

# -- making models -----------------------------------------------------------------------------------


def network(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int | str]],
    weights: Arrays | None = None,
    **options: Any,
) -> bytes:
    """An ONNX file of the lesson's nodes; ``options`` as in model_bytes."""
    domains = [VENDOR] if any(node.domain == VENDOR for node in nodes) else []
    return model_bytes(nodes, inputs, outputs, weights, domains=domains, **options)


@cache
def atc(model: bytes) -> tuple[str, bytes]:
    """What atc prints for a model (without process number and time), and the om that it makes (b"" if none)."""
    from cannlab.atc import main

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as console:
        Path(folder, "net.onnx").write_bytes(model)
        with contextlib.chdir(folder):
            base = ("--model=net.onnx", "--framework=5", "--output=net", f"--soc_version={SOC}")
            main([*base, "--export_compile_stat=0"])
        made = Path(folder, "net.om")
        data = made.read_bytes() if made.is_file() else b""
    return re.sub(r" \[PID: \d+\] \S+", "", console.getvalue()), data


# -- reading a learner's ONNX file -------------------------------------------------------------------

KNOWN = {
    "Add", "BiasGelu", "Concat", "Constant", "Conv", "DFT", "Flatten", "Gemm", "Identity", "MatMul", "Max", "MaxPool",
    "Mul", "QuickGelu", "ReduceMean", "Relu", "Reshape", "Sigmoid", "Slice", "Transpose",
}  # fmt: skip
"""The operators that an answer's file may hold; a file with others is not run."""
MOST_NODES, MOST_BYTES = 100, 1 << 20


@cache
def loaded(data: bytes) -> ModelProto | None:
    """The model of a file's bytes; None if it is not a model of these small networks."""
    import onnx
    from google.protobuf.message import DecodeError

    if not data or len(data) > MOST_BYTES:
        return None
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        return None
    external = any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)
    if external or len(model.graph.node) > MOST_NODES or any(node.op_type not in KNOWN for node in model.graph.node):
        return None
    return model


def checker_takes(data: bytes) -> bool:
    """ONNX's own checker finds nothing."""
    import onnx

    model = loaded(data)
    try:
        if model is not None:
            onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return model is not None


def types_of(data: bytes) -> list[str]:
    model = loaded(data)
    return [node.op_type for node in model.graph.node] if model else []


def sides(data: bytes) -> tuple[list[str], list[str]]:
    """Names of the inputs and of the outputs."""
    model = loaded(data)
    if model is None:
        return [], []
    return [item.name for item in model.graph.input], [item.name for item in model.graph.output]


def run(data: bytes, inputs: Arrays) -> dict[str, Array] | None:
    """What ONNX Runtime computes; None if it refuses the model or the inputs."""
    import onnxruntime as ort
    from onnxruntime.capi import onnxruntime_pybind11_state as errors

    if loaded(data) is None:
        return None
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        names = [item.name for item in session.get_outputs()]
        feeds = {item.name: inputs[item.name] for item in session.get_inputs()}
        return dict(zip(names, session.run(names, feeds), strict=True))
    except (KeyError, ValueError, errors.Fail, errors.InvalidArgument, errors.InvalidGraph, errors.NotImplemented):
        return None
    except errors.RuntimeException:
        return None


def om_output(data: bytes, inputs: Sequence[Array]) -> Array | None:
    """The first output of the om that atc makes of a model; None without an om."""
    from cannlab import om
    from cannlab.machine.executor import Model

    made = atc(data)[1] if loaded(data) is not None else b""
    if not made:
        return None
    result: Array = Model(om.read(made)).run(list(inputs))[0][0]
    return result


def close(one: Array | None, other: Array | None, tolerance: float = 1e-4) -> bool:
    """Both are there, of one shape, and apart by at most this share of the largest number."""
    if one is None or other is None or one.shape != other.shape:
        return False
    return bool(np.abs(one - other).max() <= tolerance * max(1e-6, float(np.abs(other).max())))


def fed(model: bytes, seed: int = 1) -> dict[str, Array]:
    """Random inputs for a model whose dims are numbers."""
    import onnx

    rng, graph = np.random.default_rng(seed), onnx.ModelProto.FromString(model).graph
    return {
        item.name: rng.standard_normal([d.dim_value for d in item.type.tensor_type.shape.dim]).astype(np.float32)
        for item in graph.input
    }


def same_numbers(case: CaseRun) -> bool:
    """fixed.onnx computes what the given model computes."""
    given = case.inputs["path"].data
    right = reference_run(given)
    mine = run(case.files.get("fixed.onnx", b""), fed(given))
    return mine is not None and list(mine) == list(right) and all(close(mine[name], right[name]) for name in right)


@cache
def reference_run(data: bytes) -> dict[str, Array]:
    made = run(data, fed(data))
    assert made is not None
    return made


def converts(data: bytes) -> bool:
    return loaded(data) is not None and bool(atc(data)[1])


# -- 1 where it was stopped --------------------------------------------------------------------------


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], name: str, **attributes: Any) -> NodeProto:
    from onnx import helper

    made: NodeProto = helper.make_node(op_type, list(inputs), list(outputs), name, **attributes)
    return made


def examples() -> dict[str, list[bytes]]:
    """For each word two models that come as far."""
    int64 = 7
    two, one = np.array([2]), np.array([1])
    eye = np.eye(4, dtype=np.float32)
    conv = np.ones((2, 1, 2, 2), np.float32)
    small = {"x": (4, 4)}
    picture = {"x": (1, 1, 6, 6)}
    return {
        "lookup": [
            network([node("QuickGelu", ["x"], ["y"], "act", domain=VENDOR)], small, {"y": [4, 4]}),
            network([node("DFT", ["x"], ["y"], "spectrum", axis=1, onesided=1)], {"x": (1, 8, 1)}, {"y": [1, 5, 2]}),
            network([node("ReduceL2", ["x", "axes"], ["y"], "length")], small, {"y": [4, 1]}, {"axes": one}, opset=18),
        ],
        "plugin": [
            network([node("Transpose", ["x"], ["y"], "turn")], small, {"y": [4, 4]}),
            network([node("Clip", ["x"], ["y"], "limit")], small, {"y": [4, 4]}),
            network(
                [node("MaxPool", ["x"], ["y", "where"], "pool", kernel_shape=[2, 2])], picture, {"y": [1, 1, 5, 5]}
            ),
        ],
        "shapes": [
            network(
                [node("TopK", ["x", "k"], ["v", "i"], "best"), node("Add", ["i", "one"], ["y"], "next")],
                small,
                {"y": [4, 2]},
                {"k": two, "one": one},
                out_type=int64,
            ),
            network(
                [node("TopK", ["x", "k"], ["v", "i"], "best"), node("Concat", ["i", "more"], ["y"], "joined", axis=1)],
                small,
                {"y": [4, 3]},
                {"k": two, "more": np.ones((4, 1), np.int64)},
                out_type=int64,
            ),
        ],
        "slow": [
            network(
                [
                    node("Cast", ["x"], ["d"], "up", to=11),
                    node("MatMul", ["d", "w"], ["m"], "product"),
                    node("Cast", ["m"], ["y"], "down", to=1),
                ],
                small,
                {"y": [4, 4]},
                {"w": eye.astype(np.float64)},
            ),
            network([node("NonZero", ["x"], ["y"], "found")], small, {"y": [2, "n"]}, out_type=int64),
        ],
        "silent": [
            network([node("Gemm", ["x", "w"], ["y"], "fc", alpha=0.5)], small, {"y": [4, 4]}, {"w": eye}),
            network(
                [node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[2, 2], dilations=[2, 2])],
                picture,
                {"y": [1, 1, 4, 4]},
            ),
            network(
                [node("Resize", ["x", "", "s"], ["y"], "larger", mode="nearest")],
                picture,
                {"y": [1, 1, 9, 9]},
                {"s": np.array([1, 1, 1.5, 1.5], np.float32)},
            ),
        ],
        "fine": [
            network([node("Relu", ["x"], ["y"], "act")], small, {"y": [4, 4]}),
            network(
                [node("Conv", ["x", "w"], ["y"], "conv", kernel_shape=[2, 2])],
                picture,
                {"y": [1, 2, 5, 5]},
                {"w": conv},
            ),
        ],
    }


@cache
def consoles() -> dict[str, str]:
    """The console of each example -> its word."""
    return {atc(model)[0]: word for word, models in examples().items() for model in models}


def draw_where(rng: Generator, size: None) -> dict[str, Any]:
    known = consoles()
    words = ["lookup", "plugin", "shapes", "slow", "silent", "fine"]
    del words[int(rng.integers(2)) * 5]  # the look-up or the good one is missing
    logs = [str(rng.choice([log for log, word in known.items() if word == wanted])) for wanted in words]
    return {"logs": {letter: logs[n] for letter, n in zip("ABCDE", rng.permutation(5), strict=True)}}


def right_places(logs: dict[str, str]) -> dict[str, str]:
    return {letter: consoles()[log] for letter, log in logs.items()}


def took(true: str, *said: str) -> Sign:
    """The learner took one word for another."""

    def test(result: Any, logs: dict[str, str]) -> bool:
        truth = right_places(logs)
        return isinstance(result, dict) and any(truth[letter] == true and result.get(letter) in said for letter in logs)

    return got(test)


WHERE = Check(
    "13_unsupported_op.where",
    run=read("places"),
    draw=draw_where,
    reference=right_places,
    must=(how_many_right("places are"),),
    misconceptions=(
        Misconception(
            "silent_is_fine",
            change('"cannlab:": "silent"', '"cannlab:": "fine"'),
            took("silent", "fine", "slow"),
            what="you find nothing wrong with a model whose numbers changed.",
            why="It converted, but the remark below says that something else is computed than ONNX means.",
            do="Read the line that begins with cannlab: it says what is dropped or not read.",
        ),
        Misconception(
            "warning_is_refusal",
            change('"W11001": "slow"', '"W11001": "plugin"'),
            took("slow", "plugin", "shapes", "lookup"),
            what="you take a warning for a refusal.",
            why="ATC run success: W11001 says that an operator runs on the AI CPU, right and slowly.",
            do="Look at the verdict first: success or failed.",
        ),
        Misconception(
            "warning_is_wrong_numbers",
            change('"W11001": "slow"', '"W11001": "silent"'),
            took("slow", "silent", "fine"),
            what="you take an operator on the AI CPU for something else than it is.",
            why="The AI CPU computes the same numbers; only the time is another.",
            do="W11001 is slow.",
        ),
        Misconception(
            "remark_is_refusal",
            change('"cannlab:": "silent"', '"cannlab:": "plugin"'),
            took("silent", "plugin", "shapes", "lookup"),
            what="you take a remark of a conversion that worked for a refusal.",
            why="ATC run success: an om was made, with other numbers than ONNX's.",
            do="Look at the verdict first: success or failed.",
        ),
        Misconception(
            "shapes_for_plugin",
            change('"E89999": "shapes"', '"E89999": "plugin"'),
            took("shapes", "plugin", "lookup"),
            what="you give a failure of shape inference to an earlier step.",
            why="The text ends in InferShapeAndType failed: parser and plugin had let the node pass.",
            do="E89999 is shapes.",
        ),
        Misconception(
            "plugin_for_shapes",
            change('"E19999": "plugin"', '"E19999": "shapes"'),
            took("plugin", "shapes"),
            what="you give a plugin's refusal to shape inference.",
            why="The text ends in Model parse to graph failed: no shape had been computed yet.",
            do="E19999 with a sentence about an attribute or an input is plugin.",
        ),
        Misconception(
            "plugin_for_lookup",
            change('"E19999": "plugin"', '"E19999": "lookup"'),
            took("plugin", "lookup"),
            what="you take a form that is not accepted for an unknown operator.",
            why="The type is known; one attribute or input of this node is not taken.",
            do="Only E19010, no parser is registered, is the look-up.",
        ),
        Misconception(
            "lookup_for_plugin",
            change('"E19010": "lookup"', '"E19010": "plugin"', '"fine"', '"slow"'),
            took("lookup", "plugin", "shapes") | took("fine", "slow", "silent"),
            what="you took an unknown operator for a refused attribute, or a clean conversion for one with a remark.",
            why="E19010 says that there is no parser at all; success without any line below has nothing to say.",
            do="Read the code: E19010 is lookup, no line is fine.",
        ),
    ),
)

# -- 2 filters ---------------------------------------------------------------------------------------


def draw_filters(rng: Generator, size: int) -> dict[str, Any]:
    return {"window": rng.uniform(0.2, 1.5, size)}


def angles(n: int, count: int | None = None) -> Array:
    return np.asarray(2 * np.pi * np.outer(np.arange(n // 2 + 1 if count is None else count), np.arange(n)) / n)


def stacked(real: Array, imaginary: Array) -> Array:
    return np.concatenate([real, imaginary])[:, None].astype(np.float32)


def right_filters(window: Array) -> Array:
    """From numpy's own transform: the filters are what it makes of single samples."""
    spectrum = np.fft.rfft(np.diag(window))  # row t: the sample t alone
    return stacked(spectrum.real.T, spectrum.imag.T)


NEAR = allclose(rtol=1e-3, atol=1e-5)


def filters_like(wrong: Callable[[Array, int], Array]) -> Sign:
    return gives(lambda window: wrong(window, len(window)), NEAR)


FILTERS = Check(
    "13_unsupported_op.filters",
    run=call("filters"),
    draw=draw_filters,
    sizes=(2, 4, 6, 64, 250),
    reference=right_filters,
    compare=NEAR,
    misconceptions=(
        Misconception(
            "sign_of_the_sine",
            change("-np.sin(angle)", "np.sin(angle)"),
            filters_like(lambda w, n: stacked(np.cos(angles(n)) * w, np.sin(angles(n)) * w))
            & sign(lambda attempt: any(len(case.inputs["window"]) > 2 for case in attempt.failed)),
            what="the imaginary parts have the wrong sign.",
            why="The transform multiplies with exp(-i a), which is cos(a) - i sin(a).",
            do="Take -np.sin(angle).",
        ),
        Misconception(
            "last_frequency_missing",
            change("np.arange(n // 2 + 1)", "np.arange(n // 2)"),
            got(lambda result, window: isinstance(result, np.ndarray) and len(result) == 2 * (len(window) // 2)),
            what="one frequency is missing.",
            why="A frame of n numbers has the frequencies 0, 1, ... n // 2: that is one more than half.",
            do="Take np.arange(n // 2 + 1).",
        ),
        Misconception(
            "both_halves",
            change("np.arange(n // 2 + 1)", "np.arange(n)"),
            got(lambda result, window: isinstance(result, np.ndarray) and len(result) == 2 * len(window) > 4),
            what="there are filters for all n frequencies.",
            why="The input is real, so the upper half repeats the lower one; rfft leaves it out.",
            do="Take np.arange(n // 2 + 1).",
        ),
        Misconception(
            "window_left_out",
            change("-np.sin(angle)]) * window", "-np.sin(angle)])"),
            filters_like(lambda w, n: stacked(np.cos(angles(n)), -np.sin(angles(n)))),
            what="the window is left out.",
            why="The frame is multiplied by the window first, so every filter must be.",
            do="Multiply by window.",
        ),
        Misconception(
            "half_a_turn",
            change("2 * np.pi", "np.pi"),
            filters_like(lambda w, n: stacked(np.cos(angles(n) / 2) * w, -np.sin(angles(n) / 2) * w)),
            what="each frequency makes half as many waves as it should.",
            why="Frequency 1 is one whole wave over the frame: 2 pi.",
            do="Write 2 * np.pi * k * t / n.",
        ),
        Misconception(
            "divided_by_bins",
            change("np.arange(n)) / n", "np.arange(n)) / (n // 2 + 1)"),
            filters_like(
                lambda w, n: stacked(
                    np.cos(angles(n) * n / (n // 2 + 1)) * w, -np.sin(angles(n) * n / (n // 2 + 1)) * w
                )
            ),
            what="the angle is divided by the number of frequencies.",
            why="Frequency 1 makes one wave over n samples.",
            do="Divide by n.",
        ),
        Misconception(
            "last_sample_on_the_turn",
            change("np.arange(n)) / n", "np.arange(n)) / (n - 1)"),
            filters_like(
                lambda w, n: stacked(np.cos(angles(n) * n / (n - 1)) * w, -np.sin(angles(n) * n / (n - 1)) * w)
            ),
            what="the last sample stands at the full turn, where the next wave begins.",
            why="n samples share one turn: sample t stands at t / n of it, the last one short of the end.",
            do="Divide by n.",
        ),
        Misconception(
            "interleaved",
            change(
                "np.concatenate([np.cos(angle), -np.sin(angle)])",
                "np.stack([np.cos(angle), -np.sin(angle)], 1).reshape(-1, n)",
            ),
            filters_like(
                lambda w, n: (np.stack([np.cos(angles(n)), -np.sin(angles(n))], 1).reshape(-1, n) * w)[:, None].astype(
                    np.float32
                )
            ),
            what="real and imaginary filters stand in turn.",
            why="All real parts come first, then all imaginary ones.",
            do="Use np.concatenate([cosines, sines]).",
        ),
        Misconception(
            "no_channel",
            change("waves[:, None]", "waves"),
            got(lambda result, window: isinstance(result, np.ndarray) and result.ndim == 2),
            what="the axis in the middle is missing.",
            why="Weights of a convolution are (filters, channels, samples); the signal has one channel.",
            do="Write waves[:, None].",
        ),
        Misconception(
            "float64",
            change(".astype(np.float32)", ""),
            got(lambda result, window: isinstance(result, np.ndarray) and result.dtype == np.float64),
            what="the filters are float64.",
            why="In the ONNX file they meet float32, which Conv does not mix; and float64 runs on the AI CPU.",
            do="End with astype(np.float32).",
        ),
    ),
)

# -- 3 rewriting a graph -----------------------------------------------------------------------------

GELUS = {
    "none": (),
    "one": (None,),
    "two": (2.5, None),
    "in a row": (0.7, 1.1, 3.0),
}
"""Case -> alpha of each QuickGelu (None: the attribute is missing)."""


def draw_rewrite(rng: Generator, size: str) -> dict[str, Any]:
    """A linear layer, then a QuickGelu and a linear layer for each alpha; "in a row" has none between."""
    alphas, width = GELUS[size], int(rng.integers(5, 9))
    weights: dict[str, Array] = {"w0": rng.standard_normal((width, width)).astype(np.float32)}
    nodes, last = [node("MatMul", ["data", "w0"], ["t0"], "fc0")], "t0"
    for number, alpha in enumerate(alphas, 1):
        attributes = {} if alpha is None else {"alpha": alpha}
        nodes.append(node("QuickGelu", [last], [f"g{number}"], f"act{number}", domain=VENDOR, **attributes))
        last = f"g{number}"
        if size != "in a row":
            weights[f"w{number}"] = rng.standard_normal((width, width)).astype(np.float32)
            nodes.append(node("MatMul", [last, f"w{number}"], [f"t{number}"], f"fc{number}"))
            last = f"t{number}"
    nodes[-1].output[0] = "result"
    data = network(nodes, {"data": (3, width)}, {"result": (3, width)}, weights)
    return {"path": File(f"optimised{rng.integers(10, 99)}.onnx", data)}


def fixed(case: CaseRun) -> bytes:
    return case.files.get("fixed.onnx", b"")


def gelu_as(wrong: Callable[[Array, float | None], Array]) -> Sign:
    """fixed.onnx computes the networks with this activation, wherever there is one."""

    def test(attempt: Any) -> bool:
        cases = [case for case in attempt.cases if GELUS[case.size]]
        return bool(cases) and all(like(case) for case in cases)

    def like(case: CaseRun) -> bool:
        import onnx
        from onnx import numpy_helper

        data = case.inputs["path"].data
        graph, values = onnx.ModelProto.FromString(data).graph, fed(data)
        values |= {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        for each in graph.node:
            first = values[each.input[0]]
            alpha = each.attribute[0].f if each.attribute else None
            made = first @ values[each.input[1]] if each.op_type == "MatMul" else wrong(first, alpha)
            values[each.output[0]] = made
        mine = run(fixed(case), fed(data))
        return mine is not None and close(mine.get("result"), values["result"])

    return sign(test)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


REWRITE = Check(
    "13_unsupported_op.rewrite",
    run=call("rewrite", files=("fixed.onnx",)),
    draw=draw_rewrite,
    sizes=("one", "two", "in a row", "none"),
    must=(
        file_made("fixed.onnx"),
        require(
            "no_gelu",
            lambda case: bool(types_of(fixed(case))) and "QuickGelu" not in types_of(fixed(case)),
            holds="fixed.onnx holds standard operators only",
            fails="fixed.onnx still holds a QuickGelu, or operators that the task does not need",
            do="Put Mul, Sigmoid and Mul in the place of every QuickGelu.",
        ),
        require(
            "names",
            lambda case: sides(fixed(case)) == (["data"], ["result"]),
            holds="inputs and outputs have their names",
            fails="the names of inputs or outputs have changed",
            do="Leave graph.input and graph.output alone, and give the last new node list(node.output).",
        ),
        require(
            "checker",
            lambda case: checker_takes(fixed(case)),
            holds="onnx.checker takes fixed.onnx",
            fails="onnx.checker does not take fixed.onnx",
            do='Run onnx.checker.check_model("fixed.onnx"), and read what it says.',
        ),
        require(
            "same_numbers",
            same_numbers,
            holds="ONNX Runtime computes the same numbers from both files",
            fails="ONNX Runtime computes other numbers from fixed.onnx, or refuses it",
            do="Run both files in ONNX Runtime on the same input, and compare.",
        ),
        require(
            "converts",
            lambda case: converts(fixed(case)),
            holds="atc converts fixed.onnx",
            fails="atc does not convert fixed.onnx",
            do="Run atc on it, and read the code.",
        ),
    ),
    misconceptions=(
        Misconception(
            "no_default",
            change('.get("alpha", 1.702)', '["alpha"]'),
            raises("KeyError", "alpha"),
            what="a node without the attribute alpha ends the program.",
            why="ONNX leaves out attributes that have their default, here 1.702.",
            do='Use .get("alpha", 1.702).',
        ),
        Misconception(
            "alpha_ignored",
            change('{a.name: helper.get_attribute_value(a) for a in node.attribute}.get("alpha", 1.702)', "1.702"),
            gelu_as(lambda x, alpha: x * sigmoid(1.702 * x)),
            what="every node is computed with alpha 1.702.",
            why="That is the default; a node may have its own.",
            do="Read the attribute alpha of each node.",
        ),
        Misconception(
            "default_one",
            change('.get("alpha", 1.702)', '.get("alpha", 1.0)'),
            gelu_as(lambda x, alpha: x * sigmoid((1.0 if alpha is None else alpha) * x)),
            what="where alpha is missing, 1 is taken.",
            why="Every operator has defaults of its own; QuickGelu's is 1.702.",
            do="Use 1.702 where the attribute is missing.",
        ),
        Misconception(
            "scaled_twice",
            change(
                'helper.make_node("Mul", [x, f"{own}_sigmoid"]',
                'helper.make_node("Mul", [f"{own}_scaled", f"{own}_sigmoid"]',
            ),
            gelu_as(lambda x, alpha: (1.702 if alpha is None else alpha) * x * sigmoid((alpha or 1.702) * x)),
            what="the result is alpha times too large.",
            why="Only the argument of the sigmoid is scaled; x itself is not.",
            do="Give the last Mul the original x.",
        ),
        Misconception(
            "sigmoid_alone",
            change(
                'helper.make_node("Mul", [x, f"{own}_sigmoid"]',
                'helper.make_node("Identity", [f"{own}_sigmoid"]',
            ),
            gelu_as(lambda x, alpha: sigmoid((1.702 if alpha is None else alpha) * x)),
            what="only the sigmoid is left.",
            why="QuickGelu is x times the sigmoid.",
            do="End with a Mul of x and the sigmoid.",
        ),
        Misconception(
            "float64_alpha",
            change("np.float32(alpha)", "np.array(alpha)"),
            sign(lambda attempt: any(has_float64(fixed(case)) for case in attempt.cases)),
            what="the constant is float64, and Mul does not mix it with float32.",
            why="numpy makes float64 of a Python number, and ONNX converts nothing by itself.",
            do="Make it from np.float32(alpha).",
        ),
        Misconception(
            "one_name_for_all",
            change('f"gelu_{number}"', '"gelu"'),
            sign(lambda attempt: any(twice(fixed(case)) for case in attempt.cases)),
            what="two nodes, tensors or weights have one name.",
            why="A tensor is found by its name, so every node that you add needs names of its own.",
            do="Put the node's number, or its name, into the new names.",
        ),
        Misconception(
            "appended",
            change(
                "            nodes.append(node)\n            continue\n",
                "            continue\n",
                "    del graph.node[:]\n    graph.node.extend(nodes)\n",
                '    kept = [node for node in graph.node if node.op_type != "QuickGelu"]\n'
                "    del graph.node[:]\n    graph.node.extend(kept + nodes)\n",
            ),
            sign(lambda attempt: any(out_of_order(fixed(case)) for case in attempt.cases)),
            what="a node stands in front of the one whose output it reads.",
            why="The nodes of an ONNX file are in the order of computation.",
            do="Put the new nodes where the old one stood.",
        ),
        Misconception(
            "loose_end",
            change("list(node.output), f", '[f"{own}_out"], f'),
            sign(lambda attempt: any(reads_nothing(fixed(case)) for case in attempt.cases)),
            what="somebody reads a tensor that no node makes any more.",
            why="The neighbours know the old output's name.",
            do="Give the last new node list(node.output) as its outputs.",
        ),
        Misconception(
            "first_only",
            change(
                'if node.op_type != "QuickGelu":',
                'if node.op_type != "QuickGelu" or any(n.op_type == "Mul" for n in nodes):',
            ),
            unmet("no_gelu") & sign(lambda attempt: any("Sigmoid" in types_of(fixed(case)) for case in attempt.cases)),
            what="only some QuickGelu nodes were replaced.",
            why="A network has one behind every layer.",
            do="Go through all nodes.",
        ),
        Misconception(
            "domain_only",
            change(
                "            nodes.append(node)\n            continue\n",
                '            nodes.append(node)\n            continue\n        node.domain = ""\n'
                "        nodes.append(node)\n        continue\n",
            ),
            unmet("no_gelu"),
            what="the QuickGelu nodes are still there.",
            why="No domain of atc has a parser for that type; another name for the domain does not help.",
            do="Put three standard nodes in its place.",
        ),
    ),
)


def made_names(data: bytes) -> list[str]:
    """Every tensor that something in the graph makes."""
    model = loaded(data)
    if model is None:
        return []
    graph = model.graph
    return [
        *(item.name for item in graph.input),
        *(item.name for item in graph.initializer),
        *(name for each in graph.node for name in each.output if name),
    ]


def twice(data: bytes) -> bool:
    names = made_names(data)
    return len(names) != len(set(names))


def reads_nothing(data: bytes) -> bool:
    """Something is read that nothing makes."""
    model, names = loaded(data), set(made_names(data))
    if model is None:
        return False
    wanted = {name for each in model.graph.node for name in each.input if name}
    return bool((wanted | {item.name for item in model.graph.output}) - names)


def out_of_order(data: bytes) -> bool:
    """A node reads what a later one makes."""
    model = loaded(data)
    if model is None or reads_nothing(data) or twice(data):
        return False
    there = {item.name for item in model.graph.input} | {item.name for item in model.graph.initializer}
    for each in model.graph.node:
        if not {name for name in each.input if name} <= there:
            return True
        there |= set(each.output)
    return False


# -- 4 cutting ---------------------------------------------------------------------------------------


def draw_cut(rng: Generator, size: str) -> dict[str, Any]:
    """A network with one BiasGelu. "round": with a residual; "own": what the node reads is read behind it too."""
    width = int(rng.integers(4, 8))
    weights = {f"w{n}": rng.standard_normal((width, width)).astype(np.float32) for n in range(4)}
    weights["bias"] = rng.standard_normal(width).astype(np.float32)
    name = str(rng.choice(["act", "gelu_7", "layer.3"]))
    refused = node("BiasGelu", ["b", "bias"], ["c"], name, domain=VENDOR)
    first = [node("MatMul", ["data", "w0"], ["a"], "fc0"), node("Relu", ["a"], ["r"], "relu")]
    before, behind = node("MatMul", ["r", "w1"], ["b"], "fc1"), node("MatMul", ["c", "w2"], ["d"], "fc2")
    outputs = {"result": (3, width)}
    if size == "straight":
        nodes = [*first, before, refused, behind, node("Relu", ["d"], ["result"], "last")]
    elif size == "round":
        nodes = [*first, before, refused, behind, node("Add", ["d", "r"], ["result"], "sum")]
    elif size == "fork":
        inner_sum, side = node("Add", ["c", "r"], ["e"], "sum"), node("Sigmoid", ["c"], ["g"], "side_act")
        nodes = [*first, before, refused, inner_sum, node("MatMul", ["e", "w2"], ["d"], "fc2"), side]
        nodes.append(node("Mul", ["d", "g"], ["result"], "gate"))
    elif size == "own":
        nodes = [*first, before, refused, behind, node("Mul", ["d", "b"], ["result"], "gate")]
    else:
        # A branch that does not need the node stands behind it in the file.
        side = [node("MatMul", ["a", "w3"], ["s"], "side"), node("Sigmoid", ["s"], ["g"], "side_act")]
        nodes = [*first, before, refused, *side, behind, node("Mul", ["d", "g"], ["result"], "gate")]
    # Nobody can infer the shape behind an unknown operator, so the file says it, as ONNX Runtime's files do.
    inner = dict.fromkeys((name for each in nodes for name in each.output if name not in outputs), (3, width))
    data = network(nodes, {"data": (3, width)}, outputs, weights, inner=inner)
    return {"path": File(f"net{rng.integers(10, 99)}.onnx", data), "refused": name}


CROSSING = {
    "straight": (["b"], ["c"]),
    "round": (["b", "r"], ["c", "r"]),
    "fork": (["b", "r"], ["c", "r"]),
    "own": (["b"], ["c", "b"]),
    "late": (["b", "g"], ["c", "g"]),
}
"""Case -> outputs of the first part, inputs of the second."""


def parts(case: CaseRun) -> tuple[bytes, bytes]:
    return case.files.get("first.onnx", b""), case.files.get("second.onnx", b"")


def bias_gelu(x: Array, data: bytes) -> Array:
    """What the refused node computes."""
    import onnx
    from onnx import numpy_helper

    weights = onnx.ModelProto.FromString(data).graph.initializer
    shifted = x + next(numpy_helper.to_array(each) for each in weights if each.name == "bias")
    return np.asarray(shifted * (1 + np.vectorize(erf)(shifted / 2**0.5)) / 2, np.float32)


def joined(case: CaseRun) -> Array | None:
    """The first part, the node on the host, the second part."""
    first, second = parts(case)
    made = run(first, fed(case.inputs["path"].data))
    if made is None or "b" not in made:
        return None
    made["c"] = bias_gelu(made["b"], case.inputs["path"].data)
    result = run(second, made)
    return None if result is None else result.get("result")


def crossing_is(test: Callable[[list[str], list[str], str], bool]) -> Sign:
    """In some case the outputs of the first part and the inputs of the second are so."""
    return sign(
        lambda attempt: any(
            test(sides(parts(case)[0])[1], sides(parts(case)[1])[0], case.size) for case in attempt.cases
        )
    )


CUT = Check(
    "13_unsupported_op.cut",
    run=call("cut", files=("first.onnx", "second.onnx")),
    draw=draw_cut,
    sizes=("straight", "round", "own", "late", "fork"),
    must=(
        file_made("first.onnx"),
        file_made("second.onnx"),
        require(
            "both_convert",
            lambda case: all(converts(part) for part in parts(case)),
            holds="atc converts both parts",
            fails="atc does not convert both parts, or one is missing",
            do="Neither part may hold the refused node.",
        ),
        require(
            "same_numbers",
            lambda case: close(joined(case), reference_run(case.inputs["path"].data)["result"]),
            holds="first part, host and second part together give the numbers of the whole",
            fails="the parts do not give the numbers of the whole",
            do="Every tensor that the second part reads must be an output of the first, or come from the node.",
        ),
        require(
            "what_crosses",
            lambda case: (
                (sorted(sides(parts(case)[0])[1]), sorted(sides(parts(case)[1])[0]))
                == (sorted(CROSSING[case.size][0]), sorted(CROSSING[case.size][1]))
            ),
            holds="only what the second part needs crosses the cut",
            fails="other tensors cross the cut than the second part needs",
            do="Outputs of the first part: what the node reads, and what nodes behind it read of what was made before.",
        ),
        require(
            "node_first",
            lambda case: sides(parts(case)[0])[1][:1] == ["b"] and sides(parts(case)[1])[0][:1] == ["c"],
            holds="the node's own tensors come first",
            fails="the node's own tensors do not come first",
            do="Put node.input[0] and node.output[0] in front of the others.",
        ),
    ),
    misconceptions=(
        Misconception(
            "weights_cross",
            change("if t in before and t != node.input[0]]", "if t not in behind and t != node.input[0]]"),
            raises("ValueError", ": w")
            | raises("ValueError", ": bias")
            | crossing_is(lambda out, into, size: any(name.startswith(("w", "bias")) for name in out + into)),
            what="weights were named as tensors that cross.",
            why="They are in the file already; each part takes those that it reads along.",
            do="Keep only tensors that a node of the first part made.",
        ),
        Misconception(
            "node_in_the_first",
            change("inputs, [node.input[0], *others])", "inputs, [node.output[0], *others])"),
            crossing_is(lambda out, into, size: "c" in out),
            what="the refused node is still in the first part.",
            why="A model that gives the node's output must hold the node.",
            do="End the first part with what the node reads: node.input[0].",
        ),
        Misconception(
            "node_in_the_second",
            change("[node.output[0], *again, *others], outputs)", "[node.input[0], *others], outputs)"),
            crossing_is(lambda out, into, size: into[:1] == ["b"]),
            what="the refused node is still in the second part.",
            why="A model that begins with what the node reads must hold the node.",
            do="Begin the second part with what the node gives: node.output[0].",
        ),
        Misconception(
            "own_input_forgotten",
            change("[node.input[0]] if node.input[0] in read else []", "[]"),
            sign(lambda attempt: {case.size for case in attempt.failed} == {"own"}),
            what="the tensor that the node reads is needed behind it as well, and does not come in.",
            why="It is an output of the first part already; the second part needs it as an input.",
            do="Add node.input[0] to the inputs of the second part where somebody behind reads it.",
        ),
        Misconception(
            "straight_only",
            change(
                "    others = [t for t in dict.fromkeys(read) if t in before and t != node.input[0]]\n",
                "    others = []\n",
                "[node.input[0]] if node.input[0] in read else []",
                "[]",
            ),
            raises("ValidationError")
            | unmet("both_convert")
            & crossing_is(lambda out, into, size: into == ["c"] and size in ("round", "late", "fork")),
            what="only the node's own tensors cross, and a connection that goes round the node is lost.",
            why="The second part reads something that was computed before the node.",
            do="Collect what nodes behind the refused one read, and keep what was made before it.",
        ),
        Misconception(
            "not_given_out",
            change("inputs, [node.input[0], *others])", "inputs, [node.input[0]])"),
            unmet("what_crosses") & crossing_is(lambda out, into, size: bool(set(into[1:]) - set(out))),
            what="the second part takes in a tensor that the first does not give out.",
            why="What crosses has two ends: an output of the first part, and an input of the second.",
            do="Name the crossing tensors in both lists.",
        ),
        Misconception(
            "everything_crosses",
            change(
                "if t in before and t != node.input[0]]",
                "if t in before and t != node.input[0]]\n"
                "    others += [t for t in sorted(before) if t not in read and t != node.input[0]]",
            ),
            unmet("what_crosses") & crossing_is(lambda out, into, size: size == "straight" and len(out) > 1),
            what="tensors cross that nobody behind the node reads.",
            why="Each of them is copied down and up again in every run.",
            do="Keep those that a node behind reads.",
        ),
        Misconception(
            "by_place_in_the_file",
            change(
                "if behind & set(n.input):",
                "if behind & set(n.input) or list(model.graph.node).index(n) > list(model.graph.node).index(node):",
            ),
            unmet("what_crosses") & crossing_is(lambda out, into, size: size == "late" and "a" in out),
            what="everything below the node in the file went to the second part.",
            why="A file has one of several possible orders; a branch that does not need the node may stand behind it.",
            do="Ask who reads the node's output, and who reads what those make.",
        ),
    ),
)

# -- 5 a pool with gaps ------------------------------------------------------------------------------

POOLS = {
    "square": ((2, 2), (2, 2), (2, 2, 7, 9)),
    "flat": ((1, 3), (1, 2), (1, 3, 4, 11)),
    "uneven": ((3, 2), (1, 3), (2, 1, 8, 6)),
    "exact": ((2, 3), (3, 2), (1, 2, 4, 5)),
}
"""Case -> kernel_shape, dilations, shape of the input. The last one leaves a result of one pixel."""


def draw_undilate(rng: Generator, size: str) -> dict[str, Any]:
    kernel, dilations, dims = POOLS[size]
    attributes = {"kernel_shape": list(kernel), "dilations": list(dilations)}
    if rng.integers(2):
        attributes["strides"] = [1, 1]
    height, width = result_size(size)
    nodes = [
        node("ReduceMean", ["picture"], ["mean"], "brightness", axes=[2, 3]),
        node("MaxPool", ["picture"], ["p"], "pool", **attributes),
        node("Relu", ["p"], ["r"], "relu"),
        node("Mul", ["r", "mean"], ["marked"], "scale"),
    ]
    shape = (*dims[:2], height, width)
    data = network(nodes, {"picture": dims}, {"marked": shape})
    return {"path": File(f"gaps{rng.integers(10, 99)}.onnx", data)}


def result_size(size: str) -> tuple[int, int]:
    (kh, kw), (dh, dw), (_, _, h, w) = POOLS[size]
    return h - (kh - 1) * dh, w - (kw - 1) * dw


def om_like_onnx(case: CaseRun) -> bool:
    """The om of fixed.onnx gives the numbers that ONNX means (up to float16)."""
    given = case.inputs["path"].data
    return close(om_output(fixed(case), list(fed(given).values())), reference_run(given)["marked"], 2e-3)


def quiet(case: CaseRun) -> bool:
    return converts(fixed(case)) and "cannlab:" not in atc(fixed(case))[0]


def fixed_gives(wrong: Callable[[Array, str], Array | None]) -> Sign:
    """In all failed cases, fixed.onnx computes this."""

    def test(attempt: Any) -> bool:
        return bool(attempt.failed) and all(like(case) for case in attempt.failed)

    def like(case: CaseRun) -> bool:
        given = fed(case.inputs["path"].data)
        mine, other = run(fixed(case), given), wrong(given["picture"], case.size)
        return (
            mine is not None
            and other is not None
            and close(mine.get("marked"), np.maximum(other, 0) * given["picture"].mean((2, 3), keepdims=True))
        )

    return sign(test)


def shifted_max(picture: Array, size: str, step: tuple[int, int], places: Sequence[tuple[int, int]]) -> Array | None:
    """The largest of some shifted pictures."""
    height, width = result_size(size)
    cut = [picture[..., i * step[0] :, j * step[1] :][..., :height, :width] for i, j in places]
    if not cut or any(each.shape[-2:] != (height, width) for each in cut):
        return None
    return np.asarray(np.max(cut, axis=0))


def places_of(size: str) -> list[tuple[int, int]]:
    (kh, kw), _, _ = POOLS[size]
    return [(i, j) for i in range(kh) for j in range(kw)]


UNDILATE = Check(
    "13_unsupported_op.undilate",
    run=call("undilate", files=("fixed.onnx",)),
    draw=draw_undilate,
    sizes=("square", "flat", "uneven", "exact"),
    must=(
        file_made("fixed.onnx"),
        require(
            "same_numbers",
            same_numbers,
            holds="ONNX Runtime computes the same numbers from both files",
            fails="ONNX Runtime computes other numbers from fixed.onnx, or refuses it",
            do="Run both files in ONNX Runtime on the same input, and compare.",
        ),
        require(
            "quiet",
            quiet,
            holds="atc converts fixed.onnx and deploys nothing else",
            fails="atc does not convert fixed.onnx, or deploys something else",
            do="Run atc on it, and read what it prints.",
        ),
        require(
            "om_is_right",
            om_like_onnx,
            holds="the om gives ONNX's numbers",
            fails="the om does not give ONNX's numbers",
            do="Compare the om with ONNX Runtime, the shape first.",
        ),
    ),
    misconceptions=(
        Misconception(
            "attribute_removed",
            """# exercise: 13_unsupported_op.undilate
def undilate(path):
    model = onnx.load(path)
    pool = next(n for n in model.graph.node if n.op_type == "MaxPool")
    kept = [a for a in pool.attribute if a.name != "dilations"]
    del pool.attribute[:]
    pool.attribute.extend(kept)
    onnx.save(model, "fixed.onnx")
""",
            sign(lambda attempt: any(window(fixed(case)) == POOLS[case.size][0] for case in attempt.cases))
            & sign(lambda attempt: not any(dilated(fixed(case)) for case in attempt.cases))
            & sign(lambda attempt: not any("Slice" in types_of(fixed(case)) for case in attempt.cases)),
            what="the gaps are gone from the file, and so from the network.",
            why="Now atc and ONNX agree, on other numbers than the ones that were trained.",
            do="Compute the same window with other operators: shifted pictures and their maximum.",
        ),
        Misconception(
            "larger_kernel",
            """# exercise: 13_unsupported_op.undilate
def undilate(path):
    model = onnx.load(path)
    pool = next(n for n in model.graph.node if n.op_type == "MaxPool")
    a = {x.name: helper.get_attribute_value(x) for x in pool.attribute}
    kernel = [(k - 1) * d + 1 for k, d in zip(a["kernel_shape"], a["dilations"])]
    new = helper.make_node("MaxPool", list(pool.input), list(pool.output), "pool", kernel_shape=kernel)
    pool.CopyFrom(new)
    onnx.save(model, "fixed.onnx")
""",
            sign(lambda attempt: any(np.prod(window(fixed(c))) > np.prod(POOLS[c.size][0]) for c in attempt.cases)),
            what="the window was made larger, over its own gaps.",
            why="The result has the right shape, and the elements in the gaps take part in the maximum.",
            do="Look at the kh * kw places only: shifted pictures and their maximum.",
        ),
        Misconception(
            "subsampled",
            """# exercise: 13_unsupported_op.undilate
def undilate(path):
    model = onnx.load(path)
    graph = model.graph
    pool = next(n for n in graph.node if n.op_type == "MaxPool")
    a = {x.name: helper.get_attribute_value(x) for x in pool.attribute}
    (kh, kw), (dh, dw) = a["kernel_shape"], a["dilations"]
    _, _, h, w = (d.dim_value for d in graph.input[0].type.tensor_type.shape.dim)
    for name, values in (("s", [0, 0]), ("e", [h, w]), ("a", [2, 3]), ("t", [dh, dw])):
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    instead = [
        helper.make_node("Slice", [pool.input[0], "s", "e", "a", "t"], ["every"], "every"),
        helper.make_node("MaxPool", ["every"], list(pool.output), "pool", kernel_shape=[kh, kw]),
    ]
    at = list(graph.node).index(pool)
    nodes = [*graph.node[:at], *instead, *graph.node[at + 1 :]]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, "fixed.onnx")
""",
            sign(lambda attempt: any({"Slice", "MaxPool"} <= set(types_of(fixed(case))) for case in attempt.cases)),
            what="elements were left out first, and an ordinary window runs over the rest.",
            why="That keeps the windows that begin at a multiple of the gap; with strides of 1, one begins everywhere.",
            do="Shift the whole picture once for each place of the window, and take the maximum.",
        ),
        Misconception(
            "no_gaps",
            change(
                '[top, left]), constant(own + "_ends", [top + oh, left + ow])',
                '[i, j]), constant(own + "_ends", [i + oh, j + ow])',
            ),
            fixed_gives(lambda picture, size: shifted_max(picture, size, (1, 1), places_of(size))),
            what="the pictures are shifted by single rows and columns, so the window has no gaps.",
            why="Place (i, j) of the window lies i * dh rows and j * dw columns from the first.",
            do="Start at i * dh and j * dw.",
        ),
        Misconception(
            "height_and_width",
            change("i * dh, j * dw", "i * dw, j * dh"),
            fixed_gives(lambda picture, size: shifted_max(picture, size, POOLS[size][1][::-1], places_of(size)))
            | source(r"i \* dw"),
            what="the gaps of rows and columns are exchanged.",
            why="dilations stand in the order of the axes: height, then width.",
            do="Rows are shifted by i * dh, columns by j * dw.",
        ),
        Misconception(
            "diagonal",
            change("        for j in range(kw):\n", "        for j in [i] if i < kw else []:\n"),
            fixed_gives(
                lambda picture, size: shifted_max(
                    picture, size, POOLS[size][1], [(i, j) for i, j in places_of(size) if i == j]
                )
            ),
            what="only the places on the diagonal of the window are looked at.",
            why="The window has kh * kw places: every row with every column.",
            do="Use two loops.",
        ),
        Misconception(
            "last_place_missing",
            change("for i in range(kh):", "for i in range(max(1, kh - 1)):"),
            fixed_gives(
                lambda picture, size: shifted_max(
                    picture,
                    size,
                    POOLS[size][1],
                    [(i, j) for i, j in places_of(size) if i < max(1, POOLS[size][0][0] - 1)],
                )
            ),
            what="the last row of places is missing.",
            why="A window of kh rows has the places 0 to kh - 1.",
            do="Use range(kh) and range(kw).",
        ),
        Misconception(
            "not_cut",
            change("[top + oh, left + ow]", "[h, w]"),
            unmet("same_numbers") & sign(lambda attempt: any(run_fails(case) for case in attempt.cases)),
            what="the shifted pictures have different sizes.",
            why="Max compares place by place, so all pictures need the same number of rows and columns.",
            do="Cut all of them to oh rows and ow columns.",
        ),
        Misconception(
            "sum_for_max",
            change('helper.make_node("Max", shifted', 'helper.make_node("Add", shifted[:2]'),
            sign(lambda attempt: any("Max" not in types_of(fixed(case)) for case in attempt.cases))
            & unmet("same_numbers"),
            what="the shifted pictures are not compared with Max.",
            why="A maximum pool takes the largest number of its window.",
            do='Join them all in one node: helper.make_node("Max", shifted, ...).',
        ),
    ),
)


def has_float64(data: bytes) -> bool:
    """A weight is float64 (data type 11)."""
    model = loaded(data)
    return model is not None and any(tensor.data_type == 11 for tensor in model.graph.initializer)


def dilated(data: bytes) -> bool:
    """There is a pool with gaps."""
    model = loaded(data)
    return model is not None and any(
        attribute.name == "dilations" and max(attribute.ints) > 1
        for each in model.graph.node
        for attribute in each.attribute
    )


def window(data: bytes) -> tuple[int, ...]:
    """kernel_shape of a pool; () without one."""
    model = loaded(data)
    pools = [each for each in model.graph.node if each.op_type == "MaxPool"] if model else []
    return tuple(next((a.ints for each in pools for a in each.attribute if a.name == "kernel_shape"), ()))


def run_fails(case: CaseRun) -> bool:
    """The file is there, and ONNX Runtime does not run it."""
    return bool(types_of(fixed(case))) and run(fixed(case), fed(case.inputs["path"].data)) is None


CHECKS = [WHERE, FILTERS, REWRITE, CUT, UNDILATE]
