"""Checks of 12_precision."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.spec import (
    Attempt,
    CaseRun,
    Check,
    Cost,
    Fact,
    File,
    Misconception,
    Sign,
    call,
    change,
    command,
    converted,
    exact,
    exit_status,
    file_made,
    gives,
    got,
    how_many_right,
    model_bytes,
    om_for_chip,
    option,
    raises,
    read,
    require,
    says,
    sign,
    slow,
    source,
    unmet,
)

Array = NDArray[Any]
Node = tuple[str, str, list[str]]
HALF_MAX = 65504.0

# -- models and conversions --------------------------------------------------------------------------


def network(
    nodes: Sequence[Any], inputs: Mapping[str, Sequence[int]], output: str, weights: Mapping[str, Array]
) -> bytes:
    """A model of ONNX nodes; ``inputs`` is name -> shape."""
    return model_bytes(nodes, inputs, {output: None}, weights, opset=13)


def compiled_om(model: bytes, soc: str, *options: str, **files: str) -> Any:
    """The om of a model, converted beside files NAME.cfg; ValueError with atc's console if there is none."""
    from cannlab import om

    texts = {f"{stem}.cfg": text for stem, text in files.items()}
    with converted(model, soc, "--export_compile_stat=0", *options, files=texts) as folder:
        return om.read(folder / "net.om")


def node_types(compiled: Any) -> dict[str, str]:
    """The type in which each node of the model leaves its operator."""
    return {node: task.outputs[0].type.name for task in compiled.tasks for node in task.nodes}


def outputs(model: bytes, x: Array) -> Array:
    """What the model gives in float32."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {session.get_inputs()[0].name: x})
    return np.asarray(result)


def error(compiled: Any, model: bytes, x: Array) -> float:
    """Length of the difference over length of the reference; inf where the om's result is not finite."""
    from cannlab.machine.executor import Model

    wanted = outputs(model, x).astype(np.float64)
    result = np.asarray(Model(compiled).run([x])[0][0], np.float64)
    if not np.isfinite(result).all():
        return float("inf")
    return float(np.linalg.norm(result - wanted) / np.linalg.norm(wanted))


# -- 1 types -----------------------------------------------------------------------------------------

ONNX_TYPE = {"MatMulV2": "MatMul", "Maximum": "Max"}
"""ONNX type of a GE type, where they differ."""
UNARY = ("Relu", "Sigmoid", "Tanh", "Abs")
BINARY = ("Mul", "Add", "Sub", "Maximum")
WHITE = ("MatMulV2",)
BLACK = ("Pow", "ReduceSum", "Log")
LISTS_SOC = "Ascend910B1"


def draw_types(rng: Generator, size: None) -> dict[str, Any]:
    while True:
        inputs = drawn_graph(rng)
        answers = [str(sorted(rule(**inputs).items()))]
        answers += [str(sorted(rule(**inputs, wrong=wrong).items())) for wrong in WRONG_RULES]
        if len(set(answers)) == len(answers):
            return inputs


def drawn_graph(rng: Generator) -> dict[str, Any]:
    """A graph with every situation of the grey list, and a file that changes the black one."""

    def pick(kinds: Sequence[str]) -> str:
        return str(rng.choice(kinds))

    first, second = (str(kind) for kind in rng.permutation(BLACK)[:2])
    nodes: list[Node] = []

    def add(kind: str, *reads: str) -> str:
        nodes.append((f"n{len(nodes) + 1}", kind, list(reads)))
        return nodes[-1][0]

    start = add(pick(UNARY), "x")
    product = add("MatMulV2", start)
    grey = add(pick(UNARY), product)
    black = add(first, grey)
    mixed = [add(pick(BINARY), *reads) for reads in rng.permutation([(grey, black), (black, grey)]).tolist()]
    one, two = (str(name) for name in rng.permutation(mixed))
    other = add(second, one)
    last = add(pick(UNARY), other)
    product = add("MatMulV2", two)
    add(pick(BINARY), *rng.permutation([last, product]).tolist())
    greys = sorted({kind for _, kind, _ in nodes if kind in (*UNARY, *BINARY)})
    changes = {"black-list": {"to-add": [pick(greys)], "to-remove": [second]}}
    return {"nodes": [list(node) for node in nodes], "white": list(WHITE), "black": sorted(BLACK), "changes": changes}


WRONG_RULES = (
    "all",
    "none",
    "only_white",
    "grey_half",
    "file",
    "removed_white",
    "last_white",
    "any_input",
    "last_input",
    "black_grey",
    "input_half",
    "all_inputs",
)


def rule(nodes: Any, white: Any, black: Any, changes: Any, wrong: str = "") -> dict[str, str]:
    """The types as the lists give them; ``wrong`` names a misunderstanding."""
    change = changes["black-list"] if wrong != "file" else {"to-add": [], "to-remove": []}
    whites, blacks = set(white), (set(black) - set(change["to-remove"])) | set(change["to-add"])
    if wrong == "removed_white":
        whites |= set(change["to-remove"])
    if wrong == "black_grey":
        blacks = set()
    types: dict[str, str] = {}
    before = False
    for name, kind, inputs in nodes:
        reads = [types.get(each) == "float16" for each in inputs]
        follows = {
            "only_white": False,
            "grey_half": True,
            "last_white": before,
            "any_input": any(reads),
            "last_input": reads[-1],
            "input_half": reads[0] or inputs[0] not in types,
            "all_inputs": all(reads),
        }
        half = kind in whites or (kind not in blacks and follows.get(wrong, reads[0]))
        if wrong in ("all", "none"):
            half = wrong == "all"
        before = before or kind in whites
        types[name] = "float16" if half else "float32"
    return types


def chip_types(nodes: Any, white: Any, black: Any, changes: Any) -> dict[str, str]:
    """What atc makes of it."""
    return dict(_chip_types(json.dumps(nodes), json.dumps(changes)))


@cache
def _chip_types(graph: str, changes: str) -> tuple[tuple[str, str], ...]:
    from onnx import TensorProto, helper

    nodes = json.loads(graph)
    made, weights = [], {}
    for name, kind, reads in nodes:
        extra, attributes = [], {}
        if kind in ("MatMulV2", "Pow"):
            extra = [f"{name}.constant"]
            weights[extra[0]] = np.eye(16) if kind == "MatMulV2" else np.array(2.0)
        elif kind == "ReduceSum":
            # Its axes come from a Constant node: weights here are all float32.
            extra, attributes = [f"{name}.axes"], {"keepdims": 1}
            axes = helper.make_tensor(extra[0], TensorProto.INT64, [1], [1])
            made.append(helper.make_node("Constant", [], extra, extra[0], value=axes))
        made.append(helper.make_node(ONNX_TYPE.get(kind, kind), [*reads, *extra], [name], name, **attributes))
    model = network(made, {"x": [16, 16]}, nodes[-1][0], weights)
    options = ("--precision_mode=allow_mix_precision", "--modify_mixlist=mix.cfg", "--fusion_switch_file=off.cfg")
    off = json.dumps({"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}})
    types = node_types(compiled_om(model, LISTS_SOC, *options, mix=changes, off=off))
    return tuple((name, types[name]) for name, _, _ in nodes)


def by_rule(wrong: str) -> Sign:
    return gives(lambda **inputs: rule(**inputs, wrong=wrong))


FOLLOWS = 'types.get(inputs[0]) == "float16"'

TYPES = Check(
    "12_precision.types",
    run=read("types"),
    draw=draw_types,
    reference=chip_types,
    compare=exact(dtype=False),
    must=(how_many_right("types are"),),
    misconceptions=(
        Misconception(
            "force_fp16",
            change("if half else", "if True else"),
            by_rule("all"),
            what="every operator computes in float16.",
            why="That is force_fp16. A mixed mode asks the lists for each operator.",
            do="Start with the white and the black operators; then let the grey ones follow.",
        ),
        Misconception(
            "keep_all",
            change("if half else", "if False else"),
            by_rule("none"),
            what="no operator computes in float16.",
            why="That is must_keep_origin_dtype. In a mixed mode the white list is lowered.",
            do="Give float16 to the white operators, and look what follows them.",
        ),
        Misconception(
            "only_white",
            change(FOLLOWS, "False"),
            by_rule("only_white"),
            what="all grey operators stay float32.",
            why="Grey is no fixed type: a grey operator follows the one before it.",
            do="Give a grey operator float16 if its first input is float16.",
        ),
        Misconception(
            "grey_is_half",
            change(FOLLOWS, "True"),
            by_rule("grey_half"),
            what="all grey operators are float16.",
            why="What reads a float32 tensor, from the model's input or a black operator, stays float32.",
            do="Look at the type of its first input.",
        ),
        Misconception(
            "file_not_read",
            change('changes["black-list"]["to-remove"]', "[]", 'changes["black-list"]["to-add"]', "[]"),
            by_rule("file"),
            what="the types are those of the chip's own lists.",
            why="--modify_mixlist changes them before any operator is looked at.",
            do="Take to-remove out of the black list, put to-add into it, and start again.",
        ),
        Misconception(
            "removed_is_white",
            change(
                "kind in white or",
                'kind in white or kind in changes["black-list"]["to-remove"] or',
            ),
            by_rule("removed_white"),
            what="the type that left the black list is always lowered.",
            why="Whoever is on no list is grey: it follows.",
            do="Give it the type of its first input; only the white list is lowered by itself.",
        ),
        Misconception(
            "float16_for_ever",
            change(
                "for name, kind, inputs in nodes:\n",
                "seen = False\nfor name, kind, inputs in nodes:\n",
                FOLLOWS,
                "seen",
                "    types[name] =",
                "    seen = seen or kind in white\n    types[name] =",
            ),
            by_rule("last_white"),
            what="after the first white operator all grey ones are float16.",
            why="A black operator gives float32, and what reads it follows *that*.",
            do="Follow the tensors, not the order of the list.",
        ),
        Misconception(
            "any_input",
            change(FOLLOWS, 'any(types.get(each) == "float16" for each in inputs)'),
            by_rule("any_input"),
            what="one float16 input is enough for a grey operator.",
            why="With two inputs the first one counts; the other is converted.",
            do="Look at inputs[0] only.",
        ),
        Misconception(
            "all_inputs",
            change(FOLLOWS, 'all(types.get(each) == "float16" for each in inputs)'),
            by_rule("all_inputs"),
            what="one float32 input is enough to keep a grey operator in float32.",
            why="With two inputs the first one counts; the other is converted.",
            do="Look at inputs[0] only.",
        ),
        Misconception(
            "input_is_half",
            change(FOLLOWS, 'types.get(inputs[0], "float16") == "float16"'),
            by_rule("input_half"),
            what="what reads the model's input is float16.",
            why="The input of this model is float32; no operator has lowered it yet.",
            do="Let a grey operator that reads x be float32.",
        ),
        Misconception(
            "second_input",
            change("types.get(inputs[0])", "types.get(inputs[-1])"),
            by_rule("last_input"),
            what="a grey operator with two inputs follows the second one.",
            why="The first input counts; the other is converted.",
            do="Look at inputs[0].",
        ),
        Misconception(
            "black_follows",
            change("kind not in black and", "True and"),
            by_rule("black_grey"),
            what="the black operators follow their inputs.",
            why="That is what grey means. A black operator is never lowered.",
            do="Give float32 to everything that is on the black list after the change.",
        ),
    ),
)

# -- 2 command ---------------------------------------------------------------------------------------


def draw_command(rng: Generator, soc: str) -> dict[str, Any]:
    listed, other = (str(kind) for kind in rng.permutation(["Mul", "Abs", "Tanh"])[:2])
    return {
        "model": File(f"net{rng.integers(10, 99)}.onnx", mixed_model(listed, other)),
        "lists": File(f"mix{rng.integers(10, 99)}.json", json.dumps({"black-list": {"to-add": [listed]}}).encode()),
        "soc": soc,
    }


def mixed_model(listed: str, other: str) -> bytes:
    """Product, an operator that shall stay float32, product, another one, product."""
    from onnx import helper

    weights = {f"w{number}": np.random.default_rng(number).standard_normal((16, 16)) / 4 for number in range(3)}
    nodes = []
    before = "x"
    for number, kind in enumerate(("MatMul", listed, "MatMul", other, "MatMul")):
        reads = {"MatMul": [before, f"w{number // 2}"], "Mul": [before, before]}.get(kind, [before])
        before = f"t{number}"
        nodes.append(helper.make_node(kind, reads, [before], f"{kind.lower()}{number}"))
    return network(nodes, {"x": [8, 16]}, before, weights)


def made_types(case: CaseRun) -> dict[str, str]:
    from cannlab import om

    return node_types(om.read(case.files["net.om"]))


@cache
def listed_types(model: bytes, lists: bytes, soc: str) -> dict[str, str]:
    options = ("--precision_mode=allow_mix_precision", "--modify_mixlist=mix.cfg")
    return node_types(compiled_om(model, soc, *options, mix=lists.decode()))


def as_listed(case: CaseRun) -> bool:
    inputs = case.inputs
    return made_types(case) == listed_types(inputs["model"].data, inputs["lists"].data, inputs["soc"])


MODE = "--precision_mode=allow_mix_precision"
V1 = frozenset(("allow_mix_precision", "allow_mix_precision_fp16"))

COMMAND = Check(
    "12_precision.command",
    run=command("command", program="atc", files=("net.om",)),
    draw=draw_command,
    sizes=("Ascend910B1", "Ascend310P3"),
    must=(
        exit_status(0),
        file_made("net.om"),
        om_for_chip("net.om"),
        require(
            "types",
            as_listed,
            holds="the products compute in float16, what the file lists in float32",
            fails="some operator computes in another type than the lists say, or there is no om",
            do="Two options are needed: one that asks for a mode with lists, one that names the file.",
        ),
    ),
    misconceptions=(
        Misconception(
            "lists_without_mode",
            change(f" {MODE}", ""),
            says("--modify_mixlist is given, and the precision mode is"),
            what="the file of lists is given, and the mode is one that has no lists.",
            why="Only the mixed modes use the white, grey and black list; the default is force_fp16.",
            do="Add --precision_mode=allow_mix_precision.",
        ),
        Misconception(
            "mode_without_lists",
            change(" --modify_mixlist={lists}", ""),
            unmet("types")
            & ~unmet("file_made")
            & option("precision_mode", V1.__contains__)
            & ~option("modify_mixlist")
            & ~option("keep_dtype"),
            what="the mode is a mixed one, and it uses the chip's own lists.",
            why="Your operator is grey there: behind a product it is lowered too.",
            do="Name the file with --modify_mixlist.",
        ),
        Misconception(
            "both_versions",
            change(MODE, f"{MODE} --precision_mode_v2=mixed_float16"),
            says("E10056"),
            what="both --precision_mode and --precision_mode_v2 are given.",
            why="They are two names for one thing.",
            do="Keep one of them.",
        ),
        Misconception(
            "name_of_the_other_version",
            change(MODE, "--precision_mode=mixed_float16"),
            option("precision_mode", frozenset(("mixed_float16", "origin", "fp16", "mixed_bfloat16")).__contains__)
            | option("precision_mode_v2", lambda value: "allow" in value or "force" in value or "keep" in value),
            what="the value belongs to the other version of the option.",
            why="allow_mix_precision is a value of --precision_mode; --precision_mode_v2 calls it mixed_float16.",
            do="Write --precision_mode=allow_mix_precision or --precision_mode_v2=mixed_float16.",
        ),
        Misconception(
            "article_name",
            change(MODE, "--precision_mode=must_keep_origin"),
            option("precision_mode", lambda value: value == "must_keep_origin"),
            what="there is no mode must_keep_origin.",
            why="The mode is called must_keep_origin_dtype, and it has no lists: all would be float32.",
            do="Use a mixed mode.",
        ),
        Misconception(
            "keep_everything",
            change(f"{MODE} --modify_mixlist={{lists}}", "--precision_mode=must_keep_origin_dtype"),
            option("precision_mode", lambda value: value in ("must_keep_origin_dtype", "force_fp32"))
            | option("precision_mode_v2", lambda value: value in ("origin", "cube_fp16in_fp32out")),
            what="this mode keeps more in float32 than the file lists.",
            why="must_keep_origin_dtype and force_fp32 use no lists.",
            do="Use a mixed mode.",
        ),
        Misconception(
            "vectors_in_float32",
            change(f"{MODE} --modify_mixlist={{lists}}", "--precision_mode=allow_fp32_to_fp16"),
            option("precision_mode", lambda value: value == "allow_fp32_to_fp16"),
            what="all operators but the products stay float32.",
            why="allow_fp32_to_fp16 lowers only what has no float32 kernel, and the products. It reads no lists.",
            do="Use a mixed mode.",
        ),
        Misconception(
            "wrong_file_option",
            change(f"{MODE} --modify_mixlist", "--keep_dtype"),
            option("keep_dtype") | option("customize_dtypes"),
            what="the file is given to an option that reads another format.",
            why="--keep_dtype takes a name on each line; JSON with to-add and to-remove is for --modify_mixlist.",
            do="Write --modify_mixlist={lists}, with a mixed mode.",
        ),
        Misconception(
            "bfloat16",
            change(MODE, "--precision_mode=allow_mix_precision_bf16"),
            option("precision_mode", lambda value: "bf16" in value) | option("precision_mode_v2", lambda v: "bf" in v),
            what="the mode asks for bfloat16.",
            why="The task says float16, and the 310P has no bfloat16 at all.",
            do="Write --precision_mode=allow_mix_precision.",
        ),
        Misconception(
            "om_suffix",
            change("--output=net", "--output=net.om"),
            option("output", lambda value: value.endswith(".om")),
            what="--output already ends in .om, so the file is called net.om.om.",
            why="ATC adds .om to the value of --output.",
            do="Write --output=net.",
        ),
        Misconception(
            "fixed_chip",
            change("{soc}", "Ascend910B1"),
            unmet("soc") & ~unmet("file_made"),
            what="the om is always made for the same chip.",
            why="An om holds code for one chip.",
            do="Give --soc_version the value of the variable soc.",
        ),
    ),
)

# -- 3 suspect ---------------------------------------------------------------------------------------

TOLERANCE = 0.02


def draw_layers(rng: Generator, size: str) -> dict[str, Any]:
    """Layers as ``cannlab compare --json`` gives them, without what the exercise does not need."""
    while True:
        layers = drawn_layers(rng, size)
        right = suspect(layers)
        rivals = [largest(layers, "own"), largest(layers, "errors"), first_bad(layers), first_own(layers)]
        wanted = {"clean": 0, "overflow": 0, "own": 2, "inherited": 2, "unknown": 2, "first": 1}[size]
        if sum(rival != right for rival in rivals) >= wanted:
            return {"layers": layers}


def drawn_layers(rng: Generator, size: str) -> list[dict[str, Any]]:
    count = int(rng.integers(6, 10))
    own = rng.uniform(2e-4, 9e-4, count)
    total = np.cumsum(own) * rng.uniform(0.7, 1.0, count)
    at = 0 if size == "first" else int(rng.integers(3, count - 2))
    culprit = int(rng.integers(1, at - 1)) if size in ("inherited", "unknown") else at
    lost = size == "overflow"
    if size in ("inherited", "unknown"):
        own[culprit] = rng.uniform(0.01, 0.018)
        total[culprit:at] = own[culprit] * rng.uniform(0.9, 1.05, at - culprit)
        total[at:] = rng.uniform(0.1, 0.3, count - at)
    elif size != "clean":
        own[at] = rng.uniform(0.3, 0.6)
        total[at:] = rng.uniform(0.2, 0.9, count - at)
    if size in ("own", "first", "inherited"):
        own[int(rng.integers(at + 1, count))] = rng.uniform(0.7, 0.9)
    kinds = rng.choice(["Conv2D", "Mul", "ReduceMean", "Sqrt", "RealDiv", "MatMulV2", "SoftmaxV2", "Sub"], count)
    layers = []
    for number, kind in enumerate(kinds):
        alone: dict[str, Any] | None = measured(float(own[number]), lost and number in (at, count - 1))
        if size in ("unknown", "overflow") and number in (at - 1, at + 1):
            alone = None
        together = measured(float(total[number]), lost and number >= at and number < count - 1)
        bad = not together["finite"] or together["relative"] > TOLERANCE
        layers.append({"operator": f"{kind}_{number}", "errors": together, "own": alone, "bad": bool(bad)})
    return layers


def measured(relative: float, lost: bool) -> dict[str, Any]:
    return {"relative": None if lost else round(relative, 6), "finite": not lost}


def size_of(errors: Mapping[str, Any] | None) -> float:
    if errors is None:
        return 0.0
    return float(errors["relative"]) if errors["finite"] else float("inf")


def suspect(layers: Sequence[Mapping[str, Any]]) -> str | None:
    """The operator with the largest own error among those up to the first bad one."""
    first = next((number for number, layer in enumerate(layers) if layer["bad"]), None)
    return None if first is None else largest(layers[: first + 1], "own")


def largest(layers: Sequence[Mapping[str, Any]], which: str) -> str:
    return str(max(layers, key=lambda layer: size_of(layer[which]))["operator"])


def first_bad(layers: Iterable[Mapping[str, Any]]) -> str | None:
    return next((str(layer["operator"]) for layer in layers if layer["bad"]), None)


def first_own(layers: Iterable[Mapping[str, Any]]) -> str | None:
    return next((str(layer["operator"]) for layer in layers if size_of(layer["own"]) > TOLERANCE), None)


def blames_first_bad() -> Sign:
    """Every failed case with a bad layer gives the first one, and there is such a case."""

    def ask(attempt: Attempt) -> bool:
        failed = [case for case in attempt.failed if case.size != "clean"]
        return bool(failed) and all(case.got == first_bad(case.inputs["layers"]) for case in failed)

    return sign(ask)


LIMITED = 'layers[: first + 1], key=own)["operator"]'

SUSPECT = Check(
    "12_precision.suspect",
    run=call("suspect"),
    draw=draw_layers,
    sizes=("own", "overflow", "inherited", "unknown", "first", "clean"),
    reference=suspect,
    misconceptions=(
        Misconception(
            "whole_layer",
            change('["operator"]', ""),
            got(lambda result, layers: isinstance(result, dict)),
            what="a whole layer comes back.",
            why="Asked is which operator to mend: its name.",
            do='Return layer["operator"].',
        ),
        Misconception(
            "clean_model",
            change("        return None\n", "        first = len(layers) - 1\n"),
            got(lambda result, layers: suspect(layers) is None and result is not None)
            & sign(lambda attempt: {case.size for case in attempt.failed} == {"clean"}),
            what="a model without a bad layer has a suspect.",
            why="Every float16 operator has some own error; that is no reason to touch it.",
            do="Return None if no layer is bad.",
        ),
        Misconception(
            "first_bad_layer",
            change("max(layers[: first + 1], key=own)", "layers[first]"),
            blames_first_bad(),
            what="the first bad layer is always blamed.",
            why="A layer can be bad because of what it reads: its own error is small then.",
            do="Among the layers up to it, take the one with the largest *own* error.",
        ),
        Misconception(
            "anywhere",
            change("layers[: first + 1]", "layers"),
            gives(lambda layers: None if first_bad(layers) is None else largest(layers, "own"))
            | (got(lambda result, layers: result == largest(layers, "own")) & ~source(r"first")),
            what="an operator behind the first bad layer is blamed.",
            why="What comes later cannot have spoilt what came before.",
            do="Stop at the first bad layer.",
        ),
        Misconception(
            "not_finite_is_nothing",
            change('float("inf")', "0.0"),
            sign(lambda attempt: {case.size for case in attempt.failed} == {"overflow"})
            & got(lambda result, layers: isinstance(result, str)),
            what="the operator that makes inf or nan of good values is passed over.",
            why="What is not finite is infinitely far from its reference.",
            do='Let it count as float("inf").',
        ),
        Misconception(
            "before_it",
            change("layers[: first + 1]", "layers[:first] or layers"),
            got(
                lambda result, layers: (
                    suspect(layers) == first_bad(layers)
                    and result in [layer["operator"] for layer in layers[: [x["bad"] for x in layers].index(True)]]
                )
            ),
            what="the first bad layer itself is left out.",
            why="It is the usual culprit: reading right values it gives wrong ones.",
            do="Take the layers up to it, with itself.",
        ),
        Misconception(
            "errors_for_own",
            change('layer["own"]', 'layer["errors"]', "layers[: first + 1]", "layers"),
            gives(lambda layers: None if first_bad(layers) is None else largest(layers, "errors")),
            what="the operator with the largest error is blamed, wherever the error comes from.",
            why='"errors" is measured in the run of the whole model and holds what came from before.',
            do='Compare "own".',
        ),
        Misconception(
            "above_the_tolerance",
            change(
                f"    return max({LIMITED}",
                '    return next((each["operator"] for each in layers[: first + 1] if own(each) > 0.02), None)',
            ),
            got(lambda result, layers: result is None and first_bad(layers) is not None),
            what="nobody is to blame although a layer is bad.",
            why="Several own errors, each below the tolerance, add up; an operator may also enlarge what it reads.",
            do="Take the largest own error, whatever its size.",
        ),
        Misconception(
            "not_finite",
            change(' if layer["own"]["finite"] else float("inf")', ""),
            raises("TypeError")
            & sign(lambda attempt: all(case.passed is (case.size != "overflow") for case in attempt.cases)),
            what="an error that is not finite stands as None in the JSON, and None cannot be compared.",
            why="JSON has no inf and no nan.",
            do='Ask "finite" first, and count what is not finite as float("inf").',
        ),
        Misconception(
            "own_unknown",
            change('if layer["own"] is None', "if False"),
            raises("TypeError"),
            what="some layers have no own error: own is None.",
            why="Where a value of the original model is missing, the operator cannot be run alone.",
            do="Count such a layer as 0.0.",
        ),
    ),
)

# -- 4 keep ------------------------------------------------------------------------------------------

KEEP_SOC = "Ascend910B1"
KEEP_LIMIT = 0.01


def keep_rows() -> Array:
    """The input of all models of this exercise."""
    return np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)


@cache
def keep_model(kind: str, seed: int) -> bytes:
    """A network of two products and what stands between them."""
    from onnx import helper

    rng = np.random.default_rng(seed)
    node = helper.make_node
    factor = {"norm": 900.0, "peak": 40.0, "softmax": 4.0, "fine": 3.0}[kind]
    prefix = str(rng.choice(["", "/net/", "/head/"]))

    def name(word: str) -> str:
        return f"{prefix}{word}"

    weights: dict[str, Array] = {"w1": rng.standard_normal((32, 32)) * factor / 32**0.5}
    nodes = [node("MatMul", ["x", "w1"], ["a"], name("fc1"))]
    if kind == "softmax":
        nodes += [
            node("Exp", ["a"], ["e"], name("Exp")),
            node("ReduceSum", ["e", "axes"], ["s"], name("ReduceSum"), keepdims=1),
            node("Div", ["e", "s"], ["r"], name("Div")),
            node("Exp", ["r"], ["n"], name("Exp_1")),
        ]
    else:
        nodes += [
            node("Mul", ["a", "a"], ["q"], name("Mul")),
            node("ReduceMean", ["q"], ["p"], name("ReduceMean"), axes=[1]),
            node("Sqrt", ["p"], ["d"], name("Sqrt")),
            node("Div", ["a", "d"], ["r"], name("Div")),
            node("Mul", ["r", "gain"], ["n"], name("Mul_1")),
        ]
        weights["gain"] = rng.uniform(0.5, 1.5, 32)
        if kind == "peak":
            # One column is larger than the others: its squares leave the range, the means do not.
            weights["w1"][:, 3] *= 5
    weights["w2"] = rng.standard_normal((32, 4))
    nodes.append(node("MatMul", ["n", "w2"], ["scores"], name("fc2")))
    if kind == "softmax":
        from onnx import TensorProto

        axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
        nodes.insert(0, node("Constant", [], ["axes"], name("Constant"), value=axes))
    return network(nodes, {"x": [16, 32]}, "scores", weights)


@cache
def largest_values(model: bytes) -> dict[str, float]:
    """The largest absolute value of each tensor between the operators, in float32."""
    import onnx
    import onnxruntime

    x = keep_rows()
    proto = onnx.load_from_string(model)
    names = [name for node in proto.graph.node if node.op_type != "Constant" for name in node.output]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    arrays = session.run(names, {"x": x})
    found = {name: float(f"{np.abs(array).max():.6g}") for name, array in zip(names, arrays, strict=True)}
    return {"x": float(f"{np.abs(x).max():.6g}"), **found}


def draw_keep(rng: Generator, kind: str) -> dict[str, Any]:
    while True:
        seed = int(rng.integers(10**6))
        model = keep_model(kind, seed)
        values = largest_values(model)
        out = sorted(name for name, value in values.items() if value > HALF_MAX)
        wanted = {"norm": ["p", "q"], "peak": ["q"], "softmax": ["e", "s"], "fine": []}[kind]
        near = any(0.5 * HALF_MAX < value < 2 * HALF_MAX for value in values.values())
        if out == wanted and not near:
            return {"model": File(f"net{seed % 90 + 10}.onnx", model), "largest": values}


def touching(model: File, largest: Mapping[str, float], reads: bool = True, writes: bool = True) -> list[str]:
    """Names of the nodes that read or write a tensor outside float16."""
    import onnx

    found = []
    for node in onnx.load_from_string(model.data).graph.node:
        tensors = [*(node.input if reads else ()), *(node.output if writes else ())]
        if any(largest.get(name, 0.0) > HALF_MAX for name in tensors):
            found.append(node.name)
    return found


def lines(text: Any) -> list[str]:
    """The entries of a --keep_dtype file."""
    return [line for line in (line.strip() for line in text.splitlines()) if line and not line.startswith("#")]


def node_facts(model: File) -> tuple[set[str], set[str]]:
    """Names and ONNX types of the nodes."""
    import onnx

    nodes = onnx.load_from_string(model.data).graph.node
    return {node.name for node in nodes}, {node.op_type for node in nodes}


def names_known(case: CaseRun) -> Fact:
    do = "Write one name of a node on each line, letter by letter as in the ONNX file."
    if not isinstance(case.got, str):
        return Fact("names", False, "the result is no text", do)
    names, _ = node_facts(case.inputs["model"])
    strange = [line for line in lines(case.got) if line not in names]
    text = f"no node is called {strange[0][:60]!r}" if strange else "every line is the name of a node"
    return Fact("names", not strange, text, do)


def kept_right(case: CaseRun) -> Fact:
    do = "Go through the nodes: keep one if a tensor that it reads or writes is above 65504."
    if not isinstance(case.got, str):
        return Fact("kept", False, "no operator is kept", do)
    kept, wanted = set(lines(case.got)), set(touching(case.inputs["model"], case.inputs["largest"]))
    missing, needless = len(wanted - kept), len(kept - wanted)
    text = "exactly the operators that touch a large tensor are kept"
    if missing or needless:
        text = f"{missing} operators are missing in the file, {needless} need not be in it"
    return Fact("kept", not missing and not needless, text, do)


def small_error(case: CaseRun) -> Fact:
    do = "Look which tensor is still stored as float16 although it is larger than 65504."
    model = case.inputs["model"].data
    try:
        # atc refuses an empty file, as an option that says nothing.
        options = {"keep": case.got} if lines(case.got) else {}
        compiled = compiled_om(model, KEEP_SOC, *("--keep_dtype=keep.cfg" for _ in options), **options)
        found = error(compiled, model, keep_rows())
    except Exception:
        # Whatever the answer gave instead of a text; the other facts say what is wrong with it.
        return Fact("error", False, "atc makes no om with this file", do)
    ok = found < KEEP_LIMIT
    text = "the om agrees with the model to 1 %" if ok else f"the om is off by {found:.0%}"
    return Fact("error", ok, text if np.isfinite(found) or ok else "the om gives inf or nan", do)


def kept(test: Callable[[set[str], CaseRun], bool]) -> Sign:
    """In some failed case the set of the file's lines satisfies the test."""
    return sign(
        lambda attempt: any(test(set(lines(case.got)), case) for case in attempt.failed if isinstance(case.got, str))
    )


def keeps_as(reads: bool, writes: bool) -> Sign:
    """All files list what such a formula finds."""
    return sign(
        lambda attempt: (
            bool(attempt.failed)
            and all(
                set(lines(case.got)) == set(touching(**case.inputs, reads=reads, writes=writes))
                for case in attempt.cases
            )
        )
    )


TENSORS = "[*node.input, *node.output]"

KEEP = Check(
    "12_precision.keep",
    run=call("keep_file"),
    draw=draw_keep,
    sizes=("norm", "peak", "softmax", "fine"),
    must=(names_known, kept_right, small_error),
    misconceptions=(
        Misconception(
            "list_for_text",
            change('return "\\n".join(lines)', "return lines"),
            got(lambda result, **_: isinstance(result, (list, tuple, set))),
            what="a list comes back, not a text.",
            why="The function makes the content of a file.",
            do=r'Return "\n".join(lines).',
        ),
        Misconception(
            "one_line",
            change('"\\n".join', '",".join'),
            kept(lambda found, case: any("," in line or ";" in line or " " in line for line in found)),
            what="all names stand on one line.",
            why="--keep_dtype takes one entry a line; yours is read as one long name that no operator has.",
            do=r'Join with "\n".',
        ),
        Misconception(
            "by_type",
            change("lines.append(node.name)", 'lines.append(f"OpType::{node.op_type}")'),
            kept(lambda found, case: any("::" in line for line in found)),
            what="operators are listed by type.",
            why="OpType:: keeps every operator of that type, also those that need not be kept; and the type is GE's "
            "(RealDiv), not ONNX's (Div).",
            do="Write node.name.",
        ),
        Misconception(
            "types_for_names",
            change("lines.append(node.name)", "lines.append(node.op_type)"),
            kept(lambda found, case: bool(found) and found <= node_facts(case.inputs["model"])[1]) & source(r"op_type"),
            what="the lines are types of operators.",
            why="Without OpType:: a line is the name of one operator.",
            do="Write node.name.",
        ),
        Misconception(
            "tensor_names",
            """# exercise: 12_precision.keep
def keep_file(model, largest):
    return "\\n".join(name for name, value in largest.items() if value > 65504)
""",
            kept(lambda found, case: bool(found) and found <= set(case.inputs["largest"])),
            what="the lines are names of tensors.",
            why="A type is given to an operator; its tensors follow.",
            do="Find the nodes that read or write these tensors, and list their names.",
        ),
        Misconception(
            "only_writers",
            change(TENSORS, "node.output"),
            keeps_as(reads=False, writes=True),
            what="the operators that write a large tensor are kept, those that read it are not.",
            why="A reader in float16 gets a Cast in front of it, and the Cast makes inf of the large value.",
            do="Look at node.input as well.",
        ),
        Misconception(
            "only_readers",
            change(TENSORS, "node.input"),
            keeps_as(reads=True, writes=False),
            what="the operators that read a large tensor are kept, those that write it are not.",
            why="A writer in float16 has stored inf before anybody reads it.",
            do="Look at node.output as well.",
        ),
        Misconception(
            "everything",
            change("largest.get(name, 0) > 65504 for", "True for"),
            kept(lambda found, case: found == node_facts(case.inputs["model"])[0]),
            what="every operator is kept.",
            why="That is must_keep_origin_dtype, with its price: twice the bytes everywhere, and slow products.",
            do="Keep an operator only if one of its tensors is larger than 65504.",
        ),
        Misconception(
            "constants",
            change("largest.get(name, 0)", "largest[name]"),
            raises("KeyError"),
            what="a tensor has no entry in largest.",
            why="Weights and other constants are inputs of a node too; they were not measured.",
            do="Use largest.get(name, 0).",
        ),
        Misconception(
            "thousand_times",
            change("> 65504", "> 255"),
            kept(
                lambda found, case: (
                    found == {*touching(case.inputs["model"], {k: v * 257 for k, v in case.inputs["largest"].items()})}
                )
            ),
            what="operators are kept whose tensors float16 can hold.",
            why="255 is the largest number whose *square* fits. float16 itself ends at 65504.",
            do="Compare with 65504.",
        ),
    ),
)

# -- 5 mend ------------------------------------------------------------------------------------------

MEND_SOC = "Ascend310P3"
MEND_LIMIT = 0.01
MEND_SHAPE = (32, 1, 32, 32)
MEND_LARGEST = {4000.0: (2_000.0, 12_000.0), 60.0: (0.0, 190.0), 58_000.0: (1.2 * HALF_MAX, 1e6)}
"""The brightest pixel -> between what the largest value behind the convolution lies."""


@cache
def mend_model(seed: int) -> bytes:
    """Convolution, Relu, division by the root of the mean square, linear layer."""
    from onnx import helper

    rng = np.random.default_rng(seed)
    channels = 16
    node = helper.make_node
    weights = {
        "conv.weight": rng.standard_normal((channels, 1, 3, 3)) / 3,
        "conv.bias": rng.uniform(20, 60, channels),
        "epsilon": np.array(1e-6),
        "fc.weight": rng.standard_normal((10, channels * 1024)) / 100,
        "fc.bias": rng.standard_normal(10) / 10,
    }
    nodes = [
        node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["a"], "relu"),
        node("Mul", ["a", "a"], ["q"], "square"),
        node("ReduceMean", ["q"], ["p"], "mean", axes=[1, 2, 3]),
        node("Add", ["p", "epsilon"], ["e"], "add"),
        node("Sqrt", ["e"], ["d"], "root"),
        node("Div", ["a", "d"], ["n"], "divide"),
        node("Flatten", ["n"], ["f"], "flatten"),
        node("Gemm", ["f", "fc.weight", "fc.bias"], ["scores"], "fc", transB=1),
    ]
    return network(nodes, {"x": list(MEND_SHAPE)}, "scores", weights)


@cache
def mend_images(top: float, seed: int) -> Array:
    x = np.random.default_rng(seed).uniform(0.2, 1.0, MEND_SHAPE) * top
    return np.asarray(x, np.float32)


@cache
def _features(seed: int, top: float, images: int) -> float:
    """The largest value behind the convolution."""
    import onnx
    import onnxruntime

    proto = onnx.load_from_string(mend_model(seed))
    del proto.graph.output[:]
    proto.graph.output.append(onnx.ValueInfoProto(name="a"))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": mend_images(top, images)})
    return float(np.asarray(result).max())


def draw_mend(rng: Generator, top: float) -> dict[str, Any]:
    low, high = MEND_LARGEST[top]
    top = round(top * rng.uniform(0.9, 1.1), 1)
    while True:
        seed, images = int(rng.integers(1000)), int(rng.integers(1000))
        largest = float(f"{_features(seed, top, images):.5g}")
        if low < largest < high:
            return {
                "model": File(f"gauge{rng.integers(10, 99)}.onnx", mend_model(seed)),
                "images": mend_images(top, images),
                "largest": largest,
            }


def mended(case: CaseRun) -> Any:
    """The om that came back, for the right chip."""
    from cannlab import om

    compiled = om.read(bytes(case.got), soc=MEND_SOC)
    assert [tuple(tensor.dims) for tensor in compiled.inputs] == [MEND_SHAPE]
    return compiled


def mended_error(case: CaseRun) -> Fact:
    do = "Compare with the original model, and look at the first bad layer."
    try:
        found = error(mended(case), case.inputs["model"].data, case.inputs["images"])
    except Exception:
        # The answer's bytes may be anything.
        return Fact("error", False, f"no om for {MEND_SOC} came back", "Return Path('net.om').read_bytes().")
    if found < MEND_LIMIT:
        return Fact("error", True, "the om agrees with the original model to 1 %", do)
    text = f"the om is off by {found:.2%}" if np.isfinite(found) else "the om gives inf or nan"
    return Fact("error", False, text, do)


def mended_ns(case: CaseRun) -> int:
    """How long one execution of the om takes."""
    from cannlab import soc
    from cannlab.machine import cost

    return cost.model_ns(mended(case), soc.get(MEND_SOC))


def off_where(test: Callable[[float], bool]) -> Sign:
    """The om is off exactly in the cases whose largest value passes the test, and there is one."""

    def ask(case: CaseRun) -> bool:
        return any(fact.name == "error" and not fact.ok and "off by" in fact.text for fact in case.facts)

    return sign(
        lambda attempt: (
            any(map(ask, attempt.cases)) and all(ask(case) == test(case.inputs["largest"]) for case in attempt.cases)
        )
    )


def like_the_defaults() -> Sign:
    """The om is off in some case, and wherever it is, by as much as with atc's defaults."""

    def ask(case: CaseRun) -> bool:
        model, images = case.inputs["model"].data, case.inputs["images"]
        default = error(compiled_om(model, MEND_SOC), model, images)
        return bool(np.isclose(error(mended(case), model, images), default, rtol=1e-3))

    return unmet("error") & sign(lambda attempt: all(map(ask, attempt.failed)))


def too_slow() -> Sign:
    """Right, and too slow."""
    return slow() & ~unmet("error")


SCALED = "numpy_helper.to_array(item) / 2**shift"
CONVERT = 'convert("mended.onnx")'
NAMES = '("conv.weight", "conv.bias")'

MEND = Check(
    "12_precision.mend",
    run=call("mend"),
    draw=draw_mend,
    sizes=(4000.0, 60.0, 58_000.0),
    must=(mended_error,),
    cost=Cost(1.03, of=mended_ns),
    misconceptions=(
        Misconception(
            "all_in_float32",
            change(CONVERT, 'convert(model, "--precision_mode=force_fp32")'),
            too_slow() & source(r"force_fp32|cube_fp16in_fp32out"),
            what="everything behind the convolution computes in float32.",
            why="That is right, and it moves twice the bytes through the memory.",
            do="Make the values smaller instead, where it costs nothing.",
        ),
        Misconception(
            "vectors_in_float32",
            change(CONVERT, 'convert(model, "--precision_mode=allow_fp32_to_fp16")'),
            (off_where(lambda largest: largest > HALF_MAX) | too_slow()) & source(r"allow_fp32_to_fp16"),
            what="the vector operators compute in float32, the convolution still writes float16.",
            why="That costs bytes and Casts, and it is too late where the convolution's own result leaves float16.",
            do="Make the values smaller instead, where it costs nothing.",
        ),
        Misconception(
            "no_float32_cube",
            change(CONVERT, 'convert(model, "--precision_mode=must_keep_origin_dtype")'),
            raises("AssertionError") & source(r"must_keep_origin_dtype|origin"),
            what="atc refuses: the convolution has no float32 kernel on this chip.",
            why="The Cube of the 310P multiplies float16 and int8 only.",
            do="Use another way; the weights are yours to change.",
        ),
        Misconception(
            "kept_four",
            change(
                CONVERT,
                'Path("keep.cfg").write_text("square\\nmean\\nadd\\nroot\\n")\n'
                '    convert(model, "--keep_dtype=keep.cfg")',
            ),
            (off_where(lambda largest: largest > HALF_MAX) | too_slow()) & source(r"keep_dtype"),
            what="the operators around the squares stay float32.",
            why="That costs two Casts and the bytes of the squares, and the convolution's own result may be too large.",
            do="Make the values smaller before they are squared.",
        ),
        Misconception(
            "another_operator",
            change(
                "    for item in net.graph.initializer:\n",
                '    net.graph.initializer.append(numpy_helper.from_array(np.float32(1 / 2**shift), "factor"))\n'
                '    net.graph.node.insert(2, onnx.helper.make_node("Mul", ["a", "factor"], ["small"], "shrink"))\n'
                "    for each in net.graph.node[3:]:\n"
                "        for index, name in enumerate(each.input):\n"
                '            each.input[index] = "small" if name == "a" else name\n'
                "    for item in ():\n",
            ),
            (off_where(lambda largest: largest > HALF_MAX) | too_slow()) & source(r"make_node"),
            what="a Mul behind the convolution makes the values smaller.",
            why="It is one more operator, and too late where the convolution's own result leaves float16.",
            do="The convolution is linear: divide its weights and its bias instead.",
        ),
        Misconception(
            "multiplied",
            change("/ 2**shift", "* 2**shift"),
            off_where(lambda largest: largest > 256) & source(r"\* ?\(?2 ?\*\*"),
            what="the values became larger.",
            why="They have to become smaller, so that their squares fit.",
            do="Divide.",
        ),
        Misconception(
            "bias_forgotten",
            change(NAMES, '("conv.weight",)'),
            unmet("error") & source(r"conv\.weight") & ~source(r"conv\.bias"),
            what="the weights are smaller, the bias is not.",
            why="w / s * x + b is not (w * x + b) / s.",
            do="Divide conv.bias by the same number.",
        ),
        Misconception(
            "wrong_file",
            change(CONVERT, "convert(model)"),
            off_where(lambda largest: largest > 256) & source(r"convert\(model\)"),
            what="the original model was converted, not the mended one.",
            why="onnx.save writes a new file; the old one is what it was.",
            do='Convert "mended.onnx".',
        ),
        Misconception(
            "nothing_done",
            change(SCALED, "numpy_helper.to_array(item)"),
            like_the_defaults(),
            what="the om is as wrong as with atc's defaults.",
            why="The squares are larger than 65504, and the 310P stores 65504 instead: no inf, wrong numbers.",
            do="Divide the weights and the bias of the convolution by a power of two.",
        ),
        Misconception(
            "into_float16_only",
            change("largest / 200", "largest / 65504"),
            off_where(lambda largest: largest > 256),
            what="the values fit into float16, their squares do not.",
            why="65504 is the end for every tensor. The largest square is the largest value times itself.",
            do="Bring the largest value below 255: 255 * 255 < 65504.",
        ),
        Misconception(
            "always_the_same",
            change("max(0, int(np.ceil(np.log2(largest / 200))))", "6"),
            off_where(lambda largest: largest > HALF_MAX),
            what="the numbers are too large where the images are bright.",
            why="How much to divide by depends on the largest value, and you know it.",
            do="Compute the power of two from largest.",
        ),
        Misconception(
            "to_the_bottom",
            change("largest / 200", "largest / 2e-4"),
            off_where(lambda largest: True) & source(r"conv\.weight") & ~slow(),
            what="the values became so small that their digits are gone.",
            why="Below 6e-5 float16 loses digits, and the square of 0.001 is already there.",
            do="Divide by just as much as is needed: the largest value should end up near 200.",
        ),
        Misconception(
            "not_converted",
            change(f"    {CONVERT}\n", ""),
            raises("FileNotFoundError", "net.om"),
            what="there is no net.om.",
            why="onnx.save writes the model, and only atc makes an om of it.",
            do='Call convert("mended.onnx").',
        ),
    ),
)


CHECKS = [TYPES, COMMAND, SUSPECT, KEEP, MEND]
