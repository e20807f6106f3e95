"""The branches of Ifs that one run takes, in place of the Ifs: a graph without them, whose every tensor can be seen."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from cannlab.om import branch_label
from cannlab.om.model import branches


def straight(model: onnx.ModelProto, decide: Callable[[str], bool | None]) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Put the branch that is taken in place of each outermost If.

    Args:
        model: the model; it is left as it is.
        decide: the value of a condition, by its name; None where it is not known, and the If stays.

    Returns:
        The new model, and the labels of the branches that were taken: none if nothing changed, or where the names of
        two branches meet.
    """
    nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []
    infos: list[onnx.ValueInfoProto] = []
    labels: set[str] = set()
    for node in model.graph.node:
        inner = branches(node)
        taken = decide(node.input[0]) if node.op_type == "If" and inner else None
        if taken is None:
            nodes.append(node)
            continue
        which = "then_branch" if taken else "else_branch"
        branch = inner[which]
        labels.add(branch_label(node.name, which))
        nodes += branch.node
        initializers += branch.initializer
        infos += [*branch.value_info, *branch.output]
        for result, name in zip(branch.output, node.output, strict=True):
            nodes.append(helper.make_node("Identity", [result.name], [name], f"{node.name}/{name}/given"))
    written = [name for node in nodes for name in node.output if name] + [item.name for item in initializers]
    if not labels or len({*written}) < len(written):
        return model, frozenset()
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    found.graph.initializer.extend(initializers)
    stated = {info.name for info in (*found.graph.input, *found.graph.value_info, *found.graph.output)}
    found.graph.value_info.extend(info for info in infos if info.name not in stated)
    return found, frozenset(labels)
