"""From an ONNX model to the compiler's graph: what ATC checks before it looks at any operator's attributes.

Order and codes: onnx-rules 2 and 5.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from cannlab.atc import support
from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.errors import Diagnosis, diagnose
from cannlab.machine import custom_ops
from cannlab.om import dtypes


def parse(model: onnx.ModelProto, soc_family: str) -> Graph:
    """The graph of a model.

    Raises:
        AtcError: rules ``atc.no_inputs``, ``atc.no_outputs``, ``atc.duplicate_name``, ``atc.no_parser``,
            ``atc.no_domain``, ``atc.bad_tensor``, ``atc.type_not_emulated``, ``atc.bad_data``, ``atc.dangling``,
            ``atc.subgraph_not_emulated``, ``atc.operator_not_emulated``.
    """
    source = model.graph
    opsets = {item.domain or "ai.onnx": item.version for item in model.opset_import}
    graph = Graph(source.name or "graph", opsets)
    for tensor in source.initializer:
        graph.constants[tensor.name] = _array(tensor, tensor.name)
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
        _check_node(model, name, node)
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
        raise type_error(info.name, tensor.elem_type)
    dims = tuple(dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim)
    graph.inputs.append(info.name)
    graph.types[info.name] = (tensor.elem_type, dims if tensor.HasField("shape") else None)


def type_error(tensor: str, number: int) -> AtcError:
    """The error for an element type that an om cannot hold: unknown to the parser, or not emulated."""
    known = number in TensorProto.DataType.values()
    name = str(TensorProto.DataType.Name(number)) if known else f"type {number}"
    rule = "type_not_emulated" if TensorProto.FLOAT <= number <= TensorProto.BFLOAT16 else "bad_tensor"
    return atc_error(rule, tensor=tensor, dtype=name)


def _array(tensor: TensorProto, name: str) -> NDArray[Any]:
    """The values of a constant."""
    if dtypes.by_onnx(tensor.data_type) is None:
        raise type_error(name, tensor.data_type)
    try:
        onnx.checker.check_tensor(tensor)
        array: NDArray[Any] = numpy_helper.to_array(tensor)
        return array
    except (onnx.checker.ValidationError, ValueError, TypeError) as problem:
        raise atc_error("bad_data", name=name, reason=first_line(problem)) from problem


def _check_node(model: onnx.ModelProto, name: str, node: onnx.NodeProto) -> None:
    """Inputs, outputs and attributes of a standard operator against its definition; custom ones are let through."""
    if any(item.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for item in node.attribute):
        raise atc_error("subgraph_not_emulated", name=name, op_type=node.op_type)
    opsets = {item.domain: item.version for item in model.opset_import}
    domain = node.domain or "ai.onnx"
    version = opsets.get(node.domain, opsets.get(domain, 0))
    if custom_ops.find(domain, node.op_type, version) is not None:
        return
    if domain != "ai.onnx" or not onnx.defs.has(node.op_type, version, ""):
        raise atc_error("operator_not_emulated", name=name, key=f"{domain}::{version}::{node.op_type}")
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 8
    context.opset_imports = {"": version}
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as problem:
        raise atc_error("bad_data", name=name, reason=first_line(problem)) from problem


def first_line(problem: Exception) -> str:
    """What a library says went wrong, without its own places."""
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def _add_node(graph: Graph, name: str, node: onnx.NodeProto) -> None:
    attributes = {item.name: item for item in node.attribute}
    if node.op_type == "Constant":
        # Only the attribute ``value`` is read by the real parser; others give an empty tensor there (onnx-rules 2.9).
        value = attributes.get("value")
        if value is None:
            raise atc_error("constant_form", name=name, form=next(iter(attributes), "none"))
        graph.constants[node.output[0]] = _array(value.t, name)
        return
    domain = node.domain or "ai.onnx"
    graph.nodes.append(Node(name, node.op_type, domain, list(node.input), list(node.output), attributes))
