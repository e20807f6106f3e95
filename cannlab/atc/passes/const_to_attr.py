"""ConstToAttrPass: constants that only describe an operation (axes, shapes, pads) travel as its attributes.

The kernel then reads no tensor for them. The numbers of these inputs are kept in ``Node.fixed``.
"""

from __future__ import annotations

from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "ConstToAttrPass"

DESCRIBING: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"), (1,)),
    **dict.fromkeys(("Tile", "Expand", "Split", "TopK", "OneHot", "CumSum", "ConstantOfShape"), (1,)),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "Clip": (1, 2),
    "Resize": (2, 3),
}
"""Inputs that describe the operation, by ONNX type."""


def run(w: Wiring, report: Report) -> None:
    """Fix every such input that is a constant."""
    for node in w.of(*DESCRIBING):
        fixed = tuple(
            number
            for number in DESCRIBING[node.op_type]
            if number < len(node.inputs) and node.inputs[number] in w.graph.constants
        )
        if fixed and fixed != node.fixed:
            node.fixed = fixed
            report.did(node)
