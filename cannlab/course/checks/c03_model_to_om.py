"""Checks of 03_model_to_om."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.course.spec import (
    Attempt,
    CaseRun,
    Check,
    File,
    Misconception,
    Sign,
    all_codes_zero,
    allclose,
    call,
    called,
    calls,
    change,
    command,
    everything_destroyed,
    everything_freed,
    exit_status,
    fails_where,
    file_made,
    gives,
    got,
    how_many_right,
    model_bytes,
    near,
    om_for_chip,
    option,
    raises,
    read,
    require,
    says,
    sign,
    source,
    unmet,
)
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from numpy.random import Generator

Array = NDArray[Any]
SOC = "Ascend910B1"
SMALL_SOC = "Ascend310B4"
"""The chip of the last exercise: there the time grows visibly with the batch."""

# -- models ------------------------------------------------------------------------------------------


@cache
def onnx_bytes(
    dims: tuple[int | str, ...], classes: int, *, name: str = "image", opset: int = 13, activation: str = "Relu"
) -> bytes:
    """A small network with fixed weights: convolution 3x3, activation, pooling 2x2, linear layer.

    ``dims`` is the input's shape (a text stands for an open dimension); height and width are even numbers.
    """
    from onnx import helper

    _, channels, height, width = dims
    assert isinstance(channels, int)
    assert isinstance(height, int)
    assert isinstance(width, int)
    rng = np.random.default_rng(channels * 1000 + height * 10 + width)
    filters, features = 8, 8 * (height // 2) * (width // 2)
    weights = {
        "conv.weight": rng.standard_normal((filters, channels, 3, 3)) / 3,
        "conv.bias": rng.standard_normal(filters) / 3,
        "fc.weight": rng.standard_normal((classes, features)) / features**0.5,
        "fc.bias": rng.standard_normal(classes),
    }
    nodes = [
        helper.make_node("Conv", [name, "conv.weight", "conv.bias"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node(activation, ["a"], ["b"], "activation"),
        helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["c"], ["d"], "flatten"),
        helper.make_node("Gemm", ["d", "fc.weight", "fc.bias"], ["scores"], "fc", transB=1),
    ]
    shapes = {name: dims}, {"scores": [dims[0], classes]}
    return model_bytes(nodes, *shapes, weights, name="small", opset=opset)


def atc(model: bytes, *options: str) -> tuple[str, bytes]:
    """What atc prints for ``net.onnx`` (without process number and time), and the om that it makes (b"" if none)."""
    from cannlab.atc import main

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as console:
        Path(folder, "net.onnx").write_bytes(model)
        with contextlib.chdir(folder):
            main(["--output=net", "--export_compile_stat=0", *options])
        made = Path(folder, "net.om")
        data = made.read_bytes() if made.is_file() else b""
    return re.sub(r" \[PID: \d+\] \S+", "", console.getvalue()), data


@cache
def om_bytes(dims: tuple[int, ...], classes: int, soc: str = SOC) -> bytes:
    """The small network, converted."""
    console, data = atc(onnx_bytes(dims, classes), "--model=net.onnx", "--framework=5", f"--soc_version={soc}")
    assert data, console
    return data


# -- 1 a command line --------------------------------------------------------------------------------


def draw_atc_command(rng: Generator, soc: str) -> dict[str, Any]:
    name = str(rng.choice(["pixels", "photo", "x.1", "net_in", "data"]))
    batch, channels, height, width = (int(n) for n in rng.permutation([2, 3, 6, 10]))
    height, width = 2 * height, 2 * width
    model = onnx_bytes(("N", channels, height, width), 7, name=name)
    return {
        "model": File(f"net{rng.integers(10, 99)}.onnx", model),
        "input_name": name,
        "dims": [batch, channels, height, width],
        "soc": soc,
    }


def made_om(case: CaseRun) -> Any:
    """The om that the command made."""
    from cannlab import om

    return om.read(case.files["digits.om"])


ATC_COMMAND = Check(
    "03_model_to_om.atc_command",
    run=command("command", program="atc", files=("digits.om",)),
    draw=draw_atc_command,
    sizes=("Ascend910B1", "Ascend310P3", "Ascend310B4"),
    must=(
        exit_status(0),
        file_made("digits.om"),
        om_for_chip("digits.om"),
        require(
            "shape",
            lambda case: list(made_om(case).inputs[0].dims) == case.inputs["dims"],
            holds="its input has the shape that was asked for",
            fails="its input has another shape, or there is no om",
            do="Join all numbers of dims with commas, in their order, behind the name and a colon.",
        ),
    ),
    misconceptions=(
        Misconception(
            "list_as_printed",
            change("--input_shape={input_name}:{shape}", "--input_shape={input_name}:{dims}"),
            option("input_shape", lambda value: "[" in value or "(" in value),
            what="--input_shape holds the list as Python prints it, and atc cannot read brackets and spaces.",
            why="A shell splits a command at its spaces, and atc wants numbers with commas between them: n,c,h,w.",
            do='Join the numbers: ",".join(str(n) for n in dims).',
        ),
        Misconception(
            "om_suffix",
            change("--output=digits", "--output=digits.om"),
            option("output", lambda value: value.endswith(".om"))
            & sign(lambda attempt: all(case.status == 0 for case in attempt.cases)),
            what="--output already ends in .om, so the file is called digits.om.om.",
            why="ATC adds .om to the value of --output.",
            do="Write --output=digits.",
        ),
        Misconception(
            "framework",
            change("--framework=5", "--framework=1"),
            option("framework", lambda value: value != "5"),
            what="--framework is not the number of ONNX.",
            why="The number names the format of the file: 0 Caffe, 1 MindSpore, 3 TensorFlow, 5 ONNX.",
            do="Write --framework=5.",
        ),
        Misconception(
            "no_shape",
            change(" --input_shape={input_name}:{shape}", ""),
            sign(
                lambda attempt: (
                    any(case.arguments for case in attempt.cases)
                    and not any("input_shape" in word for case in attempt.cases for word in case.arguments)
                )
            ),
            what="the command has no --input_shape.",
            why="The batch of this ONNX file is open (N), and an om is made for one set of numbers.",
            do="Add --input_shape=NAME:n,c,h,w.",
        ),
        Misconception(
            "shape_without_name",
            change("--input_shape={input_name}:{shape}", "--input_shape={shape}"),
            option("input_shape", lambda value: ":" not in value),
            what="--input_shape holds numbers and no name.",
            why="A model may have several inputs, so each shape stands behind the name of its input.",
            do="Write --input_shape={input_name}:{shape}.",
        ),
        Misconception(
            "name_from_tutorial",
            change("--input_shape={input_name}:{shape}", "--input_shape=input:{shape}"),
            says("E10016"),
            what="--input_shape names an input that the model does not have.",
            why="The name is the one in the ONNX file, letter by letter; a name from a tutorial belongs to its model.",
            do="Use the variable input_name.",
        ),
        Misconception(
            "batch_left_out",
            change("for n in dims)", "for n in dims[1:])"),
            says("E10049"),
            what="--input_shape gives one dimension less than the model has.",
            why="The first dimension is the batch; it belongs to the shape even when it is 1.",
            do="Join all numbers of dims.",
        ),
        Misconception(
            "channels_last",
            change("for n in dims)", "for n in [dims[0], *dims[2:], dims[1]])"),
            says("E89999") | (unmet("shape") & ~unmet("soc")),
            what="the numbers of --input_shape stand in another order than in dims.",
            why="A network exported from PyTorch reads n,c,h,w.",
            do="Join the numbers of dims in their order.",
        ),
        Misconception(
            "chip_without_ascend",
            change("--soc_version={soc}", "--soc_version={soc[6:]}"),
            option("soc_version", lambda value: not value.startswith("Ascend")),
            what="--soc_version holds the chip's short name.",
            why="npu-smi prints 910B1; ATC wants Ascend in front of it.",
            do="Write --soc_version={soc}.",
        ),
        Misconception(
            "fixed_chip",
            change("--soc_version={soc}", "--soc_version=Ascend910B1"),
            unmet("soc") & ~unmet("file_made"),
            what="the om is always made for the same chip.",
            why="An om holds code for one chip, and the other chips refuse it.",
            do="Give --soc_version the value of the variable soc.",
        ),
    ),
)

# -- 2 reading a failure -----------------------------------------------------------------------------

FAILURES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "opset": ("net.onnx", {"opset": 20}, ("--input_shape=image:1,3,8,12",)),
    "operator": ("net.onnx", {"opset": 17, "activation": "Swish"}, ("--input_shape=image:1,3,8,12",)),
    "name": ("net.onnx", {}, ("--input_shape=input:1,3,8,12",)),
    "rank": ("net.onnx", {}, ("--input_shape=image:3,8,12",)),
    "soc": ("net.onnx", {}, ("--input_shape=image:1,3,8,12",)),
    "file": ("nett.onnx", {}, ("--input_shape=image:1,3,8,12",)),
}
"""What is wrong -> the value of --model, how the ONNX file is made, and the option that gives the shape."""


@cache
def failure(what: str) -> str:
    """The command that fails in this way, and its console."""
    model, making, options = FAILURES[what]
    chip = "910B1" if what == "soc" else SOC
    words = (f"--model={model}", "--framework=5", f"--soc_version={chip}", *options)
    console, made = atc(onnx_bytes(("N", 3, 8, 12), 5, **making), *words)
    assert not made
    return f"$ atc --output=net {' '.join(words)}\n{console}"


def draw_failures(rng: Generator, size: None) -> dict[str, Any]:
    # One of each pair, so that mixing up a pair is wrong for everybody.
    chosen = ["opset", "operator", rng.choice(["name", "rank"]), rng.choice(["soc", "file"])]
    order = rng.permutation(chosen)
    return {"logs": {letter: failure(str(what)) for letter, what in zip("ABCD", order, strict=True)}}


def right_causes(logs: dict[str, str]) -> dict[str, str]:
    known = {failure(what): what for what in FAILURES}
    return {letter: known[log] for letter, log in logs.items()}


def took(true: str, *said: str) -> Sign:
    """The learner took one cause for another."""

    def test(result: Any, logs: dict[str, str]) -> bool:
        truth = right_causes(logs)
        return any(truth[letter] == true and result.get(letter) in said for letter in logs)

    return got(test)


READ_FAILURE = Check(
    "03_model_to_om.read_failure",
    run=read("causes"),
    draw=draw_failures,
    reference=right_causes,
    must=(how_many_right("causes are"),),
    misconceptions=(
        Misconception(
            "two_codes_one_cause",
            change('"opset" if "::20::" in log else "operator"', '"opset"'),
            took("operator", "opset"),
            what="you put the failure of one operator down to the opset.",
            why="Both give E19010. Its key is domain::opset::type: opset 17 is known, the type in it is not.",
            do="Read the type in the key, and find the command whose opset is outside 8 to 18.",
        ),
        Misconception(
            "operator_for_opset",
            change('"opset" if "::20::" in log else "operator"', '"operator"'),
            took("opset", "operator"),
            what="you put a failure of the whole opset down to one operator.",
            why="Conv is certainly known to ATC, but not at opset 20: every operator of that model fails.",
            do="Read the middle of the key ai.onnx::OPSET::TYPE, and count the operators in the list.",
        ),
        Misconception(
            "shape_for_model",
            change('"opset" if "::20::" in log else "operator"', '"name"'),
            took("operator", "name", "rank", "soc", "file") | took("opset", "name", "rank", "soc", "file"),
            what="you blame an option for a failure that lies in the model.",
            why="E19010 means: no parser for an operator. No option of the command changes that.",
            do="Give the two E19010 failures to opset and operator.",
        ),
        Misconception(
            "name_and_rank",
            change('"E10016": "name", "E10049": "rank"', '"E10016": "rank", "E10049": "name"'),
            took("name", "rank") | took("rank", "name"),
            what="you exchanged the two mistakes of --input_shape.",
            why="E10016: the name is not in the model. E10049: the number of dimensions is another.",
            do="Read the text behind the code: it shows the name, or the two numbers of dimensions.",
        ),
        Misconception(
            "model_for_option",
            change('"E10016": "name", "E10049": "rank"', '"E10016": "operator", "E10049": "opset"'),
            took("name", "opset", "operator")
            | took("rank", "opset", "operator")
            | took("soc", "opset", "operator")
            | took("file", "opset", "operator"),
            what="you blame the model for a mistake in the command line.",
            why="ATC reads the options and opens the file first; it had not looked at any operator yet.",
            do="Compare the text behind the code with the command in the first line.",
        ),
        Misconception(
            "chip_and_file",
            change('"E10001": "soc", "E19000": "file"', '"E10001": "file", "E19000": "soc"'),
            took("name", "soc", "file")
            | took("rank", "soc", "file")
            | took("soc", "file", "name", "rank")
            | took("file", "soc", "name", "rank"),
            what="you took one option for another.",
            why="The text behind the code names the option and the value that it dislikes.",
            do="Look for the words --input_shape, --soc_version or --model in the text behind the code.",
        ),
    ),
)

# -- 3 running an om ---------------------------------------------------------------------------------


def draw_run_om(rng: Generator, size: tuple[int, int, tuple[int, int, int], int]) -> dict[str, Any]:
    batch, count, dims, classes = size
    images = rng.standard_normal((count, *dims)).astype(np.float32)
    return {"om_path": File("net.om", om_bytes((batch, *dims), classes)), "images": images}


def scores_of(om_path: File, images: Array) -> Array:
    """The scores of all images, by the om's own executor."""
    from cannlab import om
    from cannlab.machine.executor import Model

    model = Model(om.read(om_path.data))
    batch, rows = model.om.inputs[0].dims[0], []
    for first in range(0, len(images), batch):
        part = np.zeros(model.om.inputs[0].dims, np.float32)
        part[: len(images) - first] = images[first : first + batch]
        rows.append(model.run([part])[0][0])
    return np.concatenate(rows)[: len(images)]


def batch_of(om_path: File) -> int:
    from cannlab import om

    return om.read(om_path.data).inputs[0].dims[0]


def executions(case: CaseRun) -> int:
    assert case.record is not None
    return sum(row["kind"] == TaskKind.MODEL for row in case.record.tasks.rows())


def rows_of(result: Any) -> int:
    """How many rows a table of scores has; -1 if it is none."""
    return len(result) if isinstance(result, np.ndarray) and result.ndim == 2 else -1


RUN_OM = Check(
    "03_model_to_om.run_om",
    run=call("classify"),
    draw=draw_run_om,
    sizes=((1, 1, (1, 8, 8), 10), (4, 4, (3, 6, 10), 7), (4, 9, (3, 6, 10), 7), (3, 2, (2, 4, 12), 5)),
    reference=scores_of,
    compare=allclose(rtol=1e-3, atol=1e-3),
    must=(
        called("acl.mdl.get_input_size_by_index"),
        called("acl.mdl.get_output_size_by_index"),
        require(
            "whole_batches",
            lambda case: executions(case) == -(-len(case.inputs["images"]) // batch_of(case.inputs["om_path"])),
            holds="the model ran once for each batch",
            fails="the model did not run once for each batch",
            do="Ask the model for its batch (the first of its input's dims), and step through the images by it.",
        ),
        everything_freed(),
        everything_destroyed(),
        called("acl.finalize"),
        all_codes_zero(),
    ),
    misconceptions=(
        Misconception(
            "one_image_at_a_time",
            change(
                'batch = acl.mdl.get_input_dims(desc, 0)[0]["dims"][0]',
                "batch = 1",
                "(batch, *images",
                "(in_size // images[0].nbytes, *images",
                "reshape(batch, -1)",
                "reshape(in_size // images[0].nbytes, -1)",
            ),
            unmet("whole_batches") & got(lambda result, om_path, images: rows_of(result) == len(images)),
            what="every image has an execution of its own, and the rest of each batch is empty.",
            why="An om of batch 4 computes 4 images every time, whether you fill them in or not.",
            do="Set batch to the first of the dims that get_input_dims gives, and step by it.",
        ),
        Misconception(
            "batch_written_down",
            change('batch = acl.mdl.get_input_dims(desc, 0)[0]["dims"][0]', "batch = 4"),
            source(r"batch = \d+"),
            what="the batch size is a number in your code.",
            why="It belongs to the om: another conversion, another number, and copies that do not fit its buffers.",
            do='Ask: acl.mdl.get_input_dims(desc, 0)[0]["dims"][0].',
        ),
        Misconception(
            "size_of_one_image",
            change(
                "in_size = acl.mdl.get_input_size_by_index(desc, 0)",
                "in_size = acl.mdl.get_input_size_by_index(desc, 0) // batch",
            ),
            fails_where(lambda om_path, images: batch_of(om_path) > 1),
            what="the input buffer is too small for a batch.",
            why="The size that the model states is that of the whole input, all images of the batch together.",
            do="Allocate what get_input_size_by_index gives.",
        ),
        Misconception(
            "last_batch_only",
            change("    return np.concatenate(scores)", "    return scores[-1]"),
            gives(
                lambda om_path, images: scores_of(om_path, images)[
                    (len(images) - 1) // batch_of(om_path) * batch_of(om_path) :
                ],
                allclose(1e-3, 1e-3, dtype=False),
            ),
            what="you return the scores of the last batch.",
            why="The loop makes one array for each batch.",
            do="Return np.concatenate(scores).",
        ),
        Misconception(
            "rest_dropped",
            change("range(0, len(images), batch)", "range(0, len(images) - batch + 1, batch)"),
            raises("ValueError", "at least one array")
            | got(lambda result, om_path, images: 0 <= rows_of(result) < len(images)),
            what="the images behind the last whole batch have no scores.",
            why="9 images in batches of 4 are three executions; the last one is filled up.",
            do="Step through range(0, len(images), batch), and fill the last batch up with zeros.",
        ),
        Misconception(
            "filling_kept",
            change("scores.append(rows[: len(part)])", "scores.append(rows)"),
            got(lambda result, om_path, images: rows_of(result) > len(images)),
            what="there are more scores than images.",
            why="The zeros that fill up the last batch get scores too.",
            do="Keep the first len(part) rows of each batch only.",
        ),
        Misconception(
            "float16_out",
            change("np.frombuffer(outputs.get(), np.float32)", "np.frombuffer(outputs.get(), np.float16)"),
            got(lambda result, om_path, images: isinstance(result, np.ndarray) and result.dtype == np.float16),
            what="you read the scores as float16.",
            why="The chip computes in float16, but inputs and outputs keep the types of the ONNX file: float32.",
            do="Read the bytes with np.float32 (acl.mdl.get_output_data_type says it: 0 is float32).",
        ),
        Misconception(
            "not_freed",
            change("    outputs.free()\n", ""),
            unmet("everything_freed"),
            what="device memory is left allocated.",
            why="Destroying a dataset or unloading the model does not free the buffers that you allocated.",
            do="Call free() of inputs and outputs.",
        ),
        Misconception(
            "never_ended",
            change("    stop()\n", ""),
            unmet("acl.finalize"),
            what="the device is not given back, and pyACL is not ended.",
            why="Until then the device is taken: another program on it waits, or finds no memory.",
            do="Call stop() at the end.",
        ),
    ),
)

# -- 4 comparing -------------------------------------------------------------------------------------


def draw_compare(rng: Generator, size: tuple[int, int, float, str]) -> dict[str, Any]:
    images, classes, scale, dtype = size
    reference = (rng.standard_normal((images, classes)) * abs(scale)).astype(np.float32)
    # All errors of a case have one sign, and every third image changes its class.
    result = reference + np.abs(rng.standard_normal((images, classes))) * scale / 100
    for row in range(1, images, 3):
        first, second = np.argsort(result[row])[[-1, -2]]
        result[row, [first, second]] = result[row, [second, first]]
    return {"reference": reference, "got": result.astype(dtype)}


def measures(reference: Array, got: Array) -> dict[str, float]:
    a, b = reference.astype(np.float64), got.astype(np.float64)
    return {
        "max_abs": float(np.abs(a - b).max()),
        "cosine": float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())),
        "same_class": float((a.argmax(axis=1) == b.argmax(axis=1)).mean()),
    }


def value(key: str, wrong: Callable[[Array, Array], Any]) -> Sign:
    """One of the three numbers is what a wrong formula gives in every case, and not always the right one."""

    def test(attempt: Attempt) -> bool:
        found = []
        for case in attempt.cases:
            mistaken = wrong(*(array.astype(np.float64) for array in case.inputs.values()))
            if not np.isclose(case.got[key], mistaken, rtol=1e-4):
                return False
            found.append(np.isclose(mistaken, measures(**case.inputs)[key], rtol=1e-4))
        return not all(found)

    return sign(test)


def lost(result: Any, **inputs: Array) -> bool:
    """A number that is not finite, or a cosine that float16 has spoilt."""
    return not np.isfinite(result["cosine"]) or not np.isfinite(result["max_abs"]) or result["cosine"] < 0.5


COMPARE = Check(
    "03_model_to_om.compare",
    run=call("compare"),
    draw=draw_compare,
    sizes=((1, 7, 1.0, "float32"), (3, 10, -4.0, "float32"), (64, 10, 4.0, "float16"), (5, 1000, -400.0, "float16")),
    reference=measures,
    compare=near(rel=1e-3, abs=1e-6),
    misconceptions=(
        Misconception(
            "equal_numbers",
            change("(a.argmax(axis=1) == b.argmax(axis=1)).mean()", "(a == b).mean()"),
            value("same_class", lambda a, b: (a == b).mean()),
            what="same_class counts scores that are equal to the last bit.",
            why="float16 has 11 significant bits, so almost no score is equal, and the answer may still be the same.",
            do="Compare the classes: argmax(axis=1) of both.",
        ),
        Misconception(
            "no_abs",
            change("np.abs(a - b).max()", "(a - b).max()"),
            value("max_abs", lambda a, b: (a - b).max()) | value("max_abs", lambda a, b: (b - a).max()),
            what="max_abs looks at differences of one sign only.",
            why="A score that is too large gives a negative difference, and max() passes over it.",
            do="Take np.abs before max().",
        ),
        Misconception(
            "mean_for_max",
            change("np.abs(a - b).max()", "np.abs(a - b).mean()"),
            value("max_abs", lambda a, b: np.abs(a - b).mean()),
            what="max_abs is the mean error.",
            why="One broken class among a thousand disappears in a mean.",
            do="Take the largest: .max().",
        ),
        Misconception(
            "argmax_of_all",
            change("argmax(axis=1)", "argmax()"),
            value("same_class", lambda a, b: float(a.argmax() == b.argmax())),
            what="argmax() without an axis looks for one winner in all images together.",
            why="There is one class for each image, that is for each row.",
            do="Write argmax(axis=1).",
        ),
        Misconception(
            "argmax_down",
            change("argmax(axis=1)", "argmax(axis=0)"),
            value("same_class", lambda a, b: (a.argmax(axis=0) == b.argmax(axis=0)).mean()),
            what="argmax(axis=0) asks which image has the highest score of each class.",
            why="The shape is (images, classes); the winner of an image is found along axis 1.",
            do="Write argmax(axis=1).",
        ),
        Misconception(
            "best_scores_equal",
            change("a.argmax(axis=1) == b.argmax(axis=1)", "np.isclose(a.max(axis=1), b.max(axis=1), rtol=0.01)"),
            value("same_class", lambda a, b: np.isclose(a.max(axis=1), b.max(axis=1), rtol=0.01).mean())
            | source(r"\.max\(axis=1\)"),
            what="same_class compares the highest scores.",
            why="The score may differ a little while the class is the same, and the other way round.",
            do="Compare argmax, not max.",
        ),
        Misconception(
            "sum_in_float16",
            change("got.astype(np.float64)", "got", "reference.astype(np.float64)", "reference.astype(got.dtype)"),
            got(lost),
            what="the sums are computed in float16 and overflow.",
            why="float16 ends at 65504; the sum of a few squares of scores is larger. Then the cosine is 0 or nan.",
            do="Convert both arrays with astype(np.float64) first.",
        ),
        Misconception(
            "cosine_not_divided",
            change(" / np.sqrt((a * a).sum() * (b * b).sum())", ""),
            value("cosine", lambda a, b: (a * b).sum()) | value("cosine", lambda a, b: (a * b).mean()),
            what="cosine is a product that still depends on how large the scores are.",
            why="The cosine is the sum of a * b, divided by the lengths of both.",
            do="Divide by np.sqrt((a * a).sum() * (b * b).sum()).",
        ),
    ),
)

# -- 5 preprocessing ---------------------------------------------------------------------------------

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])


def draw_preprocessing(rng: Generator, size: tuple[int, int]) -> dict[str, Any]:
    return {"bgr": rng.integers(0, 256, (*size, 3), dtype=np.uint8)}


def normalised(pixels: Array, mean: Array = MEAN, std: Array = STD) -> Array:
    return (pixels - mean) / std


def trained(bgr: Array) -> Array:
    """What the training did."""
    return planes(normalised(bgr[:, :, ::-1] / 255.0))


def planes(image: Array) -> Array:
    """(h, w, c) to (1, c, h, w)."""
    return image.transpose(2, 0, 1)[None].astype(np.float32)


def like(wrong: Callable[[Array], Array]) -> Sign:
    return gives(wrong, allclose(1e-3, 1e-3, dtype=False))


def shaped(shape: Callable[[int, int], tuple[int, ...]]) -> Sign:
    """Every result has the shape that a wrong move of the axes gives, from height and width."""
    return sign(lambda attempt: all(case.got.shape == shape(*case.inputs["bgr"].shape[:2]) for case in attempt.cases))


SWAP = "bgr[:, :, ::-1].astype(np.float32) / 255"

PREPROCESSING = Check(
    "03_model_to_om.preprocessing",
    run=call("prepare"),
    draw=draw_preprocessing,
    sizes=((2, 3), (3, 2), (5, 4), (7, 9), (32, 48)),
    reference=trained,
    compare=allclose(rtol=1e-4, atol=1e-4),
    misconceptions=(
        Misconception(
            "still_bgr",
            change(SWAP, "bgr.astype(np.float32) / 255"),
            like(lambda bgr: planes(normalised(bgr / 255.0))),
            what="red and blue are exchanged.",
            why="The camera library gives blue, green, red; the network was trained on red, green, blue.",
            do="Turn the last axis round: bgr[:, :, ::-1].",
        ),
        Misconception(
            "not_scaled",
            change(SWAP, "bgr[:, :, ::-1].astype(np.float32)"),
            like(lambda bgr: planes(normalised(bgr[:, :, ::-1].astype(np.float64)))),
            what="the pixels are still 0 to 255 when mean and deviation are used.",
            why="MEAN and STD are those of pixels from 0 to 1.",
            do="Divide by 255 first.",
        ),
        Misconception(
            "reshape_for_transpose",
            change("x.transpose(2, 0, 1)", "x.reshape(3, *x.shape[:2])"),
            like(lambda bgr: normalised(bgr[:, :, ::-1] / 255.0).reshape(1, 3, *bgr.shape[:2])),
            what="reshape gives the right shape and leaves every number where it was.",
            why="The bytes still lie pixel by pixel; the network reads plane by plane.",
            do="Move the axes: x.transpose(2, 0, 1).",
        ),
        Misconception(
            "width_before_height",
            change("x.transpose(2, 0, 1)", "x.transpose(2, 1, 0)"),
            shaped(lambda height, width: (1, 3, width, height)),
            what="height and width are exchanged.",
            why="transpose(2, 1, 0) turns the picture over its diagonal.",
            do="Keep the order of the other two axes: x.transpose(2, 0, 1).",
        ),
        Misconception(
            "channels_last",
            change("x.transpose(2, 0, 1)", "x"),
            shaped(lambda height, width: (1, height, width, 3)),
            what="the channels are still the last axis.",
            why="The network reads n,c,h,w: all red, then all green, then all blue.",
            do="Move the axes: x.transpose(2, 0, 1).",
        ),
        Misconception(
            "swapped_too_late",
            change(SWAP, "bgr.astype(np.float32) / 255", "(x - MEAN) / STD", "((x - MEAN) / STD)[:, :, ::-1]"),
            like(lambda bgr: planes(normalised(bgr / 255.0)[:, :, ::-1])),
            what="the channels were exchanged after the mean of red was taken from blue.",
            why="MEAN and STD stand in the order red, green, blue.",
            do="Turn the channels round first, then normalise.",
        ),
        Misconception(
            "float64",
            change(", dtype=np.float32", ""),
            got(lambda result, bgr: isinstance(result, np.ndarray) and result.dtype == np.float64),
            what="the result is float64.",
            why="MEAN and STD are float64, so numpy computes in float64: twice the bytes that the model's input has.",
            do="Convert the result with dtype=np.float32.",
        ),
        Misconception(
            "no_batch_axis",
            change("[None]", ""),
            shaped(lambda height, width: (3, height, width)),
            what="the batch axis is missing.",
            why="The model's input is n,c,h,w, also for one picture.",
            do="Add it with [None].",
        ),
    ),
)

# -- 6 the largest batch -----------------------------------------------------------------------------

BATCHES = (1, 40, 120, 300)


@cache
def execution_ns(om_data: bytes) -> int:
    """How long one execution takes."""
    from cannlab import om, soc
    from cannlab.machine import cost

    return cost.model_ns(om.read(om_data), soc.get(SMALL_SOC))


def draw_largest_batch(rng: Generator, position: int) -> dict[str, Any]:
    oms = [om_bytes((batch, 3, 16, 16), 10, SMALL_SOC) for batch in BATCHES]
    times = [0, *(execution_ns(data) for data in oms), 10**6]
    # Well above the lower time: on an idle stream the events also see how long it takes to queue the model.
    share = rng.uniform(0.5, 0.8)
    limit = times[position] + share * (times[position + 1] - times[position])
    order = [int(index) for index in rng.permutation(len(oms))]
    fits = [index for index in order if index < position]
    if fits and fits[-1] == max(fits):  # the last one that fits must not be the answer
        order.reverse()
    files = {f"om_{n}": File(f"net{n}.om", oms[index]) for n, index in enumerate(order, 1)}
    return {"limit_us": round(limit / 1000, 3)} | files


def fitting(limit_us: float, **files: File) -> int:
    """The largest batch of an om that takes no longer than the limit; 0 if there is none."""
    return max((batch_of(file) for file in files.values() if execution_ns(file.data) <= limit_us * 1000), default=0)


def event_places(case: CaseRun) -> str:
    """The calls that record an event (E) and that execute a model (M), in the order in which they were made."""
    assert case.record is not None
    letters = {"acl.rt.record_event": "E", "acl.mdl.execute": "M", "acl.mdl.execute_async": "M"}
    names = case.record.strings
    rows = sorted(case.record.calls.rows(), key=lambda row: row["start"])
    return "".join(letters.get(names[row["name"]], "") for row in rows)


def placed(start: str) -> Sign:
    """In the first case the events and the first model stand so: "EM" is right."""
    return sign(lambda attempt: event_places(attempt.cases[0]).startswith(start)) & ~unmet("acl.rt.event_elapsed_time")


LARGEST_BATCH = Check(
    "03_model_to_om.largest_batch",
    run=call("largest_batch"),
    draw=draw_largest_batch,
    sizes=(2, 4, 0),
    reference=fitting,
    must=(
        called("acl.rt.event_elapsed_time"),
        everything_freed(),
        everything_destroyed(),
        called("acl.finalize"),
        all_codes_zero(),
    ),
    misconceptions=(
        Misconception(
            "time_per_image",
            change("ms * 1000 <= limit_us", "ms * 1000 / batch <= limit_us"),
            source(r"/ ?batch\b"),
            what="you compare the time per image with the limit.",
            why="Latency is how long an image waits for its answer, and it waits for its whole batch.",
            do="Compare the whole time of the execution.",
        ),
        Misconception(
            "microseconds",
            change("ms * 1000 <= limit_us", "ms <= limit_us"),
            gives(lambda limit_us, **files: max(batch_of(file) for file in files.values())) & placed("EM"),
            what="every batch fits, whatever the limit.",
            why="event_elapsed_time gives milliseconds; the limit is in microseconds.",
            do="Multiply by 1000 before you compare.",
        ),
        Misconception(
            "begin_too_late",
            change(
                "        ok(acl.rt.record_event(begin, stream))\n",
                "",
                "        ok(acl.rt.record_event(end, stream))\n",
                "        ok(acl.rt.record_event(begin, stream))\n        ok(acl.rt.record_event(end, stream))\n",
            ),
            placed("M"),
            what="both events stand behind the model, so the time between them is next to nothing.",
            why="An event marks the place in the stream where it was recorded.",
            do="Record begin before you queue the model, end after it.",
        ),
        Misconception(
            "end_too_early",
            change(
                "        ok(acl.rt.record_event(end, stream))\n",
                "",
                "        ok(acl.rt.record_event(begin, stream))\n",
                "        ok(acl.rt.record_event(begin, stream))\n        ok(acl.rt.record_event(end, stream))\n",
            ),
            placed("EEM"),
            what="both events stand before the model, so the time between them is next to nothing.",
            why="An event marks the place in the stream where it was recorded.",
            do="Record end after you queued the model.",
        ),
        Misconception(
            "read_too_early",
            change("        ok(acl.rt.synchronize_stream(stream))\n", ""),
            raises("RuntimeError", "107006"),
            what="you asked for the time before the end event had happened.",
            why="record_event and execute_async only queue work: they return at once.",
            do="Call acl.rt.synchronize_stream(stream) before event_elapsed_time.",
        ),
        Misconception(
            "smallest",
            change("best = max(best, batch)", "best = min(best or batch, batch)"),
            gives(
                lambda limit_us, **files: min(
                    (batch_of(f) for f in files.values() if execution_ns(f.data) <= limit_us * 1000), default=0
                )
            ),
            what="you keep the smallest batch that meets the limit.",
            why="Among the batches that are fast enough, the largest one has the best throughput.",
            do="Keep the maximum.",
        ),
        Misconception(
            "last_one",
            change("best = max(best, batch)", "best = batch"),
            gives(
                lambda limit_us, **files: next(
                    (batch_of(f) for f in reversed(files.values()) if execution_ns(f.data) <= limit_us * 1000), 0
                )
            ),
            what="you keep the last batch that meets the limit.",
            why="The om files come in no order.",
            do="Keep the larger one: best = max(best, batch).",
        ),
        Misconception(
            "no_measurement",
            change(
                "        ms, ret = acl.rt.event_elapsed_time(begin, end)\n"
                "        ok(ret)  # mutate: skip nothing fails in the cases\n",
                "        ms = 0.08\n",
            ),
            unmet("acl.rt.event_elapsed_time"),
            what="nothing was measured.",
            why="How long a batch takes depends on the model, the chip and the batch; nobody can write it down.",
            do="Record an event before and after the execution, and ask acl.rt.event_elapsed_time.",
        ),
        Misconception(
            "events_left",
            change("    for event in (begin, end):\n        ok(acl.rt.destroy_event(event))\n", ""),
            unmet("everything_destroyed") & ~calls("destroy_event"),
            what="the two events stay open.",
            why="A chip has a limited number of events, and each call of the function takes two more.",
            do="Destroy both with acl.rt.destroy_event.",
        ),
    ),
)

CHECKS = [ATC_COMMAND, READ_FAILURE, RUN_OM, COMPARE, PREPROCESSING, LARGEST_BATCH]
