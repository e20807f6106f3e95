"""ASplitConv2dConcatPass: Split of the channels, a convolution of each piece, Concat: a grouped convolution."""

from __future__ import annotations

import numpy as np

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "ASplitConv2dConcatPass"


def run(w: Wiring, report: Report) -> None:
    """Replace every such pattern."""
    for concat in w.of("Concat"):
        convs = [w.writer(name, "Conv") for name in concat.inputs]
        split = w.writer(convs[0].inputs[0], "Split") if convs and convs[0] is not None else None
        if split is None or len(convs) < 2 or any(conv is None for conv in convs):
            continue
        found = [conv for conv in convs if conv is not None]
        problem = _problem(w, split, found, concat)
        if problem:
            report.refuse(concat, problem)
            continue
        first = found[0]
        weight = np.concatenate([w.graph.constants[conv.inputs[1]] for conv in found])
        inputs = [split.inputs[0], w.add_constant(f"{first.name}_weight", weight)]
        if len(first.inputs) > 2 and first.inputs[2]:
            bias = np.concatenate([w.graph.constants[conv.inputs[2]] for conv in found])
            inputs.append(w.add_constant(f"{first.name}_bias", bias))
        grouped = Node(w.fresh(first.name), "Conv", "ai.onnx", inputs, list(concat.outputs), dict(first.attributes))
        grouped.set("group", len(found))
        grouped.origins = tuple(name for node in (split, *found, concat) for name in node.sources)
        w.put(grouped, concat)
        for node in (split, *found, concat):
            w.remove(node)
        report.did(grouped)


def _problem(w: Wiring, split: Node, convs: list[Node], concat: Node) -> str:
    """Why the pattern cannot become one convolution; "" if it can."""
    rank = len(w.graph.known_shape(split.inputs[0]))
    if int(split.get("axis", 0)) % rank != 1 or int(concat.get("axis")) % rank != 1:
        return "it does not split and join the channels"
    if [conv.inputs[0] for conv in convs] != list(split.outputs):
        return "the pieces are convolved in another order"
    if any(w.only_reader(name) is None for name in (*split.outputs, *concat.inputs)):
        return "a piece has another reader"

    def form(conv: Node) -> tuple[object, ...]:
        weight = w.constant(conv.inputs[1])
        bias = len(conv.inputs) > 2 and bool(conv.inputs[2])
        known = weight is not None and (not bias or w.constant(conv.inputs[2]) is not None)
        attributes = tuple((name, conv.get(name)) for name in sorted(conv.attributes))
        return (known, None if weight is None else weight.shape, bias, repr(attributes), conv.get("group", 1))

    forms = {form(conv) for conv in convs}
    if len(forms) > 1 or not form(convs[0])[0] or form(convs[0])[4] != 1:
        return "the convolutions differ, or their weights are not constants"
    return ""
