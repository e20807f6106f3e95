"""Settling a graph: inferring shapes, applying the plugins' rules, folding constants, choosing branches, until nothing
changes.

Branches of an If are graphs of their own, settled when the types of what they read are known. A condition that is
constant leaves one branch, which takes the If's place. Source: onnx-rules 2.10 and 4.
"""

from __future__ import annotations

from cannlab.atc.graph import Graph, Node
from cannlab.atc.passes import constant_folding
from cannlab.atc.plugins.check import Plugins


def settle(graph: Graph, plugins: Plugins | None, *, fold_floats: bool = True, choose: bool = True) -> None:
    """Settle a graph and its branches.

    Args:
        graph: with the types of its inputs.
        plugins: whose rules are applied; None for none.
        fold_floats: fold constants of every type; False leaves operators that give floats (shapes must be known).
        choose: put the branch that is taken in the place of an If whose condition is constant.

    Raises:
        AtcError: rules of the plugins and of shape inference.
    """
    settled: set[str] = set()
    while True:
        graph.infer()
        while plugins is not None and plugins.settle(graph):
            graph.infer()
        if constant_folding.fold(graph, floats=fold_floats) | (choose and _choose_branches(graph)):
            graph.drop_dead()
        elif not _settle_branches(graph, plugins, settled, fold_floats=fold_floats, choose=choose):
            break
    graph.drop_dead()


def _choose_branches(graph: Graph) -> bool:
    """Put the branch that is taken in the place of each If with a constant condition."""
    found = [node for node in graph.nodes if node.branches and node.inputs[0] in graph.constants]
    for node in found:
        taken = bool(graph.constants[node.inputs[0]].reshape(-1)[0])
        branch = node.branches["then_branch" if taken else "else_branch"]
        names = dict(zip(branch.inputs, node.inputs[1:], strict=True))
        names.update(zip(branch.outputs, node.outputs, strict=True))
        for inner in branch.nodes:
            inner.inputs = [names.get(name, name) for name in inner.inputs]
            inner.outputs = [names.get(name, name) for name in inner.outputs]
        graph.constants.update(branch.constants)
        at = graph.nodes.index(node)
        graph.nodes[at : at + 1] = branch.nodes
    return bool(found)


def _settle_branches(
    graph: Graph, plugins: Plugins | None, settled: set[str], *, fold_floats: bool, choose: bool
) -> bool:
    """Settle the branches of the first If whose inputs have types; False if there is none left."""
    for node in graph.nodes:
        if not node.branches or node.name in settled:
            continue
        _hand_constants_in(graph, node)
        if any(graph.shape(name) is None for name in node.inputs):
            continue
        for branch in node.branches.values():
            for inner, outer in zip(branch.inputs, node.inputs[1:], strict=True):
                branch.types[inner] = graph.types[outer]
            settle(branch, plugins, fold_floats=fold_floats, choose=choose)
        settled.add(node.name)
        return True
    return False


def _hand_constants_in(graph: Graph, node: Node) -> None:
    """Constants that branches read become constants of theirs."""
    for index in range(len(node.inputs) - 1, 0, -1):
        array = graph.constants.get(node.inputs[index])
        if array is None:
            continue
        del node.inputs[index]
        for branch in node.branches.values():
            branch.constants[branch.inputs.pop(index - 1)] = array
