"""Globalavgpoolpass: GlobalAveragePool is computed as a ReduceMean over the spatial axes."""

from __future__ import annotations

import numpy as np

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "Globalavgpoolpass"
AXES_INPUT = 18
"""The opset from which ReduceMean's axes are an input."""


def run(w: Wiring, report: Report) -> None:
    """Replace every GlobalAveragePool."""
    for pool in w.of("GlobalAveragePool"):
        axes = list(range(2, len(w.graph.known_shape(pool.inputs[0]))))
        mean = Node(pool.name, "ReduceMean", "ai.onnx", pool.inputs[:1], list(pool.outputs), origins=pool.sources)
        mean.set("keepdims", 1)
        w.put(mean, pool)
        w.remove(pool)
        if w.graph.opset < AXES_INPUT:
            mean.set("axes", axes)
        else:
            w.rewire(mean, inputs=[*mean.inputs, w.add_constant(f"{mean.name}_axes", np.array(axes, np.int64))])
        report.did(mean)
