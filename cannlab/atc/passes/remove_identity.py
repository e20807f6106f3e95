"""Identity and Dropout vanish: in inference they hand their input on."""

from __future__ import annotations

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph

NAME = "IdentityRemovePass"


def run(graph: Graph) -> int:
    """Remove them; returns how many.

    Raises:
        AtcError: rule ``atc.dropout_mask`` if a Dropout's mask is used (GE's Dropout has one output).
    """
    count = 0
    for node in [item for item in graph.nodes if item.op_type in ("Identity", "Dropout") and item.domain == "ai.onnx"]:
        if any(graph.readers(mask) or mask in graph.outputs for mask in node.outputs[1:] if mask):
            raise atc_error("dropout_mask", name=node.name)
        source, target = node.inputs[0], node.outputs[0]
        producer = graph.producer(source)
        if target in graph.outputs:
            # An output keeps its name: the node before takes it over, if it may.
            if producer is None or source in graph.outputs or graph.only_reader(source) is None:
                continue
            producer.outputs = [target if name == source else name for name in producer.outputs]
            graph.types[target] = graph.types.pop(source)
        else:
            graph.replace_tensor(target, source)
        graph.nodes.remove(node)
        count += 1
    graph.drop_dead()
    return count
