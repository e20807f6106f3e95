"""``--out_nodes`` and ``--output_type``: which tensors the om gives back, and in which types."""

from __future__ import annotations

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph
from cannlab.om import dtypes
from cannlab.om.dtypes import DataType


def select(graph: Graph, text: str) -> None:
    """Replace the graph's outputs by those of ``--out_nodes``.

    Raises:
        AtcError: rules ``atc.out_node_missing``, ``atc.out_node_form``, ``atc.out_node_index``, ``atc.out_tensor``.
    """
    if text:
        graph.outputs = [_tensor(graph, part.strip()) for part in text.split(";") if part.strip()]


def _tensor(graph: Graph, part: str) -> str:
    if part in graph.outputs:
        return part
    name, _, index = part.rpartition(":")
    nodes = {node.name: node for node in graph.nodes}
    if part in nodes:
        raise atc_error("out_node_form", name=part)
    if not name or not index.isdecimal():
        raise atc_error("out_tensor", name=part, outputs=", ".join(graph.outputs))
    if name not in nodes:
        raise atc_error("out_node_missing", name=name)
    written = nodes[name].outputs
    if int(index) >= len(written):
        raise atc_error("out_node_index", name=name, index=index, count=len(written))
    return written[int(index)]


def types(graph: Graph, text: str, out_nodes: str) -> dict[str, DataType]:
    """Element types that ``--output_type`` asks for, by output tensor.

    Raises:
        AtcError: rules ``atc.bad_value``, ``atc.output_type_form``.
    """
    if not text:
        return {}
    if ":" not in text:
        return dict.fromkeys(graph.outputs, _type(text))
    if not out_nodes:
        raise atc_error("output_type_form", text=text)
    found: dict[str, DataType] = {}
    for part in text.split(";"):
        place, _, name = part.strip().rpartition(":")
        tensor = _tensor(graph, place)
        if tensor not in graph.outputs:
            raise atc_error("output_type_form", text=text)
        found[tensor] = _type(name)
    return found


def _type(name: str) -> DataType:
    dtype = dtypes.by_option(name)
    if dtype is None:
        known = ", ".join(item.option for item in dtypes.ALL)
        raise atc_error("bad_value", option="--output_type", value=name, known=known)
    return dtype
