"""ConvBatchnormFusionPass, and the same for transposed convolutions: a batch normalisation goes into the weights."""

from __future__ import annotations

import numpy as np

from cannlab.atc.passes import channels
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "ConvBatchnormFusionPass"
TRANSPOSED = "Conv2DTransposeBatchnormFusionPass"


def run(w: Wiring, report: Report) -> None:
    """Fold every Conv + BatchNormalization with constant parameters; Casts and Identities may stand between."""
    _run(w, report, "Conv")


def run_transposed(w: Wiring, report: Report) -> None:
    """Fold every ConvTranspose (of one group) + BatchNormalization."""
    _run(w, report, "ConvTranspose")


def _run(w: Wiring, report: Report, op_type: str) -> None:
    for conv in w.of(op_type):
        readers = w.readers(conv.outputs[0])
        end = channels.through_casts(w, conv)
        norm = w.only_reader(end.outputs[0], "BatchNormalization")
        if norm is None:
            if any(node.op_type == "BatchNormalization" for node in readers):
                report.refuse(conv, "its result has another reader, which needs it before the normalisation")
            continue
        values = [w.constant(name) for name in norm.inputs[1:5]]
        if norm.get("training_mode", 0) or norm.inputs[0] != end.outputs[0] or any(value is None for value in values):
            report.refuse(conv, "the normalisation's parameters are not constants")
            continue
        if channels.parameters(w, conv) is None or (op_type == "ConvTranspose" and conv.get("group", 1) != 1):
            report.refuse(conv, "its weight is not a constant, or has groups")
            continue
        scale, offset, mean, variance = (value.astype(np.float64) for value in values if value is not None)
        factor = scale / np.sqrt(variance + norm.get("epsilon", 1e-5))
        channels.fold(w, conv, factor, offset - mean * factor)
        channels.take(w, conv, end, norm)
        report.did(conv, norm)
