"""Transposes and Reshapes in a row become one, or none if the first undoes the second. Always runs."""

from __future__ import annotations

from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "TransOpDepthFusionPass"


def run(w: Wiring, report: Report) -> None:
    """Merge every pair, and remove Transposes that move nothing."""
    for second in w.of("Transpose", "Reshape"):
        first = w.writer(second.inputs[0], second.op_type)
        if first is not None and w.only_reader(first.outputs[0]) is second and not w.is_output(first.outputs[0]):
            if second.op_type == "Reshape" and not _whole(w, second.inputs[1]):
                continue
            if second.op_type == "Transpose":
                rank = len(w.graph.known_shape(first.inputs[0]))
                inner, outer = (list(node.get("perm", range(rank)[::-1])) for node in (first, second))
                second.set("perm", [inner[axis] for axis in outer])
            source = first.inputs[0]
            second.origins = first.sources + second.sources
            w.remove(first)
            w.rewire(second, inputs=[source, *second.inputs[1:]])
            report.did(second)
        if second.op_type == "Transpose":
            rank = len(w.graph.known_shape(second.inputs[0]))
            still = list(second.get("perm", range(rank)[::-1])) == list(range(rank))
        else:
            before, after = w.graph.fixed_dims(second.inputs[0]), w.graph.fixed_dims(second.outputs[0])
            still = before == after and None not in before
        if still and w.bypass(second):
            report.did(None, second)


def _whole(w: Wiring, shape: str) -> bool:
    """True if a Reshape's shape is stated without reference to its input (0 copies a dimension)."""
    value = w.constant(shape)
    return value is not None and 0 not in value
