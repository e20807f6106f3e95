"""The ONNX parser: from a model to a graph, with the rules that the real front end has before shapes are inferred.

Source: onnx-rules 1 and 2.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from cannlab.atc import external, support
from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.errors import Diagnosis, diagnose
from cannlab.machine import custom_ops
from cannlab.om import dtypes
from cannlab.om.model import graphs


def parse(model: onnx.ModelProto, notes: list[Diagnosis]) -> Graph:
    """The graph of a model. Local functions are expanded.

    Args:
        model: its nameless nodes are given names.
        notes: what the user should know is added to it.

    Raises:
        AtcError: rules ``atc.domain_versions``, ``atc.no_inputs``, ``atc.no_outputs``, ``atc.duplicate_name``,
            ``atc.no_parser``, ``atc.no_parser_opset``, ``atc.no_parser_quantised``, ``atc.no_domain``,
            ``atc.bad_tensor``, ``atc.type_not_emulated``, ``atc.bad_data``,
            ``atc.dangling``, ``atc.operator_not_emulated``, ``atc.sparse_initializer``.
    """
    opsets = _opsets(model)
    if model.functions:
        model = _inlined(model)
        opsets = _opsets(model)
    graph = _Parser(opsets, model.graph, notes).root()
    for part in graph.walk():
        part.sort()
    return graph


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    versions: dict[str, list[int]] = {}
    for item in model.opset_import:
        versions.setdefault(item.domain or "ai.onnx", []).append(item.version)
    for domain, found in versions.items():
        if len(set(found)) > 1:
            raise atc_error("domain_versions", domain=domain, versions=", ".join(map(str, found)))
    return {domain: found[0] for domain, found in versions.items()}


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnx.inliner

    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, ValueError) as problem:
        raise atc_error("bad_data", name="a local function", reason=first_line(problem)) from problem


class _Parser:
    def __init__(self, opsets: dict[str, int], source: onnx.GraphProto, notes: list[Diagnosis]) -> None:
        self.opsets = opsets
        self.source = source
        self.notes = notes
        self.number = 0
        self.taken: set[str] = set()
        """Names of nodes; one in a branch that is taken gets the branch's name before it."""

    def root(self) -> Graph:
        """The model's own graph."""
        source = self.source
        constants = {item.name for item in source.initializer}
        if all(info.name in constants for info in source.input):
            raise atc_error("no_inputs")
        self.precheck()
        graph, captured = self.graph(source, "")
        for name, reader in captured.items():
            raise atc_error("dangling", node=reader, tensor=name)
        return graph

    def precheck(self) -> None:
        """Names and parsers of all nodes; every finding is listed."""
        found: list[Diagnosis] = []
        for source in graphs(self.source):
            counts = Counter(node.name for node in source.node if node.name)
            found += [diagnose("atc.duplicate_name", name=name, count=n) for name, n in counts.items() if n > 1]
            for node in source.node:
                if not node.name:
                    node.name = f"{node.op_type}_{self.number}"
                    self.number += 1
                found += self.unknown(node)
        if found:
            raise AtcError(found)

    def unknown(self, node: onnx.NodeProto) -> list[Diagnosis]:
        """The finding for a node without a parser."""
        domain = node.domain or "ai.onnx"
        if domain not in self.opsets:
            return [diagnose("atc.no_domain", name=node.name, domain=domain)]
        version = self.opsets[domain]
        if support.has_parser(domain, node.op_type, version):
            return []
        rule, advice = support.unparsed(domain, node.op_type)
        key = f"{domain}::{version}::{node.op_type}"
        return [diagnose(f"atc.{rule}", name=node.name, key=key, advice=advice)]

    def graph(self, source: onnx.GraphProto, prefix: str) -> tuple[Graph, dict[str, str]]:
        """A graph, and the tensors of the graphs around it that it reads, each with a node that reads it.

        Args:
            source: the model's graph or a branch's.
            prefix: put before the names of a branch's tensors, so that they are unique in the model.
        """
        graph = Graph(source.name or "graph", self.opsets)
        if source.sparse_initializer:
            raise atc_error("sparse_initializer", tensor=source.sparse_initializer[0].values.name)
        local = {item.name: prefix + item.name for item in (*source.initializer, *source.input) if item.name}
        local.update((name, prefix + name) for node in source.node for name in node.output if name)
        local[""] = ""
        for tensor in source.initializer:
            if tensor.name:
                graph.constants[local[tensor.name]] = array_of(tensor, tensor.name)
        for info in source.input:
            if local[info.name] not in graph.constants:
                _add_input(graph, local[info.name], info)
        captured: dict[str, str] = {}
        inner: dict[str, str] = {}

        def resolve(name: str, reader: str) -> str:
            if name in local:
                return str(local[name])
            captured.setdefault(name, reader)
            if not prefix:
                return name
            return inner.setdefault(name, prefix + name)

        for node in source.node:
            self.add_node(graph, node, resolve, local, prefix)
        ends = [resolve(info.name, "the graph's output") for info in source.output]
        if not ends:
            raise atc_error("no_outputs")
        graph.inputs += inner.values()
        _end_in(graph, ends)
        return graph, captured

    def add_node(self, graph: Graph, node: onnx.NodeProto, resolve: Any, local: dict[str, str], before: str) -> None:
        attributes = {item.name: item for item in node.attribute}
        outputs = [local[name] for name in node.output]
        if node.op_type == "Constant":
            # Only the attribute ``value`` is read by the real parser; others give an empty tensor (onnx-rules 2.9).
            value = attributes.get("value")
            if value is None:
                self.notes.append(diagnose("atc.constant_form", name=node.name, form=next(iter(attributes), "none")))
                graph.constants[outputs[0]] = np.zeros((0,), np.float32)
            else:
                graph.constants[outputs[0]] = array_of(value.t, node.name)
            return
        self.check(node)
        name = node.name
        if name in self.taken:
            name = before + name
        if name in self.taken:
            name = next(f"{name}_{at}" for at in range(len(self.taken) + 1) if f"{name}_{at}" not in self.taken)
        self.taken.add(name)
        domain = node.domain or "ai.onnx"
        inputs = [resolve(item, node.name) for item in node.input]
        branches: dict[str, Graph] = {}
        outer: dict[str, str] = {}
        reads: dict[str, dict[str, str]] = {}
        for key in [key for key, item in attributes.items() if item.type == onnx.AttributeProto.GRAPH]:
            prefix = f"{name}/{key.removesuffix('_branch')}/"
            branches[key], reads[prefix] = self.graph(attributes.pop(key).g, prefix)
            outer.update(reads[prefix])
        for branch, prefix in zip(branches.values(), reads, strict=True):
            branch.inputs = [prefix + item for item in outer]
        inputs += [resolve(item, reader) for item, reader in outer.items()]
        graph.nodes.append(Node(name, node.op_type, domain, inputs, outputs, attributes, branches=branches))

    def check(self, node: onnx.NodeProto) -> None:
        """Inputs, outputs and attributes of a standard operator against its definition; custom ones are let through."""
        domain = node.domain or "ai.onnx"
        version = self.opsets[domain]
        if custom_ops.find(domain, node.op_type, version) is not None:
            return
        if domain != "ai.onnx" or not onnx.defs.has(node.op_type, version, ""):
            raise atc_error("operator_not_emulated", name=node.name, key=f"{domain}::{version}::{node.op_type}")
        if any(item.type == onnx.AttributeProto.GRAPH for item in node.attribute):
            schema = onnx.defs.get_schema(node.op_type, version, "")
            missing = [key for key in schema.attributes if not any(item.name == key for item in node.attribute)]
            if missing:
                raise atc_error("bad_data", name=node.name, reason=f"the attribute {missing[0]} is missing.")
            return
        context = onnx.checker.C.CheckerContext()
        context.ir_version = 8
        context.opset_imports = {"": version}
        try:
            onnx.checker.check_node(node, context)
        except onnx.checker.ValidationError as problem:
            raise atc_error("bad_data", name=node.name, reason=first_line(problem)) from problem


def _end_in(graph: Graph, ends: list[str]) -> None:
    """Set the outputs of a graph. An Identity writes one that is an input, a constant or an output already."""
    written = {name for node in graph.nodes for name in node.outputs}
    for name in ends:
        if name in written and name not in graph.outputs:
            graph.outputs.append(name)
            continue
        if name not in written and name not in graph.inputs and name not in graph.constants:
            raise atc_error("dangling", node="the graph", tensor=name)
        target = f"{name}/output"
        while target in written or target in graph.outputs:
            target += "_"
        graph.nodes.append(Node(f"{target}_Identity", "Identity", "ai.onnx", [name], [target]))
        graph.outputs.append(target)


def _add_input(graph: Graph, name: str, info: onnx.ValueInfoProto) -> None:
    tensor = info.type.tensor_type
    if dtypes.by_onnx(tensor.elem_type) is None:
        raise type_error(info.name, tensor.elem_type)
    dims = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim
    )
    graph.inputs.append(name)
    graph.types[name] = (tensor.elem_type, dims if tensor.HasField("shape") else None)


def type_error(tensor: str, number: int) -> AtcError:
    """The error for an element type that an om cannot hold: unknown to the parser, or not emulated."""
    known = number in TensorProto.DataType.values()
    name = str(TensorProto.DataType.Name(number)) if known else f"type {number}"
    rule = "type_not_emulated" if TensorProto.FLOAT <= number <= TensorProto.BFLOAT16 else "bad_tensor"
    return atc_error(rule, tensor=tensor, dtype=name)


def array_of(tensor: TensorProto, name: str) -> NDArray[Any]:
    """The values of a constant."""
    if dtypes.by_onnx(tensor.data_type) is None:
        raise type_error(name, tensor.data_type)
    try:
        if tensor.data_location == TensorProto.EXTERNAL:
            return external.array(tensor)
        onnx.checker.check_tensor(tensor)
        array: NDArray[Any] = numpy_helper.to_array(tensor)
        return array
    except (onnx.checker.ValidationError, ValueError, TypeError) as problem:
        raise atc_error("bad_data", name=name, reason=first_line(problem)) from problem


def first_line(problem: Exception) -> str:
    """What a library says went wrong, without its own places."""
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
