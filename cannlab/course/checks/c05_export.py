"""Checks of 05_export."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
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
    calls,
    catches,
    change,
    file_made,
    gives,
    got,
    how_many_right,
    lets_pass,
    raises,
    read,
    refuses,
    require,
    sign,
    source,
    unmet,
)

if TYPE_CHECKING:
    from numpy.random import Generator
    from onnx import ModelProto

Array = NDArray[Any]

# -- reading a learner's ONNX file -------------------------------------------------------------------

KNOWN = {
    "Add", "BatchNormalization", "Cast", "Constant", "Conv", "Dropout", "Flatten", "Gemm", "Identity", "MatMul", "Mul",
    "ReduceMean", "Relu", "Reshape", "Shape", "Concat", "Gather", "Unsqueeze", "Transpose", "Div", "Sub",
}  # fmt: skip
"""The operators that an export of these small networks may hold; a file with others is not run."""


def loaded(data: bytes) -> ModelProto:
    """The model of a file's bytes, with its weights inside. ValueError if it is not such a file."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    onnx.checker.check_model(model, full_check=True)
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise ValueError("weights beside the model")
    if len(model.graph.node) > 60 or any(node.domain not in ("", "ai.onnx") for node in model.graph.node):
        raise ValueError("another network")
    if any(node.op_type not in KNOWN for node in model.graph.node):
        raise ValueError("another network")
    return model


def opset_of(data: bytes) -> int:
    """The opset of ONNX's own operators."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    return int(next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")))


def names_of(data: bytes) -> tuple[list[str], list[str]]:
    """The names of inputs (weights left out) and outputs."""
    import onnx

    graph = onnx.ModelProto.FromString(data).graph
    weights = {tensor.name for tensor in graph.initializer}
    return [item.name for item in graph.input if item.name not in weights], [item.name for item in graph.output]


def axes_of(data: bytes) -> list[list[int]]:
    """For every input and output: its dimensions, 0 where one is open."""
    import onnx

    graph = onnx.ModelProto.FromString(data).graph
    weights = {tensor.name for tensor in graph.initializer}
    tensors = [*(item for item in graph.input if item.name not in weights), *graph.output]
    return [[int(dim.dim_value) for dim in item.type.tensor_type.shape.dim] for item in tensors]


def scores(data: bytes, batch: Array) -> Array:
    """What the file computes, by ONNX Runtime."""
    import onnxruntime as ort

    loaded(data)
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    result: Array = session.run(None, {session.get_inputs()[0].name: batch})[0]
    return result


# -- 1 verdicts --------------------------------------------------------------------------------------

GRAPH = "Conv Relu MaxPool Flatten Gemm {bn} Relu Gemm"
FILES = "files net.onnx"
REPORTS: dict[str, tuple[str, ...]] = {
    "right": (
        f"opset 13, in image [n,3,16,16], out scores [n,7], {FILES}\n   {GRAPH.format(bn='BatchNormalization')}",
        f"opset 9, in image [1,3,16,16], out scores [1,7], {FILES}\n   {GRAPH.format(bn='BatchNormalization')}",
        f"opset 18, in image [n,3,16,16], out scores [n,7], files net.onnx, net.onnx.data\n   {GRAPH.format(bn='')}",
    ),
    "unfolded": (
        f"opset 11, in image [1,3,16,16], out scores [1,7], {FILES}\n   Identity Identity Conv BatchNormalization Relu "
        "MaxPool Flatten Gemm BatchNormalization Relu Gemm",
        f"opset 17, in image [n,3,16,16], out scores [n,7], {FILES}\n   Identity Conv BatchNormalization Relu "
        "MaxPool Flatten Gemm BatchNormalization Relu Gemm",
    ),
    "training": (
        f"opset 17, in image [n,3,16,16], out scores [n,7], {FILES}\n   "
        f"{GRAPH.format(bn='BatchNormalization(training_mode=1)')}",
        f"opset 15, in image [1,3,16,16], out scores [1,7], {FILES}\n   "
        f"{GRAPH.format(bn='BatchNormalization(training_mode=1)')}",
    ),
    "opset": (
        f"opset 20, in image [n,3,16,16], out scores [n,7], {FILES}\n   {GRAPH.format(bn='BatchNormalization')}",
        f"opset 19, in image [1,3,16,16], out scores [1,7], {FILES}\n   {GRAPH.format(bn='BatchNormalization')}",
    ),
    "operator": (
        f"opset 17, in image [n,3,16,16], out scores [n,7], {FILES}\n   Conv Relu MaxPool Flatten Gemm "
        "org.pytorch.aten::ATen Relu Gemm",
        f"opset 13, in image [1,3,16,16], out scores [1,7], {FILES}\n   Conv Relu MaxPool Flatten Loop Gemm",
    ),
    "option": (
        f"opset 13, in input [1,3,16,16], out scores [1,7], {FILES}\n   {GRAPH.format(bn='BatchNormalization')}",
        f"opset 17, in image [n,3,16,16], out scores [n,7], files net.onnx (MISSING: net.onnx.data)\n   "
        f"{GRAPH.format(bn='BatchNormalization')}",
    ),
}
"""What is special about an export -> reports of such exports."""

TRUTH = {"right": "right", "unfolded": "right", "training": "wrong"}
"""The verdict of each kind; the others are refused."""


def draw_verdicts(rng: Generator, size: None) -> dict[str, Any]:
    kinds = rng.permutation(list(REPORTS))
    return {
        "reports": {letter: str(rng.choice(REPORTS[str(kind)])) for letter, kind in zip("ABCDEF", kinds, strict=True)}
    }


def kind_of(report: str) -> str:
    return next(kind for kind, reports in REPORTS.items() if report in reports)


def right_verdicts(reports: dict[str, str]) -> dict[str, str]:
    return {letter: TRUTH.get(kind_of(report), "refused") for letter, report in reports.items()}


def said(kind: str, *verdicts: str) -> Sign:
    """The learner gave an export of this kind one of these verdicts."""
    return got(
        lambda result, reports: any(
            kind_of(report) == kind and str(result.get(letter, "")).strip().lower() in verdicts
            for letter, report in reports.items()
        )
    )


WRONG_OR_RIGHT = '"wrong" if "training_mode=1" in report else "right"'
STOPS = 'stops = ("ATen", "Loop", "in input ", "MISSING")'

VERDICTS = Check(
    "05_export.verdicts",
    run=read("verdicts"),
    draw=draw_verdicts,
    reference=right_verdicts,
    must=(how_many_right("verdicts are"),),
    misconceptions=(
        Misconception(
            "training_is_right",
            change(WRONG_OR_RIGHT, '"right"'),
            said("training", "right"),
            what="you trust an export whose BatchNormalization measures its own batch.",
            why="With training_mode=1 the answer for an image depends on the other images in the batch.",
            do="Look at the operators again, at what stands in brackets behind one of them.",
        ),
        Misconception(
            "training_is_refused",
            change(WRONG_OR_RIGHT, WRONG_OR_RIGHT.replace("wrong", "refused")),
            said("training", "refused"),
            what="you expect atc to stop a BatchNormalization in training mode.",
            why="ATC has a parser for it, and training is a legal mode; atc cannot know that you did not mean it.",
            do="Ask which tool would notice, if atc does not.",
        ),
        Misconception(
            "newer_is_fine",
            change("opset > 18 or ", ""),
            said("opset", "right", "wrong"),
            what="you let an opset pass that ATC does not know.",
            why="The parser is looked up under domain::opset::type, exactly; the table ends at 18.",
            do="Compare each opset with the range 8 to 18.",
        ),
        Misconception(
            "old_opset",
            change("opset > 18", "not 13 <= opset <= 18"),
            got(
                lambda result, reports: any(
                    ("opset 9," in report or "opset 11," in report) and result.get(letter) == "refused"
                    for letter, report in reports.items()
                )
            ),
            what="you refuse an opset that is old and known.",
            why="ATC of CANN 8.1 has parsers for the opsets 8 to 18, so 9 and 11 convert.",
            do="Compare each opset with the range 8 to 18.",
        ),
        Misconception(
            "foreign_operator",
            change(STOPS, 'stops = ("in input ", "MISSING")'),
            said("operator", "right", "wrong"),
            what="you let an operator pass for which ATC has no parser.",
            why="ATen symbols are PyTorch's own operators; Loop is ONNX, but without a parser in ATC.",
            do="Read the list of operators word by word.",
        ),
        Misconception(
            "option_and_files",
            change(STOPS, 'stops = ("ATen", "Loop")'),
            said("option", "right", "wrong"),
            what="you looked at the graph only.",
            why="atc also stops if --input_shape names no input of the model, or if the weights are not there.",
            do="Compare the name of the input with the command, and read the list of files.",
        ),
        Misconception(
            "batchnorm_is_training",
            change('"training_mode=1" in report', '"BatchNormalization" in report'),
            said("unfolded", "wrong", "refused") | said("right", "wrong", "refused"),
            what="you distrust an export that is fine.",
            why="BatchNormalization, Identity, an open and a fixed batch are all normal; ATC folds and fuses.",
            do="Ask of each report what exactly atc would stumble over, or what would change a score.",
        ),
    ),
)

# -- 2 one good export -------------------------------------------------------------------------------


def draw_weights(rng: Generator, size: int) -> dict[str, Any]:
    shapes = {"fc1.weight": (12, 24), "fc1.bias": (12,), "bn.weight": (12,), "bn.bias": (12,), "bn.running_mean": (12,),
              "fc2.weight": (5, 12), "fc2.bias": (5,)}  # fmt: skip
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    weights["bn.running_var"] = rng.uniform(0.5, 4, 12).astype(np.float32)
    return {"weights": weights, "file": f"net{size}.onnx"}


def evaluated(weights: dict[str, Array], images: Array) -> Array:
    """The scores of the network in evaluation mode."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    x = images.reshape(len(images), -1) @ w["fc1.weight"].T + w["fc1.bias"]
    x = (x - w["bn.running_mean"]) / np.sqrt(w["bn.running_var"] + 1e-5) * w["bn.weight"] + w["bn.bias"]
    result: Array = np.maximum(x, 0) @ w["fc2.weight"].T + w["fc2.bias"]
    return result


@cache
def pictures(count: int, height: int = 4, width: int = 6, channels: int = 1) -> Array:
    return np.random.default_rng(count).uniform(-1, 1, (count, channels, height, width)).astype(np.float32)


def made(case: CaseRun) -> bytes:
    """The file that the answer wrote."""
    return case.files[case.inputs["file"]]


def computes(case: CaseRun) -> bool:
    """The file gives the scores of evaluation mode (on a batch that its shapes allow)."""
    count = axes_of(made(case))[0][0] or 3
    images = pictures(count)
    return np.allclose(scores(made(case), images), evaluated(case.inputs["weights"], images), rtol=1e-3, atol=1e-3)


def trains(case: CaseRun) -> bool:
    """Something in the file is in training mode."""
    import onnx

    for node in onnx.ModelProto.FromString(made(case)).graph.node:
        if node.op_type == "Dropout" or any(a.name == "training_mode" and a.i for a in node.attribute):
            return True
        if node.op_type == "BatchNormalization" and len(node.output) > 1:
            return True
    return False


def of_files(test: Callable[[CaseRun], bool]) -> Sign:
    """A question about the first case's file."""
    return sign(lambda attempt: test(attempt.cases[0]))


NAMES = '        input_names=["image"], output_names=["scores"],\n'
AXES = 'dynamic_axes={"image": {0: "n"}, "scores": {0: "n"}},'

EXPORT = Check(
    "05_export.export",
    run=call("export", files=("net1.onnx", "net2.onnx")),
    draw=draw_weights,
    sizes=(1, 2),
    must=(
        require(
            "file_made",
            lambda case: bool(made(case)),
            holds="the file was written",
            fails="no file of that name was written",
            do="Pass `file` to torch.onnx.export.",
        ),
        require(
            "opset",
            lambda case: 8 <= opset_of(made(case)) <= 18,
            holds="its opset is one that ATC takes",
            fails="its opset is none that ATC takes",
            do="Set opset_version to 13 or 17.",
        ),
        require(
            "names",
            lambda case: names_of(made(case)) == (["image"], ["scores"]),
            holds="its input is image and its output scores",
            fails="its input and output are not called image and scores",
            do='Add input_names=["image"] and output_names=["scores"].',
        ),
        require(
            "open_batch",
            lambda case: axes_of(made(case)) == [[0, 1, 4, 6], [0, 5]],
            holds="the batch is open, in and out, and nothing else",
            fails="the open axes are not exactly these two: axis 0 of the input, axis 0 of the output",
            do='Add dynamic_axes={"image": {0: "n"}, "scores": {0: "n"}}.',
        ),
        require(
            "evaluation",
            lambda case: not trains(case),
            holds="nothing in it is in training mode",
            fails="something in it is in training mode",
            do="Call net.eval() before the export.",
        ),
        require(
            "numbers",
            computes,
            holds="it computes what the network computes in evaluation mode",
            fails="it does not compute what the network computes in evaluation mode",
            do="Compare it with the network, with ONNX Runtime, on several images.",
        ),
    ),
    misconceptions=(
        Misconception(
            "new_exporter",
            change("dynamo=False,", ""),
            raises("ModuleNotFoundError", "onnxscript"),
            what="without dynamo=False the new exporter is asked, and it needs a package that is not here.",
            why="Since PyTorch 2.9 dynamo=True is the default; that exporter is built on onnxscript.",
            do="Keep dynamo=False.",
        ),
        Misconception(
            "fixed_name",
            change(", file, dynamo", ', "network.onnx", dynamo'),
            unmet("file_made"),
            what="the export went to a file of another name.",
            why="The second argument of export says where the file is expected.",
            do="Pass `file` to torch.onnx.export.",
        ),
        Misconception(
            "still_training",
            change("    net.eval()\n", ""),
            unmet("evaluation") & ~unmet("opset") & ~unmet("names") & ~unmet("open_batch"),
            what="the file holds BatchNorm and Dropout in training mode.",
            why="PRESERVE exports the mode that the network is in, and it was in training mode.",
            do="Call net.eval() before the export.",
        ),
        Misconception(
            "untouched",
            change("net.eval()", "net.train()", "opset_version=17", "opset_version=20", NAMES, "", AXES, ""),
            unmet("opset") & unmet("names") & ~unmet("file_made"),
            what="neither the opset nor the names are what was asked for.",
            why="The exporter writes what its arguments say; without names it makes some up.",
            do='Set opset_version=17, input_names=["image"] and output_names=["scores"] first.',
        ),
        Misconception(
            "opset_of_the_exporter",
            change("opset_version=17", "opset_version=19"),
            unmet("opset") & ~unmet("file_made"),
            what="the opset of the file is one that ATC has no parsers for.",
            why="PyTorch writes newer opsets than ATC reads: 8 to 18.",
            do="Set opset_version to 13 or 17.",
        ),
        Misconception(
            "names_exchanged",
            change('input_names=["image"], output_names=["scores"]', 'input_names=["scores"], output_names=["image"]'),
            of_files(lambda case: names_of(made(case)) == (["scores"], ["image"])),
            what="the input is called scores and the output image.",
            why="input_names names what goes in.",
            do='Write input_names=["image"], output_names=["scores"].',
        ),
        Misconception(
            "weights_named",
            change('input_names=["image"]', 'input_names=["fc1"]'),
            unmet("names") & ~unmet("file_made"),
            what="the input or the output has another name than image and scores.",
            why="--input_shape and your own program find them by these names.",
            do='Write input_names=["image"], output_names=["scores"].',
        ),
        Misconception(
            "fixed_batch",
            change(AXES, ""),
            of_files(lambda case: axes_of(made(case))[0] == [2, 1, 4, 6]),
            what="the batch is fixed to that of the sample, 2.",
            why="Tracing writes down the shapes of the sample; an axis stays open only if you say so.",
            do='Add dynamic_axes={"image": {0: "n"}, "scores": {0: "n"}}.',
        ),
        Misconception(
            "everything_open",
            change('{"image": {0: "n"},', '{"image": {0: "n", 2: "h", 3: "w"},'),
            of_files(lambda case: 0 in axes_of(made(case))[0][1:]),
            what="an axis of the input other than the batch is open too.",
            why="The first Linear layer wants exactly 24 values, so the file promises sizes that it cannot take.",
            do="Open axis 0 only.",
        ),
        Misconception(
            "another_axis",
            change('"scores": {0: "n"}', '"scores": {1: "n"}'),
            unmet("open_batch") & ~unmet("file_made"),
            what="input and output do not both have the batch, and only the batch, open.",
            why="The number of rows of scores is the number of images: axis 0 on both sides.",
            do='Write dynamic_axes={"image": {0: "n"}, "scores": {0: "n"}}.',
        ),
    ),
)

# -- 3 the branch ------------------------------------------------------------------------------------


def draw_branch(rng: Generator, size: tuple[int, ...]) -> dict[str, Any]:
    """Pictures by their mean: 0 below, 1 above, 2 exactly 0.5. One channel is against the rest, some pixels too."""
    pictures = rng.uniform(0, 0.6, (len(size), 3, 4, 5))
    for n, bright in enumerate(size):
        pictures[n, n % 3] += 0.4
        if bright == 1:
            pictures[n] = 1 - pictures[n]
        elif bright == 2:
            pictures[n] = rng.permutation(np.arange(60) % 2).reshape(3, 4, 5)
    return {
        "weights": rng.standard_normal((60, 4)).astype(np.float32),
        "pictures": pictures.astype(np.float32),
    }


def turned(weights: Array, pictures: Array, negative: Array) -> Array:
    chosen = np.where(negative, 1 - pictures, pictures)
    result: Array = (chosen.reshape(len(chosen), -1).astype(np.float64) @ weights).astype(np.float32)
    return result


def means(pictures: Array, *axes: int) -> Array:
    result: Array = pictures.mean(axis=axes, keepdims=True)
    return result


CLOSE = allclose(1e-3, 1e-3)
MEAN = "        negative = pictures.mean((1, 2, 3), keepdim=True) > 0.5\n"
WHERE = "        pictures = torch.where(negative, 1 - pictures, pictures)\n"
LAST = "        return pictures.flatten(1) @ self.weights\n"
LOOP = """\
        rows = []
        for picture in pictures:
            picture = torch.where(picture.mean() > 0.5, 1 - picture, picture)
            rows.append(picture.flatten() @ self.weights)
        return torch.stack(rows)
"""

BRANCH = Check(
    "05_export.branch",
    run=call("run"),
    draw=draw_branch,
    sizes=((0,), (1,), (0, 1), (1, 0, 2, 1, 0), (0, 0, 0, 1, 0, 0, 0)),
    reference=lambda weights, pictures: turned(weights, pictures, means(pictures, 1, 2, 3) > 0.5),
    compare=CLOSE,
    misconceptions=(
        Misconception(
            "still_a_loop",
            change(MEAN + WHERE + LAST, LOOP),
            raises("Fail", "Split") | got(lambda result, weights, pictures: len(result) == 1 < len(pictures)),
            what="the file scores one picture, however many it gets.",
            why="Tracing runs the loop on the sample, and the sample has one picture: one turn is in the file.",
            do="Work on the whole batch without a loop.",
        ),
        Misconception(
            "still_an_if",
            change(MEAN + WHERE, "        if pictures.mean() > 0.5:\n            pictures = 1 - pictures\n"),
            gives(lambda weights, pictures: turned(weights, pictures, np.zeros((1, 1, 1, 1), bool)), CLOSE),
            what="no picture is turned round.",
            why="The sample was dark, so the branch was not taken while tracing and is not in the file.",
            do="Write the decision as an operator: torch.where(condition, a, b).",
        ),
        Misconception(
            "one_for_all",
            change("pictures.mean((1, 2, 3), keepdim=True)", "pictures.mean()"),
            gives(lambda weights, pictures: turned(weights, pictures, means(pictures, 0, 1, 2, 3) > 0.5), CLOSE),
            what="one mean decides for the whole batch.",
            why="Dark and bright pictures lie in the same batch; each needs its own decision.",
            do="Take the mean over the axes 1, 2, 3 and keep them: keepdim=True.",
        ),
        Misconception(
            "by_channel",
            change("(1, 2, 3)", "(2, 3)"),
            gives(lambda weights, pictures: turned(weights, pictures, means(pictures, 2, 3) > 0.5), CLOSE),
            what="every channel of a picture is decided on its own.",
            why="The mean over (2, 3) leaves the axis of the channels.",
            do="Take the mean over (1, 2, 3).",
        ),
        Misconception(
            "by_pixel",
            change("pictures.mean((1, 2, 3), keepdim=True) > 0.5", "pictures > 0.5"),
            gives(lambda weights, pictures: turned(weights, pictures, pictures > 0.5), CLOSE),
            what="every pixel is decided on its own.",
            why="A picture is a negative if its mean is above 0.5; bright pixels alone make none.",
            do="Compare the mean of each picture with 0.5.",
        ),
        Misconception(
            "exchanged",
            change("torch.where(negative, 1 - pictures, pictures)", "torch.where(negative, pictures, 1 - pictures)"),
            gives(lambda weights, pictures: turned(weights, pictures, means(pictures, 1, 2, 3) <= 0.5), CLOSE),
            what="the dark pictures are turned round and the bright ones are not.",
            why="torch.where(condition, a, b) takes a where the condition is true.",
            do="Exchange the last two arguments.",
        ),
        Misconception(
            "no_keepdim",
            change("pictures.mean((1, 2, 3), keepdim=True)", "pictures.mean((1, 2, 3))"),
            raises("Fail", "roadcast") | raises("InvalidArgument") | raises("RuntimeException"),
            what="the condition has the shape (n,) and does not line up with (n, 3, h, w).",
            why="Shapes are matched from the right: n meets the width.",
            do="Keep the three axes: mean((1, 2, 3), keepdim=True).",
        ),
    ),
)

# -- 4 rescue ----------------------------------------------------------------------------------------


def old_model(rng: Generator, classes: int) -> ModelProto:
    """A small network of opset 20: convolution, mean over the picture (axes as an input), linear layer."""
    from onnx import TensorProto, helper, numpy_helper

    weights = {
        "conv.weight": rng.standard_normal((8, 3, 3, 3)),
        "conv.bias": rng.standard_normal(8),
        "fc.weight": rng.standard_normal((classes, 8)),
        "fc.bias": rng.standard_normal(classes),
    }
    nodes = [
        helper.make_node("Conv", ["image", "conv.weight", "conv.bias"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("ReduceMean", ["b", "axes"], ["c"], "mean", keepdims=0),
        helper.make_node("Gemm", ["c", "fc.weight", "fc.bias"], ["scores"], "fc", transB=1),
    ]
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 6, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", classes])],
        [*tensors, numpy_helper.from_array(np.array([2, 3]), "axes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def draw_rescue(rng: Generator, classes: int) -> dict[str, Any]:
    import onnx

    name = f"net{rng.integers(10, 99)}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.onnx")
        onnx.save_model(
            old_model(rng, classes), str(path), save_as_external_data=True, location=f"{name}.data", size_threshold=100
        )
        return {
            "old": File(path.name, path.read_bytes()),
            "weights": File(f"{name}.data", Path(folder, f"{name}.data").read_bytes()),
        }


def rescued(case: CaseRun) -> bytes:
    return case.files["rescued.onnx"]


@cache
def expected_scores(old: bytes, weights: bytes, count: int) -> Array:
    """What the two files compute."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        from onnx import ModelProto

        name = next(e.value for t in ModelProto.FromString(old).graph.initializer for e in t.external_data)
        Path(folder, "old.onnx").write_bytes(old)
        Path(folder, name).write_bytes(weights)
        session = ort.InferenceSession(str(Path(folder, "old.onnx")), providers=["CPUExecutionProvider"])
        result: Array = session.run(None, {"image": pictures(count, 6, 8, 3)})[0]
    return result


def is_inside(data: bytes) -> bool:
    import onnx

    model = onnx.ModelProto.FromString(data)
    return all(tensor.data_location != onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)


def same_network(case: CaseRun) -> bool:
    old, weights = case.inputs["old"].data, case.inputs["weights"].data
    count = axes_of(rescued(case))[0][0] or 3
    return np.allclose(scores(rescued(case), pictures(count, 6, 8, 3)), expected_scores(old, weights, count), atol=1e-4)


def valid(case: CaseRun) -> bool:
    loaded(rescued(case))
    return True


def broken_by(test: Callable[[CaseRun], bool]) -> Sign:
    """The test does not hold of the first case's file (or cannot be made)."""

    def ask(case: CaseRun) -> bool:
        try:
            return not test(case)
        except Exception:
            return True

    return of_files(ask)


BESIDE = 'save_as_external_data=True, location="rescued.data", size_threshold=100'
CONVERT = "model = version_converter.convert_version(model, 17)"

RESCUE = Check(
    "05_export.rescue",
    run=read(files=("rescued.onnx",)),
    draw=draw_rescue,
    sizes=(4, 7),
    must=(
        file_made("rescued.onnx"),
        require(
            "opset",
            lambda case: 8 <= opset_of(rescued(case)) <= 18,
            holds="its opset is one that ATC takes",
            fails="its opset is none that ATC takes",
            do="Convert the loaded model: version_converter.convert_version(model, 17).",
        ),
        require(
            "one_file",
            lambda case: is_inside(rescued(case)),
            holds="its weights are inside",
            fails="its weights are not inside",
            do="Load the model with its weights, and save it without save_as_external_data.",
        ),
        require(
            "valid",
            valid,
            holds="onnx.checker accepts it",
            fails="onnx.checker does not accept it",
            do="Run onnx.checker.check_model('rescued.onnx', full_check=True) and read what it says.",
        ),
        require(
            "shape",
            lambda case: (
                names_of(rescued(case)) == (["image"], ["scores"]) and axes_of(rescued(case))[0] == [0, 3, 6, 8]
            ),
            holds="names and open batch are as they were",
            fails="names or open batch are not as they were",
            do="Leave the graph alone; only the opset changes.",
        ),
        require(
            "numbers",
            same_network,
            holds="it computes what the old files compute",
            fails="it does not compute what the old files compute",
            do="Compare both with ONNX Runtime on the same batch.",
        ),
    ),
    misconceptions=(
        Misconception(
            "only_the_number",
            change(CONVERT, "model.opset_import[0].version = 17"),
            ~unmet("opset") & ~unmet("one_file") & unmet("valid"),
            what="the file says that it is of an older opset, and holds operators in their newer form.",
            why="opset_import is a label for all operators; ReduceMean looks different before opset 18.",
            do="Let version_converter.convert_version(model, 17) rewrite the operators.",
        ),
        Misconception(
            "weights_left_out",
            change("onnx.load(old)", "onnx.load(old, load_external_data=False)"),
            source(r"load_external_data=False"),
            what="the model was loaded without its weights.",
            why="load_external_data=False reads the graph only; the names of the weights' file stay in it.",
            do="Call onnx.load(old).",
        ),
        Misconception(
            "two_files_again",
            change('"rescued.onnx")', f'"rescued.onnx", {BESIDE})'),
            unmet("one_file") & ~unmet("opset"),
            what="the weights lie beside the new file again.",
            why="save_as_external_data=True writes them to a file of their own.",
            do='Call onnx.save(model, "rescued.onnx").',
        ),
        Misconception(
            "result_dropped",
            change("model = version_converter", "version_converter"),
            calls("convert_version") & of_files(lambda case: opset_of(rescued(case)) == 20),
            what="the new file still has opset 20.",
            why="convert_version gives a new model and leaves its argument as it was.",
            do="Keep what it returns: model = version_converter.convert_version(model, 17).",
        ),
        Misconception(
            "not_converted",
            change(CONVERT, ""),
            of_files(lambda case: opset_of(rescued(case)) == 20),
            what="the new file still has opset 20.",
            why="Loading and saving brings the weights inside and changes no operator.",
            do="Convert the model in between: version_converter.convert_version(model, 17).",
        ),
        Misconception(
            "not_far_enough",
            change("17)", "19)"),
            unmet("opset") & ~unmet("file_made"),
            what="the new opset is not one that ATC takes.",
            why="ATC of CANN 8.1 has parsers for the opsets 8 to 18.",
            do="Convert to 17.",
        ),
        Misconception(
            "another_name",
            change('"rescued.onnx"', '"rescued"'),
            unmet("file_made"),
            what="there is no file rescued.onnx.",
            why="onnx.save takes the name as it is and adds no ending.",
            do='Call onnx.save(model, "rescued.onnx").',
        ),
    ),
)

# -- 5 the gate --------------------------------------------------------------------------------------

BUILD = '''
def build(path, opset=17, batch="n", names=("image", "scores"), training=0, w1=w1, w2=w2, domain="", fold=True):
    """The classifier of the setup cell as an ONNX file."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    wide = {{"w1": w1, "w2": w2, "one": np.ones(12), "mean": mean, "var": var, "zero": np.zeros(12)}}
    if fold:
        scale = 1 / np.sqrt(var + 1e-5)
        wide["w1"], wide["mean"] = w1 * scale, mean * scale
        wide["var"] = np.full(12, 1 - 1e-5, np.float32)
    statistics = ["c", "m", "v"] if training else ["c"]
    act = helper.make_node("Relu", ["c"], ["d"], "relu")
    opsets = [helper.make_opsetid("", opset)]
    middle = [act]
    if domain:
        middle = [
            act,
            helper.make_node("Gelu", ["d"], ["e0"], "gelu", domain=domain),
            helper.make_node("Relu", ["c"], ["e"], "again"),
        ]
        opsets.append(helper.make_opsetid(domain, 1))
    nodes = [
        helper.make_node("Flatten", [names[0]], ["a"], "flatten"),
        helper.make_node("MatMul", ["a", "w1"], ["b"], "fc1"),
        helper.make_node("BatchNormalization", ["b", "one", "zero", "mean", "var"], statistics, "bn",
                         **({{"training_mode": 1}} if training else {{}})),
        *middle,
        helper.make_node("MatMul", ["e" if domain else "d", "w2"], [names[1]], "fc2"),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, [batch, 1, 4, 6])],
        [helper.make_tensor_value_info(names[1], TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name) for name, array in wide.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def export(file):
    build(file, {arguments})
'''.strip()  # fmt: skip


def specimen(arguments: str) -> str:
    """A program with a function ``export(file)`` that writes an export with these properties."""
    return BUILD.format(arguments=arguments)


RIGHT = {
    "a good export of opset 17": specimen("fold=False"),
    "a good export of opset 13, folded": specimen("opset=13"),
    "a good export of opset 18 with other rounding": specimen("opset=18, w2=w2 * np.float32(1 + 1e-5)"),
    "a good export of opset 8": specimen("opset=8, fold=False"),
}
WRONG = {
    "opset 7": specimen("opset=7"),
    "opset 20": specimen("opset=20"),
    "opset 19": specimen("opset=19, fold=False"),
    "training mode": specimen("training=1, fold=False"),
    "a batch fixed to 1": specimen("batch=1"),
    "a batch fixed to 5": specimen("batch=5"),
    "an output with another name": specimen('names=("image", "output")'),
    "an input with another name": specimen('names=("input", "scores")'),
    "two classes exchanged": specimen("w2=w2[:, [0, 2, 1, 3]]"),
    "scores a little too large": specimen("w2=w2 * np.float32(1.05)"),
    "an operator of another domain": specimen('domain="com.microsoft"'),
}


def alarm() -> Sign:
    """A good export was refused."""
    return sign(lambda attempt: any(refuses(title)(attempt) for title in RIGHT))


def missed(*titles: str) -> Sign:
    """All these bad exports passed."""
    return sign(lambda attempt: all(lets_pass(title)(attempt) for title in titles))


DOMAIN = '    assert all(node.domain in ("", "ai.onnx") for node in model.graph.node)\n'
OPSET = "8 <= entry.version <= 18"
COMPARE = "        assert np.abs(got - expected[:batch]).max() < 1e-3"

COSINE = """\
        a, b = got.ravel(), expected[:batch].ravel()
        assert a @ b / np.sqrt((a @ a) * (b @ b)) > 0.9999"""

GATE = Check(
    "05_export.gate",
    run=catches("gate", "export", right=RIGHT, wrong=WRONG),
    misconceptions=(
        Misconception(
            "checker_only",
            '# exercise: 05_export.gate\ndef gate(export):\n    export("a")\n    onnx.checker.check_model("a")',
            missed("opset 20", "training mode", "two classes exchanged", "an output with another name"),
            what="next to nothing stops at this gate.",
            why="onnx.checker checks the grammar of the file. It knows neither ATC's opsets nor your network.",
            do="Look at opset_import, and run the file on the images.",
        ),
        Misconception(
            "bit_by_bit",
            change(COMPARE, "        assert np.array_equal(got, expected[:batch])"),
            alarm() & ~missed("training mode"),
            what="good files do not pass.",
            why="Folding and another order of additions change the last bits, and old opsets are known to ATC.",
            do="Allow a difference below 1e-3, and every opset from 8 to 18.",
        ),
        Misconception(
            "no_numbers",
            change(COMPARE, "        assert got.shape == (batch, 4)"),
            missed("training mode", "two classes exchanged"),
            what="a file may compute anything.",
            why="The shape of the scores is right in every one of these exports; their values are not.",
            do="Compare with `expected`: the largest difference must be below 1e-3.",
        ),
        Misconception(
            "classes_only",
            change(COMPARE, "        assert (got.argmax(1) == expected[:batch].argmax(1)).all()"),
            calls("argmax") & missed("scores a little too large"),
            what="scores that are too large pass.",
            why="The best class is the same, while every score is five percent off.",
            do="Compare the scores themselves.",
        ),
        Misconception(
            "cosine_only",
            change(COMPARE, COSINE),
            missed("scores a little too large"),
            what="scores that are too large pass.",
            why="The cosine sees the direction, not the length.",
            do="Compare the largest difference as well.",
        ),
        Misconception(
            "one_batch",
            change("for batch in (1, len(images)):", "for batch in (len(images),):"),
            missed("a batch fixed to 5"),
            what="a file for batches of 5 only passes.",
            why="The test ran it with exactly this batch.",
            do="Run it with one image and with all of them.",
        ),
        Misconception(
            "single_image",
            change("for batch in (1, len(images)):", "for batch in (1,):"),
            missed("a batch fixed to 1"),
            what="a file for single images only passes.",
            why="The test ran it with exactly this batch.",
            do="Run it with one image and with all of them.",
        ),
        Misconception(
            "no_opset",
            change(f"assert all({OPSET}", "assert all(entry.version >= 8"),
            missed("opset 20"),
            what="a file of opset 20 passes.",
            why="ONNX Runtime runs it; ATC has no parsers for it.",
            do="Assert that the version of ONNX in opset_import lies between 8 and 18.",
        ),
        Misconception(
            "off_by_one",
            change(OPSET, "8 <= entry.version < 20"),
            missed("opset 19"),
            what="a file of opset 19 passes.",
            why="The last opset of ATC 8.1 is 18.",
            do="Assert 8 <= version <= 18.",
        ),
        Misconception(
            "no_domain",
            change(DOMAIN, ""),
            missed("an operator of another domain"),
            what="an operator of com.microsoft passes.",
            why="ONNX Runtime brings operators of its own; ATC has none of that domain.",
            do='Assert that the domain of every node is "" or "ai.onnx".',
        ),
        Misconception(
            "any_output",
            change('session.run(["scores"], ', "session.run(None, "),
            missed("an output with another name"),
            what="a file whose output has another name passes.",
            why="Nothing asks for the output by its name: run(None, ...) takes every output, whatever it is called.",
            do='Ask for it: run(["scores"], ...).',
        ),
    ),
)

CHECKS = [VERDICTS, EXPORT, BRANCH, RESCUE, GATE]
