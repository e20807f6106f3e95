"""Split and Concat: what is useless goes, what has too many ends is cut into several.

A kernel takes at most 63 tensors. Source: the toolkit's documentation of ZConcatExt2FusionPass (63 inputs in static
shapes); the same limit is assumed for Split.
"""

from __future__ import annotations

import numpy as np

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

SPLIT_REMOVE = "ASplitNodeRemoveFusionPass"
CONCAT = "ZConcatDFusionPass"
SPLIT = "ZSplitVDFusionPass"
MOST = 63


def run_split_remove(w: Wiring, report: Report) -> None:
    """A Split into one piece hands its input on."""
    for split in w.of("Split"):
        if len(split.outputs) == 1 and w.bypass(split):
            report.did(None, split)


def run_concat(w: Wiring, report: Report) -> None:
    """A Concat of more than 63 tensors becomes a Concat of Concats; one of a single tensor goes."""
    for concat in w.of("Concat"):
        if len(concat.inputs) == 1:
            if w.bypass(concat):
                report.did(None, concat)
        elif len(concat.inputs) > MOST:
            axis = int(concat.get("axis")) % len(w.graph.known_shape(concat.outputs[0]))
            parts: list[str] = []
            for at in range(0, len(concat.inputs), MOST):
                names = concat.inputs[at : at + MOST]
                target = w.fresh(f"{concat.outputs[0]}/part")
                shape = list(w.graph.known_shape(names[0]))
                shape[axis] = sum(w.graph.known_shape(name)[axis] for name in names)
                w.graph.types[target] = (w.graph.dtype(names[0]), tuple(shape))
                part = Node(w.fresh(concat.name), "Concat", "ai.onnx", names, [target], origins=concat.sources)
                part.set("axis", axis)
                w.put(part, concat)
                parts.append(target)
            w.rewire(concat, inputs=parts)
            report.did(concat)


def run_split(w: Wiring, report: Report) -> None:
    """A Split into more than 63 pieces becomes a Split of Splits."""
    for split in w.of("Split"):
        if len(split.outputs) <= MOST:
            continue
        axis = int(split.get("axis", 0)) % len(w.graph.known_shape(split.inputs[0]))
        if any(w.graph.fixed_dims(name)[axis] is None for name in split.outputs):
            report.refuse(split, "the sizes of the pieces are known only when the model runs")
            continue
        pieces = [split.outputs[at : at + MOST] for at in range(0, len(split.outputs), MOST)]
        middle: list[str] = []
        sizes: list[int] = []
        for names in pieces:
            source = w.fresh(f"{split.outputs[0]}/part")
            each = [w.graph.known_shape(name)[axis] for name in names]
            shape = list(w.graph.known_shape(names[0]))
            shape[axis] = sum(each)
            w.graph.types[source] = (w.graph.dtype(names[0]), tuple(shape))
            part = Node(w.fresh(split.name), "Split", "ai.onnx", [source], list(names), origins=split.sources)
            w.put(part, split, after=True)
            _sizes(w, part, axis, each)
            middle.append(source)
            sizes.append(sum(each))
        split.attributes.pop("num_outputs", None)
        w.rewire(split, inputs=split.inputs[:1], outputs=middle)
        _sizes(w, split, axis, sizes)
        report.did(split)


def _sizes(w: Wiring, split: Node, axis: int, sizes: list[int]) -> None:
    split.set("axis", axis)
    if w.graph.opset < 13:
        split.set("split", sizes)
    else:
        name = w.add_constant(f"{split.name}_sizes", np.array(sizes, np.int64))
        w.rewire(split, inputs=[split.inputs[0], name])
