"""ConvScaleFusionPass: Mul (or Div) by a constant by channel after a convolution, and an Add after it, go into it."""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes import channels
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "ConvScaleFusionPass"


def run(w: Wiring, report: Report) -> None:
    """Fold every Conv + Mul or Div (+ Add) of constants by channel."""
    for conv in w.of("Conv"):
        while _scale(w, report, conv):
            pass


def _scale(w: Wiring, report: Report, conv: Node) -> bool:
    end = channels.through_casts(w, conv)
    scale = w.only_reader(end.outputs[0], "Mul", "Div")
    pair = w.operand(scale) if scale is not None else None
    if scale is None or pair is None or (scale.op_type == "Div" and pair[0] != scale.inputs[0]):
        return False
    factor = channels.vector(w, pair[1], scale.outputs[0])
    if factor is None or w.graph.shape(scale.outputs[0]) != w.graph.shape(conv.outputs[0]):
        return False
    if channels.parameters(w, conv) is None or (scale.op_type == "Div" and not factor.all()):
        report.refuse(conv, "its weight or bias is not a constant, or the divisor is 0")
        return False
    channels.fold(w, conv, factor if scale.op_type == "Mul" else 1 / factor, 0.0)
    channels.take(w, conv, end, scale)
    taken = [scale]
    add = w.only_reader(end.outputs[0], "Add")
    pair = w.operand(add) if add is not None else None
    offset = channels.vector(w, pair[1], add.outputs[0]) if add is not None and pair is not None else None
    if add is not None and offset is not None and w.graph.shape(add.outputs[0]) == w.graph.shape(conv.outputs[0]):
        channels.fold(w, conv, None, offset)
        channels.take(w, conv, end, add)
        taken.append(add)
    report.did(conv, *taken)
    return True
