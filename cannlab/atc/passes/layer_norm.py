"""LayerNormONNXFusionPass: ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div (and Mul, Add) are a LayerNorm.

The parts stay in the graph as one operator, which computes in float32 inside and rounds its result once.
Source: the toolkit's documentation of the pass (with or without scale and offset, with a Cast before the square).
"""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "LayerNormONNXFusionPass"
KERNEL = "LayerNorm"


def run(w: Wiring, report: Report) -> None:
    """Compose every such pattern over the last axes."""
    for div in w.of("Div"):
        found = _core(w, div)
        if found is None:
            continue
        nodes, axes = found
        inside = [name for node in nodes if node is not div for name in node.outputs]
        taken = set(map(id, nodes))
        if any(w.is_output(name) or any(id(item) not in taken for item in w.readers(name)) for name in inside):
            report.refuse(div, "a value inside it has another reader")
            continue
        nodes += _affine(w, div, axes)
        leader = nodes[-1]
        w.compose(leader, nodes, KERNEL)
        report.did(leader, *nodes)


def _core(w: Wiring, div: Node) -> tuple[list[Node], tuple[int, ...]] | None:
    """The nodes from the first ReduceMean to the Div, and the axes."""
    centred, root = w.writer(div.inputs[0], "Sub"), w.writer(div.inputs[1], "Sqrt")
    if centred is None or root is None:
        return None
    add = w.writer(root.inputs[0], "Add")
    pair = w.operand(add) if add is not None else None
    variance = w.writer(pair[0], "ReduceMean") if pair is not None and w.scalar(pair[1]) is not None else None
    mean = w.writer(centred.inputs[1], "ReduceMean")
    if add is None or variance is None or mean is None or mean.inputs[0] != centred.inputs[0]:
        return None
    square = w.writer(variance.inputs[0], "Pow", "Mul")
    if square is None:
        return None
    twice = square.inputs[0] == square.inputs[1] if square.op_type == "Mul" else w.scalar(square.inputs[1]) == 2.0
    cast = w.writer(square.inputs[0], "Cast")
    difference = w.writer(cast.inputs[0] if cast is not None else square.inputs[0], "Sub")
    axes, rank = w.axes(mean), len(w.graph.known_shape(mean.inputs[0]))
    if not twice or difference is None or axes is None or w.axes(variance) != axes:
        return None
    if difference is not centred and difference.inputs != centred.inputs:
        return None
    if axes != tuple(range(rank - len(axes), rank)) or not mean.get("keepdims", 1) or not variance.get("keepdims", 1):
        return None
    nodes = [mean, centred, difference, *([cast] if cast is not None else []), square, variance, add, root, div]
    return list({id(node): node for node in nodes}.values()), axes


def _affine(w: Wiring, div: Node, axes: tuple[int, ...]) -> list[Node]:
    """Mul and Add of constants of the normalised shape, both or none."""
    shape = w.graph.known_shape(div.outputs[0])
    wanted = tuple(shape[axis] for axis in axes)
    end, found = div, []
    for op_type in ("Mul", "Add"):
        node = w.only_reader(end.outputs[0], op_type)
        pair = w.operand(node) if node is not None else None
        if node is None or pair is None or w.graph.constants[pair[1]].shape != wanted:
            return []
        found.append(node)
        end = node
    return found
