"""Checks of 06_reading_atc."""

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
    CaseRun,
    Check,
    File,
    Misconception,
    Sign,
    change,
    got,
    how_many_right,
    model_bytes,
    raises,
    read,
    require,
    sign,
    source,
)

if TYPE_CHECKING:
    from numpy.random import Generator

    from cannlab.course.spec.requirements import Requirement
    from cannlab.om import OmModel

Array = NDArray[Any]
SOC = "Ascend910B1"

# -- models ------------------------------------------------------------------------------------------


def classifier(rng: Generator, dims: tuple[int | str, ...], activation: str = "Relu", *, mean: bool = False) -> bytes:
    """A small network: convolution, activation ``act``, pooling ``pool``, linear layer ``fc``.

    ``dims`` is the shape of the input ``image`` (a text stands for an open dimension); with ``mean`` the pooling
    takes the whole picture, so height and width may be anything.
    """
    from onnx import helper

    height, width = dims[2:]
    features = 4 if mean else 4 * (int(height) // 2) * (int(width) // 2)
    weights = {
        "conv.weight": rng.standard_normal((4, 3, 3, 3)),
        "conv.bias": rng.standard_normal(4),
        "fc.weight": rng.standard_normal((5, features)),
        "fc.bias": rng.standard_normal(5),
    }
    if mean:
        pool = helper.make_node("GlobalAveragePool", ["b"], ["c"], "pool")
    else:
        pool = helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    nodes = [
        helper.make_node("Conv", ["image", "conv.weight", "conv.bias"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node(activation, ["a"], ["b"], "act"),
        pool,
        helper.make_node("Flatten", ["c"], ["d"], "flatten"),
        helper.make_node("Gemm", ["d", "fc.weight", "fc.bias"], ["scores"], "fc", transB=1),
    ]
    return serialised(nodes, {"image": dims}, (dims[0], 5), weights)


def pair(rng: Generator) -> bytes:
    """A network with two inputs: left (n, 1, 4, 6) and right (n, 8), joined, and a linear layer."""
    from onnx import helper

    nodes = [
        helper.make_node("Flatten", ["left"], ["a"], "flatten"),
        helper.make_node("Concat", ["a", "right"], ["b"], "concat", axis=1),
        helper.make_node("Gemm", ["b", "fc.weight", "fc.bias"], ["scores"], "fc", transB=1),
    ]
    weights = {"fc.weight": rng.standard_normal((5, 32)), "fc.bias": rng.standard_normal(5)}
    return serialised(nodes, {"left": ("n", 1, 4, 6), "right": ("n", 8)}, ("n", 5), weights)


def serialised(
    nodes: list[Any], inputs: dict[str, tuple[int | str, ...]], scores: tuple[int | str, ...], weights: dict[str, Array]
) -> bytes:
    """A network whose float32 output is ``scores``."""
    return model_bytes(nodes, inputs, {"scores": scores}, weights, name="small")


# -- reading what the commands left ------------------------------------------------------------------


def made(case: CaseRun, name: str) -> OmModel:
    """The om of this name. An error if it was not made."""
    from cannlab import om

    return om.read(case.files[f"{name}.om"])


def wanted(name: str, fact: str, test: Callable[[OmModel], bool], do: str) -> Requirement:
    """The om of this name is as it should be; the requirement is called as the om."""
    return require(
        name,
        lambda case: test(made(case, name)),
        holds=f"{name}.om {fact}",
        fails=f"there is no {name}.om that {fact}",
        do=do,
    )


def om_where(name: str, test: Callable[[OmModel], bool]) -> Sign:
    """The om of this name was made, and the test holds of it."""
    return sign(lambda attempt: test(made(attempt.cases[0], name)))


def lacks(name: str) -> Sign:
    """The om of this name was not made."""
    return sign(lambda attempt: not attempt.cases[0].files.get(f"{name}.om"))


def says(text: str) -> Sign:
    """A command printed this text (process number and time left out)."""
    return sign(lambda attempt: text in re.sub(r" \[PID: \d+\] \S+", "", attempt.cases[0].printed))


def plain(model: OmModel) -> bool:
    """An om for the right chip, with nothing special about it."""
    return model.soc == SOC and [tensor.type.name for tensor in model.outputs] == ["float32"]


READ_TEXT = "Read the first code of its output, and the text behind the code."

# -- 1 which code comes first ------------------------------------------------------------------------

MISTAKES = {
    "E10001": [("missing.onnx", "image:1,3,8,12", "910B1"), ("swish.onnx", "images:1,3,8,12", "910B1")],
    "E19000": [("missing.onnx", "images:1,3,8,12", SOC), ("missing.onnx", "image:3,8,12", SOC)],
    "E19010": [("swish.onnx", "images:1,3,8,12", SOC), ("swish.onnx", "image:3,8,12", SOC)],
    "E10016": [("net.onnx", "images:1,3,8,12", SOC), ("net.onnx", "images:3,8,12", SOC)],
    "E10049": [("net.onnx", "image:3,8,12", SOC), ("net.onnx", "image:1,1,3,8,12", SOC)],
}
"""The first code -> what --model, --input_shape and --soc_version of such a command may be."""


def written(model: str, shape: str, soc: str) -> str:
    return f'atc --model={model} --framework=5 --output=net --soc_version={soc} --input_shape="{shape}"'


COMMANDS = {written(*words): words for commands in MISTAKES.values() for words in commands}


@cache
def first_code(command: str) -> str:
    """The first code that atc prints for one of these commands."""
    from cannlab.atc import main

    model, shape, soc = COMMANDS[command]
    rng = np.random.default_rng(6)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as console:
        Path(folder, "net.onnx").write_bytes(classifier(rng, ("n", 3, 8, 12)))
        Path(folder, "swish.onnx").write_bytes(classifier(rng, ("n", 3, 8, 12), "Swish"))
        with contextlib.chdir(folder):
            main(
                [f"--model={model}", "--framework=5", "--output=net", f"--soc_version={soc}", f"--input_shape={shape}"]
            )
    found = re.search(r"^(E\w+):", console.getvalue(), re.MULTILINE)
    return found[1] if found else ""


def draw_first_code(rng: Generator, size: None) -> dict[str, Any]:
    chosen = [commands[rng.integers(len(commands))] for commands in MISTAKES.values()]
    order = rng.permutation(len(chosen))
    return {"commands": {letter: written(*chosen[n]) for letter, n in zip("ABCDE", order, strict=True)}}


def first_codes(commands: dict[str, str]) -> dict[str, str]:
    return {letter: first_code(command) for letter, command in commands.items()}


def took(true: str, *said: str) -> Sign:
    """The learner gave one of these codes where another one comes first."""
    return got(
        lambda result, commands: any(
            first_code(command) == true and str(result.get(letter, "")).strip().upper() in said
            for letter, command in commands.items()
        )
    )


CHIP = '    if "=910B1" in command:\n        return "E10001"\n'


FIRST_CODE = Check(
    "06_reading_atc.first_code",
    run=read("codes"),
    draw=draw_first_code,
    reference=first_codes,
    must=(how_many_right("codes are"),),
    misconceptions=(
        Misconception(
            "options_later",
            change(CHIP, ""),
            took("E10001", "E19000", "E19010", "E10016", "E10049"),
            what="you expect atc to look at the file or the model before it has read the chip's name.",
            why="All options and their values are checked before any file is opened.",
            do="Look for a wrong value of an option first.",
        ),
        Misconception(
            "shape_before_file",
            change('if "missing.onnx" in command:', 'if "missing.onnx" in command and "=910B1" in command:'),
            took("E19000", "E10016", "E10049"),
            what="you expect --input_shape to be compared with a model that is not there.",
            why="Names and dimensions can only be compared with those of a model that was read.",
            do="Ask first whether the file exists.",
        ),
        Misconception(
            "shape_before_parser",
            change('if "swish.onnx" in command:', 'if "swish.onnx" in command and "=910B1" in command:'),
            took("E19010", "E10016", "E10049"),
            what="you expect --input_shape to be looked at before the operators.",
            why="atc parses the whole graph first; an operator without a parser ends it there.",
            do="Ask whether all operators have a parser before you look at --input_shape.",
        ),
        Misconception(
            "name_and_dimensions",
            change('"E10016" if "images:" in command else "E10049"', '"E10049" if "images:" in command else "E10016"'),
            took("E10016", "E10049") | took("E10049", "E10016"),
            what="you exchanged the two mistakes of --input_shape, or their order.",
            why="E10016: the name is not in the model. E10049: the number of dimensions is another; it needs the name.",
            do="Compare the name first, then count the dimensions.",
        ),
        Misconception(
            "file_is_option",
            change('return "E19000"', 'return "E10001"'),
            took("E19000", "E10001") | took("E19010", "E19000") | took("E19000", "E19010"),
            what="you exchanged a file that is missing with another kind of mistake.",
            why="E19000 is: no such file. E10001 is: a value that the option does not have. E19010 is: no parser.",
            do="Check which of the files exist.",
        ),
    ),
)

# -- 2 options ---------------------------------------------------------------------------------------


def draw_net(rng: Generator, size: None) -> dict[str, Any]:
    return {"model": File("net.onnx", classifier(rng, (1, 3, 8, 12)))}


def draw_net_v2(rng: Generator, size: None) -> dict[str, Any]:
    return {"model": File("net_v2.onnx", classifier(rng, (1, 3, 8, 12)))}


ONE = "--framework=5 --output=one --soc_version=Ascend910B1"
TWO = "--framework=5 --output=two --soc_version=Ascend910B1"

OPTIONS = Check(
    "06_reading_atc.options",
    run=read(files=("one.om", "two.om")),
    draw=draw_net,
    must=(
        wanted("one", "is for the Ascend910B1", plain, READ_TEXT),
        wanted("two", "is for the Ascend910B1", plain, READ_TEXT),
    ),
    misconceptions=(
        Misconception(
            "first_untouched",
            change("--output=one", "--ouput=one"),
            says("is no option of atc") & lacks("one"),
            what="the first command has an option that atc does not know.",
            why="Names of options are fixed; one letter less is another name.",
            do="Compare the name in the text behind E10001 with atc --help.",
        ),
        Misconception(
            "option_dropped",
            change(" --output=one", ""),
            says("--output is required"),
            what="the option was removed instead of repaired.",
            why="A conversion needs --model, --framework, --output and --soc_version.",
            do="Write --output=one.",
        ),
        Misconception(
            "om_suffix",
            change("--output=one", "--output=one.om"),
            lacks("one") & source(r"--output[= ]one\.om"),
            what="--output ends in .om already, so the file is called one.om.om.",
            why="atc adds .om to the value of --output.",
            do="Write --output=one.",
        ),
        Misconception(
            "short_name",
            change(TWO, TWO.replace("Ascend910B1", "910B1")),
            lacks("two") & source(r"soc_version[= ]910B1"),
            what="--soc_version has the short name of the chip.",
            why="npu-smi prints 910B1; ATC wants Ascend in front of it.",
            do="Write --soc_version=Ascend910B1.",
        ),
        Misconception(
            "family",
            change(TWO, TWO.replace("Ascend910B1", "Ascend910")),
            says("of --soc_version is not known"),
            what="--soc_version names no chip that atc knows.",
            why="A family (Ascend910) or another spelling (ascend910b1) is not the name of a chip.",
            do="Write --soc_version=Ascend910B1.",
        ),
        Misconception(
            "another_chip",
            change(TWO, TWO.replace("Ascend910B1", "Ascend310P3")),
            om_where("two", lambda model: model.soc != SOC) | om_where("one", lambda model: model.soc != SOC),
            what="an om is for another chip.",
            why="It converts on every computer, and the runtime of an Ascend910B1 refuses to load it.",
            do="Write --soc_version=Ascend910B1 in both commands.",
        ),
        Misconception(
            "chip_left_out",
            change(f"--output=two --soc_version={SOC}", "--output=two"),
            says("E10054"),
            what="--soc_version is missing, or empty.",
            why="An om is made for one chip, and atc does not guess which.",
            do="Write --soc_version=Ascend910B1.",
        ),
    ),
)

# -- 3 files -----------------------------------------------------------------------------------------

THREE = "--model=net_v2.onnx --framework=5 --output=three"

FILES = Check(
    "06_reading_atc.files",
    run=read(files=("three.om", "four.om")),
    draw=draw_net_v2,
    must=(
        wanted("three", "is for the Ascend910B1", plain, READ_TEXT),
        wanted("four", "is for the Ascend910B1", plain, READ_TEXT),
    ),
    misconceptions=(
        Misconception(
            "suffix_left_out",
            change(THREE, THREE.replace(".onnx", "")),
            source(r"--model[= ]\S*net_v2(?!\.onnx)"),
            what="--model has no .onnx at its end.",
            why="atc adds .om to --output and nothing to --model.",
            do="Write --model=net_v2.onnx.",
        ),
        Misconception(
            "first_untouched",
            change(THREE, THREE.replace("v2", "v1")),
            says("E19000"),
            what="a command names a file that is not there.",
            why="Paths are relative to the folder of the notebook; the text behind E19000 says what is in it.",
            do="Write --model=net_v2.onnx.",
        ),
        Misconception(
            "second_untouched",
            change("--framework=5 --output=four", "--framework=3 --output=four"),
            says("E10041"),
            what="--framework names another format than that of the file, ONNX.",
            why="The number names the format of the file: 0 Caffe, 1 MindSpore, 3 TensorFlow, 5 ONNX.",
            do="Write --framework=5.",
        ),
        Misconception(
            "framework_by_name",
            change("--framework=5 --output=four", "--framework=onnx --output=four"),
            says("E10007") & source(r"--framework[= ]['\"]?[A-Za-z]"),
            what="--framework is a name.",
            why="It takes a number.",
            do="Write --framework=5.",
        ),
        Misconception(
            "framework_left_out",
            change("--framework=5 --output=four", "--output=four"),
            says("E10007"),
            what="--framework is missing, or no number that atc knows.",
            why="atc does not guess the format from the ending of the file.",
            do="Write --framework=5.",
        ),
        Misconception(
            "same_output",
            change("--output=four", "--output=three"),
            lacks("four") & source(r"--output[= ]three.*[\s\S]*--output[= ]three"),
            what="both commands write three.om.",
            why="The second om replaces the first.",
            do="Write --output=four in the second command.",
        ),
    ),
)

# -- 4 shapes ----------------------------------------------------------------------------------------


def draw_shapes(rng: Generator, size: None) -> dict[str, Any]:
    return {
        "pair": File("pair.onnx", pair(rng)),
        "photo": File("photo.onnx", classifier(rng, ("n", 3, 12, 16))),
    }


def dims_of(model: OmModel) -> list[tuple[int, ...]]:
    return [tuple(tensor.dims) for tensor in model.inputs]


FIVE = '"left:4,1,4,6;right:4,8"'
SIX = '"image:1,3,12,16"'

SHAPES = Check(
    "06_reading_atc.shapes",
    run=read(files=("five.om", "six.om")),
    draw=draw_shapes,
    must=(
        wanted(
            "five",
            "takes (4, 1, 4, 6) and (4, 8)",
            lambda model: plain(model) and dims_of(model) == [(4, 1, 4, 6), (4, 8)],
            READ_TEXT,
        ),
        wanted(
            "six",
            "takes (1, 3, 12, 16)",
            lambda model: plain(model) and dims_of(model) == [(1, 3, 12, 16)],
            READ_TEXT,
        ),
    ),
    misconceptions=(
        Misconception(
            "comma_between_inputs",
            change(FIVE, '"left:4,1,4,6,right:4,8"'),
            says("[left:4,1,4,6,right]"),
            what="the two inputs are separated by a comma.",
            why="atc takes everything in front of the last colon for one name, and finds no such input.",
            do='Separate them by a semicolon: "left:4,1,4,6;right:4,8".',
        ),
        Misconception(
            "no_quotes",
            change(FIVE, "left:4,1,4,6;right:4,8"),
            raises("PermissionError", "outside quotes"),
            what="the semicolon stands outside quotes.",
            why="The shell ends the command there, and takes what follows for another program.",
            do='Put the whole value in quotes: "left:4,1,4,6;right:4,8".',
        ),
        Misconception(
            "brackets",
            change(FIVE, '"left:[4,1,4,6];right:[4,8]"'),
            says("E10002"),
            what="--input_shape holds something that is neither name:numbers nor a semicolon.",
            why="A shape is written as numbers with commas between them: no brackets, no x, no empty part.",
            do='Write "left:4,1,4,6;right:4,8" and "image:1,3,12,16".',
        ),
        Misconception(
            "one_input_only",
            change(FIVE, '"left:4,1,4,6"'),
            says("E10011"),
            what="an input whose batch is open has no shape.",
            why="An om is made for one set of numbers, so every open input must be in --input_shape.",
            do='Name both inputs: "left:4,1,4,6;right:4,8".',
        ),
        Misconception(
            "names_exchanged",
            change(FIVE, '"right:4,1,4,6;left:4,8"'),
            says("gives right 4 dimensions") | says("gives left 2 dimensions"),
            what="left and right have each other's shape.",
            why="The name in front of the colon decides which input gets the numbers, not the order.",
            do='Write "left:4,1,4,6;right:4,8".',
        ),
        Misconception(
            "rank",
            change(SIX, '"image:3,12,16"'),
            says("E10049"),
            what="--input_shape gives one dimension less than the model has.",
            why="The batch is a dimension too, also when it is 1.",
            do='Write "image:1,3,12,16".',
        ),
        Misconception(
            "batch_of_one",
            change(FIVE, '"left:1,1,4,6;right:1,8"'),
            om_where("five", lambda model: dims_of(model) == [(1, 1, 4, 6), (1, 8)]),
            what="five.om has a batch of 1.",
            why="The batch is fixed when the om is made; the task asks for 4.",
            do="Give both inputs 4 as their first dimension.",
        ),
        Misconception(
            "two_batches",
            change(FIVE, '"left:4,1,4,6;right:1,8"'),
            says("E89999") & lacks("five"),
            what="the two inputs do not fit together.",
            why="Both are joined picture by picture, so they need the same batch; atc notices at the node that joins.",
            do='Write "left:4,1,4,6;right:4,8".',
        ),
        Misconception(
            "still_open",
            change(FIVE, '"left:-1,1,4,6;right:-1,8"'),
            source(r"[:,]-1"),
            what="the batch is still open.",
            why="-1 asks for an om of any size, or for gears (lesson 11); the task asks for one batch.",
            do="Write the numbers of the task.",
        ),
        Misconception(
            "height_and_width",
            change(SIX, '"image:1,3,16,12"'),
            lacks("six") & source(r"image:1,3,16,12")
            | om_where("six", lambda model: dims_of(model) == [(1, 3, 16, 12)]),
            what="height and width of image are exchanged.",
            why="A shape from PyTorch is n, c, h, w: the height comes first.",
            do='Write "image:1,3,12,16".',
        ),
        Misconception(
            "channels_last",
            change(SIX, '"image:1,12,16,3"'),
            lacks("six") & source(r"image:1,12,16,3"),
            what="the channels of image stand last.",
            why="A network from PyTorch reads n, c, h, w; atc notices where the numbers stop to fit.",
            do='Write "image:1,3,12,16".',
        ),
    ),
)

# -- 5 outputs ---------------------------------------------------------------------------------------

OUTPUTS = Check(
    "06_reading_atc.outputs",
    run=read(files=("seven.om", "eight.om")),
    draw=draw_net,
    must=(
        wanted(
            "seven",
            "gives scores in float16",
            lambda model: [(t.type.name, tuple(t.dims)) for t in model.outputs] == [("float16", (1, 5))],
            READ_TEXT,
        ),
        wanted(
            "eight",
            "gives what the node pool gives, in float32",
            lambda model: [(t.type.name, tuple(t.dims)) for t in model.outputs] == [("float32", (1, 4, 4, 6))],
            READ_TEXT,
        ),
    ),
    misconceptions=(
        Misconception(
            "lower_case",
            change("--output_type=FP16", "--output_type=fp16"),
            says("of --output_type is not allowed"),
            what="--output_type has a value that atc does not know.",
            why="The types are written in capitals: FP32, FP16, UINT8, INT8; float16 is the name that numpy uses.",
            do="Write --output_type=FP16.",
        ),
        Misconception(
            "type_left_out",
            change(" --output_type=FP16", ""),
            om_where("seven", lambda model: [t.type.name for t in model.outputs] == ["float32"]),
            what="the output of seven.om is float32.",
            why="The default precision computes in float16 inside and gives the model's own type back: float32.",
            do="Write --output_type=FP16.",
        ),
        Misconception(
            "precision_for_output",
            change("--output_type=FP16", "--precision_mode=fp16"),
            says("of --precision_mode is not allowed"),
            what="--precision_mode has a value of --precision_mode_v2, and is another thing anyway.",
            why="The precision mode says how the chip computes, the output type what your program reads.",
            do="Write --output_type=FP16.",
        ),
        Misconception(
            "index_left_out",
            change("pool:0", "pool"),
            says("E11017"),
            what="--out_nodes names a node without saying which of its outputs.",
            why="A node may have several outputs; a name alone is taken for an output of the model.",
            do="Write --out_nodes=pool:0.",
        ),
        Misconception(
            "counted_from_one",
            change("pool:0", "pool:1"),
            says("E11016"),
            what="--out_nodes asks for an output that pool does not have.",
            why="The outputs of a node count from 0.",
            do="Write --out_nodes=pool:0.",
        ),
        Misconception(
            "operator_type",
            change("pool:0", "MaxPool:0"),
            says("named in --out_nodes, is no node"),
            what="--out_nodes names something that is no node of this model.",
            why="It takes the name of the node, not its operator type and not its place.",
            do="Write --out_nodes=pool:0.",
        ),
        Misconception(
            "next_node",
            change("pool:0", "flatten:0"),
            om_where("eight", lambda model: tuple(model.outputs[0].dims) != (1, 4, 4, 6)),
            what="eight.om ends at another node.",
            why="The om computes up to the node in --out_nodes, and gives that output.",
            do="Write --out_nodes=pool:0.",
        ),
    ),
)

# -- 6 silent ----------------------------------------------------------------------------------------


def draw_photo(rng: Generator, size: None) -> dict[str, Any]:
    return {"photo": File("photo.onnx", classifier(rng, ("n", 3, "h", "w"), mean=True))}


def in_half(model: OmModel) -> bool:
    """Some operator of the om computes in float16."""
    return any(tensor.type.name == "float16" for task in model.tasks for tensor in (*task.inputs, *task.outputs))


def of_photo(model: OmModel) -> bool:
    return plain(model) and dims_of(model) == [(1, 3, 12, 16)]


TEN = f'--output=ten --soc_version={SOC} --input_shape="image:1,3,12,16"'

SILENT = Check(
    "06_reading_atc.silent",
    run=read(files=("nine.om", "ten.om")),
    draw=draw_photo,
    must=(
        wanted(
            "nine",
            "takes (1, 3, 12, 16) and computes in float32",
            lambda model: of_photo(model) and not in_half(model),
            READ_TEXT,
        ),
        wanted(
            "ten",
            "takes (1, 3, 12, 16), in the default precision",
            lambda model: of_photo(model) and in_half(model),
            "Read the command as atc does: what is the file called, and which number is the height?",
        ),
    ),
    misconceptions=(
        Misconception(
            "both_given",
            change("--precision_mode_v2=origin", "--precision_mode=force_fp16 --precision_mode_v2=origin"),
            says("E10056"),
            what="the first command gives the precision twice.",
            why="--precision_mode_v2 is the newer name of --precision_mode; only one of them may be given.",
            do="Keep --precision_mode_v2=origin.",
        ),
        Misconception(
            "cube_in_half",
            change("--precision_mode_v2=origin", "--precision_mode=force_fp32"),
            om_where("nine", in_half) & source(r"force_fp32|cube_fp16in_fp32out"),
            what="the convolution and the linear layer of nine.om read float16.",
            why="force_fp32 is the old name of cube_fp16in_fp32out: the Cube takes float16 in and gives float32 out.",
            do="Keep --precision_mode_v2=origin: it leaves the model's types as they are.",
        ),
        Misconception(
            "wrong_one_kept",
            change("--precision_mode_v2=origin", "--precision_mode=force_fp16"),
            om_where("nine", in_half),
            what="nine.om computes in float16.",
            why="force_fp16 is the default: it turns float32 into float16. origin keeps the model's types.",
            do="Keep --precision_mode_v2=origin, and remove the other one.",
        ),
        Misconception(
            "mixed_names",
            change("--precision_mode_v2=origin", "--precision_mode=origin"),
            says("of --precision_mode is not allowed") | says("of --precision_mode_v2 is not allowed"),
            what="a precision option has a value of the other one.",
            why="--precision_mode: force_fp32, must_keep_origin_dtype, ...; --precision_mode_v2: fp16, origin, ...",
            do="Write --precision_mode_v2=origin.",
        ),
        Misconception(
            "om_suffix",
            change("--output=ten", "--output=ten.om"),
            lacks("ten") & source(r"--output[= ]ten\.om"),
            what="--output ends in .om already, so the file is called ten.om.om.",
            why="atc adds .om to the value of --output, and says nothing about it.",
            do="Write --output=ten.",
        ),
        Misconception(
            "height_and_width",
            change(TEN, TEN.replace("12,16", "16,12")),
            om_where("ten", lambda model: dims_of(model) == [(1, 3, 16, 12)]),
            what="ten.om takes pictures 16 high and 12 wide.",
            why="A shape from PyTorch is n, c, h, w: the height comes first.",
            do="Write image:1,3,12,16.",
        ),
        Misconception(
            "channels_last",
            change(TEN, TEN.replace("3,12,16", "12,16,3")),
            source(r"image:1,12,16,3"),
            what="the channels of image stand last.",
            why="A network from PyTorch reads n, c, h, w.",
            do="Write image:1,3,12,16.",
        ),
        Misconception(
            "ten_in_float32",
            change(TEN, f"{TEN} --precision_mode_v2=origin"),
            om_where("ten", lambda model: of_photo(model) and not in_half(model)),
            what="ten.om computes in float32 too.",
            why="The default precision is force_fp16: half the bytes, and the Cube at full speed.",
            do="Leave the precision out of the second command.",
        ),
    ),
)

CHECKS = [FIRST_CODE, OPTIONS, FILES, SHAPES, OUTPUTS, SILENT]
