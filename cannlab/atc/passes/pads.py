"""Pad before a convolution or a pooling goes into its padding.

PadConv2dFusionPass, PadDepthwiseConv2dFusionPass (zeros), PadMaxPoolFusionPass. A MaxPool pads with minus infinity, so
a Pad of zeros may go into it only where nothing is below zero and each window holds at least one real value.
"""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes.channels import is_depthwise
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

CONV = "PadConv2dFusionPass"
DEPTHWISE = "PadDepthwiseConv2dFusionPass"
MAX_POOL = "PadMaxPoolFusionPass"
LOWEST = -65504.0
NOT_NEGATIVE = ("Relu", "Sigmoid", "Softmax", "Abs", "HardSigmoid")


def run_conv(w: Wiring, report: Report) -> None:
    """Pad + Conv."""
    for conv in w.of("Conv"):
        if not is_depthwise(w.graph, conv):
            _run(w, report, conv)


def run_depthwise(w: Wiring, report: Report) -> None:
    """Pad + depthwise Conv."""
    for conv in w.of("Conv"):
        if is_depthwise(w.graph, conv):
            _run(w, report, conv)


def run_max_pool(w: Wiring, report: Report) -> None:
    """Pad + MaxPool."""
    for pool in w.of("MaxPool"):
        if len([name for name in pool.outputs if name]) == 1:
            _run(w, report, pool)


def _run(w: Wiring, report: Report, node: Node) -> None:
    pad = w.writer(node.inputs[0], "Pad")
    if pad is None:
        return
    rank = len(w.graph.known_shape(node.inputs[0]))
    amounts, fill = _amounts(w, pad, rank), _fill(w, pad)
    if w.only_reader(pad.outputs[0]) is not node:
        return report.refuse(node, "the padded tensor has another reader")
    if pad.get("mode", b"constant") != b"constant" or amounts is None or fill is None or min(amounts) < 0:
        return report.refuse(node, "the padding is not constant")
    begins, ends = amounts[:rank], amounts[rank:]
    if any(begins[:2]) or any(ends[:2]):
        return report.refuse(node, "the batch or the channels are padded")
    if node.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return report.refuse(node, "auto_pad computes the padding from the padded size")
    if node.op_type == "Conv":
        if fill != 0:
            return report.refuse(node, "it is not padded with zeros")
    else:
        kernel = node.get("kernel_shape")
        if any(amount >= size for amount, size in zip((*begins[2:], *ends[2:]), (*kernel, *kernel), strict=True)):
            return report.refuse(node, "a window would hold padding only")
        if fill > LOWEST and not (fill == 0 and _not_negative(w, pad.inputs[0])):
            return report.refuse(node, "the pooled values may be below the padding")
        if node.get("ceil_mode", 0):
            return report.refuse(node, "ceil_mode counts windows of the padded size")
    own = node.get("pads", [0] * (2 * (rank - 2)))
    if node.op_type == "MaxPool" and any(own):
        return report.refuse(node, "the pooling has padding of its own")
    node.set("pads", [a + b for a, b in zip(own, (*begins[2:], *ends[2:]), strict=True)])
    node.attributes.pop("auto_pad", None)
    node.origins = pad.sources + node.sources
    w.remove(pad)
    w.rewire(node, inputs=[pad.inputs[0], *node.inputs[1:]])
    report.did(node, pad)


def _amounts(w: Wiring, pad: Node, rank: int) -> list[int] | None:
    """(begins..., ends...) for every axis."""
    given = pad.get("pads")
    if given is None:
        value = w.constant(pad.inputs[1]) if len(pad.inputs) > 1 else None
        if value is None:
            return None
        given = value.reshape(-1).tolist()
    if len(pad.inputs) > 3 and pad.inputs[3]:
        axes = w.constant(pad.inputs[3])
        if axes is None:
            return None
        amounts = [0] * (2 * rank)
        for number, axis in enumerate(axes.reshape(-1).tolist()):
            amounts[axis % rank] = int(given[number])
            amounts[rank + axis % rank] = int(given[number + axes.size])
        return amounts
    return [int(amount) for amount in given]


def _fill(w: Wiring, pad: Node) -> float | None:
    if len(pad.inputs) > 2 and pad.inputs[2]:
        return w.scalar(pad.inputs[2])
    return float(pad.get("value", 0.0))


def _not_negative(w: Wiring, tensor: str) -> bool:
    writer = w.writer(tensor)
    if writer is None:
        return False
    if writer.op_type == "Clip":
        low = writer.get("min") if len(writer.inputs) < 2 or not writer.inputs[1] else w.scalar(writer.inputs[1])
        return low is not None and low >= 0
    return writer.op_type in NOT_NEGATIVE
