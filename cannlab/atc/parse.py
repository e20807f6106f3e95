"""From an ONNX model to the compiler's graph: what ATC checks before it looks at any operator's attributes.

Order and codes: onnx-rules 2 and 5.
"""

from __future__ import annotations

from collections import Counter

import onnx
from onnx import TensorProto, numpy_helper

from cannlab.atc import support
from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.errors import Diagnosis, diagnose
from cannlab.om import dtypes


def parse(model: onnx.ModelProto, soc_family: str) -> Graph:
    """The graph of a model.

    Raises:
        AtcError: rules ``atc.no_inputs``, ``atc.no_outputs``, ``atc.duplicate_name``, ``atc.no_parser``,
            ``atc.no_domain``, ``atc.bad_tensor``, ``atc.dangling``, ``atc.subgraph_not_emulated``.
    """
    source = model.graph
    opsets = {item.domain or "ai.onnx": item.version for item in model.opset_import}
    graph = Graph(source.name or "graph", opsets)
    for tensor in source.initializer:
        if dtypes.by_onnx(tensor.data_type) is None:
            raise atc_error("bad_tensor", tensor=tensor.name, dtype=TensorProto.DataType.Name(tensor.data_type))
        graph.constants[tensor.name] = numpy_helper.to_array(tensor)
    for info in source.input:
        if info.name not in graph.constants:
            _add_input(graph, info)
    graph.outputs = [info.name for info in source.output]
    if not graph.inputs:
        raise atc_error("no_inputs")
    if not graph.outputs:
        raise atc_error("no_outputs")
    named = _named(source)
    _precheck(named, opsets, soc_family)
    for name, node in named:
        _add_node(graph, name, node)
    written = {*graph.inputs, *graph.constants, *(tensor for node in graph.nodes for tensor in node.outputs)}
    for output in graph.outputs:
        if output not in written:
            raise atc_error("dangling", node="the graph", tensor=output)
    graph.sort()
    return graph


def _named(source: onnx.GraphProto) -> list[tuple[str, onnx.NodeProto]]:
    """Nodes with their names; nameless ones are numbered."""
    named: list[tuple[str, onnx.NodeProto]] = []
    number = 0
    for node in source.node:
        name = node.name
        if not name:
            name = f"{node.op_type}_{number}"
            number += 1
        named.append((name, node))
    return named


def _precheck(named: list[tuple[str, onnx.NodeProto]], opsets: dict[str, int], soc_family: str) -> None:
    """Names and parsers of all nodes; every finding is listed."""
    found: list[Diagnosis] = []
    counts = Counter(name for name, _ in named)
    found += [diagnose("atc.duplicate_name", name=name, count=count) for name, count in counts.items() if count > 1]
    for name, node in named:
        domain = node.domain or "ai.onnx"
        if domain not in opsets:
            found.append(diagnose("atc.no_domain", name=name, domain=domain))
        elif not support.has_parser(domain, node.op_type, opsets[domain]):
            key = f"{domain}::{opsets[domain]}::{node.op_type}"
            advice = support.advice(domain, node.op_type, opsets[domain])
            found.append(diagnose("atc.no_parser", name=name, key=key, advice=advice))
    if found:
        raise AtcError(found)


def _add_input(graph: Graph, info: onnx.ValueInfoProto) -> None:
    tensor = info.type.tensor_type
    if dtypes.by_onnx(tensor.elem_type) is None:
        raise atc_error("bad_tensor", tensor=info.name, dtype=TensorProto.DataType.Name(tensor.elem_type))
    dims = tuple(dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim)
    graph.inputs.append(info.name)
    graph.types[info.name] = (tensor.elem_type, dims if tensor.HasField("shape") else None)


def _add_node(graph: Graph, name: str, node: onnx.NodeProto) -> None:
    if any(item.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for item in node.attribute):
        raise atc_error("subgraph_not_emulated", name=name, op_type=node.op_type)
    attributes = {item.name: item for item in node.attribute}
    if node.op_type == "Constant":
        # Only the attribute ``value`` is read by the real parser; others give an empty tensor there (onnx-rules 2.9).
        value = attributes.get("value")
        if value is None:
            raise atc_error("constant_form", name=name, form=next(iter(attributes), "none"))
        if dtypes.by_onnx(value.t.data_type) is None:
            raise atc_error("bad_tensor", tensor=name, dtype=TensorProto.DataType.Name(value.t.data_type))
        graph.constants[node.output[0]] = numpy_helper.to_array(value.t)
        return
    domain = node.domain or "ai.onnx"
    graph.nodes.append(Node(name, node.op_type, domain, list(node.input), list(node.output), attributes))
