"""Kernel fusions behind a convolution: what follows runs in its kernel, before the result is stored."""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes import elementwise
from cannlab.atc.passes.channels import is_depthwise
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

POOL = "TbeConvReluMaxpoolingFusionPass"
RELU = "TbeConv2DReluv2Pass"
RULES = "TbeConvCommonRules0FusionPass"
ELTWISE = "TbeConv2DEltwisePass"
DEPTHWISE = "TbeDepthwiseConvElemwiseFusionPass"
FIRST_CHANNELS = 4
"""Most input channels of a network's first convolution."""


def _convs(w: Wiring, *, depthwise: bool) -> list[Node]:
    return [conv for conv in w.of("Conv") if is_depthwise(w.graph, conv) is depthwise and w.leader(conv) is conv]


def _take(w: Wiring, report: Report, conv: Node, *others: Node) -> bool:
    """Join the others, all or none, into the convolution's operator."""
    if not w.can_join(conv, *others):
        report.refuse(conv, f"{others[-1].name} also waits for something that is computed later")
        return False
    for other in others:
        w.join(conv, other)
    report.did(conv, *others)
    return True


def _end(w: Wiring, report: Report, conv: Node, *types: str) -> str | None:
    """The tensor that leaves a convolution; None if more than one operator reads it."""
    end = w.tail(conv)
    readers = w.readers(end)
    if len(readers) > 1 and any(node.op_type in types for node in readers):
        report.refuse(conv, f"{end} has {len(readers)} readers, so it must be stored")
    return end if len(readers) == 1 and not w.is_output(end) else None


def run_pool(w: Wiring, report: Report) -> None:
    """TbeConvReluMaxpoolingFusionPass: the first convolution of a network with its Relu and MaxPool (3x3, stride 2)."""
    for conv in _convs(w, depthwise=False):
        relu = w.only_reader(w.tail(conv), "Relu")
        pool = w.only_reader(relu.outputs[0], "MaxPool") if relu is not None else None
        if relu is None or pool is None or len([name for name in pool.outputs if name]) != 1:
            continue
        first = w.graph.known_shape(conv.inputs[0])[1] <= FIRST_CHANNELS
        if not first or pool.get("kernel_shape") != [3, 3] or pool.get("strides") != [2, 2]:
            report.refuse(conv, "it is not a network's first convolution with a pooling of 3x3 and stride 2")
        else:
            _take(w, report, conv, relu, pool)


def run_relu(w: Wiring, report: Report) -> None:
    """TbeConv2DReluv2Pass: Conv + Relu."""
    for conv in _convs(w, depthwise=False):
        end = _end(w, report, conv, "Relu")
        relu = w.only_reader(end, "Relu") if end else None
        if relu is not None and len(w.members(relu)) == 1:
            _take(w, report, conv, relu)


def run_rules(w: Wiring, report: Report) -> None:
    """TbeConvCommonRules0FusionPass: Conv + another activation, or + Sigmoid and Mul (swish)."""
    for conv in _convs(w, depthwise=False):
        _activate(w, report, conv)


def run_depthwise(w: Wiring, report: Report) -> None:
    """TbeDepthwiseConvElemwiseFusionPass: depthwise Conv + an activation."""
    for conv in _convs(w, depthwise=True):
        _activate(w, report, conv)


def _activate(w: Wiring, report: Report, conv: Node) -> None:
    end = w.tail(conv)
    if w.is_output(end):
        return
    readers = w.readers(end)
    gates = [node for node in readers if node.op_type in ("Sigmoid", "HardSigmoid")]
    if len(readers) == 2 and len(gates) == 1:
        product = w.only_reader(gates[0].outputs[0], "Mul")
        if product is not None and product in readers and len(w.members(product)) == 1:
            _take(w, report, conv, gates[0], product)
            return
    following = elementwise.next_unit(w, end)
    if following is not None and elementwise.activation(w, following):
        _take(w, report, conv, following)
    elif len(readers) > 1 and any(node.op_type in elementwise.ACTIVATIONS for node in readers):
        report.refuse(conv, f"{end} has {len(readers)} readers, so it must be stored")


def run_eltwise(w: Wiring, report: Report) -> None:
    """TbeConv2DEltwisePass: Conv + Add (or Mul, Sub) of a tensor of the same shape, and an activation after it.

    Of two convolutions that feed one operator the later one takes it.
    """
    for conv in _convs(w, depthwise=False):
        if [node for node in w.members(conv) if node.op_type != "Cast"] != [conv]:
            continue
        end = _end(w, report, conv, "Add", "Sub", "Mul")
        add = w.only_reader(end, "Add", "Sub", "Mul") if end else None
        if add is None or add.kernel or len(w.members(add)) != 1 or len(set(add.inputs)) != 2:
            continue
        if any(name in w.graph.constants for name in add.inputs) or not elementwise.same_shape(
            w, *add.inputs, add.outputs[0]
        ):
            report.refuse(conv, f"the operands of {add.name} are broadcast")
            continue
        other = next(w.writer(name) for name in add.inputs if name != end)
        rival = w.leader(other) if other is not None else None
        if rival is not None and rival.op_type == "Conv" and w.ordered([conv, rival])[0] is conv:
            report.refuse(conv, f"{add.name} runs in the later convolution {rival.name}")
            continue
        activation = elementwise.next_unit(w, add.outputs[0])
        if activation is not None and elementwise.activation(w, activation):
            _take(w, report, conv, add, activation)
        else:
            _take(w, report, conv, add)
