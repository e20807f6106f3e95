"""Passes that remove or simplify single operators: common subexpressions, Casts, divisions, normalisations."""

from __future__ import annotations

import numpy as np

from cannlab.atc.graph import Node
from cannlab.atc.passes.constant_folding import RANDOM
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring, like

COMMON = "CommonSubexpressionEliminationPass"
CAST = "CastRemoveFusionPass"
CAST_RELU = "CastReluCastFusionPass"
DIVISION = "RealDiv2MulsFusionPass"
NORM = "BatchNormBnInferFusionPass"
NORM_KERNEL = "BNInfer"
SMALLEST = 1e-6
"""A divisor must be larger. Source: the toolkit's documentation of RealDiv2MulsFusionPass."""


def run_common(w: Wiring, report: Report) -> None:
    """Of operators that do the same to the same tensors one is left."""
    seen: dict[tuple[object, ...], Node] = {}
    for node in w.nodes():
        if node.domain != "ai.onnx" or node.op_type in RANDOM or any(map(w.is_output, node.outputs)):
            continue
        if node.branches or w.rewritten(node):
            continue
        attributes = tuple((name, node.attributes[name].SerializeToString(True)) for name in sorted(node.attributes))
        inputs = tuple(_key(w, name) for name in node.inputs)
        key = (node.op_type, inputs, tuple(map(bool, node.outputs)), attributes)
        first = seen.setdefault(key, node)
        if first is not node:
            for old, new in zip(node.outputs, first.outputs, strict=True):
                if old:
                    w.replace_tensor(old, new)
            first.origins = first.sources + node.sources
            w.remove(node)
            report.did(first, node)


def _key(w: Wiring, name: str) -> object:
    """A tensor; small constants by their value, since every node of an export has its own."""
    value = w.constant(name)
    if value is None or value.size > 64:
        return name
    return (value.dtype.str, value.shape, value.tobytes())


def run_cast(w: Wiring, report: Report) -> None:
    """A Cast to the type that the tensor has goes."""
    for cast in w.of("Cast"):
        if w.graph.dtype(cast.inputs[0]) == w.graph.dtype(cast.outputs[0]) and w.bypass(cast):
            report.did(None, cast)


def run_cast_relu(w: Wiring, report: Report) -> None:
    """Cast to float32, Relu, Cast back to float16: the Relu works in float16."""
    for relu in w.of("Relu"):
        before, after = w.writer(relu.inputs[0], "Cast"), w.only_reader(relu.outputs[0], "Cast")
        if before is None or after is None or w.only_reader(before.outputs[0]) is not relu:
            continue
        types = [w.graph.known_type(name).numpy for name in (before.inputs[0], relu.inputs[0], after.outputs[0])]
        if types == [np.float16, np.float32, np.float16]:
            relu.origins = before.sources + relu.sources + after.sources
            source = before.inputs[0]
            w.remove(before)
            w.rewire(relu, inputs=[source])
            w.hand_over(after, relu)
            report.did(relu)


def run_division(w: Wiring, report: Report) -> None:
    """RealDiv by a number becomes a multiplication by its reciprocal."""
    for div in w.of("Div"):
        divisor = w.scalar(div.inputs[1])
        if divisor is None or div.kernel or w.graph.constants[div.inputs[1]].dtype.kind != "f":
            continue
        if not divisor > SMALLEST or div.inputs[0] in w.graph.constants:
            report.refuse(div, "the divisor is not greater than 1e-6")
            continue
        value = w.graph.constants[div.inputs[1]]
        factor = w.add_constant(f"{div.name}_reciprocal", np.broadcast_to(like(1 / divisor, value), value.shape).copy())
        div.op_type = "Mul"
        w.rewire(div, inputs=[div.inputs[0], factor])
        report.did(div)


def run_norm(w: Wiring, report: Report) -> None:
    """A batch normalisation that nothing took in runs as BNInfer."""
    for norm in w.of("BatchNormalization"):
        if not norm.get("training_mode", 0) and not norm.kernel and len([name for name in norm.outputs if name]) == 1:
            norm.kernel = NORM_KERNEL
            report.did(norm)
