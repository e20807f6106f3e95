"""AABiasaddConvFusion: the Add of one number by channel after a convolution becomes its bias."""

from __future__ import annotations

from cannlab.atc.passes import channels
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "AABiasaddConvFusion"


def run(w: Wiring, report: Report) -> None:
    """Fold every Conv + Add (or Sub) of a constant by channel."""
    for conv in w.of("Conv", "ConvTranspose"):
        end = channels.through_casts(w, conv)
        add = w.only_reader(end.outputs[0], "Add", "Sub")
        pair = w.operand(add) if add is not None else None
        if add is None or pair is None or (add.op_type == "Sub" and pair[0] != add.inputs[0]):
            continue
        offset = channels.vector(w, pair[1], add.outputs[0])
        if offset is None or w.graph.shape(add.outputs[0]) != w.graph.shape(conv.outputs[0]):
            continue
        if channels.parameters(w, conv) is None:
            report.refuse(conv, "its weight or bias is not a constant")
            continue
        channels.fold(w, conv, None, offset if add.op_type == "Add" else -offset)
        channels.take(w, conv, end, add)
        report.did(conv, add)
