"""SoftmaxSmallOpFusionPass: (ReduceMax, Sub,) Exp, ReduceSum, Div are a softmax. Off by default.

Source of the default: the toolkit's switch table; of the meaning: its name.
"""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "SoftmaxSmallOpFusionPass"
KERNEL = "SoftmaxV2"


def run(w: Wiring, report: Report) -> None:
    """Compose every such pattern."""
    for div in w.of("Div"):
        exp, total = w.writer(div.inputs[0], "Exp"), w.writer(div.inputs[1], "ReduceSum")
        if exp is None or total is None or total.inputs[0] != exp.outputs[0] or not total.get("keepdims", 1):
            continue
        axes = w.axes(total)
        if axes is None or len(axes) != 1:
            continue
        nodes = [*_shift(w, exp, axes), exp, total, div]
        taken = set(map(id, nodes))
        inside = [name for node in nodes[:-1] for name in node.outputs]
        if any(w.is_output(name) or any(id(item) not in taken for item in w.readers(name)) for name in inside):
            report.refuse(div, "a value inside it has another reader")
            continue
        w.compose(div, nodes, KERNEL)
        report.did(div, *nodes)


def _shift(w: Wiring, exp: Node, axes: tuple[int, ...]) -> list[Node]:
    """The subtraction of the maximum, which keeps the exponential in range."""
    sub = w.writer(exp.inputs[0], "Sub")
    largest = w.writer(sub.inputs[1], "ReduceMax") if sub is not None else None
    if sub is None or largest is None or largest.inputs[0] != sub.inputs[0] or w.axes(largest) != axes:
        return []
    return [largest, sub]
