"""TransposeReshapeFusionPass, ReshapeTransposeFusionPass: Transpose beside Reshape is a ConfusionTransposeD.

Both last axes must be multiples of 16 on either side. Source: the toolkit's documentation of the first.
"""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

AFTER = "TransposeReshapeFusionPass"
BEFORE = "ReshapeTransposeFusionPass"
KERNEL = "ConfusionTransposeD"
UNIT = 16


def run_after(w: Wiring, report: Report) -> None:
    """Transpose + Reshape."""
    for transpose in w.of("Transpose"):
        reshape = w.only_reader(transpose.outputs[0], "Reshape")
        if reshape is not None and transpose.task == transpose.name:
            _compose(w, report, transpose, reshape, transpose.inputs[0], reshape.outputs[0])


def run_before(w: Wiring, report: Report) -> None:
    """Reshape + Transpose."""
    for transpose in w.of("Transpose"):
        reshape = w.writer(transpose.inputs[0], "Reshape")
        alone = reshape is not None and w.only_reader(reshape.outputs[0]) is transpose
        if reshape is not None and alone and transpose.task == transpose.name and not transpose.kernel:
            _compose(w, report, transpose, reshape, reshape.inputs[0], transpose.outputs[0])


def _compose(w: Wiring, report: Report, transpose: Node, reshape: Node, source: str, target: str) -> None:
    shapes = [w.graph.known_shape(name)[-2:] for name in (source, target)]
    if any(not shape or any(dim % UNIT for dim in shape) for shape in shapes):
        report.refuse(transpose, f"the last two axes are not multiples of {UNIT}")
    elif reshape.task == reshape.name and not reshape.kernel and w.can_join(transpose, reshape):
        w.compose(transpose, [transpose, reshape], KERNEL)
        report.did(transpose, reshape)
