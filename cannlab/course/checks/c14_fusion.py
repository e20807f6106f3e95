"""Checks of 14_fusion."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.spec import (
    CaseRun,
    Check,
    Fact,
    File,
    Misconception,
    Sign,
    call,
    change,
    converted,
    exact,
    gives,
    got,
    how_many_right,
    model_bytes,
    near,
    raises,
    read,
    sign,
    source,
)

SOC = "Ascend310P3"
Array = NDArray[Any]
Node = tuple[str, str, list[str]]
OFF: dict[str, dict[str, dict[str, str]]] = {
    "all on": {},
    "UB off": {"UBFusion": {"ALL": "off"}},
    "graph off": {"GraphFusion": {"ALL": "off"}},
    "all off": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}},
}


def trunk(nodes: Sequence[Any], weights: Mapping[str, Array], size: int, channels: int) -> bytes:
    """A model that reads x (1, 3, size, size) and gives the last node's result, with so many channels."""
    outputs = {nodes[-1].output[0]: [1, channels, None, None]}
    return model_bytes(nodes, {"x": [1, 3, size, size]}, outputs, weights, opset=13)


def switched(model: bytes, switches: Mapping[str, Any]) -> AbstractContextManager[Path]:
    """A folder with net.onnx, net.om and fusion_result.json, made with these switches."""
    files = {"switches.json": json.dumps({"Switch": switches})}
    return converted(model, SOC, "--fusion_switch_file=switches.json", files=files)


# -- 1 count -----------------------------------------------------------------------------------------

CHANNELS = 16


def draw_count(rng: Generator, size: None) -> dict[str, Any]:
    """Parts in any order, each at least once: with and without BatchNormalization, with and without a shortcut."""
    parts = ["norm relu", "relu", "norm", "norm add relu", "add relu", "pool"]
    parts += [str(part) for part in rng.choice(parts[:5], int(rng.integers(1, 4)))]
    if parts.count("add relu") == parts.count("norm add relu"):  # else two mistakes give the same number
        parts.append("add relu")
    # A bare convolution is never the other side of an Add: the pass might take that one.
    nodes: list[Node] = [("conv0", "Conv", ["x"]), ("relu0", "Relu", ["conv0"])]
    before = "relu0"
    for number, index in enumerate(rng.permutation(len(parts)), 1):
        start = before
        words = parts[int(index)].split()
        if words == ["pool"]:
            nodes.append((f"pool{number}", "MaxPool", [before]))
            before = f"pool{number}"
            continue
        nodes.append((f"conv{number}", "Conv", [before]))
        before = f"conv{number}"
        kinds = {"norm": "BatchNormalization", "relu": "Relu", "add": "Add"}
        for word in words:
            nodes.append((f"{word}{number}", kinds[word], [before, start] if word == "add" else [before]))
            before = f"{word}{number}"
    return {"nodes": [list(node) for node in nodes]}


def network(nodes: Sequence[Any]) -> bytes:
    """The ONNX model of such a list."""
    from onnx import helper

    rng = np.random.default_rng(0)
    made, weights = [], {}
    for name, kind, inputs in nodes:
        attributes: dict[str, Any] = {}
        extra: list[str] = []
        if kind == "Conv":
            channels = 3 if inputs == ["x"] else CHANNELS
            weights[f"{name}.weight"] = rng.standard_normal((CHANNELS, channels, 3, 3)) * 0.1
            extra, attributes = [f"{name}.weight"], {"pads": [1, 1, 1, 1]}
        elif kind == "BatchNormalization":
            extra = [f"{name}.{part}" for part in ("scale", "bias", "mean", "variance")]
            weights |= {key: rng.uniform(0.5, 1.5, CHANNELS) for key in extra}
        elif kind == "MaxPool":
            attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
        made.append(helper.make_node(kind, [*inputs, *extra], [name], name, **attributes))
    return trunk(made, weights, 16, CHANNELS)


def operators_of(nodes: Sequence[Any]) -> dict[str, int]:
    """Operators of the om for each setting of the switches, without those that atc puts in."""
    return dict(_operators(json.dumps(nodes)))


@cache
def _operators(text: str) -> tuple[tuple[str, int], ...]:
    from cannlab import om

    model = network(json.loads(text))
    counts = []
    for title, switches in OFF.items():
        with switched(model, switches) as folder:
            counts.append((title, sum(bool(task.nodes) for task in om.read(folder / "net.om").tasks)))
    return tuple(counts)


def counts(nodes: Sequence[Any]) -> dict[str, int]:
    """How often a node reads (with its first input) the result of a node: "Relu Conv"; and how often each type."""
    kinds = {name: kind for name, kind, _ in nodes}
    pairs = [f"{kind} {kinds.get(inputs[0], 'x')}" for _, kind, inputs in nodes]
    found = [*pairs, *kinds.values(), *("all" for _ in nodes)]
    return {each: found.count(each) for each in found}


def answer(title: str, wrong: Callable[[Callable[[str], int]], int]) -> Sign:
    """The entry of this title is what a wrong formula of the counts gives."""

    def ask(result: Any, nodes: Sequence[Any]) -> bool:
        table = counts(nodes)
        return isinstance(result, dict) and result.get(title) == wrong(lambda name: table.get(name, 0))

    return got(ask)


HEADS = '"all on": heads'
UB_OFF = '"UB off": total - norms - count("Relu", "Conv") - count("Relu", "BatchNormalization")'
GRAPH_OFF = '"graph off": total - count("Relu", "Conv") - 2 * count("Add", "Conv") - count("Add", "BatchNormalization")'
ALL_OFF = '"all off": total - count("Relu", "Conv")'

COUNT = Check(
    "14_fusion.count",
    run=read("operators"),
    draw=draw_count,
    reference=operators_of,
    compare=exact(dtype=False),
    must=(how_many_right("numbers are"),),
    misconceptions=(
        Misconception(
            "nothing_without_switches",
            change(HEADS, '"all on": total'),
            answer("all on", lambda n: n("all")),
            what="the defaults are taken for no fusion at all.",
            why="Fusion is on by default; the switch file is there to turn passes off.",
            do="Take everything out that goes into the kernel of a convolution.",
        ),
        Misconception(
            "only_norms_fuse",
            change(HEADS, '"all on": total - norms'),
            answer("all on", lambda n: n("all") - n("BatchNormalization")),
            what="the Relus and Adds are operators of their own with everything on.",
            why="The UBFusion passes put them into the convolution's kernel.",
            do="Only what computes something else, a convolution or a pool, is left.",
        ),
        Misconception(
            "pools_fused",
            change(HEADS, '"all on": heads - kinds.count("MaxPool")'),
            answer("all on", lambda n: n("Conv")),
            what="the pool has disappeared in a convolution.",
            why="No pass of the table takes a MaxPool.",
            do="Count the pools too.",
        ),
        Misconception(
            "relus_lost_with_ub",
            change(UB_OFF, '"UB off": total - norms'),
            answer("UB off", lambda n: n("all") - n("BatchNormalization")),
            what="with UBFusion off each Relu has a task of its own.",
            why="ALL leaves TbeConvCommonRules0FusionPass on, and it takes a Relu that reads a convolution.",
            do="Take those Relus out that read a convolution when its BatchNormalization is gone.",
        ),
        Misconception(
            "norm_still_between",
            change(UB_OFF, '"UB off": total - norms - count("Relu", "Conv")'),
            answer("UB off", lambda n: n("all") - n("BatchNormalization") - n("Relu Conv")),
            what="a BatchNormalization that is gone still keeps Relu and convolution apart.",
            why="ConvBatchnormFusionPass runs first. After it the Relu reads the convolution.",
            do="Take the Relus out that read a BatchNormalization too.",
        ),
        Misconception(
            "adds_stay_fused",
            change(UB_OFF, '"UB off": heads'),
            answer("UB off", lambda n: n("Conv") + n("MaxPool")),
            what="the Adds are still in a kernel, although UBFusion is off.",
            why="ALL leaves on what takes a Relu, not what takes an Add.",
            do="Give each Add a task, and the Relu behind it as well.",
        ),
        Misconception(
            "all_lost_with_graph_off",
            change(GRAPH_OFF, '"graph off": total'),
            answer("graph off", lambda n: n("all")),
            what="with GraphFusion off nothing is fused.",
            why="Where no BatchNormalization stands between, a UBFusion pass still finds its pattern.",
            do="Look for the convolutions that a Relu or an Add reads directly.",
        ),
        Misconception(
            "through_the_norm",
            change(GRAPH_OFF, '"graph off": heads + norms'),
            answer("graph off", lambda n: n("Conv") + n("MaxPool") + n("BatchNormalization")),
            what="a Relu behind a BatchNormalization has gone into the convolution.",
            why="With the graph passes off the BatchNormalization stands between them: the pattern is not found.",
            do="Fuse only what reads the convolution's own result.",
        ),
        Misconception(
            "add_without_relu",
            change("2 * count", "count"),
            answer("graph off", lambda n: n("all") - n("Relu Conv") - n("Add Conv") - n("Add BatchNormalization")),
            what="the Relu behind an Add that is in a convolution has a task of its own.",
            why="The pass takes the Add into the convolution's kernel, and the Relu behind it as well.",
            do="Take both out where the Add reads the convolution directly.",
        ),
        Misconception(
            "pairs_forgotten",
            change(' - count("Add", "BatchNormalization")', ""),
            answer("graph off", lambda n: n("all") - n("Relu Conv") - 2 * n("Add Conv")),
            what="an Add and its Relu have two tasks where the convolution cannot take them.",
            why="TbeEltwiseFusionPass puts elementwise operators that follow each other into one kernel.",
            do="Take one out for each Add that reads a BatchNormalization.",
        ),
        Misconception(
            "really_all_off",
            change(ALL_OFF, '"all off": total'),
            answer("all off", lambda n: n("all")),
            what="ALL is taken at its word.",
            why="It leaves some passes on; TbeConvCommonRules0FusionPass is one.",
            do="Take out the Relus that read a convolution directly.",
        ),
        Misconception(
            "norms_gone_by_themselves",
            change(ALL_OFF, '"all off": total - norms - count("Relu", "Conv")'),
            answer("all off", lambda n: n("all") - n("BatchNormalization") - n("Relu Conv")),
            what="the BatchNormalizations are gone although the graph passes are off.",
            why="What ALL leaves on turns each into an operator for inference, BNInfer; that is still one.",
            do="Count them.",
        ),
    ),
)

# -- 2 switch_file -----------------------------------------------------------------------------------

GRAPH_PASSES = ("ConvBatchnormFusionPass", "LayerNormONNXFusionPass", "GeluFusionPass", "MatMulBiasAddFusionPass")
UB_PASSES = ("TbeConv2DReluv2Pass", "TbeConv2DEltwisePass", "TbeEltwiseFusionPass", "ATbeMatmulElemwiseFusionPass")


def draw_switch(rng: Generator, size: tuple[int, int, bool]) -> dict[str, Any]:
    graph, ub, only = size
    return {
        "graph_off": [str(name) for name in rng.permutation(GRAPH_PASSES)[:graph]],
        "ub_off": [str(name) for name in rng.permutation(UB_PASSES)[:ub]],
        "only": only,
    }


def states(text: Any) -> dict[str, bool]:
    """Which passes are on with a switch file of this text, as atc reads it; an error if it does not."""
    from cannlab.atc.passes import registry, switches

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "switches.json")
        path.write_text(text, encoding="utf-8")
        found = switches.read(str(path))
    return {item.name: found.enabled(item) for item in registry.PASSES}


def wanted_states(case: CaseRun) -> dict[str, bool]:
    inputs = case.inputs
    kinds = {"GraphFusion": inputs["graph_off"], "UBFusion": inputs["ub_off"]}
    switches: dict[str, dict[str, str]] = {}
    for kind, names in kinds.items():
        switches[kind] = dict.fromkeys(names, "on" if inputs["only"] else "off")
        if inputs["only"]:
            switches[kind]["ALL"] = "off"
    return states(json.dumps({"Switch": switches}))


def readable(case: CaseRun) -> Fact:
    do = "Look at the form: Switch, then GraphFusion and UBFusion, then names with the texts on and off."
    try:
        states(case.got)
    except Exception as problem:
        # Whatever the answer gave as a text: atc's own words for it are the fact.
        diagnoses = getattr(problem, "diagnoses", None)
        text = diagnoses[0].what.partition(": ")[2].rstrip(".") if diagnoses else "it is no text"
        return Fact("readable", False, f"atc cannot read the file: {text}", do)
    return Fact("readable", True, "atc reads the file", do)


def right_states(case: CaseRun) -> Fact:
    do = "Compare with the task: which passes are named, what only means, and what ALL stands for."
    try:
        found, wanted = states(case.got), wanted_states(case)
    except Exception:
        # Told by the requirement above.
        return Fact("states", False, "no pass is switched", do)
    wrong = [name for name in wanted if found[name] is not wanted[name]]
    text = f"{wrong[0]} is {'on' if found[wrong[0]] else 'off'}" if wrong else "all passes are on or off as asked"
    return Fact("states", not wrong, text, do)


def own_sections(case: CaseRun) -> Fact:
    do = "Put graph_off into GraphFusion and ub_off into UBFusion."
    kinds = {"GraphFusion": case.inputs["graph_off"], "UBFusion": case.inputs["ub_off"]}
    try:
        switch = json.loads(case.got)["Switch"]
        strange = [name for kind, own in kinds.items() for name in switch.get(kind, {}) if name not in (*own, "ALL")]
    except Exception:
        # Told by the requirement above.
        return Fact("own_sections", False, "the file has no sections", do)
    text = f"{strange[0]} stands in the wrong section" if strange else "each pass stands in its own section"
    return Fact("own_sections", not strange, text, do)


def written(test: Callable[[dict[str, Any], CaseRun], bool]) -> Sign:
    """Some case's file, read as JSON, satisfies the test."""

    def ask(case: CaseRun) -> bool:
        try:
            return bool(test(json.loads(case.got), case))
        except Exception:
            # No JSON, or of another form: this is not the sign.
            return False

    return sign(lambda attempt: any(ask(case) for case in attempt.failed))


def values(file: dict[str, Any]) -> list[Any]:
    return [value for section in file["Switch"].values() for value in section.values()]


SWITCH_FILE = Check(
    "14_fusion.switch_file",
    run=call("switch_text"),
    draw=draw_switch,
    sizes=((1, 1, False), (3, 0, False), (0, 2, False), (2, 1, True), (0, 1, True), (1, 0, True), (0, 0, True)),
    must=(readable, own_sections, right_states),
    misconceptions=(
        Misconception(
            "not_json_text",
            change("return json.dumps({", "return ({"),
            got(lambda result, **_: isinstance(result, dict)),
            what="a dictionary comes back, not a text.",
            why="The function makes the content of a file.",
            do="Return json.dumps(...) of it.",
        ),
        Misconception(
            "python_text",
            change("json.dumps(", "str("),
            got(lambda result, **_: isinstance(result, str) and "{'" in result),
            what="the text is Python, not JSON.",
            why="JSON has double quotes; str() of a dictionary writes single ones.",
            do="Use json.dumps.",
        ),
        Misconception(
            "truth_values",
            change('"on" if only else "off"', "only"),
            written(lambda file, case: any(isinstance(value, bool) for value in values(file))),
            what="the values are true and false.",
            why="A switch file says on and off, in quotes.",
            do='Write "on" and "off".',
        ),
        Misconception(
            "no_sections",
            """# exercise: 14_fusion.switch_file
def switch_text(graph_off, ub_off, only):
    switches = {name: "on" if only else "off" for name in graph_off + ub_off}
    if only:
        switches["ALL"] = "off"
    return json.dumps({"Switch": switches})
""",
            written(lambda file, case: "Switch" in file and not {"GraphFusion", "UBFusion"} & set(file["Switch"])),
            what="the passes stand directly in Switch.",
            why="There is a level between: GraphFusion and UBFusion. What stands elsewhere is not read.",
            do='Put them into {"GraphFusion": {...}, "UBFusion": {...}}.',
        ),
        Misconception(
            "no_switch_level",
            change('{"Switch": switches}', "switches"),
            written(lambda file, case: "Switch" not in file),
            what="the outer level is missing.",
            why="The file begins with Switch; the toolkit's own file has a second part, Priority.",
            do='Wrap it: {"Switch": {...}}.',
        ),
        Misconception(
            "all_for_one_kind",
            change("        if only:\n", "        if only and names:\n"),
            written(
                lambda file, case: (
                    case.inputs["only"] and sum("ALL" in section for section in file["Switch"].values()) == 1
                )
            ),
            what="a kind without names keeps all its passes on.",
            why="ALL belongs to one kind; without names there is just as much to switch off.",
            do='Put "ALL": "off" into both kinds, also into an empty one.',
        ),
        Misconception(
            "only_off",
            change('        if only:\n            switches[kind]["ALL"] = "off"\n', ""),
            written(lambda file, case: case.inputs["only"] and "ALL" not in str(file)),
            what="with only, the other passes are still on.",
            why="A pass that nobody names keeps its default, and that is on.",
            do='Add "ALL": "off" to each kind if only is true.',
        ),
        Misconception(
            "named_off_as_well",
            change('"on" if only else "off"', '"off"'),
            written(lambda file, case: case.inputs["only"] and "on" not in values(file) and "off" in values(file)),
            what="with only, the named passes are off as well.",
            why="A name beats ALL, and yours says off.",
            do='Write "on" for the named passes if only is true.',
        ),
        Misconception(
            "sections_exchanged",
            change('"GraphFusion", graph_off', '"UBFusion", graph_off', '"UBFusion", ub_off', '"GraphFusion", ub_off'),
            written(
                lambda file, case: (
                    bool(set(case.inputs["graph_off"]) & set(file["Switch"].get("UBFusion", {})))
                    or bool(set(case.inputs["ub_off"]) & set(file["Switch"].get("GraphFusion", {})))
                )
            ),
            what="the passes stand in the section of the other kind.",
            why="Each kind has its own section; a real toolkit looks for a pass in its own.",
            do="Put graph_off into GraphFusion and ub_off into UBFusion.",
        ),
    ),
)

# -- 3 without_effect --------------------------------------------------------------------------------


def draw_result(rng: Generator, size: str) -> dict[str, Any]:
    graphs = []
    for number in range(3 if size == "several graphs" else 1):
        sections: dict[str, Any] = {"session_and_graph_id": f"0_{number}"}
        for section, names in (("graph_fusion", GRAPH_PASSES), ("ub_fusion", UB_PASSES)):
            entries = {}
            for name in rng.permutation(names)[: 0 if size == "nothing" else int(rng.integers(2, 5))]:
                match = int(rng.integers(2, 13))
                effect = match if size == "all took effect" or rng.random() < 0.3 else int(rng.integers(0, match))
                entries[str(name)] = {"effect_times": str(effect), "match_times": str(match)}
                if section == "ub_fusion":
                    entries[str(name)]["repository_hit_times"] = str(int(rng.integers(0, 5)))
            sections[section] = entries
        graphs.append(sections)
    if size == "ten matches":
        graphs[0]["graph_fusion"][GRAPH_PASSES[0]] = {"effect_times": "9", "match_times": "10"}
    return {"text": json.dumps(graphs, indent=4)}


def missed(
    text: str,
    graphs: slice = slice(None),
    sections: Sequence[str] = ("graph_fusion", "ub_fusion"),
    count: Callable[[Mapping[str, str]], int] = lambda times: int(times["match_times"]) - int(times["effect_times"]),
    keep: Callable[[int], bool] = bool,
    add: bool = True,
) -> dict[str, int]:
    """What without_effect gives; the arguments are what may go wrong."""
    found: dict[str, int] = {}
    for graph in json.loads(text)[graphs]:
        for section in sections:
            for name, times in graph[section].items():
                found[name] = (found.get(name, 0) if add else 0) + count(times)
    return {name: number for name, number in found.items() if keep(number)}


def never_effective(times: Mapping[str, str]) -> int:
    return int(times["match_times"]) if times["effect_times"] == "0" else 0


WITHOUT_EFFECT = Check(
    "14_fusion.without_effect",
    run=call("without_effect"),
    draw=draw_result,
    sizes=("usual", "ten matches", "several graphs", "all took effect", "nothing"),
    reference=missed,
    misconceptions=(
        Misconception(
            "first_graph",
            change("for graph in json.loads(text):", "for graph in json.loads(text)[:1]:"),
            gives(lambda text: missed(text, graphs=slice(1))),
            what="only the first graph is counted.",
            why="A model can have several graphs, and the file has an entry for each.",
            do="Go over the whole list.",
        ),
        Misconception(
            "graph_only",
            change('("graph_fusion", "ub_fusion")', '("graph_fusion",)'),
            gives(lambda text: missed(text, sections=("graph_fusion",))),
            what="the UB passes are missing.",
            why="There are two kinds of passes, each with its own section.",
            do="Go over graph_fusion and ub_fusion.",
        ),
        Misconception(
            "ub_only",
            change('("graph_fusion", "ub_fusion")', '("ub_fusion",)'),
            gives(lambda text: missed(text, sections=("ub_fusion",))),
            what="the graph passes are missing.",
            why="There are two kinds of passes, each with its own section.",
            do="Go over graph_fusion and ub_fusion.",
        ),
        Misconception(
            "zeros_kept",
            change(" if count}", "}"),
            gives(lambda text: missed(text, keep=lambda number: True)),
            what="passes without a missed match are in the result.",
            why="Where every match took effect there is nothing to look at.",
            do="Drop the entries that are 0.",
        ),
        Misconception(
            "effects_counted",
            change('int(times["match_times"]) - int(times["effect_times"])', 'int(times["effect_times"])'),
            gives(lambda text: missed(text, count=lambda times: int(times["effect_times"]))),
            what="these are the matches that took effect.",
            why="The question is about the others: matched, and let stand.",
            do='Subtract: int(times["match_times"]) - int(times["effect_times"]).',
        ),
        Misconception(
            "never_effective_only",
            change(
                'missed = int(times["match_times"]) - int(times["effect_times"])',
                'missed = int(times["match_times"]) if times["effect_times"] == "0" else 0',
            ),
            gives(lambda text: missed(text, count=never_effective)),
            what="only passes that never took effect are counted.",
            why="A pass may take effect at one place and let another stand.",
            do="Take the difference of the two numbers, for every pass.",
        ),
        Misconception(
            "matches_counted",
            change('int(times["match_times"]) - int(times["effect_times"])', 'int(times["match_times"])'),
            gives(lambda text: missed(text, count=lambda times: int(times["match_times"]))),
            what="these are all matches.",
            why="Most of them took effect.",
            do="Subtract effect_times.",
        ),
        Misconception(
            "last_graph_wins",
            change("found.get(name, 0) + missed", "missed"),
            gives(lambda text: missed(text, add=False)),
            what="a pass that ran in several graphs has the number of the last one.",
            why="An assignment replaces what an earlier graph gave.",
            do="Add up: found.get(name, 0) + missed.",
        ),
        Misconception(
            "texts_subtracted",
            change(
                'int(times["match_times"])',
                'times["match_times"]',
                'int(times["effect_times"])',
                'times["effect_times"]',
            ),
            raises("TypeError", "unsupported operand"),
            what="texts are subtracted.",
            why='The numbers of this file are texts: "4", not 4.',
            do="Convert with int() first.",
        ),
        Misconception(
            "one_for_each_pass",
            change(
                'missed = int(times["match_times"]) - int(times["effect_times"])',
                'missed = int(times["match_times"] != times["effect_times"])',
            ),
            gives(lambda text: missed(text, count=lambda times: int(times["match_times"] != times["effect_times"]))),
            what="each pass counts once.",
            why="A pass may let several matches stand.",
            do="Take the difference of the two numbers.",
        ),
    ),
)

# -- 4 gains -----------------------------------------------------------------------------------------


def draw_gains(rng: Generator, size: int) -> dict[str, Any]:
    runs = 7
    fused = rng.uniform(100, 110, runs) * rng.uniform(1, 3)
    plain = fused * rng.uniform(1.2, 2.8) + rng.uniform(-3, 3, runs)
    fused[0], plain[0] = 4000 * rng.uniform(1, 2), 5000 * rng.uniform(1, 2)  # the first run loads kernels
    return {"fused": fused.round(2).tolist(), "plain": plain.round(2).tolist(), "batch": size}


def gain(fused: Sequence[float], plain: Sequence[float], batch: int, middle: Any = np.median) -> dict[str, float]:
    on, off = float(middle(fused)), float(middle(plain))
    return {"faster": off / on, "saved": (1 - on / off) * 100, "images": (batch / on - batch / off) * 1e6}


def entry(name: str, wrong: Callable[[float, float, int], float]) -> Sign:
    """The entry is what a wrong formula of the medians and the batch gives, in some failed case."""

    def ask(result: Any, fused: Sequence[float], plain: Sequence[float], batch: int) -> bool:
        value = result.get(name) if isinstance(result, dict) else None
        wanted = wrong(float(np.median(fused)), float(np.median(plain)), batch)
        return isinstance(value, (int, float)) and abs(value - wanted) <= 1e-6 * abs(wanted)

    return got(ask)


def from_middle(middle: Any) -> Sign:
    return gives(lambda fused, plain, batch: gain(fused, plain, batch, middle), near(rel=1e-6))


GAINS = Check(
    "14_fusion.gains",
    run=call("gains"),
    draw=draw_gains,
    sizes=(1, 8, 64),
    reference=gain,
    compare=near(rel=1e-6),
    misconceptions=(
        Misconception(
            "mean",
            change("np.median", "np.mean"),
            from_middle(np.mean),
            what="the mean is used.",
            why="The first run is some forty times longer than the others, and pulls every mean up.",
            do="Use np.median.",
        ),
        Misconception(
            "first_run",
            change("np.median(fused), np.median(plain)", "fused[0], plain[0]"),
            from_middle(lambda runs: runs[0]),
            what="the first run is used.",
            why="It loads kernels; all later ones are shorter.",
            do="Use np.median.",
        ),
        Misconception(
            "best_run",
            change("np.median", "min"),
            from_middle(min),
            what="the best run is used.",
            why="Nobody waits for the best run; the task asks for the usual one.",
            do="Use np.median.",
        ),
        Misconception(
            "upside_down",
            change('"faster": off / on', '"faster": on / off'),
            entry("faster", lambda on, off, batch: on / off),
            what='"faster" is below 1, as if fusion made it slower.',
            why="Half the time is twice as fast: the time without fusion, divided by the time with it.",
            do="Divide the other way round.",
        ),
        Misconception(
            "percent_of_the_fused",
            change("(1 - on / off) * 100", "(off / on - 1) * 100"),
            entry("saved", lambda on, off, batch: (off / on - 1) * 100),
            what="the saved time is given in percent of the time with fusion.",
            why="One cannot save more than 100 % of what one had. The base is the time without fusion.",
            do="Take (1 - fused / plain) * 100, of the two medians.",
        ),
        Misconception(
            "share_for_percent",
            change("(1 - on / off) * 100", "1 - on / off"),
            entry("saved", lambda on, off, batch: 1 - on / off),
            what="the saved time is a share of 1.",
            why="The task asks for percent.",
            do="Multiply by 100.",
        ),
        Misconception(
            "microseconds",
            change("(1 - on / off) * 100", "off - on"),
            entry("saved", lambda on, off, batch: off - on),
            what="the saved time is in microseconds.",
            why="Microseconds say nothing without the whole.",
            do="Divide by the time without fusion, and multiply by 100.",
        ),
        Misconception(
            "batch_forgotten",
            change("batch / on - batch / off", "1 / on - 1 / off"),
            entry("images", lambda on, off, batch: (1 / on - 1 / off) * 1e6),
            what="these are executions per second.",
            why="One execution computes a whole batch of images.",
            do="Multiply by the batch.",
        ),
        Misconception(
            "difference_of_times",
            change("(batch / on - batch / off) * 1e6", "batch / (off - on) * 1e6"),
            entry("images", lambda on, off, batch: batch / (off - on) * 1e6),
            what="the images are divided by the difference of the times.",
            why="1 / a - 1 / b is not 1 / (a - b).",
            do="Compute both rates, then subtract.",
        ),
        Misconception(
            "whole_rate",
            change("(batch / on - batch / off) * 1e6", "batch / on * 1e6"),
            entry("images", lambda on, off, batch: batch / on * 1e6),
            what="this is the whole rate with fusion.",
            why="The task asks how many images per second come on top.",
            do="Subtract the rate without fusion.",
        ),
        Misconception(
            "milliseconds",
            change("* 1e6,", "* 1e3,"),
            entry("images", lambda on, off, batch: (batch / on - batch / off) * 1e3),
            what="the times are taken for milliseconds.",
            why="They are microseconds: a second has 1,000,000 of them.",
            do="Multiply by 1e6.",
        ),
    ),
)

# -- 5 culprits --------------------------------------------------------------------------------------

LIMIT = 0.001
KINDS = {"norm": "ConvBatchnormFusionPass", "scale": "ConvScaleFusionPass", "division": "RealDiv2MulsFusionPass"}


def worst_divisor(rng: Generator) -> float:
    """A divisor whose inverse is a bad float16."""
    numbers = rng.uniform(40_000, 60_000, 200).astype(np.float16).astype(np.float64)
    inverse = (1 / numbers).astype(np.float16).astype(np.float64)
    return float(numbers[np.argmax(np.abs(inverse * numbers - 1))])


@cache
def spoilt(kind: str, seed: int) -> bytes:
    """A network for images from 0 to 10,000 that one pass spoils; a little only ("slight"), or not at all ("none")."""
    from onnx import helper

    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}

    def constant(name: str, array: Any) -> str:
        weights[name] = np.asarray(array)
        return name

    nodes, before = [], "x"
    if kind == "division":
        nodes.append(helper.make_node("Div", ["x", constant("range", worst_divisor(rng))], ["part"], "division"))
        before = "part"
    weight = rng.uniform(0.05, 0.15, (8, 3, 3, 3))
    if kind == "scale":
        weight /= 10  # weight times factor loses digits, each alone does not
    kernel = constant("w1", weight)
    nodes.append(helper.make_node("Conv", [before, kernel], ["a"], "conv1", pads=[1] * 4))
    if kind in ("norm", "none"):
        gamma, variance = ((0.005, 0.01), 6e6) if kind == "norm" else ((0.5, 1.0), 6e5)
        parameters = {
            "gamma": rng.uniform(*gamma, 8),
            "beta": rng.uniform(0, 0.01, 8),
            "mean": rng.uniform(-300, 300, 8),
            "variance": variance * rng.uniform(0.7, 1.3, 8),
        }
        names = [constant(name, array) for name, array in parameters.items()]
        nodes.append(helper.make_node("BatchNormalization", ["a", *names], ["n"], "norm"))
    elif kind in ("scale", "slight"):
        factor = constant("s", rng.uniform(7e-5, 9e-5, (1, 8, 1, 1)))
        nodes.append(helper.make_node("Mul", ["a", factor], ["n"], "scale"))
    last = "a" if kind == "division" else "n"
    nodes.append(helper.make_node("LeakyRelu", [last], ["r"], "relu", alpha=0.5))
    last_kernel = constant("w2", rng.uniform(0.2, 1, (4, 8, 1, 1)))
    nodes.append(helper.make_node("Conv", ["r", last_kernel], ["y"], "conv2", kernel_shape=[1, 1]))
    return trunk(nodes, weights, 16, 4)


def draw_culprits(rng: Generator, size: str) -> dict[str, Any]:
    return {"model": File(f"camera{rng.integers(10, 99)}.onnx", spoilt(size, int(rng.integers(1000))))}


@cache
def _errors(model: bytes) -> tuple[tuple[str, float], ...]:
    """("", error with the defaults), and (pass, error without it) for those that took effect."""
    from cannlab.atc.comparison import compare

    image = np.random.default_rng(0).uniform(0, 10_000, (1, 3, 16, 16)).astype(np.float32)

    def measured(switches: Mapping[str, Any]) -> tuple[float, list[str]]:
        with switched(model, switches) as folder:
            (graph,) = json.loads(folder.joinpath("fusion_result.json").read_text())
            passes = {**graph["graph_fusion"], **graph["ub_fusion"]}
            layers = compare(str(folder / "net.onnx"), str(folder / "net.om"), {"x": image}).layers
        return max(layer.errors.relative for layer in layers), [
            name for name, times in passes.items() if times["effect_times"] != "0"
        ]

    error, passes = measured({})
    return (("", error), *((name, measured({"GraphFusion": {name: "off"}})[0]) for name in passes))


def culprits_of(model: File) -> list[str]:
    (_, default), *others = _errors(model.data)
    return [] if default < LIMIT else sorted(name for name, error in others if error < LIMIT)


def suspects(model: File) -> list[str]:
    return [name for name, _ in _errors(model.data)[1:]]


CULPRITS = Check(
    "14_fusion.culprits",
    run=call("culprits"),
    draw=draw_culprits,
    sizes=("norm", "none", "scale", "division", "slight"),
    reference=culprits_of,
    misconceptions=(
        Misconception(
            "all_suspects",
            change("    if error(model) < LIMIT:\n        return []\n", "    return sorted(passes)\n"),
            gives(lambda model: sorted(suspects(model))),
            what="every pass that ran is in the list.",
            why="A pass that took effect is a suspect, not yet a culprit.",
            do="Convert once more without each of them, and look at the error.",
        ),
        Misconception(
            "defaults_not_measured",
            change("    if error(model) < LIMIT:\n        return []\n", ""),
            gives(lambda model: sorted(name for name, error in _errors(model.data)[1:] if error < LIMIT)),
            what="a model that is fine has culprits.",
            why="Where the error is small with all passes, it stays small without one: that says nothing.",
            do="Measure with the defaults first, and return [] if there is nothing to find.",
        ),
        Misconception(
            "any_improvement",
            change(
                "    if error(model) < LIMIT:\n        return []\n",
                "    before = error(model)\n",
                "        if error(model) < LIMIT:\n",
                "        if error(model) < before:\n",
            ),
            gives(
                lambda model: sorted(
                    name for name, error in _errors(model.data)[1:] if error < _errors(model.data)[0][1]
                )
            ),
            what="a pass is blamed as soon as the error is smaller without it.",
            why="Every pass changes a rounding somewhere; smaller is not yet repaired.",
            do="Compare with LIMIT, after each conversion.",
        ),
        Misconception(
            "no_conversion",
            change("        convert(model, [name])\n", ""),
            gives(lambda model: []),
            what="no culprit is ever found.",
            why="error() looks at the om that was made last: without a new conversion it is the same om each time.",
            do="Call convert(model, [name]) before error(model).",
        ),
        Misconception(
            "wrong_way_round",
            change("            found.append", "            pass\n        else:\n            found.append"),
            gives(
                lambda model: (
                    []
                    if _errors(model.data)[0][1] < LIMIT
                    else sorted(name for name, error in _errors(model.data)[1:] if error >= LIMIT)
                )
            ),
            what="these are the passes without which the error stays.",
            why="The culprit is the one whose absence repairs the model.",
            do="Collect the names for which the error is below LIMIT.",
        ),
        Misconception(
            "all_off",
            change("convert(model, [name])", "convert(model, passes)"),
            gives(lambda model: [] if _errors(model.data)[0][1] < LIMIT else sorted(suspects(model))),
            what="more passes are off in a trial than the one that is tried.",
            why="With the culprit off as well the error is small each time, and each pass looks guilty.",
            do="Switch off one at a time: [name].",
        ),
        Misconception(
            "one_text",
            change("return sorted(found)", "return found[0]"),
            got(lambda result, model: isinstance(result, str)),
            what="one name comes back, not a list.",
            why="There may be none, or several.",
            do="Return the sorted list.",
        ),
        Misconception(
            "letters",
            change("convert(model, [name])", "convert(model, name)"),
            raises("TypeError") | raises("AssertionError") & source(r"convert\(model, name\)"),
            what="a text was given where a list belongs.",
            why="A text is a sequence of letters, so each letter became the name of a pass; atc refused the file.",
            do="Write [name].",
        ),
    ),
)

CHECKS = [COUNT, SWITCH_FILE, WITHOUT_EFFECT, GAINS, CULPRITS]
