"""AReduceMeanFusionPass, AReduceSumFusionPass: a reduction over axes of size 1 only changes the shape, or nothing."""

from __future__ import annotations

import numpy as np

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAMES = {"AReduceMeanFusionPass": "ReduceMean", "AReduceSumFusionPass": "ReduceSum"}


def run_mean(w: Wiring, report: Report) -> None:
    """ReduceMean."""
    _run(w, report, "ReduceMean")


def run_sum(w: Wiring, report: Report) -> None:
    """ReduceSum."""
    _run(w, report, "ReduceSum")


def _run(w: Wiring, report: Report, op_type: str) -> None:
    for node in w.of(op_type):
        axes, shape = w.axes(node), w.graph.fixed_dims(node.inputs[0])
        if axes is None or any(shape[axis] != 1 for axis in axes):
            continue
        target = w.graph.fixed_dims(node.outputs[0])
        if len(target) == len(shape) and w.bypass(node):
            report.did(None, node)
            continue
        if target.count(None) > 1:
            report.refuse(node, "the shape is known only when the model runs")
            continue
        dims = w.add_constant(f"{node.name}_shape", np.array([-1 if dim is None else dim for dim in target], np.int64))
        reshape = Node(node.name, "Reshape", "ai.onnx", [node.inputs[0], dims], list(node.outputs))
        reshape.origins = node.sources
        w.put(reshape, node)
        w.remove(node)
        report.did(reshape)
